//! Formats and compressions of inputs and outputs.

use serde::{Deserialize, Serialize};

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
    /// Arrow IPC, as a file.
    Arrow,
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
        Format::Arrow,
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
        cfg!(feature = "arrow") || !self.has_dictionaries()
    }

    /// True where the first line names the columns.
    pub fn has_names(self) -> bool {
        matches!(self, Format::CsvWithNames | Format::TsvWithNames)
    }

    /// True where columns are copied or made, and nothing is parsed.
    pub fn is_columnar(self) -> bool {
        matches!(self, Format::Native | Format::Random) || self.has_dictionaries()
    }

    /// True where columns may hold dictionaries, whose keys are not written out.
    pub fn has_dictionaries(self) -> bool {
        matches!(self, Format::ArrowStream | Format::Arrow | Format::Parquet)
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
