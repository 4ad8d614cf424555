//! Where the values of one column stand in the text: one trait for delimited text, JSON and elements
//! of nested values. What the values are is no business of this module.

use crate::simd::Simd;

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

/// Where a value stands: start and end, quotes included; `(0, 0)` where the key is missing.
pub type Span = (u32, u32);

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
