//! Holds the columns of the block that is being built, in the layout of the Native format. Filling
//! them is left to `values`, writing them to `output`.

pub mod filled;
pub mod keys;
pub mod numbering;
pub mod reorder;
pub mod strings;

use crate::column::keys::Keys;
use crate::types::{BaseType, Type};

/// Bytes of the position of a string in memory.
pub const POSITION_BYTES: usize = size_of::<u32>();

/// A column of the block that is being built, in the layout of the Native format.
#[derive(Debug)]
pub struct Column {
    pub data_type: Type,
    /// One byte a row in Nullable columns, 1 for NULL; empty in others.
    pub nulls: Vec<u8>,
    /// Values of fixed width, or strings with their lengths before them; of arrays and maps, eight
    /// bytes a row: how many elements there are up to the end of the row.
    pub data: Vec<u8>,
    /// Columns of the elements of a nested type, in the order of [`Type::children`].
    pub children: Vec<Column>,
    /// Bytes that each string takes in `data`, 0 for more than 255; empty without `keeps_sizes`.
    pub sizes: Vec<u8>,
    /// The strings will be reordered: finding one by the one before takes 6 ns, by its size 1.
    pub keeps_sizes: bool,
    /// The strings of a column whose `data` has only their numbers, in four bytes each: a dictionary
    /// stays one from its file to the part. LowCardinality columns may have it, and strings in
    /// columns that are written as a whole.
    pub keys: Option<Keys>,
}

/// The lengths of a column at some time, to come back to.
#[derive(Default)]
pub struct ColumnEnd {
    nulls: usize,
    data: usize,
    sizes: usize,
    children: Vec<ColumnEnd>,
}

impl Column {
    /// An empty column.
    pub fn new(data_type: Type) -> Column {
        let (nulls, data, sizes) = Default::default();
        let children = data_type.children().iter().cloned().map(Column::new).collect();
        Column { data_type, nulls, data, children, sizes, keeps_sizes: false, keys: None }
    }

    /// An empty column for values of another one.
    pub fn like(other: &Column) -> Column {
        let mut found = Column::new(other.data_type.clone());
        found.keep_sizes_of(other);
        found
    }

    fn keep_sizes_of(&mut self, other: &Column) {
        self.keeps_sizes = other.keeps_sizes;
        self.children.iter_mut().zip(&other.children).for_each(|(own, o)| own.keep_sizes_of(o));
    }

    /// Bytes of a value in `data`; 0 where they vary.
    pub fn width(&self) -> usize {
        self.values().width()
    }

    /// Bytes in memory of all values, and of the positions of strings in arrays and maps, which are
    /// found when these are written: there may be many more of them than rows.
    pub fn bytes(&self) -> usize {
        let children: usize = self.children.iter().map(Column::bytes).sum();
        let keys = self.keys.as_ref().map_or(0, Keys::bytes);
        let positions = match self.data_type.base {
            BaseType::Array(_) | BaseType::Map(_) => {
                let strings: usize = self.children.iter().map(Column::strings).sum();
                POSITION_BYTES * strings * self.elements(0)
            }
            _ => 0,
        };
        self.nulls.len() + self.data.len() + self.sizes.len() + keys + positions + children
    }

    /// How many strings each value has that are in no array or map; those of dictionaries are two,
    /// as they have a number besides a position.
    fn strings(&self) -> usize {
        match self.data_type.base {
            BaseType::String => 1 + usize::from(self.data_type.low_cardinality),
            BaseType::Tuple(..) => self.children.iter().map(Column::strings).sum(),
            _ => 0,
        }
    }

    /// Bytes of the data of what takes most, the column itself or what is in it.
    pub fn longest(&self) -> usize {
        self.children.iter().map(Column::longest).max().unwrap_or(0).max(self.data.len())
    }

    /// How many values the children have, where the column has `rows`.
    pub fn elements(&self, rows: usize) -> usize {
        match self.data_type.base {
            BaseType::Array(_) | BaseType::Map(_) => {
                self.data.last_chunk().map_or(0, |end| u64::from_le_bytes(*end) as usize)
            }
            _ => rows,
        }
    }

    /// Drop all values and keep the memory.
    pub fn clear(&mut self) {
        self.nulls.clear();
        self.data.clear();
        self.sizes.clear();
        self.keys.iter_mut().for_each(Keys::clear);
        self.children.iter_mut().for_each(Column::clear);
    }

    /// Drop the values that were appended after `end` was taken.
    pub fn truncate(&mut self, end: &ColumnEnd) {
        self.nulls.truncate(end.nulls);
        self.data.truncate(end.data);
        self.sizes.truncate(end.sizes);
        self.children.iter_mut().zip(&end.children).for_each(|(child, end)| child.truncate(end));
    }

    /// The present lengths.
    pub fn end(&self) -> ColumnEnd {
        ColumnEnd {
            nulls: self.nulls.len(),
            data: self.data.len(),
            sizes: self.sizes.len(),
            children: self.children.iter().map(Column::end).collect(),
        }
    }

    /// The values that were appended after `end` was taken, of a type that is not nested.
    pub fn values_from(&self, end: &ColumnEnd) -> Values<'_> {
        Values {
            data_type: &self.data_type,
            nulls: &self.nulls[end.nulls..],
            data: &self.data[end.data..],
            sizes: &self.sizes[end.sizes..],
            keys: self.keys.as_ref(),
        }
    }

    /// All values, of a type that is not nested.
    pub fn values(&self) -> Values<'_> {
        self.values_from(&ColumnEnd::default())
    }
}

/// Some neighbouring values of a column; the fields are those of [`Column`].
#[derive(Clone, Copy)]
pub struct Values<'a> {
    pub data_type: &'a Type,
    pub nulls: &'a [u8],
    pub data: &'a [u8],
    /// Empty where they are not kept.
    pub sizes: &'a [u8],
    pub keys: Option<&'a Keys>,
}

impl Values<'_> {
    /// Bytes of a value in `data`; 0 where they vary.
    pub fn width(&self) -> usize {
        if self.keys.is_some() { size_of::<u32>() } else { self.data_type.width() }
    }

    /// The numbers of the strings in the `keys`.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = u32> {
        self.data.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
    }
}
