//! Where the values of one column stand in the text: one trait for delimited text, JSON and elements
//! of nested values. What the values are is no business of this module.

use crate::simd::Simd;

/// Whether a field means NULL in a Nullable column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NullMatch {
    /// It is written as the spec's `null`.
    Yes,
    /// It is the other of nothing and `\N`: NULL too, but not for strings and floats.
    OtherSpelling,
    No,
}

/// How strings are written in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
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
pub struct RowBatch<'a> {
    pub text: &'a [u8],
    pub rows: usize,
    /// Fields in a row of the index.
    pub width: usize,
    /// The rows in the order in which to read them; empty for the one they have.
    pub order: &'a [u32],
    /// Some field holds an escape: `""` in CSV, `\` in TSV and JSON.
    pub escapes: bool,
    /// Some field holds a line break.
    pub has_line_breaks: bool,
    pub options: &'a ReadOptions,
}

impl RowBatch<'_> {
    /// The row that is the `number`-th to be read.
    #[inline(always)]
    pub fn row(&self, number: usize) -> usize {
        self.order.get(number).map_or(number, |row| *row as usize)
    }
}

/// The fields of one column. Every position is inside the text, with 64 bytes behind it.
pub trait Fields<'a> {
    const SYNTAX: Syntax;
    /// They are elements of nested values.
    const ELEMENTS: bool = false;
    fn batch(&self) -> &RowBatch<'a>;
    fn batch_mut(&mut self) -> &mut RowBatch<'a>;
    /// Turn to another column.
    fn select_column(&mut self, column: usize);
    /// Start and end of the `number`-th field that is read, quotes included.
    fn bounds(&self, number: usize) -> (usize, usize);
    /// The same without quotes.
    fn unquoted(&self, from: usize, to: usize) -> (usize, usize);
    fn null_match(&self, from: usize, to: usize) -> NullMatch;
    /// Where the fields are in their order, without quotes and CRs: an index, the place of the first
    /// one and the step to the next. Each field is between one position and the one behind it.
    fn unquoted_index(&self) -> Option<(&'a [u32], usize, usize)> {
        None
    }
    /// The fields so many places behind these; None where there are no places.
    fn fields_after(&self, _: usize) -> Option<DelimitedFields<'a, true>> {
        None
    }
    /// Bytes of text that all fields together stand in, at least.
    fn text_bytes(&self) -> usize;
}

/// What the spec says of texts and of how to read them.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    pub simd: Simd,
    /// NULL is written as nothing (otherwise as `\N`).
    pub null_is_empty: bool,
    pub trim: bool,
    /// Strings may hold line breaks.
    pub line_breaks: bool,
    /// Elements of tuples have fields of their own.
    pub tuples_apart: bool,
}

/// Fields of delimited text: the index holds every delimiter and line end of whole rows, and before
/// them the byte that the first row follows.
#[derive(Clone, Copy)]
pub struct DelimitedFields<'a, const CSV: bool> {
    pub batch: RowBatch<'a>,
    pub index: &'a [u32],
    /// Where the columns stand in a line.
    pub field_numbers: &'a [usize],
    /// Lines end with CR LF.
    pub has_cr: bool,
    /// Some field is in quotes.
    pub has_quotes: bool,
    /// The place that is read, and whether a CR may end its fields.
    pub field_number: usize,
    pub cr: bool,
}

impl<const CSV: bool> DelimitedFields<'_, CSV> {
    /// What reading fields without checks relies on.
    ///
    /// # Panics
    /// Where the index is no index of these rows of the text.
    pub fn check(&self) {
        assert_eq!(self.index.len(), self.batch.rows * self.batch.width + 1);
        let last = self.index[self.index.len() - 1] as usize;
        assert!(last + 64 <= self.batch.text.len(), "positions rise: the last is the greatest");
    }

    /// Turn to a place of the lines, of a column or not.
    pub fn select_field(&mut self, field_number: usize) {
        assert!(field_number < self.batch.width);
        self.field_number = field_number;
        self.cr = self.has_cr && field_number + 1 == self.batch.width;
    }
}

impl<'a, const CSV: bool> Fields<'a> for DelimitedFields<'a, CSV> {
    const SYNTAX: Syntax = if CSV { Syntax::Csv } else { Syntax::Tsv };

    #[inline(always)]
    fn batch(&self) -> &RowBatch<'a> {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut RowBatch<'a> {
        &mut self.batch
    }

    fn select_column(&mut self, column: usize) {
        self.select_field(self.field_numbers[column]);
    }

    #[inline(always)]
    fn bounds(&self, number: usize) -> (usize, usize) {
        let row = self.batch.row(number);
        debug_assert!(row < self.batch.rows && self.field_number < self.batch.width);
        let at = row * self.batch.width + self.field_number;
        // SAFETY: `delimited::decode`, which alone makes these, calls `check` first: the index holds
        // rows x width + 1 positions; row < rows (an order holds each row once) and place < width,
        // so at + 1 is one of them. Checked access costs 8 of 60 instructions a value.
        let (before, end) =
            unsafe { (*self.index.get_unchecked(at), *self.index.get_unchecked(at + 1)) };
        let (start, mut end) = (before as usize + 1, end as usize);
        if self.cr && end > start && self.batch.text[end - 1] == b'\r' {
            end -= 1;
        }
        (start, end)
    }

    #[inline(always)]
    fn unquoted(&self, from: usize, to: usize) -> (usize, usize) {
        if !CSV {
            return (from, to);
        }
        // Stage 1 has made sure that a field which starts with a quote ends with another one; the
        // byte at an empty field's start is its delimiter.
        debug_assert!(from < self.batch.text.len());
        // SAFETY: positions of the index are below `text.len() - 64`: the scan made them so.
        let quoted = usize::from(unsafe { *self.batch.text.get_unchecked(from) } == b'"');
        (from + quoted, to - quoted)
    }

    fn null_match(&self, from: usize, to: usize) -> NullMatch {
        let is_empty = match &self.batch.text[from..to] {
            b"" => true,
            b"\\N" => false,
            _ => return NullMatch::No,
        };
        if is_empty == (CSV && self.batch.options.null_is_empty) {
            NullMatch::Yes
        } else {
            NullMatch::OtherSpelling
        }
    }

    #[inline(always)]
    fn unquoted_index(&self) -> Option<(&'a [u32], usize, usize)> {
        let plain = self.batch.order.is_empty() && !self.cr && !(CSV && self.has_quotes);
        plain.then_some((self.index, self.field_number, self.batch.width))
    }

    fn fields_after(&self, field_numbers: usize) -> Option<DelimitedFields<'a, true>> {
        let DelimitedFields { batch, index, field_numbers: all, has_cr, has_quotes, .. } = *self;
        let mut beside = DelimitedFields::<'a, true> {
            batch,
            index,
            field_numbers: all,
            has_cr,
            has_quotes,
            field_number: 0,
            cr: false,
        };
        CSV.then(|| beside.select_field(self.field_number + field_numbers))?;
        Some(beside)
    }

    fn text_bytes(&self) -> usize {
        (self.index[self.index.len() - 1] - self.index[0]) as usize
    }
}
