//! Finds the order of the rows of several runs: their keys are read once, and what is left is from which
//! run the next rows come. By that each column is put together.

use std::cmp::Ordering;
use std::io;

use crate::column::strings::strings_of;
use crate::column::{Column, Values};
use crate::merge::run::{Reader, Run};
use crate::merge::scratch::{Place, Scratch};
use crate::sort::keys::{KeyRange, PackedKey, ordered_numbers, pack_keys};
use crate::types::BaseType;

/// Rows of a run whose keys are looked at together.
const STEP: usize = 8 << 10;
/// Bits of the number of rows in a pick; those above are of the run's.
const ROW_BITS: u32 = 20;
const ROWS: usize = (1 << ROW_BITS) - 1;
/// Runs of one merge at most.
pub const MOST_RUNS: usize = 1 << (32 - ROW_BITS);
/// Picks that are kept together.
const BLOCK: usize = 256 << 10;

/// From which run the next rows come, and how many of them.
pub struct Picks {
    blocks: Vec<Block>,
    now: Vec<u32>,
    /// Blocks in memory at most.
    most: usize,
}

enum Block {
    Memory(Vec<u32>),
    Scratch(Place),
}

impl Picks {
    fn push(&mut self, run: usize, mut rows: usize, scratch: &Scratch) -> io::Result<()> {
        while rows > 0 {
            let now = rows.min(ROWS);
            self.now.push((run as u32) << ROW_BITS | now as u32);
            rows -= now;
            if self.now.len() == BLOCK {
                self.end_block(scratch)?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self, scratch: &Scratch) -> io::Result<()> {
        let picks = std::mem::take(&mut self.now);
        self.blocks.push(if self.blocks.len() < self.most {
            Block::Memory(picks)
        } else {
            let bytes: Vec<u8> = picks.iter().flat_map(|pick| pick.to_le_bytes()).collect();
            Block::Scratch(scratch.put(&bytes)?)
        });
        self.now.reserve(BLOCK);
        Ok(())
    }

    /// Read them from the first one on.
    pub fn read<'a>(&'a self, scratch: &'a Scratch) -> PickReader<'a> {
        PickReader { picks: self, scratch, next: 0, block: Vec::new(), at: 0, left: (0, 0) }
    }
}

/// Reads picks.
pub struct PickReader<'a> {
    picks: &'a Picks,
    scratch: &'a Scratch,
    /// The number of the next block.
    next: usize,
    block: Vec<u32>,
    /// The next pick of the block.
    at: usize,
    /// The run and what is left of the rows of the pick before it.
    left: (usize, usize),
}

impl PickReader<'_> {
    /// Append so many next rows to a column.
    pub fn take(
        &mut self,
        rows: usize,
        readers: &mut [Reader<'_>],
        to: &mut Column,
    ) -> io::Result<()> {
        match to.data_type.width() {
            1 => self.follow(rows, readers, to, Reader::take_value::<1>),
            2 => self.follow(rows, readers, to, Reader::take_value::<2>),
            4 => self.follow(rows, readers, to, Reader::take_value::<4>),
            8 => self.follow(rows, readers, to, Reader::take_value::<8>),
            _ => self.follow(rows, readers, to, |_, _| false),
        }
    }

    /// Append so many next rows to a column; `take_value` appends one row, or says that it does not.
    #[inline(always)]
    fn follow<'a>(
        &mut self,
        mut rows: usize,
        readers: &mut [Reader<'a>],
        to: &mut Column,
        take_value: impl Fn(&mut Reader<'a>, &mut Column) -> bool,
    ) -> io::Result<()> {
        while rows > 0 {
            if self.left.1 == 0 {
                if self.at == self.block.len() {
                    self.next_block()?;
                }
                let pick = self.block[self.at];
                self.at += 1;
                self.left = ((pick >> ROW_BITS) as usize, pick as usize & ROWS);
            }
            let now = rows.min(self.left.1);
            let reader = &mut readers[self.left.0];
            // Of keys in no order one row comes after the other.
            if now > 1 || !take_value(reader, to) {
                reader.take(now, to)?;
            }
            self.left.1 -= now;
            rows -= now;
        }
        Ok(())
    }

    fn next_block(&mut self) -> io::Result<()> {
        self.block = match &self.picks.blocks[self.next] {
            Block::Memory(picks) => picks.clone(),
            Block::Scratch(place) => {
                let bytes = self.scratch.get(*place)?;
                bytes.as_chunks::<4>().0.iter().map(|pick| u32::from_le_bytes(*pick)).collect()
            }
        };
        (self.next, self.at) = (self.next + 1, 0);
        Ok(())
    }
}

/// Find the order of the rows of all runs by the columns of a key; `like` are columns of their types.
/// Rows with the same key stay in the order of the runs. `most` bytes of picks stay in memory.
pub fn merge(
    runs: &[Run],
    (keys, like): (&[usize], &[Column]),
    scratch: &Scratch,
    most: usize,
) -> io::Result<Picks> {
    let mut picks = Picks { blocks: Vec::new(), now: Vec::new(), most: most / (4 * BLOCK) };
    let joined = |place: usize| {
        let nullable = like[keys[place]].data_type.nullable;
        let ranges: Option<Vec<KeyRange>> = runs.iter().map(|run| run.ranges[place]).collect();
        KeyRange::joined(ranges?.into_iter(), nullable)
    };
    let ranges: Option<Vec<KeyRange>> = (0..keys.len()).map(joined).collect();
    let bits: Option<u32> = ranges.iter().flatten().map(|range| range.bits).sum::<u32>().into();
    let given = Given { runs, keys, like, scratch };
    match (ranges, bits) {
        (Some(ranges), Some(..64)) => given.merge::<Packed<u64>>(&ranges, &mut picks)?,
        (Some(ranges), Some(..=128)) => given.merge::<Packed<u128>>(&ranges, &mut picks)?,
        _ => given.merge::<Texts>(&[], &mut picks)?,
    }
    if !picks.now.is_empty() {
        picks.end_block(scratch)?;
    }
    Ok(picks)
}

struct Given<'a> {
    runs: &'a [Run],
    keys: &'a [usize],
    like: &'a [Column],
    scratch: &'a Scratch,
}

impl Given<'_> {
    fn merge<K: Keys>(&self, ranges: &[KeyRange], picks: &mut Picks) -> io::Result<()> {
        let mut sources = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            let columns = self.keys.iter().map(|&key| {
                (run.read(key, &self.like[key], self.scratch), Column::like(&self.like[key]))
            });
            let mut source = Source::<K> {
                columns: columns.collect(),
                left: run.rows,
                step: STEP.min(run.key_rows),
                keys: K::default(),
                at: 0,
            };
            source.load(ranges)?;
            sources.push(source);
        }
        let compare = |sources: &[Source<'_, K>], a: usize, b: usize| {
            let found = sources[a].keys.compare(sources[a].at, &sources[b].keys, sources[b].at);
            found.then(a.cmp(&b))
        };
        // The runs by their next rows.
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by(|a, b| compare(&sources, *a, *b));
        while let [first, second, ..] = order[..] {
            let mut rows = 0;
            let ended = loop {
                let (one, other) = (&sources[first], &sources[second]);
                let comes = |row: usize| {
                    let found = one.keys.compare(row, &other.keys, other.at);
                    found.then(first.cmp(&second)) == Ordering::Less
                };
                let end = gallop(one.at, one.keys.len(), comes);
                rows += end - one.at;
                let source = &mut sources[first];
                source.at = end;
                if end < source.keys.len() {
                    break false;
                }
                if source.left == 0 {
                    break true;
                }
                source.load(ranges)?;
            };
            picks.push(first, rows, self.scratch)?;
            if ended {
                order.remove(0);
                continue;
            }
            let comes = |other: &usize| compare(&sources, *other, first) == Ordering::Less;
            let behind = order[1..].partition_point(comes);
            order[..=behind].rotate_left(1);
        }
        let Some(&last) = order.first() else { return Ok(()) };
        let source = &sources[last];
        picks.push(last, source.keys.len() - source.at + source.left, self.scratch)
    }
}

/// The first row from `from` on for which something is not true that is true up to it; `len` for none.
#[inline(always)]
fn gallop(from: usize, len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    // Row by row first: of keys in no order one row comes after the other.
    loop {
        let next = low + step - 1;
        if next >= len || !holds(next) {
            break;
        }
        low = next + 1;
        step *= 2;
    }
    let mut high = (low + step - 1).min(len);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The keys of the next rows of a run.
struct Source<'a, K> {
    columns: Vec<(Reader<'a>, Column)>,
    /// Rows whose keys are not looked at yet, and how many of them are together: long keys are in
    /// memory once more.
    left: usize,
    step: usize,
    keys: K,
    at: usize,
}

impl<K: Keys> Source<'_, K> {
    fn load(&mut self, ranges: &[KeyRange]) -> io::Result<()> {
        let rows = self.step.min(self.left);
        self.left -= rows;
        for (reader, column) in &mut self.columns {
            column.clear();
            reader.take(rows, column)?;
        }
        let columns: Vec<Values<'_>> = self.columns.iter().map(|(_, c)| c.values()).collect();
        self.keys.set(&columns, ranges, rows);
        self.at = 0;
        Ok(())
    }
}

/// The keys of some rows.
trait Keys: Default {
    fn set(&mut self, columns: &[Values<'_>], ranges: &[KeyRange], rows: usize);
    fn len(&self) -> usize;
    fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering;
}

/// Keys that are one number each.
#[derive(Default)]
struct Packed<T>(Vec<T>);

impl<T: PackedKey + Ord + Default> Keys for Packed<T> {
    fn set(&mut self, columns: &[Values<'_>], ranges: &[KeyRange], rows: usize) {
        self.0.clear();
        self.0.resize(rows, T::default());
        for (column, range) in columns.iter().zip(ranges) {
            pack_keys(column, range, 0, &mut self.0);
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn compare(&self, row: usize, other: &Packed<T>, other_row: usize) -> Ordering {
        self.0[row].cmp(&other.0[other_row])
    }
}

/// Keys as bytes in their order.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn text(&self, row: usize) -> &[u8] {
        let from = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[row]]
    }
}

impl Keys for Texts {
    fn set(&mut self, columns: &[Values<'_>], _: &[KeyRange], rows: usize) {
        let columns: Vec<KeyValues<'_>> = columns.iter().map(KeyValues::of).collect();
        self.bytes.clear();
        self.ends.clear();
        for row in 0..rows {
            columns.iter().for_each(|column| column.append(row, &mut self.bytes));
            self.ends.push(self.bytes.len());
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn compare(&self, row: usize, other: &Texts, other_row: usize) -> Ordering {
        self.text(row).cmp(other.text(other_row))
    }
}

/// The values of a column of a key.
enum KeyValues<'a> {
    Numbers(&'a [u8], Vec<u64>),
    Strings(&'a [u8], Vec<&'a [u8]>),
    /// Of so many bytes each.
    Wide(Values<'a>, usize),
}

impl<'a> KeyValues<'a> {
    fn of(values: &Values<'a>) -> KeyValues<'a> {
        match (ordered_numbers(values), values.width()) {
            (Some(numbers), _) => KeyValues::Numbers(values.nulls, numbers),
            (None, 0) => KeyValues::Strings(values.nulls, strings_of(values.data).collect()),
            (None, width) => KeyValues::Wide(*values, width),
        }
    }

    /// Append a value, so that bytes are in the order of the values, whatever follows.
    fn append(&self, row: usize, out: &mut Vec<u8>) {
        let nulls = match self {
            KeyValues::Numbers(nulls, _) | KeyValues::Strings(nulls, _) => nulls,
            KeyValues::Wide(values, _) => values.nulls,
        };
        if let Some(null) = nulls.get(row) {
            out.push(*null);
            if *null == 1 {
                return;
            }
        }
        match self {
            KeyValues::Numbers(_, numbers) => out.extend_from_slice(&numbers[row].to_be_bytes()),
            KeyValues::Strings(_, strings) => {
                // The end of a string comes before any byte of a longer one.
                for byte in strings[row] {
                    out.push(*byte);
                    if *byte == 0 {
                        out.push(1);
                    }
                }
                out.extend_from_slice(&[0, 0]);
            }
            KeyValues::Wide(values, width) => {
                append_wide(&values.data_type.base, &values.data[row * width..][..*width], out);
            }
        }
    }
}

/// Append a value of more than 64 bits, see [`crate::sort::compare_values`].
fn append_wide(base: &BaseType, value: &[u8], out: &mut Vec<u8>) {
    match base {
        BaseType::FixedString(_) | BaseType::Ipv6 => out.extend_from_slice(value),
        BaseType::Uuid => {
            out.extend(value[8..].iter().rev());
            out.extend(value[..8].iter().rev());
        }
        _ => {
            let signed = matches!(base, BaseType::Int(_, true) | BaseType::Decimal(..));
            let top = out.len();
            out.extend(value.iter().rev());
            out[top] ^= if signed { 128 } else { 0 };
        }
    }
}
