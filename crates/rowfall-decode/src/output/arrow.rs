//! Writes blocks as a stream of Arrow.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};

use crate::column::Column;
use crate::output::arrow_plain::{array, kind};
use crate::output::arrow_types::{self, Values};
use crate::output::native;
use crate::output::text::Texts;
use crate::spec::Spec;
use crate::types::Type;

/// Small buffers are put together: those of lengths and masks.
const BUFFER_BYTES: usize = 256 << 10;

/// Says in the stream that all text is UTF-8: CSV has no escapes, and was looked at when it was parsed.
/// To look again takes its reader up to 5 % of a load into DuckDB.
const CHECKED: (&str, &str) = ("rowfall.text", "utf-8");

/// Writes the rows of one worker.
pub struct Output {
    to: StreamWriter<BufWriter<File>>,
    schema: Arc<Schema>,
    columns: Columns,
    /// Rows that are left out before the first one that is written.
    skip: usize,
    checked: bool,
}

/// How columns become arrays.
enum Columns {
    /// In types that every database has: all else as text.
    Plain(Vec<Texts>),
    /// In Arrow's own.
    Typed(Vec<Values>),
}

impl Output {
    /// Open for writing, and write the types; of a named pipe this waits for its reader.
    pub fn open(path: &str, types: &[Type], spec: &Spec) -> io::Result<Output> {
        let arrow = spec.output_arrow.as_ref();
        let field = |(t, name): (&Type, &String)| match arrow {
            None => Field::new(name, kind(t), t.nullable),
            Some(_) => arrow_types::field(name, t, spec.binary),
        };
        let names = spec.columns.iter().map(|column| &column.name);
        let mut schema = Schema::new(types.iter().zip(names).map(field).collect::<Vec<_>>());
        let checked = spec.format.is_csv() && !spec.binary;
        if checked && arrow.is_none() {
            schema.metadata.insert(CHECKED.0.to_owned(), CHECKED.1.to_owned());
        }
        let schema = Arc::new(schema);
        let file = BufWriter::with_capacity(BUFFER_BYTES, native::open(path)?);
        let mut to = StreamWriter::try_new(file, &schema).map_err(failed)?;
        to.flush().map_err(failed)?; // there may be no rows
        let columns = match arrow {
            None => Columns::Plain(types.iter().map(Texts::of).collect()),
            Some(_) => Columns::Typed(types.iter().map(|t| Values::of(t, spec.binary)).collect()),
        };
        let skip = arrow.map_or(0, |asked| asked.skip_rows);
        Ok(Output { to, schema, columns, skip, checked: checked || spec.binary })
    }

    /// Write the rows of one block. Values that Arrow has not are an error of the kind InvalidData.
    pub fn write(&mut self, columns: &[Column], rows: usize) -> io::Result<()> {
        if self.skip >= rows {
            self.skip -= rows;
            return Ok(());
        }
        let arrays = match &mut self.columns {
            Columns::Plain(texts) => columns
                .iter()
                .zip(texts)
                .map(|(column, texts)| array(column, rows, &kind(&column.data_type), texts))
                .collect(),
            Columns::Typed(values) => {
                let pairs = columns.iter().zip(values).enumerate();
                let arrays = pairs.map(|(at, (column, values))| {
                    let found = values.array(column, rows, self.checked);
                    found.map_err(|error| in_column(error, self.schema.field(at).name()))
                });
                arrays.collect::<io::Result<Vec<_>>>()?
            }
        };
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(failed)?;
        let skip = std::mem::take(&mut self.skip);
        self.to.write(&batch.slice(skip, rows - skip)).map_err(failed)?;
        self.to.flush().map_err(failed)
    }
}

fn in_column(error: io::Error, name: &str) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::InvalidData => {
            io::Error::new(kind, format!("{error} in column {name}"))
        }
        _ => error,
    }
}

fn failed(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}
