//! Rows into columns: one column after the other, in the order of the table's key or of the file.

use crate::column::reorder::gather;
use crate::column::{Column, End, Values};
use crate::sort::counting::scatters;
use crate::sort::{Order, Sorter};
use crate::text::fields::{Cells, Delimited, Page, Rules};
use crate::text::json::fields::Objects;
use crate::text::json::objects;
use crate::text::layout::Layout;
use crate::text::scan::Scan;
use crate::types::Base;
use crate::values;

/// A value that is declined: where it stands, quotes included.
pub struct Bad {
    pub row: usize,
    /// Index of the column; None where it is one that nobody wants.
    pub column: Option<usize>,
    pub start: usize,
    pub end: usize,
}

/// How blocks are sorted before they are sent, and the memory for it.
#[derive(Default)]
pub struct Sorting {
    /// Columns of the table's key; none to leave the rows as they come.
    keys: Vec<usize>,
    /// Sort the rows of each window before their other columns are decoded.
    early: bool,
    /// All columns can be put in place where the key has few values.
    few: bool,
    sorter: Sorter,
    scratch: Vec<u8>,
}

/// Columns beside the key from which on rows are sorted twice. The order of a block jumps over all
/// of it; where each window is in order already, it follows some thousand places that move on
/// slowly and stay in the cache. Taxi (51 columns): 0.5 CPU-seconds for
/// 2 million rows, 0.9 with one sort only. Sorting twice costs more than
/// that where a row has few values: trips (3 columns) 0.8 CPU-seconds, 1.15 with it.
const EARLY: usize = 8;

impl Sorting {
    pub fn new(keys: &[usize], columns: &mut [Column]) -> Sorting {
        let early = !keys.is_empty() && columns.len() >= keys.len() + EARLY;
        for (number, column) in columns.iter_mut().enumerate() {
            keep_sizes(column, early && !keys.contains(&number));
        }
        let few = !early && columns.iter().all(|c| scatters(c.kind.width()));
        Sorting { keys: keys.to_vec(), early, few, ..Sorting::default() }
    }

    /// The numbers of a block's rows in their order; None where they are in it, by now or already.
    pub fn sort(&mut self, columns: &mut [Column], rows: usize) -> Option<&[u32]> {
        if self.keys.is_empty() {
            return None;
        }
        let keys: Vec<Values<'_>> = self.keys.iter().map(|&k| columns[k].values()).collect();
        match self.sorter.sort(&keys, rows, self.few) {
            Order::Sorted => None,
            Order::Rows(order) => Some(order),
            Order::Few(few) => {
                for (number, column) in columns.iter_mut().enumerate() {
                    few.place(column, self.keys.contains(&number), &mut self.scratch);
                }
                None
            }
        }
    }
}

/// Have strings that will be gathered keep their sizes.
fn keep_sizes(column: &mut Column, gathered: bool) {
    column.keeps_sizes = gathered && column.kind.base == Base::String && !column.kind.low;
    column.parts.iter_mut().for_each(|part| keep_sizes(part, gathered));
}

/// What decoding needs besides the index.
pub struct Text<'a> {
    pub text: &'a [u8],
    pub scan: &'a Scan,
    pub rules: &'a Rules,
}

/// Append `count` rows from row `first` on to the columns, or say which value is the first bad one.
pub fn decode_delimited<const CSV: bool>(
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
    let decoded = decode(columns, &mut cells, sorting);
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

/// Append `count` rows from row `first` on to the columns, or say which value is the first bad one.
pub fn decode_objects(
    columns: &mut [Column],
    rows: &objects::Rows,
    text: &[u8],
    rules: &Rules,
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), Bad> {
    let width = columns.len();
    let page =
        Page { text, rows: count, width, order: &[], escapes: rows.escapes, broken: false, rules };
    let spans = &rows.spans[first * width..(first + count) * width];
    decode(columns, &mut Objects { page, spans, column: 0 }, sorting)
}

/// Append rows to all columns, or say which value is the first bad one.
fn decode<'a, C: Cells<'a>>(
    columns: &mut [Column],
    cells: &mut C,
    sorting: &'a mut Sorting,
) -> Result<(), Bad> {
    if sorting.early {
        let ends: Vec<_> = columns.iter().map(Column::end).collect();
        if in_order(columns, cells, sorting, &ends).is_some() {
            return Ok(());
        }
        // The first bad value is the first one of the file: look for it there.
        columns.iter_mut().zip(ends).for_each(|(column, end)| column.truncate(&end));
        cells.page_mut().order = &[];
    }
    let mut bad = None;
    for (number, column) in columns.iter_mut().enumerate() {
        cells.choose(number);
        if let Err(row) = values::decode(column, cells) {
            let (start, end) = cells.get(row);
            bad = Some(Bad { row, column: Some(number), start, end });
            // Only an earlier row matters now.
            cells.page_mut().rows = row;
        }
    }
    bad.map_or(Ok(()), Err)
}

/// Decode the key columns, sort the rows, decode the others in that order; None for a bad value.
fn in_order<'a, C: Cells<'a>>(
    columns: &mut [Column],
    cells: &mut C,
    sorting: &'a mut Sorting,
    ends: &[End],
) -> Option<()> {
    for &key in &sorting.keys {
        cells.choose(key);
        values::decode(&mut columns[key], cells).ok()?;
    }
    let keys: Vec<Values<'_>> = sorting.keys.iter().map(|&k| columns[k].from(&ends[k])).collect();
    if let Order::Rows(order) = sorting.sorter.sort(&keys, cells.page().rows, false) {
        for &key in &sorting.keys {
            let scratch = &mut sorting.scratch;
            scratch.clear();
            gather(columns[key].from(&ends[key]), order, scratch).expect("memory takes all");
            columns[key].truncate(&ends[key]);
            let nulls = if columns[key].kind.nullable { order.len() } else { 0 };
            columns[key].nulls.extend_from_slice(&scratch[..nulls]);
            columns[key].data.extend_from_slice(&scratch[nulls..]);
        }
        cells.page_mut().order = order;
    }
    for (number, column) in columns.iter_mut().enumerate() {
        if !sorting.keys.contains(&number) {
            cells.choose(number);
            values::decode(column, cells).ok()?;
        }
    }
    Some(())
}
