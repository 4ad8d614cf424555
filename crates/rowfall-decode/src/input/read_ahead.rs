//! Decompresses ahead in a thread of its own, for runs with fewer inputs than cores: the text of
//! one huge compressed file is ready when its parser asks for it.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::input::buffer::TextBuffer;
use crate::input::source::TextSource;

/// Text of one message: enough to make the hand-over cheap, little enough to stay in the cache.
const CHUNK_BYTES: usize = 256 << 10;
/// Messages that wait at most: 2 MiB of text, 2 ms of parsing.
const MESSAGES: usize = 8;

/// Decompress a source in a thread of its own from now on.
pub fn read_ahead(source: TextSource) -> TextSource {
    let bytes = Arc::new(AtomicU64::new(0));
    let reader = ReadAhead::start(source, bytes.clone());
    TextSource::from_reader(Box::new(reader), bytes)
}

/// Reads the text that the thread has decompressed.
struct ReadAhead {
    text: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    taken: usize,
}

impl ReadAhead {
    /// Start the thread; `bytes` is set to how many stored bytes it has read.
    fn start(mut source: TextSource, bytes: Arc<AtomicU64>) -> ReadAhead {
        let (send, text) = sync_channel(MESSAGES);
        thread::spawn(move || {
            let mut buffer = TextBuffer::default();
            loop {
                // What was sent is done with; the buffer keeps what gzip still refers to.
                buffer.start = buffer.end;
                let result = buffer.advance(&mut source, CHUNK_BYTES).map(|()| {
                    bytes.store(source.bytes_read(), Ordering::Relaxed);
                    buffer.text()[buffer.start..buffer.end].to_vec()
                });
                let last = buffer.ended || result.is_err();
                // The receiver is gone once a run has failed.
                if send.send(result).is_err() || last {
                    return;
                }
            }
        });
        ReadAhead { text, chunk: Vec::new(), taken: 0 }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.chunk.len() {
            match self.text.recv() {
                Ok(chunk) => (self.chunk, self.taken) = (chunk?, 0),
                Err(_) => return Ok(0), // the thread has sent everything
            }
        }
        let n = out.len().min(self.chunk.len() - self.taken);
        out[..n].copy_from_slice(&self.chunk[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}
