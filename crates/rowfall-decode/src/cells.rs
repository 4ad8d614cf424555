//! Cells (where the values of one column stand in the text) and columns (what becomes of them).

use crate::scan::Simd;
use crate::types::{Base, Type};

/// Whether a cell means NULL in a Nullable column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// It is written as the spec's `null`.
    Yes,
    /// It is the other of nothing and `\N`: NULL too, but not for strings and floats.
    Loose,
    No,
}

/// How strings are written in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Csv,
    Tsv,
    Json,
    /// As an element of an array in CSV or TSV: in single quotes, numbers without.
    Quoted,
}

/// What the columns of some rows have in common.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub text: &'a [u8],
    pub rows: usize,
    /// Cells in a row of the index.
    pub width: usize,
    /// The rows in the order in which to read them; empty for the one they have.
    pub order: &'a [u32],
    /// Some cell holds an escape: `""` in CSV, `\` in TSV and JSON.
    pub escapes: bool,
    /// Some cell holds a line break.
    pub broken: bool,
    pub rules: &'a Rules,
}

impl Page<'_> {
    /// The row that is the `number`-th to be read.
    #[inline(always)]
    pub fn row(&self, number: usize) -> usize {
        self.order.get(number).map_or(number, |row| *row as usize)
    }
}

/// The cells of one column. Every position is inside the text, with 64 bytes behind it.
pub trait Cells<'a> {
    const STYLE: Style;
    /// They are elements of nested values.
    const ELEMENTS: bool = false;
    fn page(&self) -> &Page<'a>;
    fn page_mut(&mut self) -> &mut Page<'a>;
    /// Turn to another column.
    fn choose(&mut self, column: usize);
    /// Start and end of the `number`-th cell that is read, quotes included.
    fn get(&self, number: usize) -> (usize, usize);
    /// The same without quotes.
    fn unquote(&self, from: usize, to: usize) -> (usize, usize);
    fn null(&self, from: usize, to: usize) -> Null;
    /// Where the cells are in their order, without quotes and CRs: an index, the place of the first
    /// one and the step to the next. Each cell is between one position and the one behind it.
    fn plain(&self) -> Option<(&'a [u32], usize, usize)> {
        None
    }
    /// The cells so many places behind these; None where there are no places.
    fn beside(&self, _: usize) -> Option<Delimited<'a, true>> {
        None
    }
    /// Bytes of text that all cells together stand in, at least.
    fn span(&self) -> usize;
}

/// What the spec says of texts and of how to read them.
#[derive(Debug, Clone)]
pub struct Rules {
    pub simd: Simd,
    /// NULL is written as nothing (otherwise as `\N`).
    pub null_is_empty: bool,
    pub trim: bool,
    pub breaks: bool,
    /// Elements of tuples have fields of their own.
    pub apart: bool,
}

/// A column of the block that is being built, in the layout of the Native format.
#[derive(Debug)]
pub struct Column {
    pub kind: Type,
    /// One byte a row in Nullable columns: 1 is NULL.
    pub nulls: Vec<u8>,
    /// Values of fixed width, or strings, each behind its length.
    pub data: Vec<u8>,
    /// Columns of what the values of a nested type are made of; the data of arrays and maps are the
    /// numbers of elements up to the end of each row.
    pub parts: Vec<Column>,
    /// Bytes that each string takes in the data, 0 for more than 255: where `keeps_sizes`.
    pub sizes: Vec<u8>,
    /// Strings will be gathered: finding each one by the one before takes 6 ns, by its size 1.
    pub keeps_sizes: bool,
}

/// Where the next value of a column will be.
#[derive(Default)]
pub struct End {
    nulls: usize,
    data: usize,
    sizes: usize,
    parts: Vec<End>,
}

impl Column {
    pub fn new(kind: Type) -> Column {
        let (nulls, data, sizes) = Default::default();
        let parts = kind.parts().iter().cloned().map(Column::new).collect();
        Column { kind, nulls, data, parts, sizes, keeps_sizes: false }
    }

    pub fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(Column::bytes).sum();
        self.nulls.len() + self.data.len() + self.sizes.len() + parts
    }

    /// How many values its parts have for the column's `rows`.
    pub fn elements(&self, rows: usize) -> usize {
        match self.kind.base {
            Base::Array(_) | Base::Map(_) => {
                self.data.last_chunk().map_or(0, |end| u64::from_le_bytes(*end) as usize)
            }
            _ => rows,
        }
    }

    pub fn clear(&mut self) {
        self.nulls.clear();
        self.data.clear();
        self.sizes.clear();
        self.parts.iter_mut().for_each(Column::clear);
    }

    /// Take back what came after a place that `end` has given.
    pub fn truncate(&mut self, end: &End) {
        self.nulls.truncate(end.nulls);
        self.data.truncate(end.data);
        self.sizes.truncate(end.sizes);
        self.parts.iter_mut().zip(&end.parts).for_each(|(part, end)| part.truncate(end));
    }

    pub fn end(&self) -> End {
        End {
            nulls: self.nulls.len(),
            data: self.data.len(),
            sizes: self.sizes.len(),
            parts: self.parts.iter().map(Column::end).collect(),
        }
    }

    /// The values from a place on that `end` has given; of types that are not nested.
    pub fn from(&self, end: &End) -> Values<'_> {
        Values {
            kind: &self.kind,
            nulls: &self.nulls[end.nulls..],
            data: &self.data[end.data..],
            sizes: &self.sizes[end.sizes..],
        }
    }

    /// All values.
    pub fn values(&self) -> Values<'_> {
        self.from(&End::default())
    }
}

/// Some neighbouring values of a column.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    pub kind: &'a Type,
    pub nulls: &'a [u8],
    pub data: &'a [u8],
    /// Empty where they are not kept.
    pub sizes: &'a [u8],
}

/// Cells of delimited text: the index holds every delimiter and line end of whole rows, and before
/// them the byte that the first row follows.
#[derive(Clone, Copy)]
pub struct Delimited<'a, const CSV: bool> {
    pub page: Page<'a>,
    pub index: &'a [u32],
    /// Where the columns stand in a line.
    pub places: &'a [usize],
    /// Lines end with CR LF.
    pub crlf: bool,
    /// Some cell is in quotes.
    pub quotes: bool,
    /// The place that is read, and whether a CR may end its cells.
    pub place: usize,
    pub cr: bool,
}

impl<const CSV: bool> Delimited<'_, CSV> {
    /// What reading cells without checks relies on.
    ///
    /// # Panics
    /// Where the index is no index of these rows of the text.
    pub fn check(&self) {
        assert_eq!(self.index.len(), self.page.rows * self.page.width + 1);
        let last = self.index[self.index.len() - 1] as usize;
        assert!(last + 64 <= self.page.text.len(), "positions rise: the last is the greatest");
    }

    /// Turn to a place of the lines, of a column or not.
    pub fn turn(&mut self, place: usize) {
        assert!(place < self.page.width);
        self.place = place;
        self.cr = self.crlf && place + 1 == self.page.width;
    }
}

impl<'a, const CSV: bool> Cells<'a> for Delimited<'a, CSV> {
    const STYLE: Style = if CSV { Style::Csv } else { Style::Tsv };

    #[inline(always)]
    fn page(&self) -> &Page<'a> {
        &self.page
    }

    fn page_mut(&mut self) -> &mut Page<'a> {
        &mut self.page
    }

    fn choose(&mut self, column: usize) {
        self.turn(self.places[column]);
    }

    #[inline(always)]
    fn get(&self, number: usize) -> (usize, usize) {
        let row = self.page.row(number);
        debug_assert!(row < self.page.rows && self.place < self.page.width);
        let at = row * self.page.width + self.place;
        // SAFETY: `delimited::decode`, which alone makes these, calls `check` first: the index holds
        // rows x width + 1 positions; row < rows (an order holds each row once) and place < width,
        // so at + 1 is one of them. Checked access costs 8 of 60 instructions a value.
        let (before, end) =
            unsafe { (*self.index.get_unchecked(at), *self.index.get_unchecked(at + 1)) };
        let (start, mut end) = (before as usize + 1, end as usize);
        if self.cr && end > start && self.page.text[end - 1] == b'\r' {
            end -= 1;
        }
        (start, end)
    }

    #[inline(always)]
    fn unquote(&self, from: usize, to: usize) -> (usize, usize) {
        if !CSV {
            return (from, to);
        }
        // Stage 1 has made sure that a cell which starts with a quote ends with another one; the
        // byte at an empty cell's start is its delimiter.
        debug_assert!(from < self.page.text.len());
        // SAFETY: positions of the index are below `text.len() - 64`: the scan made them so.
        let quoted = usize::from(unsafe { *self.page.text.get_unchecked(from) } == b'"');
        (from + quoted, to - quoted)
    }

    fn null(&self, from: usize, to: usize) -> Null {
        let is_empty = match &self.page.text[from..to] {
            b"" => true,
            b"\\N" => false,
            _ => return Null::No,
        };
        if is_empty == (CSV && self.page.rules.null_is_empty) { Null::Yes } else { Null::Loose }
    }

    #[inline(always)]
    fn plain(&self) -> Option<(&'a [u32], usize, usize)> {
        let plain = self.page.order.is_empty() && !self.cr && !(CSV && self.quotes);
        plain.then_some((self.index, self.place, self.page.width))
    }

    fn beside(&self, places: usize) -> Option<Delimited<'a, true>> {
        let Delimited { page, index, places: all, crlf, quotes, .. } = *self;
        let mut beside =
            Delimited::<'a, true> { page, index, places: all, crlf, quotes, place: 0, cr: false };
        CSV.then(|| beside.turn(self.place + places))?;
        Some(beside)
    }

    fn span(&self) -> usize {
        (self.index[self.index.len() - 1] - self.index[0]) as usize
    }
}
