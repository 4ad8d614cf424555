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
use crate::input::buffer::TextBuffer;
use crate::input::queue::InputReader;
use crate::input::rewrite::records::{Records, Step};
use crate::input::source::TextSource;
use crate::simd::Simd;
use crate::spec::MAX_RECORD_BYTES;
use crate::spec::{Compression, Format, Input};

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
    /// Bytes that are read at a time.
    chunk_bytes: usize,
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
            chunk_bytes: CHUNK_BYTES,
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
        self.chunk = if at == 0 { self.chunk * 2 } else { self.chunk_bytes };
        self.text.drain(..at);
        if self.text.len() > MAX_RECORD_BYTES {
            let line = records.line();
            return Err(invalid(format!("line {line}: a record of more than 64 MiB")));
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
                .ok_or_else(|| invalid("a record of more than 64 MiB".into()))?;
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
    let simd = Simd::choose("auto").expect("all have portable code");
    let open = |raw| TextSource::new(raw, spec.compression, simd, 1);
    let source = InputReader::file(&input).and_then(open);
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

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn rewritten(
        data: &[u8],
        dialect: &Dialect,
        header: bool,
        chunk: usize,
    ) -> Result<String, String> {
        let source = TextSource::from_reader(Box::new(Cursor::new(data.to_vec())), Arc::default());
        let mut rewriter = Rewriter::new(source, dialect, true, header, Arc::default())
            .map_err(|e| e.to_string())?;
        (rewriter.chunk_bytes, rewriter.chunk) = (chunk, chunk);
        let mut out = String::new();
        rewriter.read_to_string(&mut out).map_err(|e| e.to_string())?;
        Ok(out)
    }

    #[test]
    fn blanks_around_fields_are_no_part_of_them() {
        let dialect = Dialect { trim: true, ..Dialect::default() };
        let text = b"id, name , x\n1, \"Oslo, \"\"N\"\"\" ,a \n2,\t\" b \"\t, c d\n  \n3, ,\n";
        let plain = "id,name,x\n1,\"Oslo, \"\"N\"\"\",a\n2,\" b \",c d\n3,,\n";
        for chunk in [1, 7, CHUNK_BYTES] {
            assert_eq!(rewritten(text, &dialect, true, chunk), Ok(plain.into()));
        }
    }

    #[test]
    fn runs_of_blanks_and_tabs_are_one_delimiter() {
        let dialect = Dialect {
            trim: true,
            delimiter: " ".into(),
            comment: "#".into(),
            ..Dialect::default()
        };
        let text = "# head\n  a   b\tc \n 1  2.5   \t\"x  y\"\t \r\n\n\"\" 3\t\t4";
        for chunk in 1..text.len() {
            let found = rewritten(text.as_bytes(), &dialect, true, chunk);
            assert_eq!(found.unwrap(), "a,b,c\n1,2.5,\"x  y\"\n\"\",3,4\n", "{chunk}");
        }
    }

    #[test]
    fn a_line_that_may_be_a_row_is_one_field_where_nobody_has_given_the_mark_of_comments() {
        let text = "# by hand, v2\nname,v\na,1\n# half\n#42,7\n#don\"t, x,y\n#\"a,b\",\"c\"\nz,8";
        let given = Dialect { comment: "#".into(), ..Dialect::default() };
        let found = Dialect { comment_found: true, ..given.clone() };
        for chunk in 1..text.len() {
            let of = |dialect| rewritten(text.as_bytes(), dialect, true, chunk).unwrap();
            assert_eq!(of(&given), "name,v\na,1\nz,8\n", "{chunk}");
            assert_eq!(of(&found), "name,v\na,1\n\"#42,7\"\nz,8\n", "{chunk}");
        }
    }

    #[test]
    fn short_records_are_filled_and_blank_lines_left_out() {
        let filled = Dialect { fill: true, columns: 3, ..Dialect::default() };
        let text = b"a,b,c\n\n1\n \t\n2,x\n3,y,z\n";
        let plain = "a,b,c\n1,,\n2,x,\n3,y,z\n";
        assert_eq!(rewritten(text, &filled, true, 3), Ok(plain.into()));
        let one = b"n\n1\n\n2\n";
        let kept = Dialect::default();
        assert_eq!(rewritten(one, &kept, true, 3), Ok("n\n1\n\n2\n".into()));
        let skipped = Dialect { skip_blank: true, ..Dialect::default() };
        assert_eq!(rewritten(one, &skipped, true, 3), Ok("n\n1\n2\n".into()));
    }

    fn dialects() -> impl Strategy<Value = Dialect> {
        let text = |all: &'static [&'static str]| prop::sample::select(all).prop_map(str::to_owned);
        (
            text(&[",", ";", "|", "||", "\t", " | ", "¦", "a;b"]),
            text(&["\"", "'", ""]),
            text(&["\"", "\\", "'", ""]),
            text(&["", "#", "--", "//a"]),
            0u64..3,
            (any::<bool>(), any::<bool>(), 0usize..4, any::<bool>(), any::<bool>()),
        )
            .prop_map(|(delimiter, quote, escape, comment, skip_lines, more)| {
                let (trailing, trim, columns, fill, skip_blank) = more;
                Dialect {
                    delimiter,
                    quote,
                    escape,
                    comment,
                    skip_lines,
                    trailing,
                    trim,
                    columns,
                    fill: fill && columns > 0,
                    skip_blank,
                    nulls: vec!["NA".into(), "-".into()],
                    missing: vec![(0, vec!["n/a".into()])],
                    decimal: ",".into(),
                    thousands: ".".into(),
                    numbers: vec![1],
                    dates: vec![(2, crate::dialect::DateOrder::Dmy)],
                    ..Dialect::default()
                }
            })
    }

    /// Text of the pieces that mean something to one dialect or another.
    fn foreign() -> impl Strategy<Value = String> {
        const PIECES: [&str; 24] = [
            ",",
            ";",
            "|",
            "||",
            "\t",
            " | ",
            "¦",
            "a;b",
            "\"",
            "'",
            "\\",
            "\r",
            "\n",
            "\r\n",
            "#",
            "--",
            "//a",
            " ",
            "NA",
            "-",
            "1.234,5",
            "31.12.2023",
            "ä€😀",
            "n",
        ];
        let pieces = proptest::collection::vec(prop::sample::select(&PIECES[..]), 0..60);
        pieces.prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn chunks_of_any_size_give_the_same(text in foreign(), dialect in dialects(), header in any::<bool>(), chunk in 1usize..40) {
            prop_assume!(dialect.reasons().is_empty());
            let whole = rewritten(text.as_bytes(), &dialect, header, CHUNK_BYTES);
            prop_assert_eq!(rewritten(text.as_bytes(), &dialect, header, chunk), whole);
        }

        #[test]
        fn records_that_are_filled_are_never_shorter(text in foreign(), dialect in dialects()) {
            let dialect = Dialect { fill: true, columns: 3, trailing: false, ..dialect };
            prop_assume!(dialect.reasons().is_empty());
            if let Ok(plain) = rewritten(text.as_bytes(), &dialect, false, CHUNK_BYTES) {
                let mut quoted = false;
                let mut fields = 1;
                for c in plain.chars() {
                    match c {
                        '"' => quoted = !quoted,
                        ',' if !quoted => fields += 1,
                        '\n' if !quoted => {
                            prop_assert!(fields >= 3, "{:?}", plain);
                            fields = 1;
                        }
                        _ => {}
                    }
                }
            }
        }

        #[test]
        fn charsets_are_read_in_chunks_of_any_size(text in foreign(), chunk in 1usize..40, mark in any::<bool>()) {
            let plain = Dialect { quote: String::new(), ..Dialect::default() };
            let wanted = rewritten(text.as_bytes(), &plain, false, CHUNK_BYTES);
            let mut data = if mark { vec![0xFF, 0xFE] } else { Vec::new() };
            data.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
            // A byte order mark has the last word.
            let charset = if mark { "windows-1252" } else { "utf-16le" }.to_owned();
            let dialect = Dialect { charset, ..plain };
            prop_assert_eq!(rewritten(&data, &dialect, false, chunk), wanted);
        }

        #[test]
        fn values_in_quotes_are_those_that_were_written(
            rows in proptest::collection::vec(proptest::collection::vec(foreign(), 1..4), 0..6),
            dialect in dialects(),
            crlf in any::<bool>(),
            chunk in 1usize..40,
        ) {
            // The values are text here, and nothing stands before or behind them.
            let dialect = Dialect {
                skip_lines: 0, trailing: false, fill: false, numbers: Vec::new(), dates: Vec::new(), ..dialect
            };
            let (quote, escape) = (dialect.quote.as_str(), dialect.escape.as_str());
            prop_assume!(dialect.reasons().is_empty() && !quote.is_empty());
            let (mut text, mut wanted) = (String::new(), String::new());
            for row in &rows {
                let written = row.iter().map(|value| {
                    let doubled = escape.is_empty() || escape == quote;
                    let value = if doubled { value.clone() } else { value.replace(escape, &escape.repeat(2)) };
                    let before = if doubled { quote } else { escape };
                    format!("{quote}{}{quote}", value.replace(quote, &format!("{before}{quote}")))
                });
                text += &written.collect::<Vec<_>>().join(&dialect.delimiter);
                text += if crlf { "\r\n" } else { "\n" };
                let plain = row.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\"")));
                wanted += &(plain.collect::<Vec<_>>().join(",") + "\n");
            }
            prop_assert_eq!(rewritten(text.as_bytes(), &dialect, false, chunk), Ok(wanted));
        }
    }
}
