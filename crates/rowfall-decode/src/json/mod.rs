//! JSONEachRow: the values of each object are found by its keys, then each column is decoded by itself.

mod keys;
mod value;

use crate::block::{self, Bad, Sorting};
use crate::cells::{Cells, Column, Null, Page, Rules, Style};

pub use keys::{Keys, Rows};
pub use value::value;

/// Where a value stands: start and end, quotes included; `(0, 0)` where the key is missing.
pub type Span = (u32, u32);

/// Append `count` rows from row `first` on to the columns, or say which value is the first bad one.
pub fn decode(
    columns: &mut [Column],
    rows: &Rows,
    text: &[u8],
    rules: &Rules,
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), Bad> {
    let width = columns.len();
    let page =
        Page { text, rows: count, width, order: &[], escapes: rows.escapes, broken: false, rules };
    let spans = &rows.spans[first * width..(first + count) * width];
    block::decode(columns, &mut Objects { page, spans, column: 0 }, sorting)
}

/// The values of one column.
struct Objects<'a> {
    page: Page<'a>,
    spans: &'a [Span],
    column: usize,
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
