//! Sorts blocks whose key has few values by counting: rows are counted by their key, then every
//! value is copied to its place.
//!
//! The only memory as long as the block are two bytes a row. Trips (50 M rows, keys of
//! 100 values, blocks of 5 M): 0.35 CPU-seconds, 0.95 with keys of eight bytes and a place for each
//! row.

use crate::column::reorder::all_equal;
use crate::column::{Column, Values};
use crate::sort::keys::{KeyRange, pack_keys};
use crate::types::BaseType;

/// Bits of a packed key, and of a pass of a radix sort: as many counters as fit into the nearest
/// cache.
pub const BITS: u32 = 12;
/// Counters for so many bits.
pub const KEYS: usize = 1 << BITS;
/// Rows that are counted while their keys are in the cache.
const STEP: usize = 8 << 10;

/// The rows of a block counted by their keys. The memory is kept from block to block.
pub struct CountingSort {
    keys: Vec<u16>,
    counts: Box<[u32; KEYS]>,
    /// The number of one row of each key.
    samples: Box<[u32; KEYS]>,
}

impl Default for CountingSort {
    fn default() -> CountingSort {
        CountingSort { keys: Vec::new(), counts: Box::new([0; KEYS]), samples: Box::new([0; KEYS]) }
    }
}

impl CountingSort {
    /// Count the rows of each key; false where the rows are in order already.
    pub fn count(&mut self, keys: &[Values<'_>], ranges: &[KeyRange], rows: usize) -> bool {
        self.keys.resize(rows, 0);
        self.counts.fill(0);
        let (mut sorted, mut before) = (true, 0);
        for (step, numbers) in self.keys.chunks_mut(STEP).enumerate() {
            numbers.fill(0);
            let from = step * STEP;
            for (key, range) in keys.iter().zip(ranges) {
                pack_keys(key, range, from, numbers);
            }
            for (row, &key) in (from as u32..).zip(&*numbers) {
                let key = usize::from(key) % KEYS;
                self.counts[key] += 1;
                self.samples[key] = row;
                sorted &= before <= key;
                before = key;
            }
        }
        !sorted
    }

    /// Count the rows by numbers below [`KEYS`] that are given, and keep these; false where they are
    /// in order.
    pub fn count_numbers(&mut self, numbers: &mut Vec<u16>) -> bool {
        std::mem::swap(&mut self.keys, numbers);
        // A counter that the row before has changed is not there yet: two of them take turns.
        let mut others = [0; KEYS];
        self.counts.fill(0);
        let (pairs, rest) = self.keys.as_chunks::<2>();
        for [a, b] in pairs {
            self.counts[usize::from(*a) % KEYS] += 1;
            others[usize::from(*b) % KEYS] += 1;
        }
        rest.iter().for_each(|number| self.counts[usize::from(*number) % KEYS] += 1);
        self.counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        !self.keys.is_sorted()
    }

    /// The numbers that have rows, with the places of these: from the first to the one behind them.
    pub fn runs(&self) -> impl Iterator<Item = (u16, usize, usize)> {
        let mut end = 0;
        (0..).zip(&*self.counts).filter(|(_, count)| **count > 0).map(move |(number, count)| {
            let from = end;
            end += *count as usize;
            (number, from, end)
        })
    }

    /// The numbers of the rows in their order.
    pub fn order(&self) -> Vec<u32> {
        let mut positions = start_positions(*self.counts);
        let mut order = vec![0; self.keys.len()];
        for (row, &key) in (0..).zip(&self.keys) {
            let place = &mut positions[usize::from(key) % KEYS];
            order[*place as usize] = row;
            *place += 1;
        }
        order
    }

    /// Copy values of a width into their order.
    ///
    /// # Panics
    /// Panics where [`can_scatter`] is false for the width.
    pub fn scattered(&self, data: &[u8], width: usize) -> Vec<u8> {
        let mut out = Vec::new();
        match width {
            1 => self.scatter_into::<1>(data, &mut out),
            2 => self.scatter_into::<2>(data, &mut out),
            4 => self.scatter_into::<4>(data, &mut out),
            8 => self.scatter_into::<8>(data, &mut out),
            16 => self.scatter_into::<16>(data, &mut out),
            _ => unreachable!("asked before"),
        }
        out
    }

    /// Copy values of N bytes into their order, each as its difference to `low` in M bytes.
    pub fn scattered_narrow<const N: usize, const M: usize>(
        &self,
        data: &[u8],
        low: [u8; N],
    ) -> Vec<u8> {
        let low = wide(low);
        let narrow = |value: [u8; N]| {
            let difference = wide(value).wrapping_sub(low).to_le_bytes();
            *difference.first_chunk::<M>().expect("no more than eight")
        };
        let mut out = Vec::new();
        self.scatter_each(data, &mut out, narrow);
        out
    }

    /// Reorder a column by the keys; rows of equal keys stay in the order they have. `is_key` says
    /// that the column is one of the key.
    ///
    /// # Panics
    /// Panics where [`can_scatter`] is false for the width of its values.
    pub fn reorder(&self, column: &mut Column, is_key: bool, scratch: &mut Vec<u8>) {
        let (width, float_order) = (
            column.width(),
            matches!(column.data_type.base, BaseType::Float32 | BaseType::Float64),
        );
        if !is_key && !column.data_type.nullable && all_equal(&column.data, width) {
            return;
        }
        // -0 and 0 are the same key, and what stands under a NULL may be anything.
        let equal = is_key && !column.data_type.nullable && !float_order;
        if column.data_type.nullable {
            self.scatter::<1>(&mut column.nulls, scratch);
        }
        match (width, equal) {
            (1, true) => self.fill::<1>(&mut column.data),
            (2, true) => self.fill::<2>(&mut column.data),
            (4, true) => self.fill::<4>(&mut column.data),
            (8, true) => self.fill::<8>(&mut column.data),
            (1, _) => self.scatter::<1>(&mut column.data, scratch),
            (2, _) => self.scatter::<2>(&mut column.data, scratch),
            (4, _) => self.scatter::<4>(&mut column.data, scratch),
            (8, _) => self.scatter::<8>(&mut column.data, scratch),
            (16, _) => self.scatter::<16>(&mut column.data, scratch),
            _ => unreachable!("asked before"),
        }
    }

    /// Fill a column of the key: each value as many times as it has rows.
    fn fill<const N: usize>(&self, data: &mut [u8]) {
        let values = data.as_chunks_mut::<N>().0;
        let there: Vec<_> = self
            .counts
            .iter()
            .zip(&*self.samples)
            .filter(|(count, _)| **count > 0)
            .map(|(&count, &row)| (count as usize, values[row as usize]))
            .collect();
        let mut rest = values;
        for (count, value) in there {
            let (run, behind) = rest.split_at_mut(count);
            run.fill(value);
            rest = behind;
        }
    }

    /// Copy each value to its place.
    fn scatter<const N: usize>(&self, data: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        self.scatter_into::<N>(data, scratch);
        std::mem::swap(data, scratch);
    }

    /// Copy each value to its place: a few thousand places that move on slowly, so that all of them
    /// stay in the cache.
    fn scatter_into<const N: usize>(&self, data: &[u8], scratch: &mut Vec<u8>) {
        self.scatter_each::<N, N>(data, scratch, |value| value);
    }

    /// Copy what `each` makes of the values to their places.
    #[inline(always)]
    fn scatter_each<const N: usize, const M: usize>(
        &self,
        data: &[u8],
        scratch: &mut Vec<u8>,
        each: impl Fn([u8; N]) -> [u8; M],
    ) {
        let mut positions = start_positions(*self.counts);
        assert_eq!(data.len(), self.keys.len() * N);
        let bytes = self.keys.len() * M;
        scratch.clear();
        scratch.reserve(bytes);
        let room = scratch.spare_capacity_mut()[..bytes].as_chunks_mut::<M>().0;
        for (value, &key) in data.as_chunks::<N>().0.iter().zip(&self.keys) {
            let place = &mut positions[usize::from(key) % KEYS];
            room[*place as usize] = each(*value).map(std::mem::MaybeUninit::new);
            *place += 1;
        }
        // SAFETY: there is a value for each key, and the same keys were counted: the places of each
        // begin where those of the one before end, so every value of the room was written once.
        unsafe { scratch.set_len(bytes) };
    }
}

/// The number of up to eight bytes.
#[inline(always)]
pub fn wide<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes);
    u64::from_le_bytes(word)
}

/// For each key the position of its first row, by how many rows each key has.
pub fn start_positions(mut counts: [u32; KEYS]) -> [u32; KEYS] {
    let mut sum = 0;
    for count in &mut counts {
        (*count, sum) = (sum, sum + *count);
    }
    counts
}

/// True for values of as many bytes as [`CountingSort::reorder`] can move.
pub fn can_scatter(width: usize) -> bool {
    matches!(width, 1 | 2 | 4 | 8 | 16)
}
