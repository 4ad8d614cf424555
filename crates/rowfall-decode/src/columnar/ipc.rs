//! Reads Arrow IPC, a stream or a file, which several workers share: each takes the next batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_buffer::NullBuffer;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};

use crate::columnar::nested::{ArrowBatch, NullStructs, takes};
use crate::columnar::objects::{Object, ObjectFile};
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

/// Batches with a schema.
pub type Reader = Box<dyn RecordBatchReader + Send>;

/// Open a stream of batches: its schema is read.
pub fn open_stream(stream: impl std::io::Read + Send + 'static) -> Result<Reader, BatchError> {
    Ok(Box::new(StreamReader::try_new(stream, None).map_err(unreadable)?))
}

/// Open a file of batches, which come in the order of its footer: that is read.
pub fn open_file(object: Object) -> Result<Reader, BatchError> {
    Ok(Box::new(FileReader::try_new(ObjectFile::new(object), None).map_err(unreadable)?))
}

/// The wanted columns of batches.
pub struct Batches {
    reader: Reader,
    columns: Vec<usize>,
}

impl Batches {
    /// The batches of a reader, which has to have the wanted columns: their names and types.
    pub fn new(reader: Reader, wanted: &[(String, Type)]) -> Result<Batches, BatchError> {
        let columns = find_columns(&reader.schema(), wanted)?;
        Ok(Batches { reader, columns })
    }
}

/// The reason why a batch cannot be read.
pub fn unreadable(error: ArrowError) -> BatchError {
    match error {
        ArrowError::IoError(_, error) => BatchError::Io(error),
        other => BatchError::declined(other.to_string()),
    }
}

impl Input for Batches {
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
