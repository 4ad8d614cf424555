//! Finds the partitions of rows. The values of the partition key are the engine's business: it is
//! asked once for each class of rows (`classes`), by whoever started the program. Blocks are held
//! in memory (`held`), so that the rows of a partition become one part, from whatever block. Those of
//! each shard of a cluster are a partition of their own; `shard` finds it by a hash.

pub mod classes;
pub mod held;
mod shard;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::column::Column;
use crate::output::{self, Partition};
use crate::partition::classes::{
    FoundClasses, MOST_CLASSES, NO_ROW, Used, find_classes, number_rows,
};
use crate::questions;
use crate::sort::counting::KEYS;
use crate::spec::{KeyColumn, PartitionKey, Same, ShardKey};

/// Partitions of a run at most: rows are counted by them.
const MOST_PARTITIONS: usize = KEYS;

/// The partitions that have been met, of all workers together.
pub struct Partitions {
    /// Columns that the engine is asked about.
    columns: Vec<KeyColumn>,
    /// Columns of the partition key itself.
    keys: Vec<usize>,
    shard: Option<ShardKey>,
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

/// What the engine says about a row.
#[derive(Clone)]
struct Answer {
    /// The name of its partition, and the value of the key.
    id: String,
    value: Vec<u8>,
    /// The number of its shard.
    shard: u16,
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
        let mut columns = key.columns.clone();
        for more in key.shard.iter().flat_map(|shard| &shard.columns) {
            match columns.iter_mut().find(|own| own.index == more.index) {
                // Two expressions of a column may tell other values apart.
                Some(own) => *own = KeyColumn { index: own.index, floor: 0, modulo: 0, divide: 0 },
                None => columns.push(more.clone()),
            }
        }
        Partitions {
            columns,
            keys: key.columns.iter().map(|column| column.index).collect(),
            shard: key.shard.clone(),
            most: key.max_partitions * key.shard.as_ref().map_or(1, |shard| shard.ends.len()),
            file: key.file.clone().into(),
            known: Mutex::default(),
        }
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
        let mut used: Vec<Used<'_>> = (self.columns.iter())
            .map(|key| Used::new(columns[key.index].values(), key, rows))
            .collect();
        let shards = self.shard.as_ref().and_then(|shard| shard.shards(columns, rows));
        if let Some(shards) = &shards {
            let plain = KeyColumn { index: 0, floor: 0, modulo: 0, divide: 0 };
            used.push(Used::new(shards.values(), &plain, rows));
        }
        let samples = number_rows(&used, rows, numbers).ok_or_else(|| {
            format!("a block with more than {MOST_CLASSES} values under the partition key")
        })?;
        let places = self.places(names, &used, shards.as_ref(), &samples)?;
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
        shards: Option<&Column>,
        samples: &[u32],
    ) -> Result<Vec<u16>, String> {
        // Nobody else asks about the same meanwhile.
        let mut known = self.known.lock().expect("no worker panics");
        let FoundClasses { mut places, new, rows } = find_classes(&known.classes, used, samples);
        if new.is_empty() {
            return Ok(places);
        }
        let mut answers = match self.columns[..] {
            // All partitions there are, where no column says more.
            [] => vec![Answer { id: "all".to_owned(), value: Vec::new(), shard: 0 }; rows.len()],
            _ => self.ask(names, &used[..self.columns.len()], &rows)?,
        };
        if let Some(shards) = shards {
            let own = shards.data.as_chunks::<2>().0;
            for (answer, row) in answers.iter_mut().zip(&rows) {
                answer.shard = u16::from_le_bytes(own[*row as usize]);
            }
        }
        for ((class, key), mut answer) in new.into_iter().zip(answers) {
            if self.shard.is_some() {
                answer.id = format!("{}.{}", answer.shard, answer.id);
            }
            let place = known.place(answer.id, answer.value, &self.keys)?;
            known.classes.insert(key, place);
            places[class] = place;
        }
        Ok(places)
    }

    /// Ask for the partitions of some rows, and for their shards where no hash says them.
    fn ask(
        &self,
        names: &[String],
        used: &[Used<'_>],
        rows: &[u32],
    ) -> Result<Vec<Answer>, String> {
        let picked: Vec<Column> = used.iter().map(|one| one.pick(rows)).collect();
        let asked: Vec<String> = self.columns.iter().map(|key| names[key.index].clone()).collect();
        let path = self.file.to_string_lossy();
        output::write_block(&path, &asked, &picked, rows.len()).map_err(|e| e.to_string())?;
        let answer = questions::ask("partitions", &json!({"file": path, "columns": asked}))?;
        let found = answer["partitions"].as_array().ok_or("no partitions")?;
        let asks_shard = self.shard.as_ref().is_some_and(|shard| shard.hash.is_none());
        let answer = |one: &Value| {
            let (id, value) = (one[0].as_str()?.to_owned(), unhex(one[1].as_str()?)?);
            let shard = if asks_shard { one[2].as_u64()?.try_into().ok()? } else { 0 };
            Some(Answer { id, value, shard })
        };
        let found: Option<Vec<Answer>> = found.iter().map(answer).collect();
        found
            .filter(|found| found.len() == rows.len())
            .ok_or_else(|| "an answer that is not a partition for each value".to_owned())
    }
}

impl Known {
    /// The number of a partition.
    fn place(&mut self, id: String, value: Vec<u8>, keys: &[usize]) -> Result<u16, String> {
        if let Some(place) = self.numbers.get(&id) {
            return Ok(*place);
        }
        if self.partitions.len() == MOST_PARTITIONS {
            return Err(format!("more than {MOST_PARTITIONS} partitions"));
        }
        let place = self.partitions.len() as u16;
        self.numbers.insert(id.clone(), place);
        self.partitions.push(Arc::new(Partition { id, value, columns: keys.to_vec() }));
        Ok(place)
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
