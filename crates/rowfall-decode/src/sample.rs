//! Measures the values of a sample: reads the first rows of each input of CSV or TSV, and counts
//! per column how they are written. A plan asks for that before every load of text.
//!
//! The facts are those of `src/rowfall/schema/sampling.py`, where the engine's expressions for them
//! stand, and `tests/unit/schema/text/test_text_facts.py` compares the two. Text that is not clean is
//! declined: whoever asked then asks the engine, which reads it in its own way.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Fail;
use crate::input::buffer::TextBuffer;
use crate::input::queue::InputReader;
use crate::input::source::TextSource;
use crate::simd::Simd;
use crate::spec::{Format, Input, Spec};
use crate::text::delimited;
use crate::text::escapes::unescape;
use crate::text::fields::Syntax;
use crate::text::layout::{self, Layout};
use crate::text::scan::{Scan, scan};

/// The document of `rowfall-decode sample`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// What to read, as for a run: text whose columns are read as strings.
    spec: Value,
    /// Rows of each input at most.
    rows: usize,
    /// Lines from elsewhere in the inputs, without a header.
    #[serde(default)]
    more: String,
}

/// How the values of a column are written.
#[derive(Default)]
struct Facts {
    nulls: u64,
    blanks: u64,
    bytes: u64,
    /// `\N`, not as NULL.
    marks: u64,
    /// Values with blanks around them.
    padded: u64,
    /// Values with line breaks, and those that hold whole lines of the file.
    breaks: u64,
    swallowed: u64,
    integers: u64,
    /// Numbers with leading zeros, and integers with a plus.
    zeros: u64,
    plus: u64,
    booleans: u64,
    low: Option<i128>,
    high: Option<i128>,
    days: u64,
    /// Moments as ISO 8601 has them: with a T, and with a Z.
    with_t: u64,
    with_z: u64,
    /// Values that hold `inf`: infinite ones among them.
    infinite: u64,
}

/// Measure what a document asks for: `{"rows": N, "columns": [{"nulls": 0, ...}, ...]}`.
///
/// # Errors
/// [`Fail::Value`] for text that is not clean, [`Fail::Io`] for an input that cannot be read.
pub fn measure(text: &str) -> Result<Value, Fail> {
    let wanted: Wanted =
        serde_json::from_str(text).map_err(|e| Fail::spec(format!("the document: {e}")))?;
    let spec = Spec::parse(&wanted.spec.to_string())?;
    let text = matches!(
        spec.format,
        Format::Csv | Format::CsvWithNames | Format::Tsv | Format::TsvWithNames
    );
    if !text || spec.dialect.is_some() {
        return Err(Fail::spec("a sample is plain CSV or TSV"));
    }
    let mut sample = Sample {
        spec: &spec,
        simd: Simd::choose("auto").expect("all have portable code"),
        scan: Scan::default(),
        facts: spec.columns.iter().map(|_| Facts::default()).collect(),
        rows: 0,
    };
    for input in &spec.inputs {
        let io = |error: &std::io::Error| Fail::io(input.name(), error);
        let raw = InputReader::file(input).map_err(|e| io(&e))?;
        let source = TextSource::new(raw, spec.compression, sample.simd, 1);
        let mut source = source.map_err(|e| io(&e))?;
        let layout = layout::from_positions(&spec);
        sample.read(input, &mut source, layout, wanted.rows)?;
    }
    if !wanted.more.is_empty() {
        sample.read_more(&wanted.more)?;
    }
    let columns: Vec<Value> = sample.facts.iter().map(|facts| facts.json(sample.rows)).collect();
    Ok(json!({"rows": sample.rows, "columns": columns}))
}

struct Sample<'a> {
    spec: &'a Spec,
    simd: Simd,
    scan: Scan,
    facts: Vec<Facts>,
    rows: usize,
}

impl Sample<'_> {
    /// Read the first `most` rows of a source.
    fn read(
        &mut self,
        input: &Input,
        source: &mut TextSource,
        mut layout: Option<Layout>,
        most: usize,
    ) -> Result<(), Fail> {
        let mut buffer = TextBuffer::default();
        let (mut left, mut chunk) = (most, self.spec.chunk_bytes);
        while left > 0 {
            buffer.advance(source, chunk).map_err(|e| Fail::io(input.name(), &e))?;
            let before = buffer.start;
            if buffer.offset(before) == 0 && buffer.text()[before..].starts_with(b"\xef\xbb\xbf") {
                return Err(Fail::declined(input.name(), "a byte order mark"));
            }
            if buffer.ended {
                let open = before < buffer.end && buffer.text()[buffer.end - 1] != b'\n';
                buffer.end_last_line(open);
            }
            self.scan(&buffer);
            if layout.is_none() {
                layout = self.header(input, &mut buffer)?;
            }
            if let Some(layout) = &layout {
                left -= self.count(input, &mut buffer, layout, left)?;
            }
            if buffer.ended {
                break;
            }
            // A record longer than the chunk: look at more of it.
            let most = self.spec.record_bytes;
            if buffer.end - buffer.start > most {
                return Err(Fail::too_long(input.name(), 0, 0));
            }
            let found = buffer.start > before;
            chunk = if found { self.spec.chunk_bytes } else { buffer.longer(chunk, most) };
        }
        Ok(())
    }

    /// Read lines that were taken from the inputs, whose columns stand in the order of the spec.
    fn read_more(&mut self, lines: &str) -> Result<(), Fail> {
        let input = &self.spec.inputs[0];
        let columns = self.spec.columns.len();
        let layout = Layout {
            width: columns + usize::from(self.spec.trailing),
            field_numbers: (0..columns).collect(),
            skipped: Vec::new(),
            trailing: self.spec.trailing,
        };
        let text = std::io::Cursor::new(lines.as_bytes().to_vec());
        let mut source = TextSource::from_reader(Box::new(text), Default::default());
        self.read(input, &mut source, Some(layout), usize::MAX)
    }

    fn scan(&mut self, buffer: &TextBuffer) {
        let style = if self.spec.format.is_csv() { Syntax::Csv } else { Syntax::Tsv };
        let range = (buffer.start, buffer.end);
        let delimiter = self.spec.delimiter.as_bytes()[0];
        scan(self.simd, style, delimiter, buffer.text(), range, &mut self.scan);
    }

    /// Find the columns by the header and slide past it; None where its line is not there as a
    /// whole.
    fn header(&mut self, input: &Input, buffer: &mut TextBuffer) -> Result<Option<Layout>, Fail> {
        let text = buffer.text();
        let end = self.scan.index.iter().skip(1).find(|&&at| text[at as usize] == b'\n');
        let Some(&end) = end else {
            return if buffer.ended {
                Err(Fail::declined(input.name(), "no header"))
            } else {
                Ok(None)
            };
        };
        if self.scan.first_bad.is_some_and(|bad| bad <= end as usize) {
            return Err(Fail::declined(input.name(), "a header that is not plain names"));
        }
        let found = layout::from_header(text, &self.scan, self.spec);
        let layout = found.map_err(|(_, message)| Fail::declined(input.name(), &message))?;
        buffer.start = end as usize + 1;
        self.scan(buffer);
        Ok(Some(layout))
    }

    /// Count the values of whole records of the buffer, `most` at most; returns how many there were.
    fn count(
        &mut self,
        input: &Input,
        buffer: &mut TextBuffer,
        layout: &Layout,
        most: usize,
    ) -> Result<usize, Fail> {
        let (text, width) = (buffer.text(), layout.width);
        let (mut rows, mut bad) = delimited::check_rows(text, &self.scan, width);
        if layout.trailing {
            let (fine, open) = delimited::check_trailing(text, &self.scan, width, rows);
            (rows, bad) = (fine, open.or(bad));
        }
        let rows = rows.min(most);
        if let Some(bad) = bad.filter(|_| rows < most) {
            return Err(Fail::declined(input.name(), &bad.message));
        }
        let syntax = if self.spec.format.is_csv() { Syntax::Csv } else { Syntax::Tsv };
        let reader = Reader {
            syntax,
            null: if syntax == Syntax::Csv { self.spec.null.as_bytes() } else { b"\\N" },
            delimiter: self.spec.delimiter.as_bytes()[0],
            width,
            escapes: self.scan.escapes,
        };
        for row in 0..rows {
            // The engine leaves them out, whatever its settings say of blanks.
            let first = text[self.scan.index[row * width] as usize + 1];
            if syntax == Syntax::Csv && matches!(first, b' ' | b'\t') && first != reader.delimiter {
                return Err(Fail::declined(input.name(), "a blank at the start of a row"));
            }
            for (facts, &field) in self.facts.iter_mut().zip(&layout.field_numbers) {
                let at = row * width + field;
                let (start, mut end) =
                    (self.scan.index[at] as usize + 1, self.scan.index[at + 1] as usize);
                let last = field + 1 == width;
                if last && self.scan.has_cr && end > start && text[end - 1] == b'\r' {
                    end -= 1;
                }
                let value = reader.value(&text[start..end]);
                value
                    .and_then(|value| facts.add(value.as_deref(), &reader))
                    .map_err(|what| Fail::declined(input.name(), what))?;
            }
        }
        self.rows += rows;
        let end = self.scan.index[rows * width] as usize + 1;
        if buffer.ended && rows < most && end < buffer.end {
            return Err(Fail::declined(input.name(), "a quote never closed"));
        }
        buffer.start = end;
        Ok(rows)
    }
}

/// How the fields of a text are read.
struct Reader<'a> {
    syntax: Syntax,
    /// An unquoted field that is NULL.
    null: &'a [u8],
    delimiter: u8,
    width: usize,
    escapes: bool,
}

impl Reader<'_> {
    /// The content of a field; None for NULL. The error is what is unclean about it.
    fn value<'t>(&self, field: &'t [u8]) -> Result<Option<Cow<'t, [u8]>>, &'static str> {
        if field == self.null {
            return Ok(None);
        }
        // The scan has made sure that a field which starts with a quote ends with another one.
        let quoted = self.syntax == Syntax::Csv && field.first() == Some(&b'"');
        let content = if quoted { &field[1..field.len() - 1] } else { field };
        if !self.escapes || (self.syntax == Syntax::Csv && !quoted) {
            return Ok(Some(Cow::Borrowed(content)));
        }
        let mut plain = Vec::new();
        unescape(self.syntax, content, &mut plain).ok_or("an escape that is not clear")?;
        Ok(Some(Cow::Owned(plain)))
    }
}

impl Facts {
    /// Count a value; the error is why it cannot be told what it is.
    fn add(&mut self, value: Option<&[u8]>, reader: &Reader<'_>) -> Result<(), &'static str> {
        let Some(x) = value else {
            self.nulls += 1;
            return Ok(());
        };
        self.bytes += x.len() as u64;
        self.blanks += u64::from(x.is_empty());
        let mark = x == b"\\N";
        self.marks += u64::from(mark);
        self.nulls += u64::from(mark);
        let t = trim(x);
        self.padded += u64::from(t.len() != x.len());
        if memchr::memchr(b'\n', x).is_some() {
            self.breaks += 1;
            let whole = |line: &&[u8]| {
                line.iter().filter(|c| **c == reader.delimiter).count() + 1 == reader.width
            };
            let lines = x.split(|c| *c == b'\n').filter(whole).count();
            self.swallowed += u64::from(reader.width > 1 && lines > 1);
        }
        self.zeros += u64::from(has_leading_zero(t));
        self.booleans +=
            u64::from(t.eq_ignore_ascii_case(b"true") || t.eq_ignore_ascii_case(b"false"));
        if let Some(number) = integer(t)? {
            self.plus += u64::from(t[0] == b'+');
            self.integers += 1;
            self.low = Some(self.low.map_or(number, |low| low.min(number)));
            self.high = Some(self.high.map_or(number, |high| high.max(number)));
        }
        if let Some((separator, zone)) = moment(t) {
            self.with_t += u64::from(separator == b'T');
            self.with_z += u64::from(zone);
        }
        if let Some(year) = day(t) {
            if !(1900..2300).contains(&year) {
                return Err("a day that not every version of the engine can hold");
            }
            self.days += 1;
        }
        self.infinite += u64::from(t.windows(3).any(|part| part.eq_ignore_ascii_case(b"inf")));
        Ok(())
    }

    fn json(&self, rows: usize) -> Value {
        json!({
            "nulls": self.nulls, "blanks": self.blanks, "marks": self.marks,
            "bytes_each": self.bytes as f64 / rows as f64,
            "padded": self.padded, "breaks": self.breaks, "swallowed": self.swallowed,
            "integers": self.integers, "zeros": self.zeros, "plus": self.plus,
            "booleans": self.booleans,
            "low": self.low.map(|n| n.to_string()), "high": self.high.map(|n| n.to_string()),
            "days": self.days, "with_t": self.with_t, "with_z": self.with_z,
            "infinite": self.infinite,
        })
    }
}

fn trim(x: &[u8]) -> &[u8] {
    let blank = |c: &u8| matches!(c, b' ' | b'\t');
    let start = x.iter().position(|c| !blank(c)).unwrap_or(x.len());
    let end = x.iter().rposition(|c| !blank(c)).map_or(start, |n| n + 1);
    &x[start..end]
}

/// `[-+]?0[0-9]` at the start.
fn has_leading_zero(t: &[u8]) -> bool {
    let digits = t.strip_prefix(b"-").or_else(|| t.strip_prefix(b"+")).unwrap_or(t);
    matches!(digits, [b'0', second, ..] if second.is_ascii_digit())
}

/// `[-+]?[0-9]{1,38}`: all of them fit into 128 bits. Of longer ones the engine wraps around what
/// does not fit.
fn integer(t: &[u8]) -> Result<Option<i128>, &'static str> {
    let (digits, minus) = match t {
        [b'-', digits @ ..] => (digits, true),
        [b'+', digits @ ..] => (digits, false),
        _ => (t, false),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    if digits.len() > 38 {
        return Err("an integer of more than 38 digits");
    }
    let number = digits.iter().fold(0, |number, c| number * 10 + i128::from(c - b'0'));
    Ok(Some(if minus { -number } else { number }))
}

/// The year of a real day, written as `2024-02-29`.
fn day(t: &[u8]) -> Option<u32> {
    if t.len() != 10 || !has_shape(t, b"0000-00-00") {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0, |n, c| n * 10 + u32::from(c - b'0'));
    let (year, month, day) = (number(&t[..4]), number(&t[5..7]), number(&t[8..]));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day).then_some(year)
}

/// `2024-02-29 12:00:00.5Z`: what stands between day and time, and whether there is a Z.
fn moment(t: &[u8]) -> Option<(u8, bool)> {
    if t.len() < 19 || !has_shape(&t[..10], b"0000-00-00") || !has_shape(&t[11..19], b"00:00:00") {
        return None;
    }
    if t[11..13] > b"23"[..] || t[14] > b'5' || t[17] > b'5' {
        return None; // 24:00:00 is no time of day that a column holds
    }
    let (rest, zone) = match &t[19..] {
        [rest @ .., b'Z'] => (rest, true),
        rest => (rest, false),
    };
    let fraction = match rest {
        [] => true,
        [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (matches!(t[10], b' ' | b'T') && fraction).then_some((t[10], zone))
}

/// A 0 of the shape stands for any digit.
fn has_shape(t: &[u8], shape: &[u8]) -> bool {
    t.iter().zip(shape).all(|(c, s)| if *s == b'0' { c.is_ascii_digit() } else { c == s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_real_ones() {
        for (text, year) in [
            ("2024-02-29", Some(2024)),
            ("2023-02-29", None),
            ("1900-02-29", None),
            ("2000-02-29", Some(2000)),
            ("1899-12-31", Some(1899)),
            ("2024-13-01", None),
            ("2024-00-10", None),
            ("2024-04-31", None),
            ("2024-4-3111", None),
            ("2024/04/30", None),
        ] {
            assert_eq!(day(text.as_bytes()), year, "{text}");
        }
    }

    #[test]
    fn integers_have_38_digits_at_most() {
        let most = "9".repeat(38);
        for text in [&most, &format!("-{most}"), "0", "-0"] {
            assert_eq!(integer(text.as_bytes()), Ok(text.parse().ok()), "{text}");
        }
        for text in ["", "-", "+", "1.5", " 1", "--1", "1_000"] {
            assert_eq!(integer(text.as_bytes()), Ok(None), "{text}");
        }
        assert_eq!(integer(b"+007"), Ok(Some(7)));
        assert!(integer("1".repeat(39).as_bytes()).is_err());
    }

    #[test]
    fn moments_have_their_shape() {
        for (text, found) in [
            ("2024-02-29 12:00:00", Some((b' ', false))),
            ("2024-02-29T12:00:00Z", Some((b'T', true))),
            ("2024-99-99T23:59:59.123Z", Some((b'T', true))),
            ("2024-02-29T24:00:00Z", None),
            ("2024-02-29 12:60:00", None),
            ("2024-02-29 12:00:60", None),
            ("2024-02-29T12:00:00.", None),
            ("2024-02-29T12:00:00ZZ", None),
            ("2024-02-29_12:00:00", None),
            ("2024-02-29", None),
        ] {
            assert_eq!(moment(text.as_bytes()), found, "{text}");
        }
    }
}
