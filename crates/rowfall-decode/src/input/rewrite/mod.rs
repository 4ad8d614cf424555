//! Rewrites foreign text into plain CSV in UTF-8, between decompression and the scan: any charset,
//! delimiter, quote and escape, comments, words for NULL, numbers and dates written another way.
//! What reads CSV then needs to know none of that, be it this program or the engine.

mod records;
mod values;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{Decoder, DecoderResult, Encoding};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::error::Fail;
use crate::input::buffer::{MAX_RECORD_BYTES, TextBuffer};
use crate::input::queue::InputReader;
use crate::input::source::TextSource;
use crate::spec::{Compression, Format, Input};
use records::{Records, Step};

/// Bytes of decompressed text that are taken at a time; they stay in the cache.
const CHUNK_BYTES: usize = 256 << 10;

/// Rewrite what a source gives from now on.
///
/// `delimited`: it is rewritten as CSV; otherwise only its charset is. `header`: its first record
/// names the columns.
pub fn rewrite(
    source: TextSource,
    dialect: &Dialect,
    delimited: bool,
    header: bool,
) -> io::Result<TextSource> {
    let bytes = Arc::new(AtomicU64::new(0));
    let reader = Rewriter::new(source, dialect, delimited, header, bytes.clone())?;
    Ok(TextSource::from_reader(Box::new(reader), bytes))
}

/// Reads the rewritten text.
pub struct Rewriter {
    source: TextSource,
    buffer: TextBuffer,
    decoder: Decoder,
    charset: &'static Encoding,
    /// None: only the charset is rewritten.
    records: Option<Records>,
    /// Text in UTF-8 that is not rewritten yet.
    text: Vec<u8>,
    out: Vec<u8>,
    taken: usize,
    /// Bytes that are read next: more where a record is longer.
    chunk: usize,
    ended: bool,
    bytes: Arc<AtomicU64>,
}

impl Rewriter {
    /// `bytes` is set to how many stored bytes have been read.
    pub fn new(
        source: TextSource,
        dialect: &Dialect,
        delimited: bool,
        header: bool,
        bytes: Arc<AtomicU64>,
    ) -> io::Result<Rewriter> {
        let charset = Encoding::for_label(dialect.charset.as_bytes())
            .ok_or_else(|| invalid(format!("the charset {} is not known", dialect.charset)))?;
        Ok(Rewriter {
            source,
            buffer: TextBuffer::default(),
            decoder: charset.new_decoder(),
            charset,
            records: delimited.then(|| Records::new(dialect, header)),
            text: Vec::new(),
            out: Vec::new(),
            taken: 0,
            chunk: CHUNK_BYTES,
            ended: false,
            bytes,
        })
    }

    /// The lines of the source in which these lines of the rewritten text stand; both from 1 on.
    pub fn locate(&mut self, lines: Vec<u64>) {
        if let Some(records) = &mut self.records {
            records.locate(lines);
        }
    }

    /// The lines that were asked for and found, in their order.
    pub fn located(&self) -> &[u64] {
        self.records.as_ref().map_or(&[], Records::located)
    }

    /// Rewrite the next chunk.
    fn advance(&mut self) -> io::Result<()> {
        self.out.clear();
        self.taken = 0;
        // What has been decoded is done with; the buffer keeps what gzip still refers to.
        self.buffer.start = self.buffer.end;
        self.buffer.advance(&mut self.source, self.chunk)?;
        self.bytes.store(self.source.bytes_read(), Ordering::Relaxed);
        self.ended = self.buffer.ended;
        self.decode()?;
        let Some(records) = &mut self.records else {
            std::mem::swap(&mut self.text, &mut self.out);
            return Ok(());
        };
        let mut at = 0;
        loop {
            match records.next(&self.text, at, self.ended, &mut self.out) {
                Step::Record(next) => at = next,
                Step::More => break,
                Step::End => {
                    at = self.text.len();
                    break;
                }
                Step::Wrong(message) => return Err(invalid(message)),
            }
        }
        self.chunk = if at == 0 { self.chunk * 2 } else { CHUNK_BYTES };
        self.text.drain(..at);
        if self.text.len() > MAX_RECORD_BYTES {
            let line = records.line();
            return Err(invalid(format!("line {line}: a record of more than 48 MiB")));
        }
        Ok(())
    }

    /// Append what was read to `text`, in UTF-8.
    fn decode(&mut self) -> io::Result<()> {
        let mut from = self.buffer.start;
        loop {
            let rest = &self.buffer.text()[from..self.buffer.end];
            let used = self.text.len();
            let room = self
                .decoder
                .max_utf8_buffer_length_without_replacement(rest.len())
                .ok_or_else(|| invalid("a record of more than 48 MiB".into()))?;
            self.text.resize(used + room, 0);
            let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
                rest,
                &mut self.text[used..],
                self.ended,
            );
            self.text.truncate(used + written);
            from += read;
            match result {
                DecoderResult::InputEmpty => return Ok(()),
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(length, after) => {
                    let at = from - usize::from(length) - usize::from(after);
                    let byte = self.buffer.text()[at];
                    let offset = self.buffer.offset(at);
                    let name = self.charset.name();
                    return Err(invalid(format!(
                        "byte 0x{byte:02X} at offset {offset} is not {name}"
                    )));
                }
            }
        }
    }
}

impl Read for Rewriter {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.out.len() {
            if self.ended {
                return Ok(0);
            }
            self.advance()?;
        }
        let n = out.len().min(self.out.len() - self.taken);
        out[..n].copy_from_slice(&self.out[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

/// What `rowfall-decode rewrite` has to do: one input, written to stdout as plain text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewriteSpec {
    /// A file, or `-` for stdin.
    pub path: String,
    /// Of the input.
    #[serde(default)]
    pub compression: Compression,
    /// CSV is rewritten as CSV; of other formats only the charset is.
    pub format: Format,
    /// How the input is written.
    pub dialect: Dialect,
    /// Lines of the rewritten text whose lines in the source are asked for: then nothing is written
    /// but those, as one JSON line.
    #[serde(default)]
    pub locate: Vec<u64>,
}

/// Rewrite one input to stdout.
pub fn run(text: &str) -> Result<Option<Value>, Fail> {
    let spec: RewriteSpec =
        serde_json::from_str(text).map_err(|e| Fail::spec(format!("the spec: {e}")))?;
    let reasons = spec.dialect.reasons();
    if !reasons.is_empty() {
        return Err(Fail::Spec(reasons));
    }
    let input = Input::file(&spec.path);
    let io = |error: io::Error| Fail::io(&spec.path, &error);
    let source = InputReader::file(&input).and_then(|raw| TextSource::new(raw, spec.compression));
    let (csv, names) = (spec.format.is_csv(), spec.format.has_names());
    let mut reader = source
        .and_then(|source| Rewriter::new(source, &spec.dialect, csv, names, Arc::default()))
        .map_err(io)?;
    if !spec.locate.is_empty() {
        reader.locate(spec.locate);
        io::copy(&mut reader, &mut io::sink()).map_err(io)?;
        return Ok(Some(json!({"lines": reader.located()})));
    }
    let mut out = io::stdout().lock();
    while reader.taken < reader.out.len() || !reader.ended {
        out.write_all(&reader.out[reader.taken..]).map_err(|e| Fail::output("-", &e))?;
        reader.taken = reader.out.len();
        if reader.ended {
            break;
        }
        reader.advance().map_err(io)?;
    }
    out.flush().map_err(|e| Fail::output("-", &e))?;
    Ok(None)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
