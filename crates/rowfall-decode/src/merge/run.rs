//! Holds the sorted rows of a block, in memory or in the scratch file, and reads them column by column
//! from the first row to the last.

use std::io;

use crate::column::Column;
use crate::column::reorder::{RowSelection, append_rows};
use crate::column::strings::read_varint;
use crate::merge::scratch::{Place, Scratch};
use crate::output::low_cardinality::keys_of;
use crate::output::{Counts, MAX_SHARED_KEYS, bytes_between};
use crate::sort::keys::{KeyRange, key_range};
use crate::types::BaseType;

/// Bytes of a piece of a column in the scratch file, about: hundreds of runs have one of each in memory.
pub const PIECE_BYTES: usize = 128 << 10;

/// The rows of a block in their order.
pub struct Run {
    pub rows: usize,
    /// About how many bytes they take in the engine's memory.
    pub engine_bytes: usize,
    /// How many values of each column are defaults.
    pub counts: Vec<Counts>,
    /// The keys of LowCardinality columns, each behind its length; None of others, and of too many.
    pub dictionaries: Vec<Option<Vec<u8>>>,
    /// The range of each column of the key; None of types wider than 64 bits.
    pub ranges: Vec<Option<KeyRange>>,
    /// How many rows, about, have a piece of each column of the key: at least one.
    pub key_rows: usize,
    columns: Vec<Stored>,
}

enum Stored {
    Memory(Box<Column>),
    /// Pieces, with their rows.
    Scratch(Vec<(usize, Place)>),
}

impl Run {
    /// Copy the rows of a block in an `order`, into memory or, where it is given, the scratch file.
    /// `named` columns are those of the table, behind which are others of the key.
    pub fn new(
        columns: &[Column],
        (rows, named): (usize, usize),
        order: Option<&[u32]>,
        keys: &[usize],
        scratch: Option<&Scratch>,
    ) -> io::Result<Run> {
        let of_key = |key: &usize| key_range(&columns[*key].values());
        let key_bytes = keys.iter().map(|key| columns[*key].bytes()).max().unwrap_or(0).max(1);
        let mut run = Run {
            rows,
            engine_bytes: columns[..named].iter().map(|c| bytes_between(c, rows).1).sum(),
            counts: columns.iter().map(|column| Counts::of(column, rows)).collect(),
            dictionaries: columns.iter().map(dictionary).collect(),
            ranges: keys.iter().map(of_key).collect(),
            key_rows: (rows.saturating_mul(PIECE_BYTES) / key_bytes).max(1),
            columns: Vec::with_capacity(columns.len()),
        };
        for column in columns {
            let mut own = Column::like(column);
            reserve(&mut own, column);
            let all = order.map_or(RowSelection::Range(0, rows), RowSelection::Order);
            append_rows(&mut own, column, rows, all);
            run.columns.push(match scratch {
                None => Stored::Memory(Box::new(own)),
                Some(scratch) => Stored::Scratch(put(&own, rows, scratch)?),
            });
        }
        Ok(run)
    }

    /// True where all of it is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.columns.iter().all(|stored| matches!(stored, Stored::Memory(_)))
    }

    /// The columns of a run in memory.
    pub fn into_columns(self) -> Vec<Column> {
        let columns = self.columns.into_iter().map(|stored| match stored {
            Stored::Memory(column) => *column,
            Stored::Scratch(_) => unreachable!("asked before"),
        });
        columns.collect()
    }

    /// Begin to read a column.
    pub fn read<'a>(&'a self, number: usize, like: &Column, scratch: &'a Scratch) -> Reader<'a> {
        let left = match &self.columns[number] {
            Stored::Memory(_) => self.rows,
            Stored::Scratch(_) => 0,
        };
        let piece = Column::like(like);
        let at = Position::of(&piece);
        Reader { stored: &self.columns[number], scratch, next: 0, piece, left, at }
    }
}

fn dictionary(column: &Column) -> Option<Vec<u8>> {
    let low = column.data_type.low_cardinality;
    low.then(|| keys_of(column, MAX_SHARED_KEYS)).flatten()
}

/// Make room for as much as another column has: no more than that.
fn reserve(column: &mut Column, like: &Column) {
    column.nulls.reserve_exact(like.nulls.len());
    column.data.reserve_exact(like.data.len());
    column.sizes.reserve_exact(like.sizes.len());
    column.children.iter_mut().zip(&like.children).for_each(|(own, like)| reserve(own, like));
}

/// Put a column into the scratch file in pieces.
fn put(column: &Column, rows: usize, scratch: &Scratch) -> io::Result<Vec<(usize, Place)>> {
    let pieces = column.bytes().div_ceil(PIECE_BYTES).max(1);
    let most = rows.div_ceil(pieces);
    let (mut at, mut piece, mut found) = (Position::of(column), Column::like(column), Vec::new());
    for from in (0..rows).step_by(most) {
        let rows = most.min(rows - from);
        piece.clear();
        at.take(column, rows, &mut piece);
        found.push((rows, scratch.put_column(&piece)?));
    }
    Ok(found)
}

/// Reads the rows of a column of a run.
pub struct Reader<'a> {
    stored: &'a Stored,
    scratch: &'a Scratch,
    /// The number of the next piece in the scratch file.
    next: usize,
    piece: Column,
    /// Rows that are left of what is in memory.
    left: usize,
    at: Position,
}

impl Reader<'_> {
    /// Append the next row, whose value has `N` bytes; false where it is not in memory.
    #[inline(always)]
    pub fn take_value<const N: usize>(&mut self, to: &mut Column) -> bool {
        if self.left == 0 {
            return false;
        }
        let from = match self.stored {
            Stored::Memory(column) => column,
            Stored::Scratch(_) => &self.piece,
        };
        let row = self.at.row;
        to.data.extend_from_slice(&from.data.as_chunks::<N>().0[row]);
        if from.data_type.nullable {
            to.nulls.push(from.nulls[row]);
        }
        self.at.row = row + 1;
        self.left -= 1;
        true
    }

    /// Append so many next rows to a column.
    pub fn take(&mut self, mut rows: usize, to: &mut Column) -> io::Result<()> {
        loop {
            let now = rows.min(self.left);
            let from = match self.stored {
                Stored::Memory(column) => column,
                Stored::Scratch(_) => &self.piece,
            };
            self.at.take(from, now, to);
            self.left -= now;
            rows -= now;
            if rows == 0 {
                return Ok(());
            }
            let Stored::Scratch(pieces) = self.stored else { unreachable!("there are no more") };
            let (rows, place) = pieces[self.next];
            self.piece.clear();
            self.scratch.get_column(place, &mut self.piece)?;
            (self.next, self.left, self.at) = (self.next + 1, rows, Position::of(&self.piece));
        }
    }
}

/// How many rows of a column, and how many bytes of its strings, have been read.
struct Position {
    row: usize,
    byte: usize,
    children: Vec<Position>,
}

impl Position {
    /// The beginning of a column.
    fn of(column: &Column) -> Position {
        Position { row: 0, byte: 0, children: column.children.iter().map(Position::of).collect() }
    }

    /// Append so many next rows to a column.
    #[inline]
    fn take(&mut self, from: &Column, rows: usize, to: &mut Column) {
        let (first, end) = (self.row, self.row + rows);
        self.row = end;
        if from.data_type.nullable {
            to.nulls.extend_from_slice(&from.nulls[first..end]);
        }
        let width = from.data_type.width();
        if width > 0 {
            to.data.extend_from_slice(&from.data[first * width..end * width]);
            return;
        }
        if from.keeps_sizes {
            to.sizes.extend_from_slice(&from.sizes[first..end]);
        }
        let inside = match from.data_type.base {
            BaseType::Array(_) | BaseType::Map(_) => self.take_offsets(from, (first, end), to),
            BaseType::Tuple(..) => rows,
            _ => {
                let byte = self.byte;
                self.byte = behind(from, byte, (first, end));
                to.data.extend_from_slice(&from.data[byte..self.byte]);
                return;
            }
        };
        let children = from.children.iter().zip(&mut to.children);
        self.children.iter_mut().zip(children).for_each(|(at, (from, to))| {
            at.take(from, inside, to);
        });
    }

    /// Append the offsets of arrays; returns how many elements these have.
    fn take_offsets(&self, from: &Column, (first, end): (usize, usize), to: &mut Column) -> usize {
        let offsets = from.data.as_chunks::<8>().0;
        let before = first.checked_sub(1).map_or(0, |row| u64::from_le_bytes(offsets[row]));
        let more = to.elements(0) as u64;
        let mut last = before;
        to.data.extend(offsets[first..end].iter().flat_map(|end| {
            last = u64::from_le_bytes(*end);
            (last - before + more).to_le_bytes()
        }));
        (last - before) as usize
    }
}

/// Where the strings of some rows end, the first of which starts at `byte`.
fn behind(from: &Column, mut byte: usize, (first, end): (usize, usize)) -> usize {
    if !from.keeps_sizes {
        for _ in first..end {
            let (length, used) = read_varint(&from.data[byte..]);
            byte += length + used;
        }
        return byte;
    }
    for size in &from.sizes[first..end] {
        byte += match size {
            0 => {
                let (length, used) = read_varint(&from.data[byte..]);
                length + used
            }
            size => usize::from(*size),
        };
    }
    byte
}
