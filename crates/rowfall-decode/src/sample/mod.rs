//! Measures the values of a sample: reads the first rows of each input of CSV, TSV or JSONEachRow, and
//! counts per column how they are written. A plan asks for that before every load of text.
//!
//! Text that is not clean is declined: whoever asked then asks the engine, which reads it in its
//! own way. Of Parquet it says besides what the footers hold, and of Arrow what the schema does.

#[cfg(feature = "arrow")]
mod arrow;
mod facts;
#[cfg(feature = "arrow")]
mod footers;
mod objects;
mod pieces;
mod reader;
#[cfg(feature = "arrow")]
mod typed;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Fail;
use crate::input::buffer::TextBuffer;
use crate::input::http::HttpReader;
use crate::input::http_request;
use crate::input::queue::InputReader;
use crate::input::source::TextSource;
use crate::input::text;
use crate::sample::facts::Facts;
use crate::sample::objects::Objects;
use crate::sample::pieces::{begins_with_mark, read_pieces};
use crate::sample::reader::Reader;
use crate::simd::Simd;
use crate::spec::{Format, Input, Spec};
use crate::text::delimited;
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
    /// Not facts are wanted but the texts of objects, of so many bytes of each input.
    #[serde(default)]
    texts: Option<usize>,
    /// Not facts are wanted but the columns of files with types in which a list or a map is NULL.
    #[serde(default)]
    null_lists: bool,
}

/// Measure what a document asks for: `{"rows": N, "columns": [{"nulls": 0, ...}, ...]}`, or
/// `{"texts": [["{...}", ...], ...]}`, the objects of each input.
///
/// # Errors
/// [`Fail::Value`] for text that is not clean, [`Fail::Io`] for an input that cannot be read.
pub fn measure(text: &str) -> Result<Value, Fail> {
    let wanted: Wanted =
        serde_json::from_str(text).map_err(|e| Fail::spec(format!("the document: {e}")))?;
    let spec = Spec::parse(&wanted.spec.to_string())?;
    let simd = Simd::choose("auto").expect("all have portable code");
    match spec.format {
        Format::Csv | Format::CsvWithNames | Format::Tsv | Format::TsvWithNames => {
            measure_fields(&spec, &wanted, simd)
        }
        Format::Json => match wanted.texts {
            Some(bytes) => object_texts(&spec, wanted.rows, bytes, simd),
            None => measure_objects(&spec, &wanted, simd),
        },
        #[cfg(feature = "arrow")]
        Format::Parquet if wanted.null_lists => typed::null_lists(&spec),
        #[cfg(feature = "arrow")]
        Format::Parquet => typed::measure(&spec, wanted.rows),
        #[cfg(feature = "arrow")]
        Format::Arrow | Format::ArrowStream if wanted.null_lists => arrow::null_lists(&spec),
        #[cfg(feature = "arrow")]
        Format::Arrow | Format::ArrowStream => arrow::measure(&spec, wanted.rows),
        _ => Err(Fail::spec("a sample is CSV, TSV, JSONEachRow, Parquet or Arrow")),
    }
}

fn measure_fields(spec: &Spec, wanted: &Wanted, simd: Simd) -> Result<Value, Fail> {
    let mut sample = Sample { spec, simd, scan: Scan::default(), facts: no_facts(spec), rows: 0 };
    for input in &spec.inputs {
        let layout = layout::from_positions(spec);
        sample.read(input, &mut open(spec, input, simd)?, layout, wanted.rows)?;
    }
    if !wanted.more.is_empty() {
        sample.read_more(&wanted.more)?;
    }
    Ok(document(&sample.facts, sample.rows))
}

fn measure_objects(spec: &Spec, wanted: &Wanted, simd: Simd) -> Result<Value, Fail> {
    let (mut facts, mut rows) = (no_facts(spec), 0);
    let mut objects = Objects::new(spec, simd);
    for input in &spec.inputs {
        rows += objects.read(input, &mut open(spec, input, simd)?, wanted.rows, &mut facts)?;
    }
    let mut more = from_text(&wanted.more);
    rows += objects.read(&spec.inputs[0], &mut more, usize::MAX, &mut facts)?;
    Ok(document(&facts, rows))
}

fn object_texts(spec: &Spec, rows: usize, bytes: usize, simd: Simd) -> Result<Value, Fail> {
    let mut texts = Vec::new();
    for input in &spec.inputs {
        let mut found = Vec::new();
        let mut source = open(spec, input, simd)?;
        objects::texts(spec, input, &mut source, (rows, bytes), &mut found)?;
        texts.push(found);
    }
    Ok(json!({"texts": texts}))
}

fn open(spec: &Spec, input: &Input, simd: Simd) -> Result<TextSource, Fail> {
    let raw = match input.url() {
        Some(_) => HttpReader::beginning(&http_request::agent(), input).map(InputReader::Http),
        None => InputReader::file(input),
    };
    text::open(spec, input, raw, simd, 1).map_err(|error| Fail::io(input.name(), &error))
}

fn from_text(lines: &str) -> TextSource {
    let text = std::io::Cursor::new(lines.as_bytes().to_vec());
    TextSource::from_reader(Box::new(text), Default::default())
}

fn no_facts(spec: &Spec) -> Vec<Facts> {
    spec.columns.iter().map(|_| Facts::default()).collect()
}

fn document(facts: &[Facts], rows: usize) -> Value {
    let columns: Vec<Value> = facts.iter().map(|facts| facts.json(rows)).collect();
    json!({"rows": rows, "columns": columns})
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
        let mut left = most;
        read_pieces(self.spec, input, source, |buffer| {
            if begins_with_mark(buffer) {
                // In front of a header it is no part of the first name.
                if layout.is_some() {
                    return Err(Fail::declined(input.name(), "a byte order mark"));
                }
                buffer.start += 3;
            }
            self.scan(buffer);
            if layout.is_none() {
                layout = self.header(input, buffer)?;
            }
            if let Some(layout) = &layout {
                left -= self.count(input, buffer, layout, left)?;
            }
            Ok(left > 0)
        })
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
        self.read(input, &mut from_text(lines), Some(layout), usize::MAX)
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
