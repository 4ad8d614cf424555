//! Reads an Arrow IPC stream, which several workers share: each takes the next batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, DataType, Schema};

use crate::columnar::nested::{ArrowBatch, NullStructs, takes};
use crate::columnar::{Batch, BatchError, BatchReader, Columns, Input};
use crate::types::Type;

/// The numbers of the wanted columns among those of an input.
///
/// The error says which column is not there, is there twice or has another type.
pub fn find_columns(schema: &Schema, wanted: &[(String, Type)]) -> Result<Vec<usize>, BatchError> {
    let find = |(number, (name, data_type)): (usize, &(String, Type))| {
        let declined = |what: String| BatchError::Declined(Some(number), what);
        let mut found = schema.fields().iter().enumerate().filter(|(_, f)| f.name() == name);
        let (at, field) =
            found.next().ok_or_else(|| declined("a column that is not there".to_owned()))?;
        if found.next().is_some() {
            return Err(declined("a column that is there twice".to_owned()));
        }
        if !takes(field.data_type(), data_type) {
            return Err(declined(format!(
                "values of the Arrow type {} for {}",
                field.data_type(),
                data_type.name
            )));
        }
        Ok(at)
    };
    wanted.iter().enumerate().map(find).collect()
}

/// A stream of batches.
pub struct Stream<R> {
    reader: StreamReader<R>,
    columns: Vec<usize>,
}

impl<R: std::io::Read> Stream<R> {
    /// Read the schema, which has to have the wanted columns: their names and types.
    pub fn open(reader: R, wanted: &[(String, Type)]) -> Result<Stream<R>, BatchError> {
        let reader = StreamReader::try_new(reader, None).map_err(unreadable)?;
        let columns = find_columns(&reader.schema(), wanted)?;
        Ok(Stream { reader, columns })
    }
}

fn unreadable(error: ArrowError) -> BatchError {
    match error {
        ArrowError::IoError(_, error) => BatchError::Io(error),
        other => BatchError::declined(other.to_string()),
    }
}

impl<R: std::io::Read + Send> Input for Stream<R> {
    fn next_piece(&mut self) -> Result<Option<Box<dyn BatchReader>>, BatchError> {
        let Some(batch) = self.reader.next().transpose().map_err(unreadable)? else {
            return Ok(None);
        };
        Ok(Some(Box::new(One(Some(ArrowBatch::of(&batch, &self.columns, NullStructs::Declined))))))
    }
}

impl ArrowBatch {
    /// Some columns of a batch.
    pub fn of(batch: &RecordBatch, columns: &[usize], null_structs: NullStructs) -> ArrowBatch {
        let arrays: Vec<ArrayRef> =
            columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
        ArrowBatch { arrays, rows: batch.num_rows(), null_structs }
    }
}

/// A single batch.
struct One(Option<ArrowBatch>);

impl BatchReader for One {
    fn next_batch(&mut self) -> Result<Option<Box<dyn Batch>>, BatchError> {
        Ok(self.0.take().map(|batch| Box::new(batch) as Box<dyn Batch>))
    }

    fn columns(&self) -> Option<&dyn Columns> {
        self.0.as_ref().map(|batch| batch as &dyn Columns)
    }
}

impl Columns for ArrowBatch {
    fn rows(&self) -> usize {
        self.rows
    }

    fn input_rows(&self) -> Option<u64> {
        None
    }

    fn has_dictionary(&self, number: usize) -> bool {
        matches!(self.arrays[number].data_type(), DataType::Dictionary(..))
    }

    fn bytes_of(&self, number: usize) -> usize {
        self.arrays[number].to_data().get_slice_memory_size().unwrap_or(usize::MAX)
    }

    /// Whole messages: each array refers to a part of one.
    fn held(&self) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut data: Vec<_> = self.arrays.iter().map(|array| array.to_data()).collect();
        while let Some(array) = data.pop() {
            let buffers = array.buffers().iter().chain(array.nulls().map(NullBuffer::buffer));
            found.extend(buffers.map(|b| (b.data_ptr().as_ptr() as usize, b.capacity())));
            data.extend_from_slice(array.child_data());
        }
        found
    }

    fn unread_bytes(&self) -> u64 {
        0
    }

    fn column(&self, number: usize) -> Box<dyn BatchReader> {
        let ArrowBatch { arrays, rows, null_structs } = self;
        let arrays = vec![Arc::clone(&arrays[number])];
        Box::new(One(Some(ArrowBatch { arrays, rows: *rows, null_structs: *null_structs })))
    }
}
