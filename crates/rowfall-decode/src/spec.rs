//! Reads and checks the JSON document of `--spec`, which says what a run has to do.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::codec::Chains;
use crate::dialect::Dialect;
use crate::error::Fail;
use crate::types::postgresql::Field;
use crate::types::{BaseType, TimeNotation, Type};

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

/// One object. A path is a file here, `-` is stdin, an address of HTTP is read from there; with
/// `url` the path is only the name that messages say, `s3://bucket/key` for one.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The file, `-`, or the address.
    pub path: String,
    /// The name in messages and the summary; `path` where there is none.
    #[serde(default)]
    pub uri: Option<String>,
    /// Offset of the first byte to read.
    #[serde(default)]
    pub start: u64,
    /// Offset behind the last byte to read; none to read to the end.
    #[serde(default)]
    pub stop: Option<u64>,
    /// Its address; may hold a signature.
    #[serde(default)]
    pub url: Option<Secret>,
    /// Headers of the requests, which say who asks.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Ranges are asked for with `offset` and `length` in the query of `url`, as WebHDFS wants it.
    #[serde(default)]
    pub by_query: bool,
    /// Of a file in HDFS: its blocks, in their order; none where only `url` can be asked.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// Its size in bytes by the listing; another size is an error.
    #[serde(default)]
    pub size: Option<u64>,
    /// Its ETag by the listing, without quotes; another one is an error.
    #[serde(default)]
    pub version: Option<String>,
}

impl Input {
    /// A whole file, or `-` for stdin.
    pub fn file(path: &str) -> Input {
        Input {
            path: path.to_owned(),
            uri: None,
            start: 0,
            stop: None,
            url: None,
            headers: BTreeMap::new(),
            by_query: false,
            blocks: Vec::new(),
            size: None,
            version: None,
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        self.uri.as_deref().unwrap_or(&self.path)
    }

    /// True for a range with more bytes behind it: it has to end with a line.
    pub fn is_cut(&self) -> bool {
        matches!((self.stop, self.size), (Some(stop), Some(size)) if stop < size)
    }

    /// Offset behind the last byte to read; None where it is unknown.
    pub fn end(&self) -> Option<u64> {
        self.stop.into_iter().chain(self.size).min()
    }

    /// Stored bytes to read; None where the size is unknown.
    pub fn bytes(&self) -> Option<u64> {
        self.end().map(|end| end.saturating_sub(self.start))
    }

    /// Its address; None for files.
    pub fn url(&self) -> Option<Secret> {
        let plain = ["http://", "https://"].iter().any(|s| self.path.starts_with(s));
        self.url.clone().or_else(|| plain.then(|| Secret(self.path.clone())))
    }
}

/// A connection of MySQL's protocol, whose socket this process has been started with.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// The descriptor of the socket.
    pub descriptor: u16,
    /// The number of the first packet.
    pub number: u8,
    /// Bytes of rows in a packet at most.
    pub packet_bytes: usize,
    /// Bytes of packets, or all of them where there are fewer, that are made before the output is
    /// opened; a line of stderr says when they are.
    #[serde(default)]
    pub prefill_bytes: usize,
}

/// A block of a file in HDFS.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Offset of its first byte in the file.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The pool of blocks that it belongs to.
    pub pool: String,
    /// Its number in the pool.
    pub id: u64,
    /// Its generation stamp: the version.
    pub stamp: u64,
    /// `host:port` of the data nodes that have it, the nearest first.
    pub nodes: Vec<String>,
}

/// A text that no message shows.
#[derive(Clone, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("[HIDDEN]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[HIDDEN]")
    }
}

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
        Type::parse_written(&self.type_name, self.time_notation, self.canonical, zone)
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

/// The compression of inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip, one or more members.
    Gzip,
    /// zstd, windows of up to 128 MiB.
    Zstd,
    /// LZ4 frames.
    Lz4,
    /// xz.
    Xz,
    /// bzip2.
    Bz2,
}

impl Compression {
    /// All of them.
    pub const ALL: &[Compression] = &[
        Compression::None,
        Compression::Gzip,
        Compression::Zstd,
        Compression::Lz4,
        Compression::Xz,
        Compression::Bz2,
    ];
}

/// The format of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum Format {
    /// CSV without a header.
    #[serde(rename = "CSV")]
    Csv,
    /// CSV whose first line names the columns.
    #[serde(rename = "CSVWithNames")]
    CsvWithNames,
    /// TSV without a header.
    #[serde(rename = "TSV")]
    Tsv,
    /// TSV whose first line names the columns.
    #[serde(rename = "TSVWithNames")]
    TsvWithNames,
    /// JSONEachRow: an object a line.
    #[serde(rename = "JSONEachRow")]
    Json,
    /// Blocks of ClickHouse with just the columns of the spec.
    Native,
    /// Arrow IPC, as a stream.
    ArrowStream,
    /// Parquet.
    Parquet,
    /// The rows of `generate://random`, which are made: `start` and `stop` of an input are numbers of
    /// rows, its `path` says which rows they are.
    Random,
    /// What MySQL answers to COM_STMT_EXECUTE: packets with rows in binary.
    #[serde(rename = "MySQL")]
    MySql,
    /// What PostgreSQL answers to COPY in binary: messages with a row each.
    PostgreSQL,
}

impl Format {
    /// All of them.
    pub const ALL: &[Format] = &[
        Format::Csv,
        Format::CsvWithNames,
        Format::Tsv,
        Format::TsvWithNames,
        Format::Json,
        Format::Native,
        Format::ArrowStream,
        Format::Parquet,
        Format::Random,
        Format::MySql,
        Format::PostgreSQL,
    ];

    /// True for rows in packets of a database.
    pub fn is_packets(self) -> bool {
        matches!(self, Format::MySql | Format::PostgreSQL)
    }

    /// True for text, whose records are found before they are parsed.
    pub fn is_text(self) -> bool {
        !self.is_columnar() && !self.is_packets()
    }

    /// True where this program was built with what reads it.
    pub fn is_built_in(self) -> bool {
        cfg!(feature = "arrow") || !matches!(self, Format::ArrowStream | Format::Parquet)
    }

    /// True where the first line names the columns.
    pub fn has_names(self) -> bool {
        matches!(self, Format::CsvWithNames | Format::TsvWithNames)
    }

    /// True where columns are copied or made, and nothing is parsed.
    pub fn is_columnar(self) -> bool {
        matches!(self, Format::Native | Format::ArrowStream | Format::Parquet | Format::Random)
    }

    /// True where columns may hold dictionaries, whose keys are not written out.
    pub fn has_dictionaries(self) -> bool {
        matches!(self, Format::ArrowStream | Format::Parquet)
    }

    /// True for CSV with or without names.
    pub fn is_csv(self) -> bool {
        matches!(self, Format::Csv | Format::CsvWithNames)
    }
}

/// Where CSV has the elements of Tuple columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tuples {
    /// In fields of their own, also those of tuples in tuples.
    #[default]
    Fields,
    /// In one field, as `(1, 'x')`.
    Value,
}

/// What to do with columns and keys that the spec does not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownColumns {
    /// Skip them.
    Skip,
    /// Decline the file, as the engine does where rowfall asks it.
    #[default]
    Error,
}

/// The compression of Native blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputCompression {
    /// No compression.
    #[default]
    None,
    /// Blocks with checksums, for `decompress=1`.
    Lz4,
}

/// The format of outputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum OutputFormat {
    /// Blocks of ClickHouse.
    #[default]
    Native,
    /// Lines as the engine writes them.
    #[serde(rename = "TSV")]
    Tsv,
    /// Lines as the engine writes them, NULL as `\N`.
    #[serde(rename = "CSV")]
    Csv,
    /// Objects as the engine writes them.
    #[serde(rename = "JSONEachRow")]
    JsonEachRow,
    /// Batches of Arrow, a stream for each output.
    ArrowStream,
    /// Lines for LOAD DATA.
    #[serde(rename = "MySQL")]
    MySql,
    /// Lines for COPY.
    #[serde(rename = "PostgreSQL")]
    PostgreSql,
    /// Rows of parameters for COM_STMT_BULK_EXECUTE, in frames.
    #[serde(rename = "MariaDB")]
    MariaDb,
    /// Rows for COPY in binary.
    #[serde(rename = "PostgreSQL binary")]
    PostgreSqlBinary,
}

impl OutputFormat {
    /// All of them.
    pub const ALL: &[OutputFormat] = &[
        OutputFormat::Native,
        OutputFormat::Tsv,
        OutputFormat::Csv,
        OutputFormat::JsonEachRow,
        OutputFormat::MySql,
        OutputFormat::PostgreSql,
        OutputFormat::MariaDb,
        OutputFormat::PostgreSqlBinary,
        OutputFormat::ArrowStream,
    ];
}

/// Rows and bytes of a block whose rows become text: it stays in the cache until they are written.
const TEXT_BLOCK: (usize, usize) = (4096, 1 << 20);

/// Rows and bytes of a batch of Arrow: whole vectors of DuckDB (2,048 rows), written and read while they
/// are in the cache.
const ARROW_BLOCK: (usize, usize) = (16_384, 4 << 20);

/// Why values of a type are not written as Arrow.
fn arrow_reason(data_type: &Type) -> Option<&'static str> {
    if !cfg!(feature = "arrow") {
        return Some("this program was built without Arrow");
    }
    (!data_type.is_written_as_arrow()).then_some("Arrow has other values")
}

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
        if spec.output_format == OutputFormat::ArrowStream {
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
        let expressions = self.computed.iter().flat_map(|keys| &keys.expressions);
        let values = self.columns.len() + expressions.clone().count();
        let sort = self.sort_by.iter().flatten();
        need(sort.clone().all(|&i| i < values), "sort_by names a missing column");
        need(
            self.primary.is_none_or(|count| count <= sort.count()),
            "the primary key is longer than sort_by",
        );
        let partition = self.partition_by.iter().flat_map(|key| &key.columns);
        let used = partition.clone().chain(expressions.flat_map(|key| &key.columns));
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
                Ok(data_type) if self.output_format == OutputFormat::ArrowStream => {
                    match arrow_reason(&data_type) {
                        Some(reason) => reason.to_owned(),
                        None => continue,
                    }
                }
                Ok(Type { base: BaseType::Tuple(..), .. })
                    if self.tuples_are_fields()
                        && self.delimiter.len() == 1
                        && self.apart_reason().is_some() =>
                {
                    self.apart_reason().unwrap_or_default().to_owned()
                }
                Ok(data_type) if lines && !data_type.children().is_empty() => {
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
