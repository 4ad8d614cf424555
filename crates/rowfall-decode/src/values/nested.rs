//! Arrays, tuples and maps: the cells are taken apart first, then all elements of one kind are
//! decoded at once, as if they were the cells of a column.

use crate::column::Column;
use crate::input::buffer::{FRONT, PAD};
use crate::text::escapes::unescape;
use crate::text::fields::{Cells, Delimited, Null, Page, Span, Style};
use crate::text::json::value::value;
use crate::types::Base;
use crate::values::flat;

/// Where the elements of a column stand; those of nested types are in its parts.
struct Spots {
    spans: Vec<Span>,
    parts: Vec<Spots>,
}

impl Spots {
    fn of(column: &Column) -> Spots {
        Spots { spans: Vec::new(), parts: column.parts.iter().map(Spots::of).collect() }
    }
}

/// Decode all cells of a column; the row of the first that is declined otherwise.
pub fn decode<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    match column.kind.base {
        Base::Array(_) | Base::Map(_) | Base::Tuple(..) => nested(column, cells),
        _ => flat::decode(column, cells),
    }
}

fn nested<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    let page = cells.page();
    if C::STYLE == Style::Csv && page.rules.apart && matches!(column.kind.base, Base::Tuple(..)) {
        return apart(column, cells);
    }
    let mut ends = Vec::with_capacity(page.rows);
    let content = |row: usize| {
        let (from, to) = cells.get(row);
        if C::STYLE == Style::Json { (from, to) } else { cells.unquote(from, to) }
    };
    if C::STYLE == Style::Json {
        let walk = Walk::<true> { text: page.text, at: 0, end: 0, escapes: page.escapes };
        return walk.all(column, page, &mut ends, content);
    }
    if C::STYLE == Style::Csv && page.escapes {
        // The doubled quotes of CSV stand for one each, before anybody looks at the array.
        let mut text = vec![0; FRONT];
        let mut starts = Vec::with_capacity(page.rows + 1);
        for row in 0..page.rows {
            let (start, end) = content(row);
            starts.push(text.len());
            unescape(Style::Csv, &page.text[start..end], &mut text).ok_or(row)?;
        }
        starts.push(text.len());
        text.resize(text.len() + PAD, 0);
        let walk = Walk::<false> { text: &text, at: 0, end: 0, escapes: false };
        return walk.all(column, page, &mut ends, |row| (starts[row], starts[row + 1]));
    }
    let walk = Walk::<false> { text: page.text, at: 0, end: 0, escapes: false };
    walk.all(column, page, &mut ends, content)
}

/// Decode tuples of CSV whose elements are cells of their own; the first row with one that is
/// declined otherwise.
fn apart<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    let (mut at, mut bad) = (0, None::<usize>);
    for part in &mut column.parts {
        let mut own = cells.beside(at).expect("CSV has places");
        at += part.kind.fields();
        let odd = if part.kind.fields() > 1 { None } else { unlike_a_column(part, &own) };
        own.page.rows = odd.unwrap_or(own.page.rows);
        if let Some(row) = decode(part, &own).err().or(odd) {
            bad = Some(bad.map_or(row, |known| known.min(row)));
        }
    }
    bad.map_or(Ok(()), Err)
}

/// The first row whose cell the engine reads in another way as an element than as a column.
fn unlike_a_column(part: &Column, cells: &Delimited<'_, true>) -> Option<usize> {
    (0..cells.page.rows).find(|&row| {
        let (from, to) = cells.get(row);
        match cells.page.text[from] {
            // It skips blanks before elements, and a line end is one: of the next line it would
            // take the first field.
            b' ' | b'\t' | 11 | 12 | b'\r' | b'\n' => true,
            // A column of Bools is read as text, an element is not.
            b'"' => part.kind.base == Base::Bool,
            _ => part.kind.nullable && cells.null(from, to) == Null::Loose,
        }
    })
}

/// A look at one cell after the other: `text[at..end]` is what is left of it.
struct Walk<'a, const JSON: bool> {
    text: &'a [u8],
    at: usize,
    end: usize,
    escapes: bool,
}

impl<const JSON: bool> Walk<'_, JSON> {
    /// Take all cells apart and decode their elements. Rows of ends behind the first bad one are
    /// not looked at.
    fn all(
        mut self,
        column: &mut Column,
        page: &Page<'_>,
        ends: &mut Vec<u32>,
        content: impl Fn(usize) -> (usize, usize),
    ) -> Result<(), usize> {
        let mut spots = Spots::of(column);
        let mut bad = None;
        for row in 0..page.rows {
            (self.at, self.end) = content(row);
            ends.push(self.end as u32);
            if self.value(column, &mut spots).is_none() || self.at != self.end {
                bad = Some(row);
                break;
            }
        }
        let page = Page { text: self.text, escapes: self.escapes, width: 1, order: &[], ..*page };
        // A cell that could not be taken apart may stand behind one whose element is wrong.
        match (elements::<JSON>(column, spots, &page, ends), bad) {
            (Some(row), Some(other)) => Err(row.min(other)),
            (None, None) => Ok(()),
            (row, other) => Err(row.or(other).unwrap_or(0)),
        }
    }

    fn value(&mut self, column: &mut Column, spots: &mut Spots) -> Option<()> {
        let Column { kind, parts, data, .. } = column;
        match (&kind.base, &mut parts[..], &mut spots.parts[..]) {
            (Base::Array(_), [part], [spot]) => {
                self.byte(b'[')?;
                let count = self.list(b']', |walk| walk.value(part, spot))?;
                add_offset(data, count);
            }
            (Base::Map(_), [key, value], [at_key, at_value]) => {
                self.byte(b'{')?;
                let count = self.list(b'}', |walk| {
                    if JSON && walk.peek() != b'"' {
                        return None;
                    }
                    walk.value(key, at_key)?;
                    walk.colon()?;
                    walk.value(value, at_value)
                })?;
                add_offset(data, count);
            }
            (Base::Tuple(_, names), parts, spots) if JSON && !names.is_empty() => {
                self.object(names, parts, spots)?;
            }
            (Base::Tuple(..), parts, spots) => {
                let (open, close) = if JSON { (b'[', b']') } else { (b'(', b')') };
                self.byte(open)?;
                let mut next = parts.iter_mut().zip(spots);
                self.list(close, |walk| {
                    let (part, spot) = next.next()?;
                    walk.value(part, spot)
                })?;
                if next.next().is_some() {
                    return None;
                }
            }
            _ => {
                let start = self.at;
                self.scalar()?;
                spots.spans.push((start as u32, self.at as u32));
            }
        }
        Some(())
    }

    /// A named tuple in JSON: each key once, in any order.
    fn object(
        &mut self,
        names: &[Vec<u8>],
        parts: &mut [Column],
        spots: &mut [Spots],
    ) -> Option<()> {
        let (mut next, mut seen) = (0, 0u64);
        self.byte(b'{')?;
        let count = self.list(b'}', |walk| {
            let start = walk.at;
            if walk.peek() != b'"' {
                return None;
            }
            walk.scalar()?;
            let name = &walk.text[start + 1..walk.at - 1];
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
            walk.colon()?;
            walk.value(&mut parts[found], &mut spots[found])
        })?;
        (count == names.len() as u64).then_some(())
    }

    /// What stands between two brackets, the first of which has been read; the number of elements.
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

    /// An element that is not nested: its end is found, its type looks at the rest.
    #[inline(always)]
    fn scalar(&mut self) -> Option<()> {
        if JSON {
            let end = value(self.text, self.at, &mut self.escapes).ok()?;
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

    /// The next byte, 0 at the end of the cell.
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

/// Decode what was found, kind by kind; the first row of which some element is declined.
fn elements<const JSON: bool>(
    column: &mut Column,
    spots: Spots,
    page: &Page<'_>,
    ends: &[u32],
) -> Option<usize> {
    if !column.parts.is_empty() {
        let parts = column.parts.iter_mut().zip(spots.parts);
        return parts.filter_map(|(part, spots)| elements::<JSON>(part, spots, page, ends)).min();
    }
    let spans = &spots.spans[..];
    let cells = Elements::<JSON> { page: Page { rows: spans.len(), ..*page }, spans };
    let wrong = flat::decode(column, &cells).err()?;
    let row = ends.partition_point(|end| *end <= spans[wrong].0);
    // Where rows are read in another order, any of them will do: they are read again.
    Some(row.min(ends.len() - 1))
}

/// The elements of one kind as cells.
struct Elements<'a, const JSON: bool> {
    page: Page<'a>,
    spans: &'a [Span],
}

impl<'a, const JSON: bool> Cells<'a> for Elements<'a, JSON> {
    const STYLE: Style = if JSON { Style::Json } else { Style::Quoted };
    const ELEMENTS: bool = true;

    #[inline(always)]
    fn page(&self) -> &Page<'a> {
        &self.page
    }

    fn page_mut(&mut self) -> &mut Page<'a> {
        &mut self.page
    }

    fn choose(&mut self, _: usize) {}

    #[inline(always)]
    fn get(&self, number: usize) -> (usize, usize) {
        let (start, end) = self.spans[number];
        (start as usize, end as usize)
    }

    #[inline(always)]
    fn unquote(&self, from: usize, to: usize) -> (usize, usize) {
        let quoted = usize::from(self.page.text[from] == if JSON { b'"' } else { b'\'' });
        (from + quoted, to - quoted)
    }

    fn null(&self, from: usize, to: usize) -> Null {
        let word: &[u8] = if JSON { b"null" } else { b"NULL" };
        if &self.page.text[from..to] == word { Null::Yes } else { Null::No }
    }

    fn span(&self) -> usize {
        self.spans.iter().map(|s| (s.1 - s.0) as usize).sum()
    }
}
