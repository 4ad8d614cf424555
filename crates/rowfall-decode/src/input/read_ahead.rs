//! Decompresses one input in a thread of its own, and cuts its text into pieces of whole records:
//! for runs with fewer inputs than workers, of which each takes the next piece.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::input::buffer::TextBuffer;
use crate::input::source::TextSource;

/// Pieces that wait at most for each worker: 0.2 ms of decompressing each.
const WAITING: usize = 2;

/// Bytes of a piece from which on none is sent before all others have been decoded, and whose memory
/// is given back: a record may have 64 MiB, and so many pieces of those would take gigabytes.
const LARGE_PIECE: usize = 4 << 20;

/// Some records of an input.
pub struct Piece {
    /// The records, and nothing behind them but where one is longer than a record may be.
    pub text: TextBuffer,
    /// Stored bytes that were read for them.
    pub stored_bytes: u64,
}

/// The pieces of an input, in their order.
pub struct ReadAhead {
    pieces: Receiver<io::Result<Piece>>,
    /// Takes back the memory of pieces that are done with.
    pub spent: Sender<TextBuffer>,
}

impl ReadAhead {
    /// Start to decompress a source whose text begins at the offset `base`, for so many workers.
    /// Pieces have about `piece_bytes`; those of `csv` end at line ends outside quotes.
    pub fn start(
        source: TextSource,
        base: u64,
        csv: bool,
        piece_bytes: usize,
        workers: usize,
        record_bytes: usize,
    ) -> ReadAhead {
        let (send, pieces) = sync_channel(WAITING * workers);
        let (spent, again) = channel();
        let mut cutter =
            Cutter { source, csv, piece_bytes, record_bytes, counted: 0, again, unspent: 0 };
        // Detached: it ends with its input, or when nobody takes its pieces any more.
        thread::spawn(move || cutter.send_all(base, &send));
        ReadAhead { pieces, spent }
    }

    /// The next piece; None behind the last one.
    pub fn next(&self) -> Option<io::Result<Piece>> {
        self.pieces.recv().ok()
    }
}

struct Cutter {
    source: TextSource,
    csv: bool,
    piece_bytes: usize,
    record_bytes: usize,
    /// Stored bytes of the pieces so far.
    counted: u64,
    again: Receiver<TextBuffer>,
    /// Pieces that were sent and have not come back.
    unspent: usize,
}

impl Cutter {
    fn send_all(&mut self, base: u64, send: &SyncSender<io::Result<Piece>>) {
        let mut text = TextBuffer::default();
        text.reset(base);
        loop {
            let sent = self.fill(&mut text).map(|cut| {
                let again = self.spent_memory(text.text().len() > LARGE_PIECE);
                self.unspent += 1;
                let rest = text.split_off(cut, again);
                let read = self.source.bytes_read();
                let stored_bytes = read - std::mem::replace(&mut self.counted, read);
                Piece { text: std::mem::replace(&mut text, rest), stored_bytes }
            });
            let last = sent.as_ref().map_or(true, |piece| piece.text.ended);
            // The receiver is gone once a run has failed.
            if send.send(sent).is_err() || last {
                return;
            }
        }
    }

    /// Memory of a piece that is done with, or none; with `all`, wait for all pieces that were sent.
    fn spent_memory(&mut self, all: bool) -> TextBuffer {
        let mut found = TextBuffer::default();
        while self.unspent > 0 {
            // Nobody sends memory back once a run has failed.
            let spent = if all { self.again.recv().ok() } else { self.again.try_recv().ok() };
            let Some(spent) = spent else { break };
            self.unspent -= 1;
            if spent.text().len() <= LARGE_PIECE {
                found = spent;
                if !all {
                    break;
                }
            }
        }
        found
    }

    /// Read until the text holds a whole record or all that is left; returns where to cut.
    fn fill(&mut self, text: &mut TextBuffer) -> io::Result<usize> {
        // It begins with a record, outside quotes.
        let (mut chunk, mut looked, mut quoted) = (self.piece_bytes, 0, false);
        loop {
            text.advance(&mut self.source, chunk)?;
            let records = &text.text()[text.start..text.end];
            if text.ended {
                return Ok(text.end);
            }
            quoted ^= self.csv && odd_quotes(&records[looked..]);
            if let Some(cut) = record_end(records, self.csv, quoted) {
                return Ok(text.start + cut);
            }
            looked = records.len();
            if looked > self.record_bytes {
                return Ok(text.end); // declined by whoever decodes it
            }
            chunk = text.longer(chunk, self.record_bytes);
        }
    }
}

/// True for an odd number of quotes.
fn odd_quotes(text: &[u8]) -> bool {
    memchr::memchr_iter(b'"', text).count() % 2 == 1
}

/// The end of the last whole record of a text; of `csv` its end is inside quotes where `quoted`. In
/// CSV without quotes in wrong places, which are declined, each quote opens or closes.
fn record_end(text: &[u8], csv: bool, mut quoted: bool) -> Option<usize> {
    let mut end = text.len();
    while let Some(at) = memchr::memrchr(b'\n', &text[..end]) {
        quoted ^= csv && odd_quotes(&text[at + 1..end]);
        if !quoted {
            return Some(at + 1);
        }
        end = at;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[test]
    fn records_end_outside_quotes() {
        for (text, csv, end) in [
            ("a\nb\nc", true, Some(4)),
            ("a\n\"b\nc", true, Some(2)),
            ("a\n\"b\nc\"", true, Some(2)),
            ("\"b\n\"\"c\"\n\"\n\n", true, Some(8)),
            ("a\n\"b\nc", false, Some(5)),
            ("\"a\n\n\"", true, None),
            ("abc", false, None),
        ] {
            let quoted = csv && odd_quotes(text.as_bytes());
            assert_eq!(record_end(text.as_bytes(), csv, quoted), end, "{text:?}");
        }
    }

    /// Gives records of 6 MiB without an end, and counts their bytes.
    struct LongRecords(Arc<AtomicU64>);

    impl Read for LongRecords {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let at = self.0.fetch_add(out.len() as u64, Ordering::Relaxed);
            for (n, byte) in out.iter_mut().enumerate() {
                *byte = if (at + n as u64 + 1).is_multiple_of(6 << 20) { b'\n' } else { b'x' };
            }
            Ok(out.len())
        }
    }

    #[test]
    fn long_records_do_not_wait_beside_each_other() {
        let read = Arc::new(AtomicU64::new(0));
        let source = TextSource::from_reader(Box::new(LongRecords(read.clone())), read.clone());
        let ahead = ReadAhead::start(source, 0, true, 256 << 10, 16, 64 << 20);
        thread::sleep(Duration::from_millis(300));
        // One that waits and one that is read: 16 MiB each, as what is read at a time doubles.
        assert!(read.load(Ordering::Relaxed) <= 40 << 20);
        for _ in 0..5 {
            let piece = ahead.next().expect("one more").expect("fine");
            assert!(piece.text.end > 6 << 20);
            ahead.spent.send(piece.text).expect("it waits for it");
        }
    }
}
