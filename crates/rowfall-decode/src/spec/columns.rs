//! Columns to write, and what a table says about its parts.

use serde::{Deserialize, Serialize};

use crate::types::{TimeNotation, Type};

/// A column to write.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    /// Its name in the blocks.
    pub name: String,
    /// Its name in the header or its key in JSON; `name` where there is none.
    #[serde(default)]
    pub source: Option<String>,
    /// Which column of the file it is, from 0 on; for formats without names, and with
    /// `skip_header`.
    #[serde(default)]
    pub position: Option<usize>,
    /// Its ClickHouse type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Notation of points in time: nothing, `T` or `Z`.
    #[serde(default)]
    pub time_notation: TimeNotation,
    /// Numbers and Bools have to be written as they are kept: without zeros before them, `true` or
    /// `false`.
    #[serde(default)]
    pub canonical: bool,
    /// An empty field is NULL in quotes, too, and whatever else NULL is written as; of columns that
    /// are no text.
    #[serde(default)]
    pub blank: bool,
    /// Blanks and tabs around values are left out; of columns that are no text.
    #[serde(default)]
    pub padded: bool,
    /// Codecs of the column in parts, one after the other, as `Delta(4)`; none for LZ4.
    #[serde(default)]
    pub codecs: Vec<String>,
}

/// Sizes and streams in parts, by the settings of the table; the defaults are the engine's.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartLayout {
    /// Rows of a granule at most: `index_granularity`.
    pub granule_rows: usize,
    /// Bytes of a granule at most: `index_granularity_bytes`.
    pub granule_bytes: usize,
    /// Bytes with which a compressed block ends at the next granule: `min_compress_block_size`.
    pub min_block: usize,
    /// Bytes of a compressed block at most: `max_compress_block_size`.
    pub max_block: usize,
    /// Share of defaults above which only the other values of a column are written:
    /// `ratio_of_defaults_for_sparse_serialization`, in the engine's precision.
    pub sparse_above: f32,
    /// How strings are stored.
    pub strings: StringStreams,
    /// Bytes and rows of a wide part at least: `min_bytes_for_wide_part`, `min_rows_for_wide_part`.
    /// Parts of less are compact.
    pub wide_bytes: u64,
    /// See `wide_bytes`.
    pub wide_rows: u64,
    /// Marks of compact parts say where each stream of a column starts, not only the column:
    /// `write_marks_for_substreams_in_compact_parts`.
    pub substream_marks: bool,
}

impl PartLayout {
    /// True where a part of so many bytes in the engine's memory, and rows, is compact.
    pub fn is_compact(&self, bytes: usize, rows: usize) -> bool {
        (bytes as u64) < self.wide_bytes || (rows as u64) < self.wide_rows
    }
}

/// Streams of a string in parts: `string_serialization_version`, and what `serialization.json` says
/// of it (`serialization_info_version`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StringStreams {
    /// Lengths have a stream of their own.
    #[default]
    Apart,
    /// Each string is behind its length, as 24.10 has it.
    Inline,
    /// So it is, and `serialization.json` says so, in a version that 24.10 does not know.
    InlineTyped,
}

impl Default for PartLayout {
    fn default() -> PartLayout {
        PartLayout {
            granule_rows: 8192,
            granule_bytes: 10 << 20,
            min_block: 64 << 10,
            max_block: 1 << 20,
            sparse_above: 0.9375,
            strings: StringStreams::Apart,
            wide_bytes: 10 << 20,
            wide_rows: 0,
            substream_marks: true,
        }
    }
}

impl ColumnSpec {
    /// Its type; `zone` is the time zone of types that name none.
    pub fn data_type(&self, zone: Option<&str>) -> Result<Type, String> {
        let found = Type::parse_written(&self.type_name, self.time_notation, self.canonical, zone)?;
        Ok(Type { blank: self.blank, padded: self.padded, ..found })
    }

    /// Its name in the header or its key in JSON.
    pub fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.name)
    }
}

/// The partition key of a table. Its values are asked for, see [`crate::questions`].
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionKey {
    /// The columns that its expression uses.
    pub columns: Vec<KeyColumn>,
    /// Partitions of a block at most: max_partitions_per_insert_block; 0 for any number.
    #[serde(default)]
    pub max_partitions: usize,
    /// The file in which values of these columns are handed over, in the Native format.
    pub file: String,
    /// Bytes of rows that are held in memory, so that those of a partition become one part.
    #[serde(default)]
    pub hold_bytes: usize,
    /// The shards of a cluster, whose parts are apart; none where the table is on one.
    #[serde(default)]
    pub shard: Option<ShardKey>,
}

/// The sharding key of a table: whose parts begin with the number of the shard and a dot.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShardKey {
    /// The hash of a column that says where a row belongs; none where the engine is asked.
    #[serde(default)]
    pub hash: Option<ShardHash>,
    /// Index of that column.
    #[serde(default)]
    pub column: usize,
    /// The columns that the engine's expression uses.
    #[serde(default)]
    pub columns: Vec<KeyColumn>,
    /// Slot behind the last one of each shard: a row belongs in the one that is the remainder of the
    /// hash divided by the last of these.
    pub ends: Vec<u64>,
}

/// A hash of one column, called as the engine's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum ShardHash {
    /// The number itself.
    #[serde(rename = "")]
    Value,
    /// Of numbers.
    #[serde(rename = "intHash32")]
    Int32,
    /// Of numbers.
    #[serde(rename = "intHash64")]
    Int64,
    /// CityHash 1.0.2 of texts, and the engine's hash of numbers.
    #[serde(rename = "cityHash64")]
    City,
    /// SipHash-2-4.
    #[serde(rename = "sipHash64")]
    Sip,
    /// XXH64.
    #[serde(rename = "xxHash64")]
    Xx,
}

/// How the sorted rows of blocks are kept until they become one part.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// Bytes of rows that are held in memory; others go into a file.
    pub hold_bytes: usize,
    /// Where that file is made; it has no name a moment later.
    pub file: String,
    /// Bytes that fill a block that is held in memory; those of other blocks where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<usize>,
}

/// Expressions of a sorting key. Their values are asked for, see [`crate::questions`].
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ComputedKeys {
    /// The first part of the names of files in which values are handed over, in the Native format.
    pub file: String,
    /// The expressions.
    pub expressions: Vec<KeyExpression>,
}

/// An expression of a sorting key.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeyExpression {
    /// The ClickHouse type of its values.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The columns that it uses.
    pub columns: Vec<KeyColumn>,
}

impl ComputedKeys {
    /// The types of the values; points in time need no zone.
    pub fn types(&self) -> Result<Vec<Type>, String> {
        let types = self.expressions.iter().map(|key| Type::parse(&key.type_name, Some("UTC")));
        types.collect()
    }

    /// True where an expression uses a column.
    pub fn uses(&self, column: usize) -> bool {
        self.expressions.iter().flat_map(|key| &key.columns).any(|used| used.index == column)
    }
}

/// A column that an expression of a key uses.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeyColumn {
    /// Index of the column.
    pub index: usize,
    /// The expression is the same for all values in steps of so many, from 0 on.
    #[serde(default)]
    pub floor: i64,
    /// It is the same for values with the same remainder of a division by this.
    #[serde(default)]
    pub modulo: i64,
    /// It is the same for values with the same quotient of a division by this.
    #[serde(default)]
    pub divide: i64,
}

/// The values that an expression does not tell apart.
#[derive(Debug, Clone, Copy)]
pub enum Same {
    /// The same values only.
    Value,
    /// Those in the same step of this length, where they are not below 0.
    Floor(i64),
    /// Those with the same remainder.
    Modulo(i64),
    /// Those with the same quotient.
    Divide(i64),
}

impl KeyColumn {
    /// The values that the expression does not tell apart.
    pub fn same(&self) -> Same {
        match (self.floor, self.modulo, self.divide) {
            (0, 0, 0) => Same::Value,
            (step, 0, 0) => Same::Floor(step),
            (_, 0, by) => Same::Divide(by),
            (_, by, _) => Same::Modulo(by),
        }
    }
}
