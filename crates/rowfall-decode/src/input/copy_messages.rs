//! Takes the lines of a COPY out of the messages in which PostgreSQL sends them: one a row.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a message is, and its length (4 bytes, which it counts itself).
const HEADER: usize = 5;
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of a message that is no row at most: of an error with its context.
const MOST_BYTES: usize = 1 << 20;

/// Reads the lines of an answer, up to the message that the server is ready again: whoever sends it
/// does not close the pipe before.
pub struct CopyMessages<R> {
    reader: R,
    /// Bytes read from `reader` so far.
    count: Arc<AtomicU64>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Bytes of a row that are still to come.
    left: usize,
    rows: u64,
    /// Rows that the server says it has sent.
    sent: Option<u64>,
    ended: bool,
}

impl<R: Read> CopyMessages<R> {
    /// Read an answer; `count` is set to the bytes that were read.
    pub fn new(reader: R, count: Arc<AtomicU64>) -> CopyMessages<R> {
        let buffer = vec![0; BUFFER_BYTES];
        let (at, end, left, rows, sent) = (0, 0, 0, 0, None);
        CopyMessages { reader, count, buffer, at, end, left, rows, sent, ended: false }
    }

    /// Have so many bytes in the buffer.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.end < bytes {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    let what = "the answer ends before its last message";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                Ok(count) => {
                    self.end += count;
                    self.count.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Take a message that is no row; its header is in the buffer.
    fn special(&mut self, kind: u8, size: usize) -> io::Result<()> {
        if size > MOST_BYTES || !b"HcCZNSAE".contains(&kind) {
            return Err(odd("the server sent something that is no row"));
        }
        if self.end - self.at < HEADER + size {
            self.fill(HEADER + size)?;
        }
        let body = &self.buffer[self.at + HEADER..self.at + HEADER + size];
        match kind {
            b'E' => return Err(io::Error::other(said(body))),
            b'C' => self.sent = count(body), // COPY 1000
            b'Z' => {
                if self.sent != Some(self.rows) {
                    let sent = self.sent.map_or("no".to_owned(), |sent| sent.to_string());
                    let rows = self.rows;
                    return Err(odd(&format!("the server sent {sent} rows, of which {rows} came")));
                }
                self.ended = true;
            }
            _ => {}
        }
        self.at += HEADER + size;
        if self.ended && self.at < self.end {
            return Err(odd("there is more behind the end of the rows"));
        }
        Ok(())
    }
}

impl<R: Read> Read for CopyMessages<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut used = 0;
        while used < out.len() && !self.ended {
            if self.left > 0 {
                if self.at == self.end {
                    if used > 0 {
                        break;
                    }
                    self.fill(1)?;
                }
                let size = self.left.min(self.end - self.at).min(out.len() - used);
                out[used..used + size].copy_from_slice(&self.buffer[self.at..self.at + size]);
                (self.at, self.left, used) = (self.at + size, self.left - size, used + size);
                continue;
            }
            if self.end - self.at < HEADER {
                // What was found is given before more is waited for.
                if used > 0 {
                    break;
                }
                self.fill(HEADER)?;
            }
            let head = &self.buffer[self.at..self.at + HEADER];
            let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let kind = head[0];
            let size = size.checked_sub(4).ok_or_else(|| odd("a message without a length"))?;
            if kind == b'd' && size > 0 {
                self.at += HEADER;
                (self.left, self.rows) = (size, self.rows + 1);
            } else {
                self.special(kind, size)?;
            }
        }
        Ok(used)
    }
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The number behind the last blank.
fn count(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?.trim_end_matches('\0');
    text.rsplit(' ').next()?.parse().ok()
}

/// The text of an error: fields of a letter and a text each.
fn said(body: &[u8]) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let text = fields.find_map(|field| field.strip_prefix(b"M"));
    text.map_or("the server broke off".into(), |text| String::from_utf8_lossy(text).into_owned())
}
