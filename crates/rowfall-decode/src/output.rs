//! Where a worker's blocks go.

use std::io;

use crate::cells::Column;
use crate::native;
use crate::part;
use crate::spec::{OutputCompression, Spec};

pub enum Output {
    /// One after the other into a pipe, a file or stdout.
    Native(native::Output),
    /// Each as a part of a table, into a folder.
    Parts(Box<part::Output>),
}

impl Output {
    /// Open the output `path` of a spec; of a named pipe this waits for its reader.
    pub fn open(path: &str, spec: &Spec) -> io::Result<Output> {
        if spec.parts {
            let keys = spec.sort_by.as_deref().unwrap_or(&[]);
            return Ok(Output::Parts(Box::new(part::Output::open(path, keys)?)));
        }
        let packed = spec.output_compression == OutputCompression::Lz4;
        Ok(Output::Native(native::Output::open(path, packed)?))
    }

    pub fn path(&self) -> &str {
        match self {
            Output::Native(output) => &output.path,
            Output::Parts(output) => &output.path,
        }
    }

    /// Write one block of all columns, its rows in `order` if there is one.
    pub fn write(
        &mut self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        order: Option<&[u32]>,
    ) -> io::Result<()> {
        match self {
            Output::Native(output) => output.write(names, columns, rows, order),
            Output::Parts(output) => output.write(names, columns, rows, order),
        }
    }
}
