//! Writes the blocks of a worker: in the Native format, as parts of a table, or as lines of text.

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "arrow")]
mod arrow_plain;
#[cfg(feature = "arrow")]
mod arrow_types;
mod compressed;
pub mod low_cardinality;
mod native;
mod part;
pub mod text;

use std::borrow::Borrow;
use std::io;

use crate::column::Column;
use crate::columnar::Batch;
pub use crate::output::part::defaults::Counts;
pub use crate::output::part::partition::Partition;
pub use crate::output::part::pieces::{Facts, PiecePart, WrittenColumn};
pub use crate::output::part::stream::Streams;
pub use crate::output::part::{MAX_SHARED_KEYS, PartWriter, bytes_between};
use crate::spec::{OutputCompression, OutputFormat, Spec};

/// The output of one worker.
pub struct Output {
    /// The path in the spec, for messages.
    pub path: String,
    to: To,
}

enum To {
    /// Blocks one after the other into a pipe, a file or stdout.
    Native(native::Output),
    /// Each block as a part of a table, into a folder.
    Parts(Box<part::Output>),
    /// Batches of Arrow.
    #[cfg(feature = "arrow")]
    Arrow(Box<arrow::Output>),
    /// Rows as text.
    Text(Box<text::Output>),
}

impl Output {
    /// Open the output `path` of a spec; of a named pipe this waits for its reader.
    pub fn open(path: &str, spec: &Spec) -> io::Result<Output> {
        let to = if spec.parts {
            To::Parts(Box::new(part::Output::open(path, spec)?))
        } else if spec.output_format == OutputFormat::ArrowStream {
            Output::open_arrow(path, spec)?
        } else if spec.output_format != OutputFormat::Native {
            let types = spec.types().expect("checked before workers start");
            let to = text::Destination::open(path, spec.output_connection.as_ref())?;
            To::Text(Box::new(text::Output::new(to, &types, spec)))
        } else {
            let packed = spec.output_compression == OutputCompression::Lz4;
            To::Native(native::Output::open(path, packed)?)
        };
        Ok(Output { path: path.to_owned(), to })
    }

    #[cfg(feature = "arrow")]
    fn open_arrow(path: &str, spec: &Spec) -> io::Result<To> {
        let types = spec.types().expect("checked before workers start");
        Ok(To::Arrow(Box::new(arrow::Output::open(path, &types, spec)?)))
    }

    #[cfg(not(feature = "arrow"))]
    fn open_arrow(_: &str, _: &Spec) -> io::Result<To> {
        unreachable!("the spec is refused")
    }

    /// Write one block of all columns, its rows in `order` if there is one: those of a partition where
    /// the table has such. Of parts, values of the key that are not stored follow the columns.
    pub fn write(
        &mut self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        order: Option<&[u32]>,
        partition: Option<&Partition>,
    ) -> io::Result<()> {
        match &mut self.to {
            To::Native(output) => output.write(names, columns, rows, order),
            To::Parts(output) => output.write(names, columns, rows, order, partition),
            #[cfg(feature = "arrow")]
            To::Arrow(output) => output.write(columns, rows), // which no spec sorts
            To::Text(output) => output.write(columns, rows), // nor this
        }
    }

    /// Begin a part whose columns come one after the other, of about so many bytes; None where whole
    /// blocks have to come.
    pub fn begin_part<'a>(
        &'a mut self,
        rows: usize,
        bytes: usize,
        order: Option<&'a [u32]>,
    ) -> io::Result<Option<PartWriter<'a>>> {
        match &mut self.to {
            To::Parts(output) => output.begin_wide(rows, bytes, order),
            _ => Ok(None),
        }
    }

    /// Begin a part whose columns come in pieces, of about so many bytes; None where whole blocks have to
    /// come.
    pub fn begin_pieces(&mut self, rows: usize, bytes: usize) -> io::Result<Option<PiecePart>> {
        match &mut self.to {
            To::Parts(output) => output.begin_pieces(rows, bytes),
            _ => Ok(None),
        }
    }

    /// The streams of a thread that writes parts.
    ///
    /// # Panics
    /// Panics where the output is none of parts.
    pub fn streams(&mut self) -> &mut Streams {
        match &mut self.to {
            To::Parts(output) => output.streams(),
            _ => unreachable!("only parts are written in pieces"),
        }
    }

    /// Write the rows of a batch that has them as lines of this output; false where it has not.
    pub fn write_batch(&mut self, batch: &mut dyn Batch) -> io::Result<bool> {
        match &mut self.to {
            To::Text(output) => output.write_batch(batch),
            _ => Ok(false),
        }
    }
}

/// Write one block of the Native format into a file of its own.
pub fn write_block(
    path: &str,
    names: &[String],
    columns: &[impl Borrow<Column>],
    rows: usize,
) -> io::Result<()> {
    native::Output::open(path, false)?.write(names, columns, rows, None)
}
