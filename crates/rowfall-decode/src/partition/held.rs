//! Holds blocks in memory, the rows of each by their partitions.
//!
//! Values take as few bytes as they need: one or two where those of a block are near each other, and
//! none where the partition says what they are. 50 M trips (9 bytes a row) are held in 2 bytes a row:
//! the kernel's fresh pages had cost more than the sorting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::column::reorder::{RowSelection, append_rows, copy_spans, gather_fixed};
use crate::column::strings::starts_of;
use crate::column::{Column, POSITION_BYTES};
use crate::partition::Numbered;
use crate::sort::counting::{CountingSort, can_scatter, wide};
use crate::sort::keys::min_max;
use crate::types::BaseType;

/// A block whose rows are in the order of their partitions.
pub struct HeldBlock {
    columns: Vec<HeldColumn>,
    /// In the order of their partitions.
    slices: Vec<Slice>,
}

/// The rows of a partition in a block.
struct Slice {
    partition: u16,
    from: u32,
    to: u32,
    /// Where its strings start and end, for each column of strings, those in nested columns, too.
    bytes: Vec<(u32, u32)>,
}

/// A column of a block; the fields are those of [`Column`].
struct HeldColumn {
    nulls: Vec<u8>,
    sizes: Vec<u8>,
    /// Bytes of a value in the column; 0 of strings.
    width: usize,
    values: HeldValues,
}

enum HeldValues {
    /// As in the column.
    Whole(Vec<u8>),
    /// Each value is so much more than the lowest, in as many bytes.
    Narrow { low: u64, bytes: usize, data: Vec<u8> },
    /// One value for each number that rows have.
    Same(Vec<u8>),
    /// A nested column by its partitions; this one holds the whole of it.
    Nested(Box<Column>),
}

impl HeldBlock {
    /// Copy a block by the numbers of its rows, which stand for partitions.
    pub fn new(
        columns: &[Column],
        numbers: &mut Vec<u16>,
        found: &Numbered,
        counting: &mut CountingSort,
    ) -> HeldBlock {
        let rows = numbers.len();
        let sorted = !counting.count_numbers(numbers);
        let runs: Vec<_> = counting.runs().collect();
        let by_order = |c: &Column| !can_scatter(c.data_type.width());
        let order = match !sorted && columns.iter().any(by_order) {
            true => counting.order(),
            false => Vec::new(),
        };
        let fixed = |data: &[u8], width: usize| match (sorted, can_scatter(width)) {
            (true, _) => data.to_vec(),
            (false, true) => counting.scattered(data, width),
            (false, false) => {
                let mut out = Vec::with_capacity(data.len());
                let rows = RowSelection::Order(&order);
                gather_fixed(data, width, rows, &mut out).expect("memory takes all");
                out
            }
        };
        let mut strings: Vec<Vec<(u32, u32)>> = vec![Vec::new(); runs.len()];
        let texts = |column: &Column, strings: &mut [Vec<(u32, u32)>]| {
            let starts = starts_of(column.values(), rows);
            if sorted {
                for ((_, from, to), ends) in runs.iter().zip(strings) {
                    ends.push((starts[*from], starts[*to]));
                }
                return column.data.clone();
            }
            let mut data = Vec::with_capacity(column.data.len() + 64);
            for ((_, from, to), ends) in runs.iter().zip(strings) {
                let before = data.len();
                let span = |row: &u32| {
                    let (start, end) = (starts[*row as usize], starts[*row as usize + 1]);
                    (start, end - start)
                };
                let spans = order[*from..*to].iter().map(span);
                copy_spans(&column.data, spans, &mut data).expect("memory takes all");
                ends.push((before as u32, data.len() as u32));
            }
            data
        };
        let nested = |column: &Column, strings: &mut [Vec<(u32, u32)>]| {
            let all = match sorted {
                true => RowSelection::Range(0, rows),
                false => RowSelection::Order(&order),
            };
            let mut own = Column::like(column);
            append_rows(&mut own, column, rows, all);
            let slices = runs.iter().map(|(_, from, to)| (*from, *to)).collect();
            find_strings(&own, rows, slices, strings);
            HeldColumn {
                nulls: Vec::new(),
                sizes: Vec::new(),
                width: 0,
                values: HeldValues::Nested(Box::new(own)),
            }
        };
        let held = |(index, column): (usize, &Column)| {
            if !column.children.is_empty() {
                return nested(column, &mut strings);
            }
            let (data, width) = (&column.data, column.data_type.width());
            let kept = |there: bool, bytes: &[u8]| match there {
                true => fixed(bytes, 1),
                false => Vec::new(),
            };
            let same = width > 0 && !column.data_type.nullable && found.columns.contains(&index);
            let values = if column.data_type.base == BaseType::String {
                HeldValues::Whole(texts(column, &mut strings))
            } else if same {
                let value =
                    |number: u16| &data[found.samples[usize::from(number)] as usize * width..];
                HeldValues::Same(
                    runs.iter().flat_map(|run| &value(run.0)[..width]).copied().collect(),
                )
            } else {
                let narrow = if sorted { None } else { narrowed(column, counting) };
                narrow.unwrap_or_else(|| HeldValues::Whole(fixed(data, width)))
            };
            HeldColumn {
                nulls: kept(column.data_type.nullable, &column.nulls),
                sizes: kept(column.keeps_sizes, &column.sizes),
                width,
                values,
            }
        };
        let mut columns: Vec<HeldColumn> = columns.iter().enumerate().map(held).collect();
        let mut order: Vec<usize> = (0..runs.len()).collect();
        let partition = |run: usize| found.places[usize::from(runs[run].0)];
        order.sort_unstable_by_key(|run| partition(*run));
        let slices = order.iter().map(|&run| Slice {
            partition: partition(run),
            from: runs[run].1 as u32,
            to: runs[run].2 as u32,
            bytes: std::mem::take(&mut strings[run]),
        });
        let slices = slices.collect();
        for column in &mut columns {
            if let HeldValues::Same(values) = &mut column.values {
                let (width, old) = (column.width, std::mem::take(values));
                let value = |run: &usize| &old[run * width..][..width];
                *values = order.iter().flat_map(value).copied().collect();
            }
        }
        HeldBlock { columns, slices }
    }

    fn bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(HeldColumn::bytes).sum();
        columns + self.slices.len() * size_of::<Slice>()
    }

    /// The partitions, and how many rows of each there are.
    fn partitions(&self) -> impl Iterator<Item = (u16, usize)> {
        self.slices.iter().map(|slice| (slice.partition, slice.rows()))
    }

    fn find(&self, partition: u16) -> Option<usize> {
        self.slices.binary_search_by_key(&partition, |slice| slice.partition).ok()
    }

    /// How many rows of a partition there are, and their bytes as columns.
    pub fn size_of(&self, partition: u16) -> (usize, usize) {
        let Some(place) = self.find(partition) else { return (0, 0) };
        let slice = &self.slices[place];
        let texts: usize = slice.bytes.iter().map(|(from, to)| (to - from) as usize).sum();
        let rows = (slice.from as usize, slice.to as usize);
        let fixed = |column: &HeldColumn| match &column.values {
            HeldValues::Nested(own) => fixed_bytes(own, rows),
            _ => {
                let row = column.width
                    + usize::from(!column.nulls.is_empty())
                    + usize::from(!column.sizes.is_empty());
                row * slice.rows()
            }
        };
        let fixed: usize = self.columns.iter().map(fixed).sum();
        (slice.rows(), fixed + texts)
    }

    /// Append the rows of a partition to columns of the same types, and return how many they are.
    pub fn append(&self, partition: u16, to: &mut [Column]) -> usize {
        let Some(place) = self.find(partition) else { return 0 };
        let slice = &self.slices[place];
        let rows = slice.from as usize..slice.to as usize;
        let mut strings = slice.bytes.iter();
        for (column, own) in to.iter_mut().zip(&self.columns) {
            if !own.nulls.is_empty() {
                column.nulls.extend_from_slice(&own.nulls[rows.clone()]);
            }
            if !own.sizes.is_empty() {
                column.sizes.extend_from_slice(&own.sizes[rows.clone()]);
            }
            if let HeldValues::Nested(own) = &own.values {
                append_slice(column, own, (rows.start, rows.end), &mut strings);
                continue;
            }
            let out = &mut column.data;
            match (&own.values, own.width) {
                (HeldValues::Nested(_), _) => unreachable!("appended above"),
                (HeldValues::Whole(data), 0) => {
                    let (from, to) = strings.next().expect("one for each column of strings");
                    out.extend_from_slice(&data[*from as usize..*to as usize]);
                }
                (HeldValues::Whole(data), width) => {
                    out.extend_from_slice(&data[rows.start * width..rows.end * width]);
                }
                (HeldValues::Same(values), width) => {
                    let value = &values[place * width..][..width];
                    match width {
                        1 => fill::<1>(value, rows.len(), out),
                        2 => fill::<2>(value, rows.len(), out),
                        4 => fill::<4>(value, rows.len(), out),
                        8 => fill::<8>(value, rows.len(), out),
                        16 => fill::<16>(value, rows.len(), out),
                        _ => (0..rows.len()).for_each(|_| out.extend_from_slice(value)),
                    }
                }
                (HeldValues::Narrow { low, bytes, data }, width) => {
                    let data = &data[rows.start * bytes..rows.end * bytes];
                    match (bytes, width) {
                        (1, 2) => widen::<1, 2>(data, *low, out),
                        (1, 4) => widen::<1, 4>(data, *low, out),
                        (1, 8) => widen::<1, 8>(data, *low, out),
                        (2, 4) => widen::<2, 4>(data, *low, out),
                        (2, 8) => widen::<2, 8>(data, *low, out),
                        _ => unreachable!("made by `narrowed`"),
                    }
                }
            }
        }
        slice.rows()
    }
}

impl Slice {
    fn rows(&self) -> usize {
        (self.to - self.from) as usize
    }
}

impl HeldColumn {
    fn bytes(&self) -> usize {
        let values = match &self.values {
            HeldValues::Whole(data) | HeldValues::Narrow { data, .. } | HeldValues::Same(data) => {
                data.capacity()
            }
            HeldValues::Nested(column) => allocated(column),
        };
        self.nulls.capacity() + self.sizes.capacity() + values
    }
}

/// The elements that rows of a nested column have: from the first to the one behind the last.
fn elements(column: &Column, (from, to): (usize, usize)) -> (usize, usize) {
    let offsets = column.data.as_chunks::<8>().0;
    let end = |row: usize| u64::from_le_bytes(offsets[row]) as usize;
    match column.data_type.base {
        BaseType::Array(_) | BaseType::Map(_) => {
            (from.checked_sub(1).map_or(0, end), to.checked_sub(1).map_or(0, end))
        }
        _ => (from, to),
    }
}

/// Add where the strings of each slice start and end, of all columns of strings in a nested one of
/// `count` values.
fn find_strings(
    column: &Column,
    count: usize,
    slices: Vec<(usize, usize)>,
    strings: &mut [Vec<(u32, u32)>],
) {
    if column.data_type.base == BaseType::String {
        let starts = starts_of(column.values(), count);
        for ((from, to), ends) in slices.iter().zip(strings) {
            ends.push((starts[*from], starts[*to]));
        }
        return;
    }
    let count = column.elements(count);
    let slices: Vec<_> = slices.into_iter().map(|slice| elements(column, slice)).collect();
    for child in &column.children {
        find_strings(child, count, slices.clone(), strings);
    }
}

/// Append the rows of a slice of a nested column to one of its type; `strings` are those of the slice
/// that are still to come.
fn append_slice<'a>(
    to: &mut Column,
    own: &Column,
    rows: (usize, usize),
    strings: &mut impl Iterator<Item = &'a (u32, u32)>,
) {
    let (first, end) = rows;
    if own.data_type.nullable {
        to.nulls.extend_from_slice(&own.nulls[first..end]);
    }
    if own.keeps_sizes {
        to.sizes.extend_from_slice(&own.sizes[first..end]);
    }
    match &own.data_type.base {
        BaseType::Array(_) | BaseType::Map(_) => {
            let before = elements(own, rows).0;
            let more = to.elements(0);
            let offsets = &own.data.as_chunks::<8>().0[first..end];
            to.data.extend(offsets.iter().flat_map(|end| {
                (u64::from_le_bytes(*end) - before as u64 + more as u64).to_le_bytes()
            }));
        }
        BaseType::Tuple(..) => {}
        BaseType::String => {
            let (from, end) = strings.next().expect("one for each column of strings");
            to.data.extend_from_slice(&own.data[*from as usize..*end as usize]);
        }
        _ => {
            let width = own.data_type.width();
            to.data.extend_from_slice(&own.data[first * width..end * width]);
        }
    }
    let inside = elements(own, rows);
    for (to, own) in to.children.iter_mut().zip(&own.children) {
        append_slice(to, own, inside, strings);
    }
}

/// Bytes of some rows of a nested column without those of their strings, but with their positions.
fn fixed_bytes(column: &Column, rows: (usize, usize)) -> usize {
    let width = match column.data_type.base {
        BaseType::Array(_) | BaseType::Map(_) => 8,
        BaseType::String => POSITION_BYTES,
        _ => column.data_type.width(),
    };
    let marks = usize::from(column.data_type.nullable) + usize::from(column.keeps_sizes);
    let inside = elements(column, rows);
    let children: usize = column.children.iter().map(|child| fixed_bytes(child, inside)).sum();
    (rows.1 - rows.0) * (width + marks) + children
}

/// Bytes of memory that a nested column takes.
fn allocated(column: &Column) -> usize {
    let own = column.nulls.capacity() + column.data.capacity() + column.sizes.capacity();
    own + column.children.iter().map(allocated).sum::<usize>()
}

/// The values of a column by their partitions in fewer bytes, None where they need all they have.
fn narrowed(column: &Column, counting: &CountingSort) -> Option<HeldValues> {
    let signed = matches!(
        column.data_type.base,
        BaseType::Int(_, true)
            | BaseType::Decimal(..)
            | BaseType::DateTime64(..)
            | BaseType::Date32
            | BaseType::Enum(..)
    );
    match (column.data_type.width(), signed) {
        (2, false) => narrow_in(column, counting, u16::from_le_bytes),
        (2, true) => narrow_in(column, counting, i16::from_le_bytes),
        (4, false) => narrow_in(column, counting, u32::from_le_bytes),
        (4, true) => narrow_in(column, counting, i32::from_le_bytes),
        (8, false) => narrow_in(column, counting, u64::from_le_bytes),
        (8, true) => narrow_in(column, counting, i64::from_le_bytes),
        _ => None,
    }
}

/// [`narrowed`] of values of N bytes.
fn narrow_in<const N: usize, T: Ord + Copy + Number<N>>(
    column: &Column,
    counting: &CountingSort,
    read: impl Fn([u8; N]) -> T,
) -> Option<HeldValues> {
    let data = &column.data;
    // Most columns that do not fit show it at once.
    let values = data.as_chunks::<N>().0;
    let (low, high) = min_max(&values[..values.len().min(1024)], &read)?;
    if wide(high.bytes()).wrapping_sub(wide(low.bytes())) & mask::<N>() > 0xffff {
        return None;
    }
    let (low, high) = min_max(values, &read)?;
    let (low, most) =
        (low.bytes(), wide(high.bytes()).wrapping_sub(wide(low.bytes())) & mask::<N>());
    let (bytes, data) = match most {
        0..=0xff => (1, counting.scattered_narrow::<N, 1>(data, low)),
        0..=0xffff if N > 2 => (2, counting.scattered_narrow::<N, 2>(data, low)),
        _ => return None,
    };
    Some(HeldValues::Narrow { low: wide(low), bytes, data })
}

/// A number of N bytes, the lowest first.
trait Number<const N: usize> {
    fn bytes(self) -> [u8; N];
}

macro_rules! numbers {
    ($($number:ty: $bytes:literal),*) => {
        $(impl Number<$bytes> for $number {
            fn bytes(self) -> [u8; $bytes] {
                self.to_le_bytes()
            }
        })*
    };
}
numbers!(u16: 2, i16: 2, u32: 4, i32: 4, u64: 8, i64: 8);

/// All bits of numbers of N bytes.
const fn mask<const N: usize>() -> u64 {
    u64::MAX >> (64 - 8 * N as u32)
}

/// Append values of N bytes that are so much more than `low`, given in M bytes each.
fn widen<const M: usize, const N: usize>(data: &[u8], low: u64, out: &mut Vec<u8>) {
    let value = |more: &[u8; M]| {
        *low.wrapping_add(wide(*more)).to_le_bytes().first_chunk::<N>().expect("up to eight")
    };
    append_each(data.as_chunks::<M>().0.iter().map(value), out);
}

/// Append a value of N bytes so many times.
fn fill<const N: usize>(value: &[u8], rows: usize, out: &mut Vec<u8>) {
    let value: [u8; N] = value.try_into().expect("a value");
    append_each(std::iter::repeat_n(value, rows), out);
}

/// Append values.
fn append_each<const N: usize>(values: impl ExactSizeIterator<Item = [u8; N]>, out: &mut Vec<u8>) {
    let (before, bytes) = (out.len(), values.len() * N);
    out.reserve(bytes);
    let room = out.spare_capacity_mut()[..bytes].as_chunks_mut::<N>().0;
    let mut written = 0;
    for (place, value) in room.iter_mut().zip(values) {
        *place = value.map(std::mem::MaybeUninit::new);
        written += N;
    }
    assert_eq!(written, bytes);
    // SAFETY: the places that were written are the next ones.
    unsafe { out.set_len(before + written) };
}

/// The blocks that all workers hold together.
#[derive(Default)]
pub struct Held {
    blocks: Mutex<(Vec<Arc<HeldBlock>>, usize)>,
    /// How many partitions have been taken, in the end.
    taken: AtomicUsize,
}

impl Held {
    /// Hold one more block; returns all of them where they are more than `most` bytes together:
    /// then they have to be written.
    pub fn add(&self, block: HeldBlock, most: usize) -> Vec<Arc<HeldBlock>> {
        let mut held = self.blocks.lock().expect("no worker panics");
        held.1 += block.bytes();
        held.0.push(Arc::new(block));
        if held.1 <= most {
            return Vec::new();
        }
        held.1 = 0;
        std::mem::take(&mut held.0)
    }

    /// All blocks that are held.
    pub fn all(&self) -> Vec<Arc<HeldBlock>> {
        self.blocks.lock().expect("no worker panics").0.clone()
    }

    /// The next partition of those, that nobody has taken.
    pub fn take(&self, partitions: &[u16]) -> Option<u16> {
        partitions.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// The partitions of some blocks, those with most rows first: so all threads end together.
pub fn partitions_of(blocks: &[Arc<HeldBlock>]) -> Vec<u16> {
    let mut rows = std::collections::BTreeMap::new();
    for (partition, some) in blocks.iter().flat_map(|block| block.partitions()) {
        *rows.entry(partition).or_insert(0) += some;
    }
    let mut found: Vec<(u16, usize)> = rows.into_iter().collect();
    found.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    found.into_iter().map(|(partition, _)| partition).collect()
}
