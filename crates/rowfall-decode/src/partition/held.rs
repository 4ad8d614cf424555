//! Holds blocks in memory, the rows of each by their partitions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::column::Column;
use crate::column::reorder::{RowSelection, copy_spans, gather_fixed};
use crate::column::strings::starts_of;
use crate::sort::counting::{CountingSort, can_scatter};
use crate::types::BaseType;

/// A block whose rows are in the order of their partitions.
pub struct HeldBlock {
    columns: Vec<Column>,
    slices: Vec<Slice>,
}

/// The rows of a partition in a block.
struct Slice {
    partition: u16,
    from: usize,
    to: usize,
    /// Where its strings start and end, for each column of strings.
    bytes: Vec<(usize, usize)>,
}

impl HeldBlock {
    /// Copy a block, by the number of each row's partition.
    pub fn new(columns: &[Column], numbers: &[u16], counting: &mut CountingSort) -> HeldBlock {
        let rows = numbers.len();
        let sorted = !counting.count_numbers(numbers);
        let mut slices: Vec<Slice> = counting
            .runs()
            .map(|(partition, from, to)| Slice { partition, from, to, bytes: Vec::new() })
            .collect();
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
        let held = |column: &Column| {
            let mut own = Column::new(column.data_type.clone());
            own.keeps_sizes = column.keeps_sizes;
            if column.data_type.nullable {
                own.nulls = fixed(&column.nulls, 1);
            }
            if column.keeps_sizes {
                own.sizes = fixed(&column.sizes, 1);
            }
            if column.data_type.base != BaseType::String {
                own.data = fixed(&column.data, column.data_type.width());
                return own;
            }
            let starts = starts_of(column.values(), rows);
            if sorted {
                own.data = column.data.clone();
                for slice in &mut slices {
                    let ends = (starts[slice.from] as usize, starts[slice.to] as usize);
                    slice.bytes.push(ends);
                }
                return own;
            }
            own.data.reserve_exact(column.data.len() + 64);
            for slice in &mut slices {
                let from = own.data.len();
                let span = |row: &u32| {
                    let (start, end) = (starts[*row as usize], starts[*row as usize + 1]);
                    (start, end - start)
                };
                let spans = order[slice.from..slice.to].iter().map(span);
                copy_spans(&column.data, spans, &mut own.data).expect("memory takes all");
                slice.bytes.push((from, own.data.len()));
            }
            own
        };
        HeldBlock { columns: columns.iter().map(held).collect(), slices }
    }

    fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// The partitions, and how many rows of each there are.
    fn partitions(&self) -> impl Iterator<Item = (u16, usize)> {
        self.slices.iter().map(|slice| (slice.partition, slice.to - slice.from))
    }

    /// Append the rows of a partition to columns of the same types, and return how many they are.
    pub fn append(&self, partition: u16, to: &mut [Column]) -> usize {
        let found = self.slices.binary_search_by_key(&partition, |slice| slice.partition);
        let Ok(found) = found else { return 0 };
        let slice = &self.slices[found];
        let mut strings = slice.bytes.iter();
        for (column, own) in to.iter_mut().zip(&self.columns) {
            let rows = slice.from..slice.to;
            if own.data_type.nullable {
                column.nulls.extend_from_slice(&own.nulls[rows.clone()]);
            }
            if own.keeps_sizes {
                column.sizes.extend_from_slice(&own.sizes[rows.clone()]);
            }
            let width = own.data_type.width();
            let (from, end) = match own.data_type.base {
                BaseType::String => *strings.next().expect("one for each column of strings"),
                _ => (rows.start * width, rows.end * width),
            };
            column.data.extend_from_slice(&own.data[from..end]);
        }
        slice.to - slice.from
    }
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
