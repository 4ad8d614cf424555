//! Checks the rows of CSV and TSV as a whole: as many fields as the file has columns, no stray
//! quotes.

use crate::text::scan::Scan;

/// A row that is declined as a whole.
pub struct BadRow {
    /// Position of the row's first byte in the text.
    pub at: usize,
    pub message: String,
}

/// Count the rows, from the first one, that are whole and have `width` fields; and say what is
/// wrong with the row behind them, if anything is.
pub fn check_rows(text: &[u8], scan: &Scan, width: usize) -> (usize, Option<BadRow>) {
    let index = &scan.index[..];
    let mut rows = scan.lines;
    let fits =
        (1..=rows).all(|r| index.get(r * width).is_some_and(|&at| text[at as usize] == b'\n'));
    let mut bad_row = None;
    // Every width-th byte of the index is a line end, and there are no others.
    let empty = |r: usize| width == 1 && line_is_empty(text, index[r], index[r + 1]);
    if !fits || (width == 1 && (0..rows).any(empty)) {
        (rows, bad_row) = count_rows(text, scan, width);
    }
    if let Some(bad) = scan.first_bad {
        let before = index.iter().take_while(|&&at| (at as usize) < bad).count();
        let row = (before.max(1) - 1) / width;
        if row < rows || (row == rows && bad_row.is_none()) {
            let message = "a quote or a carriage return stands where none belongs".to_owned();
            rows = row.min(rows);
            bad_row = Some(BadRow { at: index[rows * width] as usize + 1, message });
        }
    }
    (rows, bad_row)
}

/// Check that nothing stands behind the last delimiter of each row; the first row where something
/// does is bad.
pub fn check_trailing(
    text: &[u8],
    scan: &Scan,
    width: usize,
    rows: usize,
) -> (usize, Option<BadRow>) {
    let index = &scan.index[..];
    let open = |row: usize| {
        let end = (row + 1) * width;
        !line_is_empty(text, index[end - 1], index[end])
    };
    match (0..rows).find(|&row| open(row)) {
        Some(row) => {
            let message = "text behind the delimiter at the end of the row".to_owned();
            (row, Some(BadRow { at: index[row * width] as usize + 1, message }))
        }
        None => (rows, None),
    }
}

fn line_is_empty(text: &[u8], before: u32, end: u32) -> bool {
    matches!(&text[before as usize + 1..end as usize], b"" | b"\r")
}

/// Go through the rows one by one up to the first empty one or with another number of fields.
fn count_rows(text: &[u8], scan: &Scan, width: usize) -> (usize, Option<BadRow>) {
    let index = &scan.index[..];
    let (mut rows, mut first) = (0, 0);
    for (n, &at) in index.iter().enumerate().skip(1) {
        if text[at as usize] != b'\n' {
            continue;
        }
        let fields = n - first;
        let empty = fields == 1 && line_is_empty(text, index[first], at);
        if fields != width || empty {
            let message = match fields {
                _ if empty => "an empty line".to_owned(),
                1 => format!("1 value where {width} are expected"),
                _ => format!("{fields} values where {width} are expected"),
            };
            return (rows, Some(BadRow { at: index[first] as usize + 1, message }));
        }
        rows += 1;
        first = n;
    }
    (rows, None)
}
