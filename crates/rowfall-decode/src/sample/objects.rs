//! The first objects of JSONEachRow, one a line: their texts, by which columns and types are chosen,
//! and how the values of columns are written.

use std::borrow::Cow;

use crate::error::Fail;
use crate::input::source::TextSource;
use crate::sample::facts::{Facts, is_float};
use crate::sample::pieces::{begins_with_mark, read_pieces};
use crate::sample::reader::Reader;
use crate::simd::Simd;
use crate::spec::{Input, Spec};
use crate::text::escapes::unescape;
use crate::text::fields::{Span, Syntax};
use crate::text::json::objects::{ObjectReader, ObjectRows};
use crate::text::json::value::is_plain_value;

/// Collect the texts of the first objects of an input.
///
/// Args: `rows` and `bytes` are bounds for one input; an object is taken where those before it have
/// fewer bytes.
pub(super) fn texts(
    spec: &Spec,
    input: &Input,
    source: &mut TextSource,
    (rows, bytes): (usize, usize),
    found: &mut Vec<String>,
) -> Result<(), Fail> {
    let (mut count, mut before) = (0, 0);
    read_lines(spec, input, source, |text, (start, end)| {
        for line in text[start..end].split(|c| *c == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            if count == rows || before >= bytes {
                return Ok(None);
            }
            if !(line.starts_with(b"{") && line.ends_with(b"}")) {
                return Err(Fail::declined(input.name(), "a line that is not one object"));
            }
            let line = std::str::from_utf8(line)
                .map_err(|_| Fail::declined(input.name(), "text that is not UTF-8"))?;
            (count, before) = (count + 1, before + line.len());
            found.push(line.to_owned());
        }
        Ok(Some(end))
    })
}

/// Reads the values of columns by their keys, and counts how they are written.
pub(super) struct Objects<'a> {
    spec: &'a Spec,
    simd: Simd,
    reader: ObjectReader,
    found: ObjectRows,
}

impl<'a> Objects<'a> {
    pub(super) fn new(spec: &'a Spec, simd: Simd) -> Objects<'a> {
        let names: Vec<String> = spec.columns.iter().map(|column| column.name.clone()).collect();
        let nullable = vec![true; names.len()];
        let reader = ObjectReader::new(&names, nullable, true);
        Objects { spec, simd, reader, found: ObjectRows::default() }
    }

    /// Count the values of the first `most` objects; returns how many there were.
    pub(super) fn read(
        &mut self,
        input: &Input,
        source: &mut TextSource,
        most: usize,
        facts: &mut [Facts],
    ) -> Result<usize, Fail> {
        let mut left = most;
        read_lines(self.spec, input, source, |text, (mut start, end)| {
            while start < end && left > 0 {
                let read = self.reader.read_rows(self.simd, text, (start, end), &mut self.found);
                read.map_err(|wrong| Fail::declined(input.name(), wrong.message))?;
                let rows = self.found.count.min(left);
                let spans = self.found.spans.chunks_exact(facts.len());
                for row in spans.take(rows) {
                    count(text, row, facts).map_err(|what| Fail::declined(input.name(), what))?;
                }
                left -= rows;
                start = self.found.end;
            }
            Ok((left > 0).then_some(end))
        })?;
        Ok(most - left)
    }
}

fn count(text: &[u8], row: &[Span], facts: &mut [Facts]) -> Result<(), &'static str> {
    let reader =
        Reader { syntax: Syntax::Json, null: b"null", delimiter: 0, width: 0, escapes: true };
    for (facts, &(start, end)) in facts.iter_mut().zip(row) {
        // A missing value is at 0, where no text ever is.
        let value = if start == 0 { None } else { value(&text[start as usize..end as usize])? };
        facts.add(value.as_deref(), &reader)?;
    }
    Ok(())
}

/// The text that a column of strings has of a value; None for NULL.
fn value(written: &[u8]) -> Result<Option<Cow<'_, [u8]>>, &'static str> {
    match written {
        b"null" => Ok(None),
        [b'"', content @ .., b'"'] => {
            if memchr::memchr(b'\\', content).is_none() {
                return Ok(Some(Cow::Borrowed(content)));
            }
            let mut plain = Vec::new();
            unescape(Syntax::Json, content, &mut plain).ok_or("an escape that is not clear")?;
            Ok(Some(Cow::Owned(plain)))
        }
        _ if is_plain_value(written) || is_float(written) => Ok(Some(Cow::Borrowed(written))),
        _ => Err("a value that may not be JSON"),
    }
}

/// Give whole lines of an input to `take`, which returns the end of what it took, or None where it
/// has enough.
fn read_lines(
    spec: &Spec,
    input: &Input,
    source: &mut TextSource,
    mut take: impl FnMut(&[u8], (usize, usize)) -> Result<Option<usize>, Fail>,
) -> Result<(), Fail> {
    read_pieces(spec, input, source, |buffer| {
        if begins_with_mark(buffer) {
            return Err(Fail::declined(input.name(), "a byte order mark"));
        }
        let start = buffer.start;
        let Some(last) = memchr::memrchr(b'\n', &buffer.text()[start..buffer.end]) else {
            return Ok(true);
        };
        let end = take(buffer.text(), (start, start + last + 1))?;
        buffer.start = end.unwrap_or(start);
        Ok(end.is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_text_that_a_string_column_has() {
        for (written, text) in [
            ("null", None),
            ("7", Some("7")),
            ("1E-05", Some("1E-05")),
            ("true", Some("true")),
            (r#""a\n\u00e9""#, Some("a\né")),
            (r#"{"k": [1]}"#, Some(r#"{"k": [1]}"#)),
        ] {
            let found = value(written.as_bytes()).expect("it is JSON");
            assert_eq!(found.as_deref(), text.map(str::as_bytes), "{written}");
        }
        assert!(value(br#""\x41""#).is_err());
    }

    #[test]
    fn texts_are_bounded_by_rows_and_by_bytes() {
        let spec = r#"{"inputs": [{"path": "a"}], "format": "JSONEachRow", "outputs": ["-"],
            "version": 2, "columns": [{"name": "a", "type": "String"}]}"#;
        let spec = Spec::parse(spec).expect("a spec");
        for (bounds, count) in [((10, 100), 3), ((2, 100), 2), ((10, 8), 1), ((10, 9), 2)] {
            let lines = "{\"a\": 1}\n\n {\"a\": 2}\r\n{\"a\": 3}";
            let mut source = crate::sample::from_text(lines);
            let mut found = Vec::new();
            texts(&spec, &spec.inputs[0], &mut source, bounds, &mut found).expect("objects");
            assert_eq!(found, ["{\"a\": 1}", "{\"a\": 2}", "{\"a\": 3}"][..count], "{bounds:?}");
        }
    }
}
