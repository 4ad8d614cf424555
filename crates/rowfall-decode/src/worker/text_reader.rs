//! Reads CSV, TSV and JSON: finds the records in pieces of text and has them decoded. Turns positions in
//! the text into lines and offsets of error messages.

use crate::block::{BadValue, ScannedText, decode_delimited, decode_objects};
use crate::error::{Decline, DeclineKind, Fail, shorten};
use crate::input::buffer::TextBuffer;
use crate::input::read_ahead::Piece;
use crate::input::source::TextSource;
use crate::progress::InputSummary;
use crate::spec::{Format, Input, Spec, UnknownColumns};
use crate::text::delimited::{self, BadRow};
use crate::text::fields::{ReadOptions, Syntax};
use crate::text::json::objects::{ObjectReader, ObjectRows};
use crate::text::layout::{self, Layout};
use crate::text::scan::{Scan, scan};
use crate::worker::block_writer::BlockWriter;

/// The position of a reader in its input.
struct InputPosition<'a> {
    spec: &'a Spec,
    input: &'a Input,
    /// Lines before `buffer.start`.
    lines: u64,
    rows: u64,
    layout: Option<Layout>,
}

impl InputPosition<'_> {
    fn new<'a>(spec: &'a Spec, input: &'a Input, layout: Option<Layout>) -> InputPosition<'a> {
        InputPosition { spec, input, lines: 0, rows: 0, layout }
    }
}

/// The size of some records that were decoded.
pub struct RecordCounts {
    pub rows: u64,
    pub lines: u64,
    /// Bytes of their text.
    pub bytes: u64,
}

/// Reads one text after the other; its buffers are kept.
pub struct TextReader {
    options: ReadOptions,
    buffer: TextBuffer,
    scan: Scan,
    objects: ObjectReader,
    rows: ObjectRows,
}

impl TextReader {
    /// A reader of the spec's columns with these options.
    pub fn new(spec: &Spec, options: ReadOptions) -> TextReader {
        let sources: Vec<String> = spec.columns.iter().map(|c| c.source().to_owned()).collect();
        let types = spec.types().expect("checked before workers start");
        let nullable = types.iter().map(|t| t.nullable).collect();
        TextReader {
            options,
            buffer: TextBuffer::default(),
            scan: Scan::default(),
            objects: ObjectReader::new(&sources, nullable, spec.unknown == UnknownColumns::Skip),
            rows: ObjectRows::default(),
        }
    }

    /// Decode a whole input.
    pub fn read(
        &mut self,
        block: &mut BlockWriter<'_>,
        input: &Input,
        mut source: TextSource,
    ) -> Result<InputSummary, Fail> {
        let io = |error: &std::io::Error| Fail::io(input.name(), error);
        self.buffer.reset(input.start);
        let mut position =
            InputPosition::new(block.spec, input, layout::from_positions(block.spec));
        let mut chunk = block.spec.chunk_bytes;
        let mut counted = 0;
        loop {
            self.buffer.advance(&mut source, chunk).map_err(|e| io(&e))?;
            let read = source.bytes_read();
            let left = input.bytes().map(|bytes| bytes.saturating_sub(read));
            block.add_bytes(read - counted, left, 0)?;
            counted = read;
            let before = self.buffer.start;
            self.decode_buffer(block, &mut position)?;
            if self.buffer.ended {
                break;
            }
            // A record longer than the chunk: look at more of it.
            let most = block.spec.record_bytes;
            if self.buffer.end - self.buffer.start > most {
                return Err(self.decline_long(&position));
            }
            let found = self.buffer.start > before;
            chunk = if found { block.spec.chunk_bytes } else { self.buffer.longer(chunk, most) };
        }
        Ok(InputSummary {
            rows: position.rows,
            bytes_read: source.bytes_read(),
            bytes_raw: self.buffer.offset(self.buffer.end) - input.start,
        })
    }

    /// Decode some records of an input, of which each worker has still `left` stored bytes to read,
    /// if that is known. Those without a `layout` begin with a header, which gives it. Lines of a
    /// failure count from the first one of the piece.
    pub fn read_records(
        &mut self,
        block: &mut BlockWriter<'_>,
        input: &Input,
        piece: &mut Piece,
        left: Option<u64>,
        layout: &mut Option<Layout>,
    ) -> Result<RecordCounts, Fail> {
        std::mem::swap(&mut self.buffer, &mut piece.text);
        let known = layout.take().or_else(|| layout::from_positions(block.spec));
        let mut position = InputPosition::new(block.spec, input, known);
        let bytes = (self.buffer.end - self.buffer.start) as u64;
        block.add_bytes(piece.stored_bytes, left, 0)?;
        self.decode_buffer(block, &mut position)?;
        if self.buffer.start < self.buffer.end {
            return Err(self.decline_long(&position));
        }
        std::mem::swap(&mut self.buffer, &mut piece.text);
        *layout = position.layout;
        Ok(RecordCounts { rows: position.rows, lines: position.lines, bytes })
    }

    /// Decline the last record, at `start`, behind so many delimiters and line ends: a field of it
    /// begins with a quote that nothing closes. No reader can tell where it was to end: what follows
    /// would be one value. A range may end there, and its rest closes the quote.
    fn decline_unclosed(
        &self,
        position: &InputPosition<'_>,
        layout: &Layout,
        (start, marks): (usize, usize),
    ) -> Fail {
        let end = self.buffer.end;
        if position.input.is_cut() {
            return self.decline(position, (start, end), None, "a quote never closed");
        }
        let fields = &self.scan.index[marks..];
        let open = fields.last().map_or(start, |&at| at as usize + 1);
        let column = layout.field_numbers.iter().rposition(|&first| first <= fields.len());
        let mut fail =
            self.decline(position, (open, end), column, "a quote is opened and never closed");
        if let Fail::Value(decline) = &mut fail {
            decline.kind = DeclineKind::Unclosed;
        }
        fail
    }

    fn decline_long(&self, position: &InputPosition<'_>) -> Fail {
        let at = self.buffer.start;
        Fail::too_long(position.input.name(), position.lines + 1, self.buffer.offset(at))
    }

    /// Check and decode the whole records of the buffer.
    fn decode_buffer(
        &mut self,
        block: &mut BlockWriter<'_>,
        position: &mut InputPosition<'_>,
    ) -> Result<(), Fail> {
        if !position.spec.binary && position.spec.dialect.is_none() {
            self.check_utf8(block, position)?;
        }
        if self.buffer.ended {
            let (start, end) = (self.buffer.start, self.buffer.end);
            let open = start < end && self.buffer.text()[end - 1] != b'\n';
            if open && position.input.is_cut() {
                let what = "a range that ends in the middle of a line";
                return Err(self.decline(position, (end, end), None, what));
            }
            self.buffer.end_last_line(open);
        }
        self.decode_records(block, position)
    }

    /// Decline bytes that are not UTF-8, which the engine would store as they are. What is wrong in
    /// a record before them is told first, however much text is read at a time.
    fn check_utf8(
        &mut self,
        block: &mut BlockWriter<'_>,
        position: &mut InputPosition<'_>,
    ) -> Result<(), Fail> {
        let Err(at) = self.buffer.check_utf8() else { return Ok(()) };
        // As if the text read so far ended there.
        let (end, ended) = (self.buffer.end, self.buffer.ended);
        (self.buffer.end, self.buffer.ended) = (at, false);
        self.decode_records(block, position)?;
        (self.buffer.end, self.buffer.ended) = (end, ended);
        let line = self.buffer.text()[at..end].iter().position(|c| *c == b'\n');
        let end = line.map_or(end, |n| at + n);
        Err(self.decline(position, (at, end), None, "a byte that is not UTF-8"))
    }

    fn scan(&mut self, spec: &Spec) {
        let style = if spec.format.is_csv() { Syntax::Csv } else { Syntax::Tsv };
        let range = (self.buffer.start, self.buffer.end);
        let delimiter = spec.delimiter.as_bytes()[0];
        scan(self.options.simd, style, delimiter, self.buffer.text(), range, &mut self.scan);
    }

    /// Decode all whole records of the buffer.
    fn decode_records(
        &mut self,
        block: &mut BlockWriter<'_>,
        position: &mut InputPosition<'_>,
    ) -> Result<(), Fail> {
        if self.buffer.offset(self.buffer.start) == 0 {
            let (at, text) = (self.buffer.start, self.buffer.text());
            if text[at..self.buffer.end].starts_with(b"\xef\xbb\xbf") {
                if position.layout.is_none() && position.spec.format.has_names() {
                    // The engine takes it away, too.
                    self.buffer.start += 3;
                    return self.decode_records(block, position);
                }
                return Err(self.decline(position, (at, at + 3), None, "a byte order mark"));
            }
        }
        if position.spec.format == Format::Json {
            return self.decode_json(block, position);
        }
        self.scan(position.spec);
        if position.layout.is_none() {
            if !self.read_header(position)? {
                return Ok(());
            }
            self.scan(position.spec);
        }
        let layout = position.layout.take().expect("found above");
        let result = self.decode_delimited(block, position, &layout);
        position.layout = Some(layout);
        result
    }

    /// Find the columns by the header; false where its line is not in the buffer as a whole.
    fn read_header(&mut self, position: &mut InputPosition<'_>) -> Result<bool, Fail> {
        let at = self.buffer.start;
        let text = self.buffer.text();
        let end = self.scan.index.iter().skip(1).find(|&&n| text[n as usize] == b'\n');
        let Some(&end) = end else {
            if self.buffer.ended || self.scan.first_bad.is_some() {
                return Err(self.decline(
                    position,
                    (at, at),
                    None,
                    "a header line that never ends",
                ));
            }
            return Ok(false);
        };
        let end = end as usize;
        if self.scan.first_bad.is_some_and(|bad| bad <= end) {
            return Err(self.decline(
                position,
                (at, end),
                None,
                "a header that is not plain names",
            ));
        }
        let layout =
            layout::from_header(text, &self.scan, position.spec).map_err(|(name, message)| {
                let mut fail = self.decline(position, (at, end), None, &message);
                if let Fail::Value(decline) = &mut fail {
                    decline.column = name;
                }
                fail
            })?;
        position.layout = Some(layout);
        position.lines += 1;
        self.buffer.start = end + 1;
        Ok(true)
    }

    fn decode_delimited(
        &mut self,
        block: &mut BlockWriter<'_>,
        position: &mut InputPosition<'_>,
        layout: &Layout,
    ) -> Result<(), Fail> {
        let (text, width) = (self.buffer.text(), layout.width);
        let (mut rows, mut bad_row) = delimited::check_rows(text, &self.scan, width);
        if layout.trailing {
            let (fine, open) = delimited::check_trailing(text, &self.scan, width, rows);
            (rows, bad_row) = (fine, open.or(bad_row));
        }
        let mut taken = 0;
        while taken < rows {
            let count = block.rows_at_once(rows - taken);
            let source =
                ScannedText { text: self.buffer.text(), scan: &self.scan, options: &self.options };
            let decode = match position.spec.format.is_csv() {
                true => decode_delimited::<true>,
                false => decode_delimited::<false>,
            };
            let (columns, sorting) = (&mut block.columns, &mut block.sorting);
            let decoded = decode(columns, layout, &source, (taken, count), sorting);
            if let Err(BadValue { column, start, end, .. }) = decoded {
                return Err(self.decline(position, (start, end), column, ""));
            }
            taken += count;
            block.add_rows(count)?;
        }
        if let Some(BadRow { at, message }) = bad_row {
            let stop = self.buffer.text()[at..self.buffer.end].iter().position(|c| *c == b'\n');
            let end = stop.map_or(self.buffer.end, |n| at + n);
            return Err(self.decline(position, (at, end), None, &message));
        }
        let end = self.scan.index[rows * layout.width] as usize + 1;
        if self.buffer.ended && end < self.buffer.end {
            return Err(self.decline_unclosed(position, layout, (end, rows * layout.width + 1)));
        }
        position.lines += if self.scan.has_line_breaks {
            newlines(&self.buffer.text()[self.buffer.start..end])
        } else {
            rows as u64
        };
        position.rows += rows as u64;
        self.buffer.start = end;
        Ok(())
    }

    /// Decode all whole lines of the buffer as JSON objects.
    fn decode_json(
        &mut self,
        block: &mut BlockWriter<'_>,
        position: &mut InputPosition<'_>,
    ) -> Result<(), Fail> {
        let (start, end) = (self.buffer.start, self.buffer.end);
        let lines = &self.buffer.text()[start..end];
        let Some(last) = lines.iter().rposition(|c| *c == b'\n') else {
            // An array of rows is most often one line, which is no record that is too long.
            return match lines.iter().position(|c| !c.is_ascii_whitespace()) {
                Some(at) if lines[at] == b'[' => {
                    let at = start + at;
                    Err(self.decline(position, (at, at + 1), None, "it is not an object"))
                }
                _ => Ok(()),
            };
        };
        let end = start + last + 1;
        while self.buffer.start < end {
            self.decode_objects(block, (self.buffer.start, end), position)?;
        }
        Ok(())
    }

    /// Decode the first lines of a range of the buffer that holds whole ones.
    fn decode_objects(
        &mut self,
        block: &mut BlockWriter<'_>,
        range: (usize, usize),
        position: &mut InputPosition<'_>,
    ) -> Result<(), Fail> {
        let text = self.buffer.text();
        let found = self.objects.read_rows(self.options.simd, text, range, &mut self.rows);
        let mut taken = 0;
        while taken < self.rows.count {
            let count = block.rows_at_once(self.rows.count - taken);
            let text = self.buffer.text();
            let (columns, sorting, rows) = (&mut block.columns, &mut block.sorting, (taken, count));
            let decoded = decode_objects(columns, &self.rows, text, &self.options, rows, sorting);
            if let Err(BadValue { column, start, end, .. }) = decoded {
                return Err(self.decline(position, (start, end), column, ""));
            }
            taken += count;
            block.add_rows(count)?;
        }
        if let Err(wrong) = found {
            let end = wrong.end.min(self.buffer.end).max(wrong.at);
            let mut fail = self.decline(position, (wrong.at, end), wrong.column, wrong.message);
            if let (true, Fail::Value(decline)) = (wrong.malformed, &mut fail) {
                decline.kind = DeclineKind::Malformed;
            }
            return Err(fail);
        }
        position.lines += taken as u64;
        position.rows += taken as u64;
        self.buffer.start = self.rows.end;
        Ok(())
    }

    /// The failure about `text[start..end]`, of a column or (None) of a whole row.
    fn decline(
        &self,
        position: &InputPosition<'_>,
        (start, end): (usize, usize),
        column: Option<usize>,
        message: &str,
    ) -> Fail {
        let text = self.buffer.text();
        let spec = column.map(|n| &position.spec.columns[n]);
        let type_name = spec.map_or(String::new(), |c| c.type_name.clone());
        Fail::Value(Box::new(Decline {
            kind: DeclineKind::Value,
            uri: position.input.name().to_owned(),
            line: position.lines + newlines(&text[self.buffer.start..start]) + 1,
            offset: self.buffer.offset(start),
            column: spec.map_or(String::new(), |c| c.name.clone()),
            value: shorten(&text[start..end]),
            message: match message {
                "" => format!("a value that may not fit {type_name}"),
                _ => message.to_owned(),
            },
            expected: type_name,
        }))
    }
}

fn newlines(text: &[u8]) -> u64 {
    text.iter().filter(|c| **c == b'\n').count() as u64
}
