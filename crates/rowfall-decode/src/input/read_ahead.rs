//! Decompresses one input in a thread of its own, and cuts its text into pieces of whole records:
//! for runs with fewer inputs than workers, of which each takes the next piece.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::input::buffer::{MAX_RECORD_BYTES, TextBuffer};
use crate::input::source::TextSource;

/// Pieces that wait at most for each worker: 0.2 ms of decompressing each.
const WAITING: usize = 2;

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
    ) -> ReadAhead {
        let (send, pieces) = sync_channel(WAITING * workers);
        let (spent, again) = channel();
        let mut cutter = Cutter { source, csv, piece_bytes, counted: 0, again };
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
    /// Stored bytes of the pieces so far.
    counted: u64,
    again: Receiver<TextBuffer>,
}

impl Cutter {
    fn send_all(&mut self, base: u64, send: &SyncSender<io::Result<Piece>>) {
        let mut text = TextBuffer::default();
        text.reset(base);
        loop {
            let sent = self.fill(&mut text).map(|cut| {
                let again = self.again.try_recv().unwrap_or_default();
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
            if records.len() > MAX_RECORD_BYTES {
                return Ok(text.end); // declined by whoever decodes it
            }
            looked = records.len();
            chunk *= 2;
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
}
