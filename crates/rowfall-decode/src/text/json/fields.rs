//! The values of JSON objects as the fields of a column.

use crate::text::fields::{Cells, Null, Page, Span, Style};

/// The values of one column.
pub struct Objects<'a> {
    pub page: Page<'a>,
    pub spans: &'a [Span],
    pub column: usize,
}

impl<'a> Cells<'a> for Objects<'a> {
    const STYLE: Style = Style::Json;

    #[inline(always)]
    fn page(&self) -> &Page<'a> {
        &self.page
    }

    fn page_mut(&mut self) -> &mut Page<'a> {
        &mut self.page
    }

    fn choose(&mut self, column: usize) {
        self.column = column;
    }

    #[inline(always)]
    fn get(&self, number: usize) -> (usize, usize) {
        let (start, end) = self.spans[self.page.row(number) * self.page.width + self.column];
        (start as usize, end as usize)
    }

    #[inline(always)]
    fn unquote(&self, from: usize, to: usize) -> (usize, usize) {
        // A missing value is at 0, where no text ever is.
        let quoted = usize::from(self.page.text[from] == b'"' && from > 0);
        (from + quoted, to - quoted)
    }

    fn null(&self, from: usize, to: usize) -> Null {
        let missing = from == 0 || &self.page.text[from..to] == b"null";
        if missing { Null::Yes } else { Null::No }
    }

    fn span(&self) -> usize {
        let mine = self.spans.iter().skip(self.column).step_by(self.page.width);
        mine.map(|s| (s.1 - s.0) as usize).sum()
    }
}
