//! Describes where the values of one column stand in the text: the trait [`Fields`], and the fields
//! of CSV and TSV. Fields of JSON are in `json/fields.rs`, elements of arrays in
//! `values/nested.rs`. Parsing the values is left to `values`.

use crate::column::Column;
use crate::simd::Simd;

/// How surely a field means NULL in a Nullable column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NullMatch {
    /// The field is written as the spec's `null`.
    Yes,
    /// The field is the other one of nothing and `\N`: NULL too, but not for strings and floats.
    OtherSpelling,
    No,
}

/// How strings are written in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Csv,
    Tsv,
    Json,
    /// An element of an array in CSV or TSV: strings in single quotes, numbers without.
    Quoted,
    /// A field of a packet of a database, as it is; NULL stands at 0.
    Packet,
}

/// Start and end of a value in the text, in bytes, quotes included; `(0, 0)` where the key is
/// missing.
pub type Span = (u32, u32);

/// Some neighbouring rows of the text: what the fields of all their columns have in common.
#[derive(Clone, Copy)]
pub struct RowBatch<'a> {
    pub text: &'a [u8],
    pub rows: usize,
    /// How many fields a row has.
    pub width: usize,
    /// Numbers of the rows in the order in which they are read; empty to read them as they come.
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

/// The fields of one column. Every position is inside the text, and 64 readable bytes follow it.
pub trait Fields<'a> {
    const SYNTAX: Syntax;
    /// The fields are elements of nested values.
    const ELEMENTS: bool = false;
    fn batch(&self) -> &RowBatch<'a>;
    fn batch_mut(&mut self) -> &mut RowBatch<'a>;
    /// Read the fields of another column from now on.
    fn select_column(&mut self, column: usize);
    /// Start and end of the `number`-th field that is read, quotes included.
    fn bounds(&self, number: usize) -> (usize, usize);
    /// Start and end of the content of the field `from..to`, without quotes.
    fn unquoted(&self, from: usize, to: usize) -> (usize, usize);
    /// How surely the field `from..to` means NULL.
    fn null_match(&self, from: usize, to: usize) -> NullMatch;
    /// For fields without quotes and CRs that are read in their order: an index, the entry before
    /// the first field, and the step to the next one. A field stands between two neighbouring
    /// entries.
    fn unquoted_index(&self) -> Option<(&'a [u32], usize, usize)> {
        None
    }
    /// The fields that stand so many field numbers to the right in each line; None but for CSV.
    fn fields_after(&self, _: usize) -> Option<DelimitedFields<'a, true>> {
        None
    }
    /// An upper bound for the bytes of all fields of the column together.
    fn text_bytes(&self) -> usize;
    /// Append the values of all fields where they are not text; None where they are. The error is
    /// the row of the first field that is declined.
    fn decode_binary(&self, _: &mut Column) -> Option<Result<(), usize>> {
        None
    }
}

/// The options of the spec that decide how fields are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    pub simd: Simd,
    /// NULL is written as nothing (otherwise as `\N`).
    pub null_is_empty: bool,
    /// Strings with blanks around them are declined, as the engine would cut them off.
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
    /// For each column, the number of its field in a line.
    pub field_numbers: &'a [usize],
    /// Lines end with CR LF.
    pub has_cr: bool,
    /// Some field is in quotes.
    pub has_quotes: bool,
    /// The number of the field that is read, and whether a CR may stand behind it.
    pub field_number: usize,
    pub cr: bool,
}

impl<const CSV: bool> DelimitedFields<'_, CSV> {
    /// Check once what [`Fields::bounds`] then relies on without checks.
    ///
    /// # Panics
    /// Panics where the index does not have the entries of these rows, or points beyond the text.
    pub fn check(&self) {
        assert_eq!(self.index.len(), self.batch.rows * self.batch.width + 1);
        let last = self.index[self.index.len() - 1] as usize;
        assert!(last + 64 <= self.batch.text.len(), "positions rise: the last is the greatest");
    }

    /// Read the fields with this number from now on, whether they belong to a column or not.
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
        // SAFETY: `delimited::decode`, which alone makes these, calls `check` first: the index
        // holds rows x width + 1 positions; row < rows (an order holds each row once) and
        // field_number < width, so at + 1 is one of them. Checked access costs 8 of 60 instructions a value.
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
        // The scan has made sure that a field which starts with a quote ends with another one; the
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
