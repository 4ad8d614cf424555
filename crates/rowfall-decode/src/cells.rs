//! Cells (where the values of one column stand in the text) and columns (what becomes of them).

use crate::types::Type;

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
}

/// The cells of one column. Every position is inside the text, with 64 bytes behind it.
pub trait Cells {
    const STYLE: Style;
    fn rows(&self) -> usize;
    fn text(&self) -> &[u8];
    /// Start and end of a cell, quotes included.
    fn get(&self, row: usize) -> (usize, usize);
    /// The same without quotes.
    fn unquote(&self, from: usize, to: usize) -> (usize, usize);
    fn null(&self, from: usize, to: usize) -> Null;
    /// Bytes of text that all cells together stand in, at least.
    fn span(&self) -> usize;
    fn rules(&self) -> &Rules;
    /// Whether some cell holds an escape: `""` in CSV, `\` in TSV and JSON.
    fn escapes(&self) -> bool;
    /// Whether some cell holds a line break.
    fn broken(&self) -> bool;
}

/// What the spec says of texts.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// NULL is written as nothing (otherwise as `\N`).
    pub null_is_empty: bool,
    pub trim: bool,
    pub breaks: bool,
}

/// A column of the block that is being built, in the layout of the Native format.
#[derive(Debug)]
pub struct Column {
    pub kind: Type,
    /// One byte a row in Nullable columns: 1 is NULL.
    pub nulls: Vec<u8>,
    /// Values of fixed width, or strings, each behind its length.
    pub data: Vec<u8>,
}

impl Column {
    pub fn new(kind: Type) -> Column {
        Column { kind, nulls: Vec::new(), data: Vec::new() }
    }

    pub fn bytes(&self) -> usize {
        self.nulls.len() + self.data.len()
    }

    pub fn clear(&mut self) {
        self.nulls.clear();
        self.data.clear();
    }
}

/// Cells of delimited text: the index holds every delimiter and line end of whole rows, and before
/// them the byte that the first row follows.
pub(crate) struct Delimited<'a, const CSV: bool> {
    pub text: &'a [u8],
    pub index: &'a [u32],
    pub width: usize,
    pub column: usize,
    pub rows: usize,
    /// The column is the last one, and lines end with CR LF.
    pub cr: bool,
    pub escapes: bool,
    pub broken: bool,
    pub rules: &'a Rules,
}

impl<const CSV: bool> Delimited<'_, CSV> {
    /// What reading cells without checks relies on.
    ///
    /// # Panics
    /// Where the index is no index of these rows of the text.
    pub fn check(&self) {
        assert_eq!(self.index.len(), self.rows * self.width + 1);
        let last = self.index[self.index.len() - 1] as usize;
        assert!(last + 64 <= self.text.len(), "positions rise, so the last one is the greatest");
    }
}

impl<const CSV: bool> Cells for Delimited<'_, CSV> {
    const STYLE: Style = if CSV { Style::Csv } else { Style::Tsv };

    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn text(&self) -> &[u8] {
        self.text
    }

    #[inline(always)]
    fn get(&self, row: usize) -> (usize, usize) {
        debug_assert!(row < self.rows && self.column < self.width);
        let at = row * self.width + self.column;
        // SAFETY: `delimited::decode`, which alone makes these, calls `check` first: the index holds
        // rows x width + 1 positions; row < rows and column < width, so at + 1 is one of them. Checked access costs 8 of 60 instructions a value.
        let (before, end) =
            unsafe { (*self.index.get_unchecked(at), *self.index.get_unchecked(at + 1)) };
        let (start, mut end) = (before as usize + 1, end as usize);
        if self.cr && end > start && self.text[end - 1] == b'\r' {
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
        debug_assert!(from < self.text.len());
        // SAFETY: positions of the index are below `text.len() - 64`: the scan made them so.
        let quoted = usize::from(unsafe { *self.text.get_unchecked(from) } == b'"');
        (from + quoted, to - quoted)
    }

    fn null(&self, from: usize, to: usize) -> Null {
        let is_empty = match &self.text[from..to] {
            b"" => true,
            b"\\N" => false,
            _ => return Null::No,
        };
        if is_empty == (CSV && self.rules.null_is_empty) { Null::Yes } else { Null::Loose }
    }

    fn span(&self) -> usize {
        (self.index[self.rows * self.width] - self.index[0]) as usize
    }

    fn rules(&self) -> &Rules {
        self.rules
    }

    fn escapes(&self) -> bool {
        self.escapes
    }

    fn broken(&self) -> bool {
        self.broken
    }
}
