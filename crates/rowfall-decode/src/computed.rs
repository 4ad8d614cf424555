//! Asks for the values of a sorting key that are no columns, but expressions of them: the engine
//! computes them, so that they are what it would sort by itself.
//!
//! Of an expression with few values in a block, a time cut to hours for one, each class of rows
//! (`partition::classes`) is asked about once in a run. Of others the columns that it uses are handed
//! over as a whole, and its values come back as a column. A question of one row takes 4 ms, and one of
//! 500,000 strings for their hashes 25 (a busy machine); parts of many small partitions need none where
//! all of their classes are known.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::column::Column;
use crate::column::reorder::{RowSelection, copy_spans, gather_fixed};
use crate::column::strings::starts_of;
use crate::columnar::native::Stream;
use crate::columnar::{BatchError, Input};
use crate::output;
use crate::partition::classes::{FoundClasses, NO_ROW, Used, find_classes, number_rows};
use crate::questions;
use crate::spec::{KeyColumn, Spec};
use crate::types::Type;

/// Rows of a block for each class at least: with more classes the block is handed over as a whole.
const CLASS_ROWS: usize = 8;
/// Classes at most that are kept from block to block.
const MOST_KNOWN: usize = 1 << 17;

/// The expressions of a key, of all workers together.
pub struct Computed {
    expressions: Vec<Expression>,
    /// The first part of the names of files in which values are handed over.
    file: String,
    files: AtomicUsize,
}

struct Expression {
    columns: Vec<KeyColumn>,
    known: Mutex<Known>,
}

/// The values that the engine has told.
struct Known {
    /// The place of the value of each class.
    classes: HashMap<Vec<u8>, u32>,
    values: Column,
    /// Where strings start with their length, and where the last one ends; of others empty.
    starts: Vec<u32>,
}

impl Computed {
    /// The expressions of a spec, None where it has none.
    pub fn new(spec: &Spec) -> Option<Computed> {
        let asked = spec.computed.as_ref()?;
        let types = asked.types().expect("checked before anything is read");
        let expressions = (asked.expressions.iter().zip(types))
            .map(|(key, data_type)| Expression {
                columns: key.columns.clone(),
                known: Mutex::new(Known::of(data_type)),
            })
            .collect();
        Some(Computed { expressions, file: asked.file.clone(), files: AtomicUsize::new(0) })
    }

    /// Fill a column with the values of each expression for the rows of a block; the error says what
    /// is declined. `numbers` is memory for the classes of the rows.
    pub fn fill(
        &self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        numbers: &mut Vec<u16>,
        values: &mut [Column],
    ) -> Result<(), String> {
        let mut left = Vec::new();
        for (number, column) in values.iter_mut().enumerate() {
            column.clear();
            if !self.fill_by_classes(number, names, columns, rows, numbers, column)? {
                left.push(number);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let uses = |number: &usize| self.expressions[*number].columns.iter().map(|c| c.index);
        let mut used: Vec<usize> = left.iter().flat_map(uses).collect();
        used.sort_unstable();
        used.dedup();
        let names: Vec<String> = used.iter().map(|&column| names[column].clone()).collect();
        let given: Vec<&Column> = used.iter().map(|&column| &columns[column]).collect();
        let mut found: Vec<Column> =
            left.iter().map(|&number| Column::new(values[number].data_type.clone())).collect();
        self.ask(&names, &given, rows, &left, &mut found)?;
        left.into_iter().zip(found).for_each(|(number, column)| values[number] = column);
        Ok(())
    }

    /// Fill a column where the rows have few classes; false where they have many.
    fn fill_by_classes(
        &self,
        number: usize,
        names: &[String],
        columns: &[Column],
        rows: usize,
        numbers: &mut Vec<u16>,
        column: &mut Column,
    ) -> Result<bool, String> {
        let expression = &self.expressions[number];
        let used: Vec<Used<'_>> = (expression.columns.iter())
            .map(|key| Used::new(columns[key.index].values(), key, rows))
            .collect();
        let Some(samples) = number_rows(&used, rows, numbers) else { return Ok(false) };
        let classes = samples.iter().filter(|row| **row != NO_ROW).count();
        if classes > rows / CLASS_ROWS {
            return Ok(false);
        }
        // Nobody else asks about the same meanwhile.
        let mut known = expression.known.lock().expect("no worker panics");
        if known.classes.len() + classes > MOST_KNOWN {
            *known = Known::of(column.data_type.clone());
        }
        let FoundClasses { mut places, new, rows: asked } =
            find_classes(&known.classes, &used, &samples);
        if !new.is_empty() {
            let names: Vec<String> =
                expression.columns.iter().map(|key| names[key.index].clone()).collect();
            let picked: Vec<Column> = used.iter().map(|one| one.pick(&asked)).collect();
            let values = std::slice::from_mut(&mut known.values);
            self.ask(&names, &picked, asked.len(), &[number], values)?;
            for (class, key) in new {
                let place = known.classes.len() as u32;
                known.classes.insert(key, place);
                places[class] = place;
            }
            known.find_strings();
        }
        let order: Vec<u32> = numbers.iter().map(|class| places[usize::from(*class)]).collect();
        known.append(&order, column);
        Ok(true)
    }

    /// Let the engine compute some expressions for rows with these columns, and append their values.
    fn ask(
        &self,
        names: &[String],
        columns: &[impl Borrow<Column>],
        rows: usize,
        expressions: &[usize],
        values: &mut [Column],
    ) -> Result<(), String> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let given = format!("{}.{number}", self.file);
        let made = format!("{given}.made");
        output::write_block(&given, names, columns, rows).map_err(|e| e.to_string())?;
        let about =
            json!({"file": given, "columns": names, "expressions": expressions, "into": made});
        let answer = questions::ask("keys", &about);
        // What nobody reads again need not reach the disk.
        let _ = fs::remove_file(&given);
        answer?;
        let wanted: Vec<(String, Type)> = (expressions.iter().zip(&*values))
            .map(|(number, column)| (format!("key {number}"), column.data_type.clone()))
            .collect();
        let found = File::open(&made).map_err(BatchError::Io);
        let found = found.and_then(|file| append_blocks(file, &wanted, values));
        let _ = fs::remove_file(&made);
        match found {
            Ok(found) if found == rows => Ok(()),
            Ok(found) => Err(format!("an answer of {found} keys for {rows} rows")),
            Err(BatchError::Declined(_, what)) => Err(what),
            Err(BatchError::Io(error)) => Err(error.to_string()),
        }
    }
}

/// Append the blocks of a file to columns; returns how many rows there are.
fn append_blocks(
    file: File,
    wanted: &[(String, Type)],
    columns: &mut [Column],
) -> Result<usize, BatchError> {
    let mut stream = Stream::open(file, wanted);
    let mut rows = 0;
    while let Some(mut piece) = stream.next_piece()? {
        while let Some(mut batch) = piece.next_batch()? {
            let count = batch.rows();
            for (number, column) in columns.iter_mut().enumerate() {
                batch.append(number, (0, count), column).map_err(BatchError::declined)?;
            }
            rows += count;
        }
    }
    Ok(rows)
}

impl Known {
    fn of(data_type: Type) -> Known {
        let (classes, starts) = Default::default();
        Known { classes, values: Column::new(data_type), starts }
    }

    /// Find where strings start, after some were added.
    fn find_strings(&mut self) {
        if self.values.width() == 0 {
            self.starts = starts_of(self.values.values(), self.classes.len());
        }
    }

    /// Append values by their places.
    fn append(&self, places: &[u32], column: &mut Column) {
        let rows = RowSelection::Order(places);
        let from = &self.values;
        if from.data_type.nullable {
            gather_fixed(&from.nulls, 1, rows, &mut column.nulls).expect("memory takes all");
        }
        let span = |place: &u32| {
            let (start, end) = (self.starts[*place as usize], self.starts[*place as usize + 1]);
            (start, end - start)
        };
        let (data, out) = (&from.data, &mut column.data);
        match from.width() {
            0 => copy_spans(data, places.iter().map(span), out),
            width => gather_fixed(data, width, rows, out),
        }
        .expect("memory takes all");
    }
}
