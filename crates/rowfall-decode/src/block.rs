//! Builds blocks: decodes batches of rows into columns, one column after the other, and sorts the
//! rows by the table's key. Finding rows is left to `text`, writing blocks to `output`.

use crate::column::reorder::{RowSelection, append_rows, gather};
use crate::column::{Column, ColumnEnd, Values};
use crate::columnar::Batch;
use crate::packets::{LocatedRows, Wire};
use crate::sort::counting::can_scatter;
use crate::sort::{SortOrder, Sorter};
use crate::text::fields::{DelimitedFields, Fields, ReadOptions, RowBatch};
use crate::text::json::fields::ObjectFields;
use crate::text::json::objects;
use crate::text::layout::Layout;
use crate::text::scan::Scan;
use crate::types::BaseType;
use crate::values::{self, PacketFields};

/// A value that is declined, and where it stands in the text, quotes included.
pub struct BadValue {
    /// Row of the batch, from 0 on.
    pub row: usize,
    /// Index of the column; None for a field that belongs to no column.
    pub column: Option<usize>,
    pub start: usize,
    pub end: usize,
}

/// The way in which blocks are sorted, and the memory for it.
#[derive(Default)]
pub struct Sorting {
    /// Indices of the key's columns; none to leave the rows as they come.
    keys: Vec<usize>,
    /// Sort the rows of each batch before their other columns are decoded.
    sort_batches: bool,
    /// All columns can be reordered by the counting sort, where the key has few values.
    may_count: bool,
    sorter: Sorter,
    scratch: Vec<u8>,
    /// The columns of a batch before its rows are sorted.
    batch: Vec<Column>,
}

/// Columns beside the key from which on rows are sorted twice: each batch, then the block. The order
/// of a whole block jumps over all of it; where each batch is in order already, it follows some
/// thousand positions that move on slowly and stay in the cache. Taxi (51 columns): 0.5 CPU-seconds
/// for 2 million rows, 0.9 with one sort only. Sorting twice costs more than that where a row has few
/// values: trips (3 columns) 0.8 CPU-seconds, 1.15 with it.
const MANY_COLUMNS: usize = 8;

impl Sorting {
    /// Choose the way for blocks of these columns, with values of the key behind them that are there
    /// for whole blocks only.
    pub fn new(keys: &[usize], columns: &mut [Column], key_values: &[Column]) -> Sorting {
        let sort_batches =
            !keys.is_empty() && key_values.is_empty() && columns.len() >= keys.len() + MANY_COLUMNS;
        for (number, column) in columns.iter_mut().enumerate() {
            keep_sizes(column, sort_batches && !keys.contains(&number));
        }
        let mut all = columns.iter().chain(key_values);
        let may_count = !sort_batches && all.all(|column| can_scatter(column.width()));
        Sorting { keys: keys.to_vec(), sort_batches, may_count, ..Sorting::default() }
    }

    /// True where [`Self::sort`] looks at the columns of the key only and moves none: each other one may
    /// then be put into the order later.
    pub fn moves_none(&self) -> bool {
        self.keys.is_empty() || self.sort_batches
    }

    /// The columns of the key.
    pub fn keys(&self) -> &[usize] {
        &self.keys
    }

    /// Sort a block: the numbers of its rows in their order, or None where the columns are in order
    /// already or were brought into it.
    pub fn sort(&mut self, columns: &mut [Column], rows: usize) -> Option<&[u32]> {
        if self.keys.is_empty() {
            return None;
        }
        let keys: Vec<Values<'_>> = self.keys.iter().map(|&k| columns[k].values()).collect();
        match self.sorter.sort(&keys, rows, self.may_count) {
            SortOrder::Sorted => None,
            SortOrder::Rows(order) => Some(order),
            SortOrder::Counted(counting) => {
                for (number, column) in columns.iter_mut().enumerate() {
                    counting.reorder(column, self.keys.contains(&number), &mut self.scratch);
                }
                None
            }
        }
    }
}

/// Let columns of strings keep the sizes of their values where the rows will be reordered.
fn keep_sizes(column: &mut Column, gathered: bool) {
    column.keeps_sizes =
        gathered && column.data_type.base == BaseType::String && !column.data_type.low_cardinality;
    column.children.iter_mut().for_each(|child| keep_sizes(child, gathered));
}

/// A text, where its fields are, and how to read them.
pub struct ScannedText<'a> {
    pub text: &'a [u8],
    pub scan: &'a Scan,
    pub options: &'a ReadOptions,
}

/// Append `count` rows of CSV or TSV, from row `first` on, to the columns, or return the first
/// value that is declined.
pub fn decode_delimited<const CSV: bool>(
    columns: &mut [Column],
    layout: &Layout,
    source: &ScannedText<'_>,
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), BadValue> {
    let mut fields = DelimitedFields::<CSV> {
        batch: RowBatch {
            text: source.text,
            rows: count,
            width: layout.width,
            order: &[],
            escapes: source.scan.escapes,
            has_line_breaks: source.scan.has_line_breaks,
            options: source.options,
        },
        index: &source.scan.index[first * layout.width..=(first + count) * layout.width],
        field_numbers: &layout.field_numbers,
        has_cr: source.scan.has_cr,
        has_quotes: source.scan.has_quotes,
        field_number: 0,
        cr: false,
    };
    fields.check();
    let decoded = decode(columns, &mut fields, sorting);
    if CSV || !source.scan.escapes {
        return decoded;
    }
    let mut bad = decoded.err();
    for &field_number in &layout.skipped {
        fields.select_field(field_number);
        let rows = bad.as_ref().map_or(count, |bad| bad.row);
        if let Some(row) = (0..rows).find(|&row| dangling(&fields, row)) {
            let (start, end) = fields.bounds(row);
            bad = Some(BadValue { row, column: None, start, end });
        }
    }
    bad.map_or(Ok(()), Err)
}

/// True for a field of TSV that ends with an odd number of backslashes: the last one would take the
/// delimiter with it.
fn dangling<const CSV: bool>(fields: &DelimitedFields<'_, CSV>, row: usize) -> bool {
    let (start, end) = fields.bounds(row);
    fields.batch.text[start..end].iter().rev().take_while(|c| **c == b'\\').count() % 2 == 1
}

/// Append `count` rows of JSON, from row `first` on, to the columns, or return the first value that
/// is declined.
pub fn decode_objects(
    columns: &mut [Column],
    rows: &objects::ObjectRows,
    text: &[u8],
    options: &ReadOptions,
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), BadValue> {
    let width = columns.len();
    let batch = RowBatch {
        text,
        rows: count,
        width,
        order: &[],
        escapes: rows.escapes,
        has_line_breaks: false,
        options,
    };
    let spans = &rows.spans[first * width..(first + count) * width];
    decode(columns, &mut ObjectFields { batch, spans, column: 0 }, sorting)
}

/// Append `count` rows of packets, from row `first` on, to the columns, or return the first value
/// that is declined.
pub fn decode_packets(
    columns: &mut [Column],
    located: &LocatedRows,
    wires: &[Wire],
    field_numbers: &[usize],
    (text, options): (&[u8], &ReadOptions),
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), BadValue> {
    let batch = RowBatch {
        text,
        rows: count,
        width: wires.len(),
        order: &[],
        escapes: false,
        has_line_breaks: false,
        options,
    };
    let (spans, rows, field_number) = (&located.spans[..], located.count, 0);
    let mut fields = PacketFields { batch, spans, rows, first, wires, field_numbers, field_number };
    decode(columns, &mut fields, sorting)
}

/// Append the rows `from..to` of a batch to all columns; the error is the number of a column, and
/// what is wrong with a value of it.
pub fn append_batch(
    columns: &mut [Column],
    batch: &mut dyn Batch,
    rows: (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), (usize, String)> {
    let Sorting { keys, sort_batches, sorter, batch: unsorted, .. } = sorting;
    if !*sort_batches {
        let mut columns = columns.iter_mut().enumerate();
        return columns.try_for_each(|(number, column)| {
            batch.append(number, rows, column).map_err(|what| (number, what))
        });
    }
    if unsorted.is_empty() {
        unsorted.extend(columns.iter().map(Column::like));
    }
    for (number, column) in unsorted.iter_mut().enumerate().filter(|(n, _)| keys.contains(n)) {
        append_unsorted(batch, number, rows, &mut columns[number], column)?;
    }
    let values: Vec<Values<'_>> = keys.iter().map(|&key| unsorted[key].values()).collect();
    let count = rows.1 - rows.0;
    let order = match sorter.sort(&values, count, false) {
        SortOrder::Rows(order) => Some(order),
        _ => None,
    };
    for (number, (column, from)) in columns.iter_mut().zip(unsorted).enumerate() {
        let is_key = keys.contains(&number);
        let appended = match order {
            _ if is_key => None,
            None => Some(batch.append(number, rows, column)),
            Some(order) => batch.append_in_order(number, rows.0, order, column),
        };
        if let Some(appended) = appended {
            appended.map_err(|what| (number, what))?;
            continue;
        }
        if !is_key {
            append_unsorted(batch, number, rows, column, from)?;
        }
        append_rows(
            column,
            from,
            count,
            order.map_or(RowSelection::Range(0, count), RowSelection::Order),
        );
        column.keys = from.keys.take();
    }
    Ok(())
}

/// Append rows of a batch to a column that is apart from that of the block. Numbers of strings are
/// those of the block's keys.
fn append_unsorted(
    batch: &mut dyn Batch,
    number: usize,
    rows: (usize, usize),
    block: &mut Column,
    column: &mut Column,
) -> Result<(), (usize, String)> {
    column.clear();
    column.keys = block.keys.take();
    batch.append(number, rows, column).map_err(|what| (number, what))
}

/// Append a batch of rows to all columns, or return the first value that is declined.
fn decode<'a, C: Fields<'a>>(
    columns: &mut [Column],
    fields: &mut C,
    sorting: &'a mut Sorting,
) -> Result<(), BadValue> {
    if sorting.sort_batches {
        let ends: Vec<_> = columns.iter().map(Column::end).collect();
        if decode_sorted(columns, fields, sorting, &ends).is_some() {
            return Ok(());
        }
        // The first bad value is the first one in the order of the file: decode again in that order.
        columns.iter_mut().zip(ends).for_each(|(column, end)| column.truncate(&end));
        fields.batch_mut().order = &[];
    }
    let mut bad = None;
    for (number, column) in columns.iter_mut().enumerate() {
        fields.select_column(number);
        if let Err(row) = values::decode(column, fields) {
            let (start, end) = fields.bounds(row);
            bad = Some(BadValue { row, column: Some(number), start, end });
            // Only an earlier row matters now.
            fields.batch_mut().rows = row;
        }
    }
    bad.map_or(Ok(()), Err)
}

/// Decode the key columns, sort the rows, decode the others in that order; None for a bad value.
fn decode_sorted<'a, C: Fields<'a>>(
    columns: &mut [Column],
    fields: &mut C,
    sorting: &'a mut Sorting,
    ends: &[ColumnEnd],
) -> Option<()> {
    for &key in &sorting.keys {
        fields.select_column(key);
        values::decode(&mut columns[key], fields).ok()?;
    }
    let keys: Vec<Values<'_>> =
        sorting.keys.iter().map(|&k| columns[k].values_from(&ends[k])).collect();
    if let SortOrder::Rows(order) = sorting.sorter.sort(&keys, fields.batch().rows, false) {
        for &key in &sorting.keys {
            let scratch = &mut sorting.scratch;
            scratch.clear();
            gather(columns[key].values_from(&ends[key]), order, scratch).expect("memory takes all");
            columns[key].truncate(&ends[key]);
            let nulls = if columns[key].data_type.nullable { order.len() } else { 0 };
            columns[key].nulls.extend_from_slice(&scratch[..nulls]);
            columns[key].data.extend_from_slice(&scratch[nulls..]);
        }
        fields.batch_mut().order = order;
    }
    for (number, column) in columns.iter_mut().enumerate() {
        if !sorting.keys.contains(&number) {
            fields.select_column(number);
            values::decode(column, fields).ok()?;
        }
    }
    Some(())
}
