//! Writes the blocks of a worker: in the Native format, or as parts of a table.

mod compressed;
mod low_cardinality;
mod native;
mod part;

use std::io;

use crate::column::Column;
use crate::spec::{OutputCompression, Spec};

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
}

impl Output {
    /// Open the output `path` of a spec; of a named pipe this waits for its reader.
    pub fn open(path: &str, spec: &Spec) -> io::Result<Output> {
        let to = if spec.parts {
            let keys = spec.sort_by.as_deref().unwrap_or(&[]);
            To::Parts(Box::new(part::Output::open(path, keys)?))
        } else {
            let packed = spec.output_compression == OutputCompression::Lz4;
            To::Native(native::Output::open(path, packed)?)
        };
        Ok(Output { path: path.to_owned(), to })
    }

    /// Write one block of all columns, its rows in `order` if there is one.
    pub fn write(
        &mut self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        order: Option<&[u32]>,
    ) -> io::Result<()> {
        match &mut self.to {
            To::Native(output) => output.write(names, columns, rows, order),
            To::Parts(output) => output.write(names, columns, rows, order),
        }
    }
}
