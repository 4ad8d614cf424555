//! Finds the partitions of rows. The values of the partition key are the engine's business: it is
//! asked once for each class of rows (`classes`), by whoever started the program. Blocks are held
//! in memory (`held`), so that the rows of a partition become one part, from whatever block.

pub mod classes;
pub mod held;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::column::Column;
use crate::output::{self, Partition};
use crate::partition::classes::{
    FoundClasses, MOST_CLASSES, NO_ROW, Used, find_classes, number_rows,
};
use crate::questions;
use crate::sort::counting::KEYS;
use crate::spec::{KeyColumn, PartitionKey, Same};

/// Partitions of a run at most: rows are counted by them.
const MOST_PARTITIONS: usize = KEYS;

/// The partitions that have been met, of all workers together.
pub struct Partitions {
    columns: Vec<KeyColumn>,
    /// Partitions of a block at most; 0 for any number.
    most: usize,
    /// The file in which values are handed to the engine.
    file: PathBuf,
    known: Mutex<Known>,
}

/// What the numbers of the rows of a block stand for.
pub struct Numbered {
    /// The partition of each number.
    pub places: Vec<u16>,
    /// A row of each number.
    pub samples: Vec<u32>,
    /// Indices of columns whose values are the same in all rows of a number.
    pub columns: Vec<usize>,
}

#[derive(Default)]
struct Known {
    /// The partition of each class.
    classes: HashMap<Vec<u8>, u16>,
    numbers: HashMap<String, u16>,
    partitions: Vec<Arc<Partition>>,
}

impl Partitions {
    /// Partitions by the key of a spec.
    pub fn new(key: &PartitionKey) -> Partitions {
        let (columns, file) = (key.columns.clone(), key.file.clone().into());
        Partitions { columns, most: key.max_partitions, file, known: Mutex::default() }
    }

    /// A partition by its number.
    pub fn partition(&self, number: u16) -> Arc<Partition> {
        Arc::clone(&self.known.lock().expect("no worker panics").partitions[usize::from(number)])
    }

    /// Find the partition of each row of a block; the error says what is declined. `numbers` gets
    /// the class of each row: its partition is in what is returned.
    pub fn number(
        &self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        numbers: &mut Vec<u16>,
    ) -> Result<Numbered, String> {
        let used: Vec<Used<'_>> = (self.columns.iter())
            .map(|key| Used::new(columns[key.index].values(), key, rows))
            .collect();
        let samples = number_rows(&used, rows, numbers).ok_or_else(|| {
            format!("a block with more than {MOST_CLASSES} values under the partition key")
        })?;
        let places = self.places(names, &used, &samples)?;
        let mut met: Vec<u16> = samples
            .iter()
            .zip(&places)
            .filter(|(row, _)| **row != NO_ROW)
            .map(|(_, place)| *place)
            .collect();
        met.sort_unstable();
        met.dedup();
        if self.most > 0 && met.len() > self.most {
            let (found, most) = (met.len(), self.most);
            return Err(format!(
                "a block of {found} partitions, and max_partitions_per_insert_block is {most}"
            ));
        }
        let classes = samples.iter().filter(|row| **row != NO_ROW).count();
        // Where a partition has rows of one class only, the class may stand for it.
        if samples.len() <= KEYS && met.len() == classes {
            let exact = self.columns.iter().all(|key| matches!(key.same(), Same::Value));
            let columns =
                if exact { self.columns.iter().map(|key| key.index).collect() } else { Vec::new() };
            return Ok(Numbered { places, samples, columns });
        }
        numbers.iter_mut().for_each(|number| *number = places[usize::from(*number)]);
        let places = (0..KEYS as u16).collect();
        Ok(Numbered { places, samples: Vec::new(), columns: Vec::new() })
    }

    /// The partition of each class, by a row of it; the engine is asked about new ones.
    fn places(
        &self,
        names: &[String],
        used: &[Used<'_>],
        samples: &[u32],
    ) -> Result<Vec<u16>, String> {
        // Nobody else asks about the same meanwhile.
        let mut known = self.known.lock().expect("no worker panics");
        let FoundClasses { mut places, new, rows } = find_classes(&known.classes, used, samples);
        if new.is_empty() {
            return Ok(places);
        }
        let answers = self.ask(names, used, &rows)?;
        for ((class, key), (id, value)) in new.into_iter().zip(answers) {
            let place = known.place(id, value, &self.columns)?;
            known.classes.insert(key, place);
            places[class] = place;
        }
        Ok(places)
    }

    /// Ask for the partitions of some rows: the name of each, and the value of the key.
    fn ask(
        &self,
        names: &[String],
        used: &[Used<'_>],
        rows: &[u32],
    ) -> Result<Vec<(String, Vec<u8>)>, String> {
        let picked: Vec<Column> = used.iter().map(|one| one.pick(rows)).collect();
        let asked: Vec<String> = self.columns.iter().map(|key| names[key.index].clone()).collect();
        let path = self.file.to_string_lossy();
        output::write_block(&path, &asked, &picked, rows.len()).map_err(|e| e.to_string())?;
        let answer = questions::ask("partitions", &json!({"file": path, "columns": asked}))?;
        let found = answer["partitions"].as_array().ok_or("no partitions")?;
        let found: Option<Vec<_>> = (found.iter())
            .map(|one| Some((one[0].as_str()?.to_owned(), unhex(one[1].as_str()?)?)))
            .collect();
        found
            .filter(|found| found.len() == rows.len())
            .ok_or_else(|| "an answer that is not a partition for each value".to_owned())
    }
}

impl Known {
    /// The number of a partition.
    fn place(&mut self, id: String, value: Vec<u8>, keys: &[KeyColumn]) -> Result<u16, String> {
        if let Some(place) = self.numbers.get(&id) {
            return Ok(*place);
        }
        if self.partitions.len() == MOST_PARTITIONS {
            return Err(format!("more than {MOST_PARTITIONS} partitions"));
        }
        let place = self.partitions.len() as u16;
        self.numbers.insert(id.clone(), place);
        let columns = keys.iter().map(|key| key.index).collect();
        self.partitions.push(Arc::new(Partition { id, value, columns }));
        Ok(place)
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
