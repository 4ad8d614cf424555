//! Writes parts column by column: where an input can give each of its columns as a whole (Parquet,
//! Arrow), a column is copied, put into the order of the key and written before the next one is looked
//! at. Then a block never is in memory, only its key and one column, which stays in the cache.
//!
//! 1 M rows of 105 columns in Parquet, four parts: 0.15 GB of memory are touched in place of 0.58.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;

use crate::block::Sorting;
use crate::column::Column;
use crate::column::keys::Keys;
use crate::columnar::{BatchError, BatchReader, Columns};
use crate::cpu_time;
use crate::output::Output;
use crate::progress::Progress;
use crate::spec::Input;
use crate::types::BaseType;

/// Bytes that sorting takes for each row besides the key: three numbers of 64 bits, and its place; and
/// for each column of the key a rank and a number.
const SORT_BYTES: (usize, usize) = (28, 12);

/// Rows of a column that are copied before its bytes are looked at.
const BATCH_ROWS: usize = 8192;
/// Rows of a piece at least for each of its columns: opening one looks at all of them (50 ns each), and
/// its values take as long from so many rows on.
const ROWS_PER_COLUMN: usize = 32;

/// The pieces of inputs that become the next part.
#[derive(Default)]
pub struct WholeColumns<'a> {
    pieces: Vec<Piece<'a>>,
    rows: usize,
    /// What the rows take in the engine's memory, about.
    bytes: usize,
    /// Bytes of memory that writing the part takes, besides what the pieces hold until then.
    needed: usize,
    /// Addresses and bytes of that.
    held: BTreeMap<usize, usize>,
    unread_bytes: u64,
    /// Stored bytes of the inputs that these rows are of, each by its share of the input's rows; None
    /// where that is not known of one.
    stored_bytes: Option<f64>,
    spare: Spare,
}

/// The memory that NULL marks, values and sizes of one column were in, for those of the next one.
type Spare = (Vec<u8>, Vec<u8>, Vec<u8>);

/// A piece of an input.
pub type Piece<'a> = (&'a Input, Box<dyn BatchReader>);

/// Why no part was written.
pub enum Failure<'a> {
    /// An input cannot be read.
    Input(&'a Input, BatchError),
    /// The part cannot be written.
    Output(io::Error),
}

/// What has become of pieces.
pub enum Outcome<'a> {
    /// They are written: so many rows.
    Written(usize),
    /// They have to be read in batches: the part would take too much memory, or its bytes are others
    /// than its files were begun for.
    Batches(Vec<Piece<'a>>),
}

/// Where a worker writes, and its memory for that.
pub struct Target<'t> {
    pub names: &'t [String],
    /// Empty columns, in the order of the names.
    pub columns: &'t mut [Column],
    pub sorting: &'t mut Sorting,
    pub output: &'t mut Output,
    pub progress: &'t Progress,
    /// Bytes of values in memory at most.
    pub memory: usize,
}

impl<'a> WholeColumns<'a> {
    /// True where a piece can be read so, and fits into the memory beside those that are there.
    pub fn fits(&self, piece: &dyn BatchReader, target: &Target<'_>) -> bool {
        let Some(found) = piece.columns() else { return false };
        // To open a column takes a look at all of them.
        let long_enough = found.rows() >= ROWS_PER_COLUMN * target.columns.len();
        let new: BTreeMap<usize, usize> = found
            .held()
            .into_iter()
            .filter(|(address, _)| !self.held.contains_key(address))
            .collect();
        let held = self.held.values().chain(new.values()).sum::<usize>();
        long_enough && self.needed + needed(found, target) + held <= target.memory
    }

    /// Add a piece of an input, which fits, to those that become the next part.
    pub fn add(&mut self, (input, piece): Piece<'a>, target: &Target<'_>) {
        let found = piece.columns().expect("it fits");
        self.rows += found.rows();
        self.bytes += sizes(found, target).sum::<usize>();
        self.needed += needed(found, target);
        self.held.extend(found.held());
        self.unread_bytes += found.unread_bytes();
        let of_input = input.bytes().zip(found.input_rows().filter(|&all| all > 0));
        let stored = of_input.map(|(bytes, all)| bytes as f64 / all as f64 * found.rows() as f64);
        let before = if self.pieces.is_empty() { Some(0.0) } else { self.stored_bytes };
        self.stored_bytes = before.zip(stored).map(|(before, more)| before + more);
        self.pieces.push((input, piece));
    }

    /// Stored bytes that are read when the part is written.
    pub fn unread_bytes(&self) -> u64 {
        self.unread_bytes
    }

    /// Rows of all inputs, whose stored bytes are given, by those that are held; None where nothing
    /// tells.
    pub fn rows_of_all(&self, stored_bytes: u64) -> Option<f64> {
        let bytes = self.stored_bytes.filter(|bytes| *bytes > 0.0)?;
        Some(stored_bytes as f64 / bytes * self.rows as f64)
    }

    /// Rows of all pieces, and the bytes of their part.
    pub fn size(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    /// Write the pieces as a part.
    pub fn write(&mut self, target: &mut Target<'_>) -> Result<Outcome<'a>, Failure<'a>> {
        let taken = std::mem::take(self);
        let WholeColumns { pieces, rows, bytes, held, mut spare, .. } = taken;
        if rows == 0 {
            return Ok(Outcome::Written(0));
        }
        let memory = target.memory.saturating_sub(held.values().sum());
        let written = write(&pieces, (rows, bytes), memory, target, &mut spare);
        self.spare = spare;
        for column in &mut *target.columns {
            column.clear();
            if !column.data_type.low_cardinality {
                column.keys = None;
            }
        }
        Ok(if written? { Outcome::Written(rows) } else { Outcome::Batches(pieces) })
    }
}

/// About how many bytes each column of a piece takes in the engine's memory.
fn sizes(piece: &dyn Columns, target: &Target<'_>) -> impl Iterator<Item = usize> {
    let columns = target.columns.iter().enumerate();
    columns.map(move |(number, column)| bytes_of(column, number, piece))
}

/// Bytes that sorting by so many columns takes for each row.
fn sort_bytes(keys: usize) -> usize {
    SORT_BYTES.0 + SORT_BYTES.1 * keys
}

/// Bytes of memory that a piece takes while it is written: its key, its longest column, what sorts it.
fn needed(piece: &dyn Columns, target: &Target<'_>) -> usize {
    let keys = target.sorting.keys();
    let (mut key, mut longest) = (0, 0);
    for (number, bytes) in sizes(piece, target).enumerate() {
        key += if keys.contains(&number) { bytes } else { 0 };
        longest = longest.max(bytes);
    }
    key + longest + sort_bytes(keys.len()) * piece.rows()
}

/// About how many bytes a column takes in the engine's memory.
fn bytes_of(column: &Column, number: usize, piece: &dyn Columns) -> usize {
    let fixed = column.data_type.row_bytes() * piece.rows();
    match column.data_type.width() {
        0 => fixed + piece.bytes_of(number),
        _ => fixed,
    }
}

/// Write a part of so many rows and about so many bytes; false where that takes more than `memory`
/// bytes, or the bytes are others.
fn write<'a>(
    pieces: &[Piece<'a>],
    (rows, bytes): (usize, usize),
    memory: usize,
    target: &mut Target<'_>,
    spare: &mut Spare,
) -> Result<bool, Failure<'a>> {
    let Target { names, columns, sorting, output, progress, .. } = target;
    // Each once, whatever the key says.
    let keys: BTreeSet<usize> = sorting.keys().iter().copied().collect();
    let mut room = memory;
    for (number, column) in columns.iter_mut().enumerate() {
        number_strings(column, number, pieces);
    }
    for &key in &keys {
        if !fill(&mut columns[key], key, pieces, room)? {
            return Ok(false);
        }
        room = room.saturating_sub(columns[key].bytes());
    }
    room = room.saturating_sub(sort_bytes(keys.len()) * rows);
    let order = sorting.sort(columns, rows);
    let mut began = cpu_time::thread_nanoseconds();
    let mut spent = 0;
    let Some(mut part) = output.begin_part(rows, bytes, order).map_err(Failure::Output)? else {
        return Ok(false);
    };
    let done = |columns: usize| (rows * columns / names.len()) as u64;
    for (number, name) in names.iter().enumerate() {
        let column = &mut columns[number];
        let is_key = keys.contains(&number);
        spent += cpu_time::thread_nanoseconds() - began;
        if !is_key {
            (column.nulls, column.data, column.sizes) = std::mem::take(spare);
        }
        let fits = is_key || fill(column, number, pieces, room)?;
        began = cpu_time::thread_nanoseconds();
        if fits {
            part.column(name, column).map_err(Failure::Output)?;
        }
        if !is_key {
            column.clear();
            // Those of elements are not for others.
            column.children = Column::like(column).children;
            let Column { nulls, data, sizes, .. } = column;
            *spare = (std::mem::take(nulls), std::mem::take(data), std::mem::take(sizes));
        }
        let last = number + 1 == names.len();
        let as_begun = fits && !part.is_outgrown() && (!last || part.is_as_begun());
        if !as_begun {
            progress.decoded_rows.fetch_sub(done(number), Ordering::Relaxed);
            part.abandon().map_err(Failure::Output)?;
            return Ok(false);
        }
        progress.decoded_rows.fetch_add(done(number + 1) - done(number), Ordering::Relaxed);
    }
    part.end(columns).map_err(Failure::Output)?;
    spent += cpu_time::thread_nanoseconds() - began;
    progress.part_nanoseconds.fetch_add(spent, Ordering::Relaxed);
    Ok(true)
}

/// Let a column of strings have their numbers only, where all pieces have a dictionary of them.
fn number_strings(column: &mut Column, number: usize, pieces: &[Piece<'_>]) {
    if column.data_type.base != BaseType::String || column.data_type.low_cardinality {
        return;
    }
    let has = |(_, piece): &Piece<'_>| {
        piece.columns().is_some_and(|columns| columns.has_dictionary(number))
    };
    match (pieces.iter().all(has), &column.keys) {
        (true, None) => column.keys = Some(Keys::default()),
        (false, Some(_)) => column.keys = None,
        _ => {}
    }
}

/// Append the values of a column of all pieces; false where they take more than `room` bytes.
fn fill<'a>(
    column: &mut Column,
    number: usize,
    pieces: &[Piece<'a>],
    room: usize,
) -> Result<bool, Failure<'a>> {
    for (input, piece) in pieces {
        let failed = |error| Failure::Input(input, error);
        let mut alone = piece.columns().expect("no batch of it was read").column(number);
        while let Some(mut batch) = alone.next_batch().map_err(failed)? {
            for from in (0..batch.rows()).step_by(BATCH_ROWS) {
                let rows = (from, batch.rows().min(from + BATCH_ROWS));
                let appended = batch.append(0, rows, column);
                appended.map_err(|what| failed(BatchError::Declined(Some(number), what)))?;
                if column.bytes() > room {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}
