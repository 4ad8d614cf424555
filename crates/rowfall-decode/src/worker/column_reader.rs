//! Reads inputs that give batches of columns: copies their rows into blocks, or has parts written column
//! by column.

use crate::block::append_batch;
use crate::columnar::{BatchError, BatchReader};
use crate::error::{Decline, DeclineKind, Fail};
use crate::spec::{Input, Spec};
use crate::whole_columns::{Failure, Outcome, Target, WholeColumns};
use crate::worker::block_writer::BlockWriter;

/// Rows that are copied together from columns: of 50 columns they take 3 MB.
const BATCH_ROWS: usize = 8192;

/// Pieces of inputs that become a part column by column; None where batches are copied into blocks.
pub struct ColumnReader<'a>(Option<WholeColumns<'a>>);

impl<'a> ColumnReader<'a> {
    /// A reader for blocks that are written so.
    pub fn new(block: &BlockWriter<'_>) -> ColumnReader<'a> {
        ColumnReader(block.takes_columns().then(WholeColumns::default))
    }

    /// Stored bytes of pieces that are held, which are read when these are written.
    pub fn unread_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, WholeColumns::unread_bytes)
    }

    /// Copy the rows of a piece of an input, or keep them for the next part, and return how many there
    /// were.
    pub fn read(
        &mut self,
        block: &mut BlockWriter<'a>,
        input: &'a Input,
        piece: Box<dyn BatchReader>,
    ) -> Result<u64, Fail> {
        let (limit, most_bytes) = block.limits();
        let rows = piece.columns().map_or(0, |found| found.rows());
        let mut most = self.even_rows(block.spec, limit);
        if let Some((pieces, target)) = self.by_column(block) {
            let held = pieces.size().0;
            // What is nearer to the size of a block: a part without the piece, or with it.
            let full = (held + rows).saturating_sub(most) > most.saturating_sub(held);
            if held > 0 && (full || !pieces.fits(&*piece, &target)) {
                self.write_pieces(block)?;
            }
        }
        let by_column = self.by_column(block);
        let by_column = by_column.filter(|(pieces, target)| pieces.fits(&*piece, target));
        let Some((pieces, target)) = by_column else {
            return read_batches(block, input, piece);
        };
        pieces.add((input, piece), &target);
        let (all_rows, bytes) = pieces.size();
        most = self.even_rows(block.spec, limit);
        // The next piece is likely to have as many rows.
        if all_rows + rows / 2 >= most || bytes >= most_bytes {
            self.write_pieces(block)?;
        }
        Ok(rows as u64)
    }

    /// Rows of a part, at most `most`, with which all workers have as many parts to write.
    ///
    /// Pieces that are held have cost nothing yet, so one worker can take those of all others: of 3 M
    /// rows of lineitem in 8 files one thread wrote 2.25 M, alone for half of the time.
    fn even_rows(&self, spec: &Spec, most: usize) -> usize {
        let workers = spec.outputs.len();
        let Some(pieces) = self.0.as_ref().filter(|_| workers > 1) else { return most };
        let all_rows = spec.bytes().and_then(|bytes| pieces.rows_of_all(bytes));
        let Some(all_rows) = all_rows else { return most };
        let parts = (all_rows / most as f64).ceil().max(1.0) as usize;
        (all_rows / parts.next_multiple_of(workers) as f64).ceil() as usize
    }

    /// The pieces, and what they are written to; None where batches are copied, also as long as rows of
    /// a block that is not full are there.
    fn by_column<'t>(
        &'t mut self,
        block: &'t mut BlockWriter<'a>,
    ) -> Option<(&'t mut WholeColumns<'a>, Target<'t>)> {
        Some((self.0.as_mut()?, block.target()?))
    }

    /// Write the pieces that are held for a part.
    pub fn write_pieces(&mut self, block: &mut BlockWriter<'a>) -> Result<(), Fail> {
        let Some((pieces, mut target)) = self.by_column(block) else { return Ok(()) };
        match pieces.write(&mut target) {
            Ok(Outcome::Written(rows)) => {
                block.count_written(rows);
                Ok(())
            }
            Ok(Outcome::Batches(pieces)) => {
                // The next ones are likely to be no others.
                self.0 = None;
                let mut pieces = pieces.into_iter();
                pieces.try_for_each(|(input, piece)| read_batches(block, input, piece).map(drop))
            }
            Err(Failure::Input(input, error)) => Err(unreadable(block.spec, input, error)),
            Err(Failure::Output(error)) => Err(block.unwritable(&error)),
        }
    }
}

/// Copy the rows of a piece of an input, and return how many there were.
fn read_batches(
    block: &mut BlockWriter<'_>,
    input: &Input,
    mut piece: Box<dyn BatchReader>,
) -> Result<u64, Fail> {
    let spec = block.spec;
    let failed = |error| unreadable(spec, input, error);
    let mut rows = 0;
    while let Some(mut batch) = piece.next_batch().map_err(failed)? {
        let (count, mut taken) = (batch.rows(), 0);
        rows += count as u64;
        if block.write_batch(&mut *batch)? {
            continue;
        }
        while taken < count {
            let some = (count - taken).min(BATCH_ROWS).min(block.room());
            let range = (taken, taken + some);
            append_batch(&mut block.columns, &mut *batch, range, &mut block.sorting)
                .map_err(|(column, what)| failed(BatchError::Declined(Some(column), what)))?;
            taken += some;
            block.add_rows(some)?;
        }
    }
    Ok(rows)
}

/// The failure about an input of columns.
pub fn unreadable(spec: &Spec, input: &Input, error: BatchError) -> Fail {
    let (column, message) = match error {
        BatchError::Io(error) => return Fail::io(input.name(), &error),
        BatchError::Declined(column, message) => (column, message),
    };
    let column = column.map(|n| &spec.columns[n]);
    let name = column.map_or(String::new(), |c| c.name.clone());
    let named = if name.is_empty() { message } else { format!("column {name}: {message}") };
    Fail::Value(Box::new(Decline {
        kind: DeclineKind::Value,
        uri: input.name().to_owned(),
        line: 0,
        offset: 0,
        column: name,
        value: String::new(),
        expected: column.map_or(String::new(), |c| c.type_name.clone()),
        message: named,
    }))
}
