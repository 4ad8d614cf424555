//! Reads and checks the JSON document of `--spec`, which says what a run has to do.

mod columns;
mod formats;
mod objects;

use serde::{Deserialize, Serialize};

use crate::codec::Chains;
use crate::dialect::Dialect;
use crate::error::Fail;
use crate::types::postgresql::Field;
use crate::types::{BaseType, Type};

pub use crate::spec::columns::{
    ColumnSpec, ComputedKeys, KeyColumn, KeyExpression, Merge, PartLayout, PartitionKey, Same,
    ShardHash, ShardKey, StringStreams,
};
pub use crate::spec::formats::{
    Compression, Format, OutputCompression, OutputFormat, Tuples, UnknownColumns,
};
pub use crate::spec::objects::{ArrowOutput, Block, Connection, Input, Secret};

/// The version of the document: another one has other names.
pub const VERSION: u32 = 2;

/// A single record longer than this is declined, where the spec says nothing else.
pub const MAX_RECORD_BYTES: usize = 64 << 20;

/// The document. Fields with a default may be left out, unknown ones are an error.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// [`VERSION`].
    pub version: u32,
    /// What to read, in this order.
    pub inputs: Vec<Input>,
    /// The compression of all inputs.
    #[serde(default)]
    pub compression: Compression,
    /// The format of all inputs.
    pub format: Format,
    /// One ASCII character between the fields of CSV; TSV has tabs.
    #[serde(default = "comma")]
    pub delimiter: String,
    /// Text of CSV that means NULL where it is not quoted: nothing, or `\N`.
    #[serde(default)]
    pub null: String,
    /// The engine's reader would cut blanks off around strings: such strings are declined.
    #[serde(default = "yes")]
    pub trim_strings: bool,
    /// Each row of CSV or TSV ends with a delimiter, as in `1|a|`; a header may.
    #[serde(default)]
    pub trailing: bool,
    /// Where CSV has the elements of Tuple columns.
    #[serde(default)]
    pub tuples: Tuples,
    /// Strings may hold line breaks; otherwise a line break is taken for a quote that is never
    /// closed.
    #[serde(default)]
    pub allow_line_breaks: bool,
    /// Text may hold bytes that are not UTF-8; otherwise they are declined.
    #[serde(default)]
    pub binary: bool,
    /// How the text is written where it is rewritten first, CSV to plain CSV, and of other formats
    /// the charset; then the fields above say how it is read after that.
    #[serde(default)]
    pub dialect: Option<Dialect>,
    /// What to do with columns and keys of the file that are not in `columns`.
    #[serde(default)]
    pub unknown: UnknownColumns,
    /// The types of the columns of PostgreSQL, as it calls them; those whose values come as text
    /// are `text`.
    #[serde(default)]
    pub input_types: Vec<String>,
    /// How many columns the file has, for formats without names where not all of them are wanted.
    #[serde(default)]
    pub file_columns: Option<usize>,
    /// The names in the header mean nothing: columns are found by their positions.
    #[serde(default)]
    pub skip_header: bool,
    /// Time zone of `DateTime` columns that name none: UTC or one of `types/zone.rs`.
    #[serde(default)]
    pub timezone: Option<String>,
    /// The columns to write, in this order.
    pub columns: Vec<ColumnSpec>,
    /// Rows of a block at most; up to an eighth more where the input ends with them.
    #[serde(default = "million")]
    pub block_rows: usize,
    /// Bytes of a block in memory, about which it ends.
    #[serde(default = "quarter_gib")]
    pub block_bytes: usize,
    /// Indices of the columns by which each block is sorted; none to leave the rows as they come.
    /// Those of `computed` follow the columns.
    #[serde(default)]
    pub sort_by: Option<Vec<usize>>,
    /// How many of `sort_by`, from the first one on, are the primary key of parts; none for all.
    #[serde(default)]
    pub primary: Option<usize>,
    /// Values of the sorting key that are no columns, for `parts`.
    #[serde(default)]
    pub computed: Option<ComputedKeys>,
    /// Pipes, files, `-` for stdout, or folders (`parts`): one for each thread.
    pub outputs: Vec<String>,
    /// Milliseconds between lines about the progress on stderr; 0 for none.
    #[serde(default)]
    pub progress_ms: u64,
    /// Decompress text in threads of their own, and let all workers decode pieces of the same input:
    /// there are fewer inputs than cores. Rows come in no order where there are several outputs.
    #[serde(default)]
    pub read_ahead: bool,
    /// The compression of Native blocks.
    #[serde(default)]
    pub output_compression: OutputCompression,
    /// The format of the outputs.
    #[serde(default)]
    pub output_format: OutputFormat,
    /// Indices of the columns whose values go into a binary format as text, as the server's columns
    /// are of other types.
    #[serde(default)]
    pub output_texts: Vec<usize>,
    /// The types of the server's columns, as it calls them, for a binary format that they decide on.
    #[serde(default)]
    pub output_types: Vec<String>,
    /// Rows as text go into a connection. The output is a named pipe: it is opened when the connection
    /// waits for rows, and gets the number of the packet behind the last one.
    #[serde(default)]
    pub output_connection: Option<Connection>,
    /// A stream of Arrow has Arrow's own types: nested ones, dictionaries, time zones. It has one output,
    /// whose rows are in the order of the inputs.
    #[serde(default)]
    pub output_arrow: Option<ArrowOutput>,
    /// Outputs are folders that are made, and each block becomes a part of a MergeTree table that
    /// is sorted by `sort_by`.
    #[serde(default)]
    pub parts: bool,
    /// How parts are laid out.
    #[serde(default)]
    pub layout: PartLayout,
    /// The partition key of the table, for `parts`; none where it has no partitions.
    #[serde(default)]
    pub partition_by: Option<PartitionKey>,
    /// All rows become one part in the end, for `parts` of a table without partitions; none to make a
    /// part of each block.
    #[serde(default)]
    pub merge: Option<Merge>,
    /// Bytes of text that are decoded together; for tests.
    #[serde(default = "chunk")]
    pub chunk_bytes: usize,
    /// Bytes of memory that the program takes at most; where it needs more it is aborted. Sizes that
    /// an input of columns tells are believed up to that.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Bytes of one record at most; longer ones are declined.
    #[serde(default = "longest_record")]
    pub record_bytes: usize,
    /// `auto`, `scalar`, `avx2` or `avx512`; for tests and measurements.
    #[serde(default)]
    pub simd: Option<String>,
}

/// Rows and bytes of a block whose rows become text: it stays in the cache until they are written.
const TEXT_BLOCK: (usize, usize) = (4096, 1 << 20);

/// Rows and bytes of a batch of Arrow: whole vectors of DuckDB (2,048 rows), written and read while they
/// are in the cache.
const ARROW_BLOCK: (usize, usize) = (16_384, 4 << 20);

fn comma() -> String {
    ",".into()
}
fn yes() -> bool {
    true
}
fn million() -> usize {
    1_000_000
}
fn quarter_gib() -> usize {
    256 << 20
}
fn longest_record() -> usize {
    MAX_RECORD_BYTES
}
fn chunk() -> usize {
    256 << 10
}

impl Spec {
    /// Parse without a check.
    pub fn read(text: &str) -> Result<Spec, Fail> {
        serde_json::from_str(text).map_err(|e| Fail::spec(format!("the spec: {e}")))
    }

    /// Parse and check; all reasons against it at once.
    pub fn parse(text: &str) -> Result<Spec, Fail> {
        let mut spec: Spec = Spec::read(text)?;
        if matches!(spec.format, Format::Tsv | Format::TsvWithNames) {
            spec.delimiter = "\t".into();
        }
        if spec.output_arrow.is_some() {
            // As it was asked for: each batch costs whoever takes it some work.
        } else if spec.output_format == OutputFormat::ArrowStream {
            spec.block_rows = spec.block_rows.min(ARROW_BLOCK.0);
            spec.block_bytes = spec.block_bytes.min(ARROW_BLOCK.1);
        } else if spec.output_format != OutputFormat::Native {
            spec.block_rows = spec.block_rows.min(TEXT_BLOCK.0);
            spec.block_bytes = spec.block_bytes.min(TEXT_BLOCK.1);
        }
        let reasons = spec.reasons();
        if reasons.is_empty() { Ok(spec) } else { Err(Fail::Spec(reasons)) }
    }

    /// The types of the columns, in their order.
    pub fn types(&self) -> Result<Vec<Type>, Fail> {
        let zone = self.timezone.as_deref();
        let parsed = self.columns.iter().map(|c| c.data_type(zone));
        parsed.collect::<Result<_, _>>().map_err(Fail::spec)
    }

    /// Stored bytes of all inputs; None where they are unknown, or are made here.
    pub fn bytes(&self) -> Option<u64> {
        let stored = self.format != Format::Random;
        self.inputs.iter().map(|input| input.bytes().filter(|_| stored)).sum()
    }

    /// Whether elements of tuples stand in fields of their own.
    pub fn tuples_are_fields(&self) -> bool {
        self.format.is_csv() && self.tuples == Tuples::Fields
    }

    /// Why the elements of a tuple cannot be told from what is beside them.
    fn apart_reason(&self) -> Option<&'static str> {
        let all = self.unknown == UnknownColumns::Error
            && self.file_columns.is_none_or(|count| count == self.columns.len());
        if self.delimiter.as_bytes()[0].is_ascii_whitespace() || self.delimiter == "\u{b}" {
            return Some("the engine skips blanks between the elements of a Tuple");
        }
        (!all).then_some("whoever skips columns has to know how many fields they take")
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut need = |fine: bool, reason: &str| {
            if !fine {
                reasons.push(reason.to_owned());
            }
        };
        let delimiter = self.delimiter.as_bytes();
        let columnar = self.format.is_columnar();
        let whole = !self.format.is_text();
        need(self.version == VERSION, &format!("only version {VERSION} of the spec is known"));
        need(
            delimiter.len() == 1 && !b"\r\n\"\\ ".contains(&delimiter[0]),
            "the delimiter is one ASCII character, no quote, blank, backslash or line end",
        );
        need(matches!(self.null.as_str(), "" | "\\N"), "null is the empty text or \\N");
        for reason in self.dialect.iter().flat_map(Dialect::reasons) {
            need(false, &reason);
        }
        need(
            self.dialect.is_none() || self.inputs.iter().all(|i| i.start == 0 && !i.is_cut()),
            "byte ranges are for text that is not rewritten",
        );
        need(
            self.dialect.is_none() || !self.format.is_csv() || self.delimiter == ",",
            "rewritten CSV has commas",
        );
        need(self.format.is_built_in(), "this program was built without Arrow and Parquet");
        need(
            !whole || (self.compression == Compression::None && self.dialect.is_none()),
            "columns are read as they are: without compression or dialect",
        );
        need(!self.columns.is_empty(), "there are no columns");
        need(!self.outputs.is_empty(), "there are no outputs");
        need(self.block_rows > 0 && self.block_bytes > 0, "blocks need rows and bytes");
        need(self.block_bytes <= 1 << 30, "block_bytes is at most 1 GiB");
        need(self.block_rows <= 1 << 28, "block_rows is at most 268,435,456");
        let sizes = self.layout;
        need(
            sizes.granule_rows > 0
                && sizes.granule_bytes > 0
                && (1..=64 << 20).contains(&sizes.max_block)
                && (1..=sizes.max_block).contains(&sizes.min_block),
            "granules and compressed blocks have rows and bytes, blocks of parts 64 MiB at most",
        );
        need(self.chunk_bytes > 0 && self.chunk_bytes <= 64 << 20, "chunk_bytes is at most 64 MiB");
        need(
            self.compression == Compression::None
                || self.inputs.iter().all(|i| i.start == 0 && i.stop.is_none()),
            "byte ranges are for uncompressed files",
        );
        need(
            self.format == Format::Random
                || self.inputs.iter().all(|i| i.url().is_some() || !i.path.contains("://")),
            "an object in a store is named by its url, signed where it has to be",
        );
        let named = self.format.has_names() || self.format == Format::Json || columnar;
        need(
            (named && !self.skip_header) || self.columns.iter().all(|c| c.position.is_some()),
            "columns need a position where the file has no names",
        );
        need(
            !self.format.has_names() || self.inputs.iter().all(|i| i.start == 0),
            "a range of a file with names starts at its header",
        );
        let wide = |n: usize| n < 100_000;
        need(
            self.columns.iter().filter_map(|c| c.position).chain(self.file_columns).all(wide),
            "there are too many columns",
        );
        let lines = self.output_format != OutputFormat::Native;
        need(
            !lines
                || !(self.parts
                    || self.sort_by.is_some()
                    || self.output_compression != OutputCompression::None),
            "lines of text are neither parts nor sorted nor compressed",
        );
        let packets = |found: &Connection| (1..1 << 24).contains(&found.packet_bytes);
        need(
            self.output_connection.as_ref().is_none_or(packets),
            "packets have 1 to 16,777,215 bytes",
        );
        need(
            self.output_connection.is_none() || (lines && self.outputs.len() == 1),
            "one thread writes lines of text into a connection",
        );
        let arrow = self.output_format == OutputFormat::ArrowStream;
        need(!arrow || cfg!(feature = "arrow"), "this program was built without Arrow");
        need(
            self.output_arrow.is_none() || (arrow && self.outputs.len() == 1),
            "one stream of Arrow has its own types",
        );
        let expressions = self.computed.iter().flat_map(|keys| &keys.expressions);
        let values = self.columns.len() + expressions.clone().count();
        let sort = self.sort_by.iter().flatten();
        need(sort.clone().all(|&i| i < values), "sort_by names a missing column");
        need(
            self.primary.is_none_or(|count| count <= sort.count()),
            "the primary key is longer than sort_by",
        );
        let partition = self.partition_by.iter().flat_map(|key| &key.columns);
        let shard = self.partition_by.iter().flat_map(|key| &key.shard);
        let asked = shard.clone().flat_map(|shard| &shard.columns);
        let used = partition.clone().chain(asked).chain(expressions.flat_map(|key| &key.columns));
        need(
            used.clone().all(|c| c.index < self.columns.len()),
            "an expression of a key uses a missing column",
        );
        need(
            used.clone().all(|c| c.floor >= 0 && c.modulo >= 0 && c.divide >= 0),
            "steps and divisors are above zero",
        );
        need(
            self.parts || (self.partition_by.is_none() && self.computed.is_none()),
            "only parts have partitions, and keys that are computed",
        );
        need(
            self.merge.is_none() || (self.parts && self.partition_by.is_none()),
            "only parts of a table without partitions are merged",
        );
        let types = self.types().unwrap_or_default();
        need(
            shard.clone().all(|shard| {
                let column = types.get(shard.column);
                shard.hash.is_none() || column.is_none_or(|column| shard.takes(column))
            }),
            "a shard is found by a whole number or a text",
        );
        need(
            shard.clone().all(|shard| {
                let ends = &shard.ends;
                shard.column < self.columns.len()
                    && (1..=usize::from(u16::MAX)).contains(&ends.len())
                    && ends.is_sorted()
                    && (shard.hash.is_some() || !shard.columns.is_empty())
            }),
            "shards have slots one after the other",
        );
        let plain =
            |types: Vec<Type>| types.iter().all(|t| t.children().is_empty() && !t.low_cardinality);
        for types in self.computed.iter().map(ComputedKeys::types) {
            match types {
                Ok(types) => need(plain(types), "blocks are sorted by flat values"),
                Err(reason) => need(false, &reason),
            }
        }
        let keys = self.sort_by.as_deref().unwrap_or(&[]);
        let is_partition_key = |number: usize| partition.clone().any(|c| c.index == number);
        for (number, column) in self.columns.iter().enumerate() {
            let data_type = column.data_type(self.timezone.as_deref());
            let reason = match data_type {
                Err(reason) => reason,
                Ok(data_type)
                    if self.output_format == OutputFormat::MariaDb
                        && !self.output_texts.contains(&number)
                        && !data_type.has_binary() =>
                {
                    "its values have text only".to_owned()
                }
                Ok(data_type)
                    if self.output_format == OutputFormat::PostgreSqlBinary
                        && self
                            .output_types
                            .get(number)
                            .is_none_or(|name| Field::of(&data_type, name).is_none()) =>
                {
                    "the server takes its values as text only".to_owned()
                }
                Ok(data_type)
                    if self.output_format == OutputFormat::ArrowStream
                        && self.output_arrow.is_none()
                        && !data_type.is_written_as_arrow() =>
                {
                    "Arrow has other values".to_owned()
                }
                Ok(Type { base: BaseType::Tuple(..), .. })
                    if self.tuples_are_fields()
                        && self.delimiter.len() == 1
                        && self.apart_reason().is_some() =>
                {
                    self.apart_reason().unwrap_or_default().to_owned()
                }
                Ok(data_type)
                    if lines && self.output_arrow.is_none() && !data_type.children().is_empty() =>
                {
                    "lines of text have flat columns only".to_owned()
                }
                Ok(data_type)
                    if self.format == Format::MySql && !data_type.children().is_empty() =>
                {
                    "only flat columns are copied".to_owned()
                }
                Ok(data_type) if let Err(reason) = Chains::of_each(&column.codecs, &data_type) => {
                    format!("{reason} is not known")
                }
                Ok(data_type) if is_partition_key(number) && !data_type.children().is_empty() => {
                    "partitions by nested values are the engine's".to_owned()
                }
                Ok(data_type)
                    if is_partition_key(number)
                        && matches!(data_type.base, BaseType::Float32 | BaseType::Float64) =>
                {
                    "partitions by floats are the engine's".to_owned()
                }
                Ok(data_type) if !data_type.children().is_empty() && keys.contains(&number) => {
                    "blocks are not sorted by nested values".to_owned()
                }
                Ok(_) => continue,
            };
            reasons.push(format!("column {}: {reason}", column.name));
        }
        reasons
    }
}
