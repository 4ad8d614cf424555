//! A block of rows as a part of a MergeTree table: a folder with the files that the engine itself
//! would write for an INSERT of the block, so that it only has to be attached.
//!
//! The part is a wide one of a table without partitions, sorted by the key's columns; its strings
//! have their sizes in a stream of their own: what `MergeTreeDataPartWriterWide` and
//! `MergedBlockOutputStream` of ClickHouse write.

mod checksums;
mod stream;
mod strings;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::column::reorder::{self, Rows, Sink, repeats};
use crate::column::strings::starts_of;
use crate::column::{Column, Values};
use crate::output::low_cardinality;
use crate::output::part::checksums::{Hash, Sums};
use crate::output::part::stream::Stream;
use crate::output::part::strings::{Texts, text_of};
use crate::types::Base;

/// Rows of a granule, and its bytes where rows are long: index_granularity and
/// index_granularity_bytes as the engine has them.
const GRANULE: usize = 8192;
const GRANULE_BYTES: usize = 10 << 20;

/// Keys of a dictionary that a whole column shares: low_cardinality_max_dictionary_size.
const DICTIONARY: usize = 8192;
/// What stands before the numbers of a granule: whether their keys are the column's or its own.
const SHARED: u64 = 1 << 8;
const OWN: u64 = 1 << 9;

/// Writes the parts of one worker, as folders `0`, `1`, ... in a folder of its own.
pub struct Output {
    folder: PathBuf,
    /// Columns of the table's key.
    keys: Vec<usize>,
    parts: usize,
    stream: Stream,
}

impl Output {
    pub fn open(path: &str, keys: &[usize]) -> io::Result<Output> {
        std::fs::create_dir(path)?;
        let (folder, keys) = (path.into(), keys.to_vec());
        Ok(Output { folder, keys, parts: 0, stream: Stream::default() })
    }

    /// Write a part of all columns, its rows in `order` if there is one.
    pub fn write(
        &mut self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        order: Option<&[u32]>,
    ) -> io::Result<()> {
        let folder = self.folder.join(self.parts.to_string());
        self.parts += 1;
        std::fs::create_dir(&folder)?;
        let block = Block { rows, granule: granule(columns, rows), order };
        let mut sums = Sums::default();
        let (mut kinds, mut streams) = (Vec::new(), String::new());
        for (name, column) in names.iter().zip(columns) {
            let found = block.column(name, column, &folder, &mut self.stream, &mut sums)?;
            if let Some(defaults) = found.defaults {
                kinds.push((name, defaults));
            }
            streams += &format!("{} substreams for column `{name}`:\n", found.streams.len());
            found.streams.iter().for_each(|stream| streams += &format!("\t{stream}\n"));
        }
        let keys: Vec<Values<'_>> = self.keys.iter().map(|&key| columns[key].values()).collect();
        if !keys.is_empty() {
            self.stream.small_file(&folder, "primary.cidx", &block.key(&keys), &mut sums)?;
        }
        kinds.sort_unstable();
        let kinds: Vec<_> = kinds
            .iter()
            .map(|(name, defaults)| {
                json!({"kind": "Default", "name": name, "num_defaults": defaults,
                       "num_rows": rows, "exact_num_defaults": true})
            })
            .collect();
        let kinds = json!({
            "columns": kinds, "propagate_types_serialization_versions_to_nested_types": true,
            "types_serialization_versions": {"string": 1}, "version": 1,
        });
        let listed: String = (names.iter().zip(columns))
            .map(|(name, column)| format!("`{name}` {}\n", column.kind.name))
            .collect();
        let count = columns.len();
        plain_file(&folder, "serialization.json", &kinds.to_string(), Some(&mut sums))?;
        plain_file(&folder, "count.txt", &rows.to_string(), Some(&mut sums))?;
        plain_file(&folder, "uuid.txt", &uuid()?, Some(&mut sums))?;
        let text = format!("columns format version: 1\n{count} columns:\n{listed}");
        plain_file(&folder, "columns.txt", &text, None)?;
        let text = format!("columns substreams version: 1\n{count} columns:\n{streams}");
        plain_file(&folder, "columns_substreams.txt", &text, None)?;
        plain_file(&folder, "default_compression_codec.txt", "CODEC(LZ4)", None)?;
        plain_file(&folder, "metadata_version.txt", "0", None)?;
        std::fs::write(folder.join("checksums.txt"), sums.text())
    }
}

/// Rows of a granule, as the engine has them for an INSERT: as many as fit into its bytes, or, of
/// a longer block, so many that the last granule is about as long as the others.
fn granule(columns: &[Column], rows: usize) -> usize {
    // In the engine's memory a string has eight bytes besides its text, here one or two.
    let more = |column: &Column| match column.kind.width() {
        0 if !column.kind.low => 7 * rows,
        _ => 0,
    };
    let bytes: usize = columns.iter().map(|c| c.nulls.len() + c.data.len() + more(c)).sum();
    let found = match bytes / GRANULE_BYTES {
        0 => GRANULE_BYTES / (bytes / rows).max(1),
        granules => rows / granules,
    };
    found.clamp(1, GRANULE)
}

/// As many rows, in the order of memory where all are the `same`.
fn any(same: bool, rows: Rows<'_>) -> Rows<'_> {
    if same { Rows::From(0, rows.len()) } else { rows }
}

/// What one part is made of.
struct Block<'a> {
    rows: usize,
    granule: usize,
    order: Option<&'a [u32]>,
}

/// What was written of a column.
struct Found {
    streams: Vec<String>,
    /// Rows that hold the type's default value; None where the engine does not count them.
    defaults: Option<usize>,
}

impl Block<'_> {
    /// The rows of each granule.
    fn granules(&self) -> impl Iterator<Item = Rows<'_>> {
        let starts = (0..self.rows).step_by(self.granule);
        starts.map(move |from| {
            let to = self.rows.min(from + self.granule);
            self.order.map_or(Rows::From(from, to), |order| Rows::Order(&order[from..to]))
        })
    }

    fn column(
        &self,
        name: &str,
        column: &Column,
        folder: &Path,
        stream: &mut Stream,
        sums: &mut Sums,
    ) -> io::Result<Found> {
        let mut streams = Vec::new();
        let mut write =
            |suffix: &str, fill: &mut dyn FnMut(Rows<'_>, &mut Stream) -> io::Result<()>| {
                let name = format!("{name}{suffix}");
                stream.begin(folder, name.clone())?;
                for rows in self.granules() {
                    stream.mark(rows.len())?;
                    fill(rows, stream)?;
                }
                streams.push(name);
                stream.end(folder, sums)
            };
        let kind = &column.kind;
        if kind.low {
            return Ok(Found {
                streams: self.low(name, column, folder, stream, sums)?,
                defaults: None,
            });
        }
        if kind.nullable {
            let same = repeats(&column.nulls, 1);
            write(".null", &mut |rows, out| {
                reorder::fixed(&column.nulls, 1, any(same, rows), out)
            })?;
        }
        let mut defaults = None;
        match kind.width() {
            0 => {
                let texts = Texts::of(column.values(), self.rows);
                write(".size", &mut |rows, out| texts.sizes(rows, out))?;
                write("", &mut |rows, out| texts.texts(&column.data, rows, out))?;
                if !kind.nullable {
                    defaults = Some(texts.empty(self.rows));
                }
            }
            width => {
                let same = repeats(&column.data, width);
                write("", &mut |rows, out| {
                    reorder::fixed(&column.data, width, any(same, rows), out)
                })?;
                if !kind.nullable {
                    let zeros =
                        column.data.chunks_exact(width).filter(|v| v.iter().all(|b| *b == 0));
                    defaults = Some(zeros.count());
                }
            }
        }
        Ok(Found { streams, defaults })
    }

    /// A column of LowCardinality: one dictionary for all of it where the engine would have one,
    /// otherwise each granule has its own keys.
    fn low(
        &self,
        name: &str,
        column: &Column,
        folder: &Path,
        stream: &mut Stream,
        sums: &mut Sums,
    ) -> io::Result<Vec<String>> {
        let nullable = column.kind.nullable;
        let found = low_cardinality::number(low_cardinality::values(column), nullable, true);
        let shared = found.count as usize <= DICTIONARY;
        let names = vec![format!("{name}.dict"), name.to_owned()];
        stream.begin(folder, names[0].clone())?;
        stream.room(8)?.extend_from_slice(&low_cardinality::VERSION);
        for rows in self.granules() {
            stream.mark(rows.len())?;
        }
        if shared {
            let out = stream.room(8 + found.keys.len())?;
            out.extend_from_slice(&u64::from(found.count).to_le_bytes());
            out.extend_from_slice(&found.keys);
        }
        stream.end(folder, sums)?;
        let starts = if shared { Vec::new() } else { starts_of(column.values(), self.rows) };
        let value = |row: usize| {
            let (from, size) = text_of(&starts, row);
            let null = column.nulls.get(row) == Some(&1);
            (!null).then(|| &column.data[from as usize..][..size as usize])
        };
        stream.begin(folder, names[1].clone())?;
        for rows in self.granules() {
            stream.mark(rows.len())?;
            let own = if shared {
                None
            } else {
                Some(low_cardinality::number(rows.map(value), nullable, false))
            };
            let out =
                stream.room(24 + 4 * rows.len() + own.as_ref().map_or(0, |o| o.keys.len()))?;
            match &own {
                None => out.extend_from_slice(&(SHARED | found.code()).to_le_bytes()),
                Some(own) => {
                    out.extend_from_slice(&(OWN | own.code()).to_le_bytes());
                    out.extend_from_slice(&u64::from(own.count).to_le_bytes());
                    out.extend_from_slice(&own.keys);
                }
            }
            out.extend_from_slice(&(rows.len() as u64).to_le_bytes());
            match &own {
                None => found.put(rows.map(|row| found.rows[row]), out),
                Some(own) => own.put(own.rows.iter().copied(), out),
            }
        }
        stream.end(folder, sums)?;
        Ok(names)
    }

    /// The key of the first row of each granule, and of the last row.
    fn key(&self, keys: &[Values<'_>]) -> Vec<u8> {
        let starts: Vec<_> = keys
            .iter()
            .map(|key| match key.kind.base {
                Base::String => starts_of(*key, self.rows),
                _ => Vec::new(),
            })
            .collect();
        let mut out = Vec::new();
        for row in (0..self.rows).step_by(self.granule).chain([self.rows - 1]) {
            let row = self.order.map_or(row, |order| order[row] as usize);
            for (key, starts) in keys.iter().zip(&starts) {
                let (from, to) = match starts[..] {
                    [] => (row * key.kind.width(), (row + 1) * key.kind.width()),
                    _ => (starts[row] as usize, starts[row + 1] as usize),
                };
                out.extend_from_slice(&key.data[from..to]);
            }
        }
        out
    }
}

fn plain_file(folder: &Path, name: &str, text: &str, sums: Option<&mut Sums>) -> io::Result<()> {
    if let Some(sums) = sums {
        sums.add(name.to_owned(), &Hash::of(text.as_bytes()), None);
    }
    std::fs::write(folder.join(name), text)
}

/// A random one, as the engine gives to its parts.
fn uuid() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim_end().to_owned())
}
