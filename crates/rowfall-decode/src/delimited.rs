//! CSV and TSV: rows of the index are checked, then each column is decoded by itself.

use crate::block::{self, Bad, Sorting};
use crate::cells::{Cells, Column, Delimited, Page, Rules};
use crate::scan::Scan;

/// Where the columns stand in the lines of a file.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns in the file.
    pub width: usize,
    /// For each wanted column its place in the file.
    pub places: Vec<usize>,
    /// The places that nobody wants.
    pub skipped: Vec<usize>,
}

impl Layout {
    pub fn new(width: usize, places: Vec<usize>) -> Layout {
        let skipped = (0..width).filter(|n| !places.contains(n)).collect();
        Layout { width, places, skipped }
    }
}

/// Something wrong with a row as a whole.
pub struct Problem {
    /// Where the row starts.
    pub at: usize,
    pub message: String,
}

/// How many rows, from the first one, are whole and clean, and what is wrong with the next one.
pub fn rows(text: &[u8], scan: &Scan, width: usize) -> (usize, Option<Problem>) {
    let index = &scan.index[..];
    let mut rows = scan.lines;
    let fits =
        (1..=rows).all(|r| index.get(r * width).is_some_and(|&at| text[at as usize] == b'\n'));
    let mut problem = None;
    // Every width-th byte of the index is a line end, and there are no others.
    let empty = |r: usize| width == 1 && line_is_empty(text, index[r], index[r + 1]);
    if !fits || (width == 1 && (0..rows).any(empty)) {
        (rows, problem) = count(text, scan, width);
    }
    if let Some(bad) = scan.bad {
        let before = index.iter().take_while(|&&at| (at as usize) < bad).count();
        let row = (before.max(1) - 1) / width;
        if row < rows || (row == rows && problem.is_none()) {
            let message = "a quote or a carriage return stands where none belongs".to_owned();
            rows = row.min(rows);
            problem = Some(Problem { at: index[rows * width] as usize + 1, message });
        }
    }
    (rows, problem)
}

fn line_is_empty(text: &[u8], before: u32, end: u32) -> bool {
    matches!(&text[before as usize + 1..end as usize], b"" | b"\r")
}

/// Go through the rows one by one up to the first with another number of cells.
fn count(text: &[u8], scan: &Scan, width: usize) -> (usize, Option<Problem>) {
    let index = &scan.index[..];
    let (mut rows, mut first) = (0, 0);
    for (n, &at) in index.iter().enumerate().skip(1) {
        if text[at as usize] != b'\n' {
            continue;
        }
        let cells = n - first;
        let empty = cells == 1 && line_is_empty(text, index[first], at);
        if cells != width || empty {
            let message = match cells {
                _ if empty => "an empty line".to_owned(),
                1 => format!("1 value where {width} are expected"),
                _ => format!("{cells} values where {width} are expected"),
            };
            return (rows, Some(Problem { at: index[first] as usize + 1, message }));
        }
        rows += 1;
        first = n;
    }
    (rows, None)
}

/// What decoding needs besides the index.
pub struct Text<'a> {
    pub text: &'a [u8],
    pub scan: &'a Scan,
    pub rules: &'a Rules,
}

/// Append `count` rows from row `first` on to the columns, or say which value is the first bad one.
pub fn decode<const CSV: bool>(
    columns: &mut [Column],
    layout: &Layout,
    source: &Text<'_>,
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), Bad> {
    let mut cells = Delimited::<CSV> {
        page: Page {
            text: source.text,
            rows: count,
            width: layout.width,
            order: &[],
            escapes: source.scan.escapes,
            broken: source.scan.broken,
            rules: source.rules,
        },
        index: &source.scan.index[first * layout.width..=(first + count) * layout.width],
        places: &layout.places,
        crlf: source.scan.cr,
        quotes: source.scan.quotes,
        place: 0,
        cr: false,
    };
    cells.check();
    let decoded = block::decode(columns, &mut cells, sorting);
    if CSV || !source.scan.escapes {
        return decoded;
    }
    let mut bad = decoded.err();
    for &place in &layout.skipped {
        cells.turn(place);
        let rows = bad.as_ref().map_or(count, |bad| bad.row);
        if let Some(row) = (0..rows).find(|&row| dangling(&cells, row)) {
            let (start, end) = cells.get(row);
            bad = Some(Bad { row, column: None, start, end });
        }
    }
    bad.map_or(Ok(()), Err)
}

/// A cell of TSV whose last backslash would take the delimiter with it.
fn dangling<const CSV: bool>(cells: &Delimited<'_, CSV>, row: usize) -> bool {
    let (start, end) = cells.get(row);
    cells.page.text[start..end].iter().rev().take_while(|c| **c == b'\\').count() % 2 == 1
}
