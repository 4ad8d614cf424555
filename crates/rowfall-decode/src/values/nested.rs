//! Decodes columns of any type. Fields of arrays, tuples and maps are taken apart here; then all
//! elements of one type are decoded together, as if they were the fields of a column, by `flat.rs`.

use crate::column::Column;
use crate::input::buffer::{FRONT, PAD};
use crate::text::escapes::unescape;
use crate::text::fields::{DelimitedFields, Fields, NullMatch, RowBatch, Span, Syntax};
use crate::text::json::value::value_end;
use crate::types::BaseType;
use crate::values::flat;

/// The positions of the elements of a column; those of nested types are in its children.
struct ElementSpans {
    spans: Vec<Span>,
    children: Vec<ElementSpans>,
}

impl ElementSpans {
    fn of(column: &Column) -> ElementSpans {
        ElementSpans {
            spans: Vec::new(),
            children: column.children.iter().map(ElementSpans::of).collect(),
        }
    }
}

/// Append the values of all fields to a column. The error is the row of the first field that is
/// declined.
pub fn decode<'a, C: Fields<'a>>(column: &mut Column, fields: &C) -> Result<(), usize> {
    match column.data_type.base {
        BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..) => {
            decode_nested(column, fields)
        }
        _ => flat::decode(column, fields),
    }
}

fn decode_nested<'a, C: Fields<'a>>(column: &mut Column, fields: &C) -> Result<(), usize> {
    let batch = fields.batch();
    if C::SYNTAX == Syntax::Csv
        && batch.options.tuples_apart
        && matches!(column.data_type.base, BaseType::Tuple(..))
    {
        return decode_tuple_fields(column, fields);
    }
    let mut ends = Vec::with_capacity(batch.rows);
    let content = |row: usize| {
        let (from, to) = fields.bounds(row);
        if C::SYNTAX == Syntax::Json { (from, to) } else { fields.unquoted(from, to) }
    };
    if C::SYNTAX == Syntax::Json {
        let parser =
            NestedParser::<true> { text: batch.text, at: 0, end: 0, escapes: batch.escapes };
        return parser.parse_all(column, batch, &mut ends, content);
    }
    if C::SYNTAX == Syntax::Csv && batch.escapes {
        // The doubled quotes of CSV stand for one each, before the array is parsed.
        let mut text = vec![0; FRONT];
        let mut starts = Vec::with_capacity(batch.rows + 1);
        for row in 0..batch.rows {
            let (start, end) = content(row);
            starts.push(text.len());
            unescape(Syntax::Csv, &batch.text[start..end], &mut text).ok_or(row)?;
        }
        starts.push(text.len());
        text.resize(text.len() + PAD, 0);
        let parser = NestedParser::<false> { text: &text, at: 0, end: 0, escapes: false };
        return parser.parse_all(column, batch, &mut ends, |row| (starts[row], starts[row + 1]));
    }
    let parser = NestedParser::<false> { text: batch.text, at: 0, end: 0, escapes: false };
    parser.parse_all(column, batch, &mut ends, content)
}

/// Decode tuples of CSV whose elements are fields of their own. The error is the first row with an
/// element that is declined.
fn decode_tuple_fields<'a, C: Fields<'a>>(column: &mut Column, fields: &C) -> Result<(), usize> {
    let (mut at, mut bad) = (0, None::<usize>);
    for child in &mut column.children {
        let mut own = fields.fields_after(at).expect("CSV has places");
        at += child.data_type.fields();
        let odd =
            if child.data_type.fields() > 1 { None } else { first_unlike_column(child, &own) };
        own.batch.rows = odd.unwrap_or(own.batch.rows);
        if let Some(row) = decode(child, &own).err().or(odd) {
            bad = Some(bad.map_or(row, |known| known.min(row)));
        }
    }
    bad.map_or(Ok(()), Err)
}

/// The first row whose field the engine reads differently as an element and as a column.
fn first_unlike_column(child: &Column, fields: &DelimitedFields<'_, true>) -> Option<usize> {
    (0..fields.batch.rows).find(|&row| {
        let (from, to) = fields.bounds(row);
        match fields.batch.text[from] {
            // It skips blanks before elements, and a line end is one: of the next line it would
            // take the first field.
            b' ' | b'\t' | 11 | 12 | b'\r' | b'\n' => true,
            // A column of Bools is read as text, an element is not.
            b'"' => child.data_type.base == BaseType::Bool,
            _ => {
                child.data_type.nullable && fields.null_match(from, to) == NullMatch::OtherSpelling
            }
        }
    })
}

/// Takes one field after the other apart: `text[at..end]` is what is left of it.
struct NestedParser<'a, const JSON: bool> {
    text: &'a [u8],
    at: usize,
    end: usize,
    escapes: bool,
}

impl<const JSON: bool> NestedParser<'_, JSON> {
    /// Take all fields apart up to the first bad one, and decode their elements. The end of each
    /// field is added to `ends`.
    fn parse_all(
        mut self,
        column: &mut Column,
        batch: &RowBatch<'_>,
        ends: &mut Vec<u32>,
        content: impl Fn(usize) -> (usize, usize),
    ) -> Result<(), usize> {
        let mut element_spans = ElementSpans::of(column);
        let mut bad = None;
        for row in 0..batch.rows {
            (self.at, self.end) = content(row);
            ends.push(self.end as u32);
            if self.value(column, &mut element_spans).is_none() || self.at != self.end {
                bad = Some(row);
                break;
            }
        }
        let batch =
            RowBatch { text: self.text, escapes: self.escapes, width: 1, order: &[], ..*batch };
        // A field that could not be taken apart may stand behind one whose element is wrong.
        match (decode_elements::<JSON>(column, element_spans, &batch, ends), bad) {
            (Some(row), Some(other)) => Err(row.min(other)),
            (None, None) => Ok(()),
            (row, other) => Err(row.or(other).unwrap_or(0)),
        }
    }

    /// Take one value apart: add the offsets and positions of its elements; None where it is
    /// declined.
    fn value(&mut self, column: &mut Column, element_spans: &mut ElementSpans) -> Option<()> {
        let Column { data_type, children, data, .. } = column;
        match (&data_type.base, &mut children[..], &mut element_spans.children[..]) {
            (BaseType::Array(_), [child], [child_spans]) => {
                self.byte(b'[')?;
                let count = self.list(b']', |parser| parser.value(child, child_spans))?;
                add_offset(data, count);
            }
            (BaseType::Map(_), [key, value], [at_key, at_value]) => {
                self.byte(b'{')?;
                let count = self.list(b'}', |parser| {
                    if JSON && parser.peek() != b'"' {
                        return None;
                    }
                    parser.value(key, at_key)?;
                    parser.colon()?;
                    parser.value(value, at_value)
                })?;
                add_offset(data, count);
            }
            (BaseType::Tuple(_, names), children, element_spans) if JSON && !names.is_empty() => {
                self.object(names, children, element_spans)?;
            }
            (BaseType::Tuple(..), children, element_spans) => {
                let (open, close) = if JSON { (b'[', b']') } else { (b'(', b')') };
                self.byte(open)?;
                let mut next = children.iter_mut().zip(element_spans);
                self.list(close, |parser| {
                    let (child, child_spans) = next.next()?;
                    parser.value(child, child_spans)
                })?;
                if next.next().is_some() {
                    return None;
                }
            }
            _ => {
                let start = self.at;
                self.scalar()?;
                element_spans.spans.push((start as u32, self.at as u32));
            }
        }
        Some(())
    }

    /// Take a named tuple of JSON apart: each key once, in any order.
    fn object(
        &mut self,
        names: &[Vec<u8>],
        children: &mut [Column],
        element_spans: &mut [ElementSpans],
    ) -> Option<()> {
        let (mut next, mut seen) = (0, 0u64);
        self.byte(b'{')?;
        let count = self.list(b'}', |parser| {
            let start = parser.at;
            if parser.peek() != b'"' {
                return None;
            }
            parser.scalar()?;
            let name = &parser.text[start + 1..parser.at - 1];
            // Most objects have their keys in the order of the type.
            let found = match names.get(next) {
                Some(expected) if expected == name => next,
                _ => names.iter().position(|n| n == name)?,
            };
            next = found + 1;
            if seen >> found & 1 == 1 {
                return None;
            }
            seen |= 1 << found;
            parser.colon()?;
            parser.value(&mut children[found], &mut element_spans[found])
        })?;
        (count == names.len() as u64).then_some(())
    }

    /// Read a list up to its closing bracket, the opening one having been read: how many elements.
    #[inline(always)]
    fn list(&mut self, close: u8, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<u64> {
        let mut count = 0;
        self.blanks();
        if self.peek() == close {
            self.at += 1;
            return Some(0);
        }
        loop {
            element(self)?;
            count += 1;
            self.blanks();
            match self.peek() {
                b',' => self.at += 1,
                byte if byte == close => {
                    self.at += 1;
                    return Some(count);
                }
                _ => return None,
            }
            self.blanks();
        }
    }

    /// Find the end of an element that is not nested; its text is checked when it is decoded.
    #[inline(always)]
    fn scalar(&mut self) -> Option<()> {
        if JSON {
            let end = value_end(self.text, self.at, &mut self.escapes).ok()?;
            self.at = end;
            return (end <= self.end).then_some(());
        }
        if self.peek() == b'\'' {
            return self.quoted();
        }
        let start = self.at;
        while !matches!(self.peek(), b',' | b']' | b')' | b'}' | b':' | b' ' | 0) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn quoted(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..self.end)?;
            self.at += rest.iter().position(|c| matches!(c, b'\'' | b'\\'))?;
            if self.text[self.at] == b'\'' {
                self.at += 1;
                return Some(());
            }
            self.escapes = true;
            self.at += 2;
        }
    }

    /// The next byte, 0 at the end of the field.
    #[inline(always)]
    fn peek(&self) -> u8 {
        if self.at < self.end { self.text[self.at] } else { 0 }
    }

    #[inline(always)]
    fn blanks(&mut self) {
        while self.peek() == b' ' {
            self.at += 1;
        }
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        let found = self.peek() == byte;
        self.at += 1;
        found.then_some(())
    }

    fn colon(&mut self) -> Option<()> {
        self.blanks();
        self.byte(b':')?;
        self.blanks();
        Some(())
    }
}

/// Append the end of a row of `count` elements.
fn add_offset(offsets: &mut Vec<u8>, count: u64) {
    let last = offsets.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    offsets.extend_from_slice(&(last + count).to_le_bytes());
}

/// Decode the elements of all types; the first row of which an element is declined.
fn decode_elements<const JSON: bool>(
    column: &mut Column,
    element_spans: ElementSpans,
    batch: &RowBatch<'_>,
    ends: &[u32],
) -> Option<usize> {
    if !column.children.is_empty() {
        let children = column.children.iter_mut().zip(element_spans.children);
        return children
            .filter_map(|(child, element_spans)| {
                decode_elements::<JSON>(child, element_spans, batch, ends)
            })
            .min();
    }
    let spans = &element_spans.spans[..];
    let fields = ElementFields::<JSON> { batch: RowBatch { rows: spans.len(), ..*batch }, spans };
    let wrong = flat::decode(column, &fields).err()?;
    let row = ends.partition_point(|end| *end <= spans[wrong].0);
    // Where rows are read in another order, any of them will do: they are read again.
    Some(row.min(ends.len() - 1))
}

/// The elements of one type as fields.
struct ElementFields<'a, const JSON: bool> {
    batch: RowBatch<'a>,
    spans: &'a [Span],
}

impl<'a, const JSON: bool> Fields<'a> for ElementFields<'a, JSON> {
    const SYNTAX: Syntax = if JSON { Syntax::Json } else { Syntax::Quoted };
    const ELEMENTS: bool = true;

    #[inline(always)]
    fn batch(&self) -> &RowBatch<'a> {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut RowBatch<'a> {
        &mut self.batch
    }

    fn select_column(&mut self, _: usize) {}

    #[inline(always)]
    fn bounds(&self, number: usize) -> (usize, usize) {
        let (start, end) = self.spans[number];
        (start as usize, end as usize)
    }

    #[inline(always)]
    fn unquoted(&self, from: usize, to: usize) -> (usize, usize) {
        let quoted = usize::from(self.batch.text[from] == if JSON { b'"' } else { b'\'' });
        (from + quoted, to - quoted)
    }

    fn null_match(&self, from: usize, to: usize) -> NullMatch {
        let word: &[u8] = if JSON { b"null" } else { b"NULL" };
        if &self.batch.text[from..to] == word { NullMatch::Yes } else { NullMatch::No }
    }

    fn text_bytes(&self) -> usize {
        self.spans.iter().map(|s| (s.1 - s.0) as usize).sum()
    }
}
