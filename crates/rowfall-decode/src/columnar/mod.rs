//! Reads inputs that hold columns already: blocks of the Native format, batches of Arrow and row
//! groups of Parquet. Their values are copied into the columns of a block; nothing is parsed. Or it
//! makes the values itself (`random`).
//!
//! Whatever is not known to be read by the engine in just the same way is declined.

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "arrow")]
pub mod ipc;
pub mod native;
#[cfg(feature = "arrow")]
pub mod nested;
#[cfg(feature = "arrow")]
pub mod objects;
#[cfg(feature = "arrow")]
pub mod parquet;
pub mod queue;
pub mod random;

use std::io;

use crate::column::Column;

/// A reason why a batch cannot be read.
#[derive(Debug)]
pub enum BatchError {
    /// A column (by its number, if it is about one) holds what only the engine may judge.
    Declined(Option<usize>, String),
    /// The input cannot be read.
    Io(io::Error),
}

impl BatchError {
    /// Something about the input as a whole that only the engine may judge.
    pub fn declined(what: impl Into<String>) -> BatchError {
        BatchError::Declined(None, what.into())
    }
}

impl From<io::Error> for BatchError {
    fn from(error: io::Error) -> BatchError {
        BatchError::Io(error)
    }
}

/// Rows of which each column can be copied.
pub trait Batch {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Append the rows `from..to` of a column, by its number; ranges follow each other. The error
    /// says what is wrong with a value.
    fn append(
        &mut self,
        number: usize,
        rows: (usize, usize),
        to: &mut Column,
    ) -> Result<(), String>;

    /// Append rows of a column in an order, whose numbers count from the row `first`. None where
    /// that cannot be done without appending them as they come first.
    fn append_in_order(
        &mut self,
        number: usize,
        first: usize,
        order: &[u32],
        to: &mut Column,
    ) -> Option<Result<(), String>> {
        let _ = (number, first, order, to);
        None
    }

    /// Write all rows as lines to the front of `room`, which grows as it has to, and return their
    /// bytes: fields with tabs between them and nothing to escape. None where only
    /// [`Batch::append`] gives the rows.
    fn write_lines(&mut self, room: &mut Vec<u8>) -> Option<usize> {
        let _ = room;
        None
    }
}

/// Gives batch after batch to one worker.
pub trait BatchReader {
    /// The next batch, None at the end.
    fn next_batch(&mut self) -> Result<Option<Box<dyn Batch>>, BatchError>;

    /// The same rows column by column, as long as no batch was read; None where there are only
    /// batches.
    fn columns(&self) -> Option<&dyn Columns> {
        None
    }
}

/// Rows of which each column can be read as a whole, in any order and more than once.
pub trait Columns {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// How many the whole input has, where that is known.
    fn input_rows(&self) -> Option<u64>;

    /// True where a column has a dictionary of strings, by its number.
    fn has_dictionary(&self, number: usize) -> bool;

    /// About how many bytes the values of a column take.
    fn bytes_of(&self, number: usize) -> usize;

    /// The memory that is taken until the rows are dropped: addresses and bytes. Pieces may share some.
    fn held(&self) -> Vec<(usize, usize)>;

    /// Stored bytes that will be read for the rows.
    fn unread_bytes(&self) -> u64;

    /// Batches of one column, whose number in them is 0.
    fn column(&self, number: usize) -> Box<dyn BatchReader>;
}

/// An open input, whose pieces are read by several workers side by side.
pub trait Input: Send {
    /// The next piece, None where none is left.
    fn next_piece(&mut self) -> Result<Option<Box<dyn BatchReader>>, BatchError>;
}
