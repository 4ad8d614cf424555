//! Writes what says to which partition a part belongs: the value of the key, and for each column
//! that the key uses the least and the greatest value.

use std::cmp::Ordering;
use std::io;
use std::path::Path;

use crate::column::reorder::all_equal;
use crate::column::strings::starts_of;
use crate::column::{Column, Values};
use crate::output::part::checksums::{Checksums, FileHash};
use crate::sort::compare_values;
use crate::sort::keys::extreme_rows;
use crate::types::BaseType;
use crate::types::streams::{escaped, file_name};

/// A partition of a table.
pub struct Partition {
    /// The first part of the names of its parts, behind the number of a shard and a dot.
    pub id: String,
    /// The value of the key, as the engine writes it.
    pub value: Vec<u8>,
    /// Indices of the columns that the key's expression uses.
    pub columns: Vec<usize>,
}

impl Partition {
    /// Write the files of a part of this partition; none where the table has shards only.
    pub fn write(
        &self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        folder: &Path,
        checksums: &mut Checksums,
    ) -> io::Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut write = |name: String, bytes: &[u8]| {
            checksums.add(name.clone(), FileHash::of(bytes).sum(), None);
            std::fs::write(folder.join(name), bytes)
        };
        write("partition.dat".to_owned(), &self.value)?;
        for &number in &self.columns {
            let extremes = extremes(columns[number].values(), rows);
            let name = file_name(&escaped(names[number].as_bytes()));
            write(format!("minmax_{name}.idx"), &extremes)?;
        }
        Ok(())
    }
}

/// The least and the greatest value of a column, each behind its NULL mark where the column may be
/// NULL; NULL is greater than all values.
fn extremes(values: Values<'_>, rows: usize) -> Vec<u8> {
    let base = &values.data_type.base;
    let (starts, width) = match base {
        BaseType::String => (starts_of(values, rows), 0),
        _ => (Vec::new(), values.data_type.width()),
    };
    let stored = |row: usize| match starts[..] {
        [] => &values.data[row * width..][..width],
        _ => &values.data[starts[row] as usize..starts[row + 1] as usize],
    };
    // Without its length.
    let value = |row: usize| {
        let stored = stored(row);
        match base {
            BaseType::String => {
                let length = stored.iter().position(|byte| *byte < 128).map_or(0, |at| at + 1);
                &stored[length..]
            }
            _ => stored,
        }
    };
    let null = |row: usize| values.nulls.get(row) == Some(&1);
    let before = |a: usize, b: usize| compare_values(base, value(a), value(b)) == Ordering::Less;
    let nulls = values.nulls.contains(&1);
    let (mut low, mut high) = (None, None);
    let one = width > 0 && !nulls && all_equal(values.data, width);
    let found = if one { Some(Some((0, 0))) } else { extreme_rows(&values) };
    if let Some(found) = found {
        (low, high) = found.unzip();
    }
    // Of types that have no numbers.
    let rows = if found.is_some() { 0 } else { rows };
    for row in 0..rows {
        if null(row) {
            continue;
        }
        if low.is_none_or(|low| before(row, low)) {
            low = Some(row);
        }
        if high.is_none_or(|high| before(high, row)) {
            high = Some(row);
        }
    }
    let mut out = Vec::new();
    for row in [low, if nulls { None } else { high }] {
        if values.data_type.nullable {
            out.push(u8::from(row.is_none()));
        }
        if let Some(row) = row {
            out.extend_from_slice(stored(row));
        }
    }
    out
}
