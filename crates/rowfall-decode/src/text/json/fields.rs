//! Presents the values of JSON objects as the fields of a column.

use crate::text::fields::{Fields, NullMatch, RowBatch, Span, Syntax};

/// The values of one key, found by `objects.rs`.
pub struct ObjectFields<'a> {
    pub batch: RowBatch<'a>,
    pub spans: &'a [Span],
    pub column: usize,
}

impl<'a> Fields<'a> for ObjectFields<'a> {
    const SYNTAX: Syntax = Syntax::Json;

    #[inline(always)]
    fn batch(&self) -> &RowBatch<'a> {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut RowBatch<'a> {
        &mut self.batch
    }

    fn select_column(&mut self, column: usize) {
        self.column = column;
    }

    #[inline(always)]
    fn bounds(&self, number: usize) -> (usize, usize) {
        let (start, end) = self.spans[self.batch.row(number) * self.batch.width + self.column];
        (start as usize, end as usize)
    }

    #[inline(always)]
    fn unquoted(&self, from: usize, to: usize) -> (usize, usize) {
        // A missing value is at 0, where no text ever is.
        let quoted = usize::from(self.batch.text[from] == b'"' && from > 0);
        (from + quoted, to - quoted)
    }

    fn null_match(&self, from: usize, to: usize) -> NullMatch {
        let missing = from == 0 || &self.batch.text[from..to] == b"null";
        if missing { NullMatch::Yes } else { NullMatch::No }
    }

    fn text_bytes(&self) -> usize {
        let mine = self.spans.iter().skip(self.column).step_by(self.batch.width);
        mine.map(|s| (s.1 - s.0) as usize).sum()
    }
}
