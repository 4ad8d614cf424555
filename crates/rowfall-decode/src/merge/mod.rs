//! Merges the sorted rows of all blocks of a run into one part, so that the engine need not.
//!
//! Blocks stay in memory as long as they fit, others go into a file ([`scratch`]). In the end the keys
//! are merged once ([`order`]), and by that each column is put together in pieces and written, one
//! column by each thread: no column is in memory as a whole.

mod order;
mod run;
mod scratch;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::column::Column;
use crate::column::keys::Keys;
use crate::column::strings::strings_of;
use crate::merge::order::{MOST_RUNS, Picks, merge};
use crate::merge::run::{PIECE_BYTES, Reader, Run};
use crate::merge::scratch::Scratch;
use crate::output::{Facts, MAX_SHARED_KEYS, Output, PiecePart, WrittenColumn};
use crate::spec::{Merge, Spec};

/// The part of the memory for rows that the order of all rows may take.
const PICK_SHARE: usize = 4;
/// The part of it that pieces of all runs may take, which are read side by side; and how many runs may
/// be held anyway.
const READ_SHARE: usize = 4;
const LEAST_RUNS: usize = 64;

/// The rows of all workers that become one part.
pub struct Merging {
    /// Columns of the key.
    keys: Vec<usize>,
    /// Bytes of rows in memory at most.
    most: usize,
    /// Blocks at most, and the bytes of one that is held in memory.
    most_runs: usize,
    block: usize,
    scratch: Scratch,
    held: AtomicUsize,
    count: AtomicUsize,
    /// With the worker and the number of the block that each comes from.
    runs: Mutex<Vec<((usize, usize), Run)>>,
    /// What is written in the end; None before that, and Some(None) where nothing is left.
    task: Mutex<Option<Option<Arc<Task>>>>,
}

/// A part whose columns are being written.
struct Task {
    runs: Vec<Run>,
    picks: Picks,
    facts: Vec<Facts>,
    part: PiecePart,
    /// The number of the next column.
    next: AtomicUsize,
    written: Mutex<Vec<Option<WrittenColumn>>>,
}

impl Merging {
    /// Nothing is held so far.
    pub fn new(asked: &Merge, spec: &Spec) -> Merging {
        Merging {
            keys: spec.sort_by.clone().unwrap_or_default(),
            most: asked.hold_bytes,
            // Each worker reads a column of its own.
            most_runs: (asked.hold_bytes / READ_SHARE / PIECE_BYTES / spec.outputs.len().max(1))
                .clamp(LEAST_RUNS, MOST_RUNS),
            block: asked.block_bytes.map_or(spec.block_bytes, |b| b.clamp(1, spec.block_bytes)),
            scratch: Scratch::new(&asked.file),
            held: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            runs: Mutex::default(),
            task: Mutex::default(),
        }
    }

    /// True where one more block can be held, as it then is. The `only` one need not be.
    pub fn takes_more(&self, only: bool) -> bool {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        before < self.most_runs && !(only && before == 0)
    }

    /// The bytes of the next block where it will be held in memory: it is sorted in the cache. None for
    /// others, of which there should be few: each is read in pieces of its own.
    pub fn block_bytes(&self) -> Option<usize> {
        let fits = self.held.load(Ordering::Relaxed).saturating_add(self.block) <= self.most;
        (fits && self.count.load(Ordering::Relaxed) < self.most_runs).then_some(self.block)
    }

    /// Hold the rows of a block, of which `named` columns are those of the table. `place` is of the
    /// worker and of its block: rows with equal keys are in the order of these.
    pub fn hold(
        &self,
        place: (usize, usize),
        columns: &[Column],
        (rows, named): (usize, usize),
        order: Option<&[u32]>,
    ) -> io::Result<()> {
        let bytes: usize = columns.iter().map(Column::bytes).sum();
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let scratch = (held > self.most).then_some(&self.scratch);
        if scratch.is_some() {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        let run = Run::new(columns, (rows, named), order, &self.keys, scratch)?;
        self.runs.lock().expect("no worker panics").push((place, run));
        Ok(())
    }

    /// Write all rows that are held as one part, together with the other workers: all of them call
    /// this. `columns` and `key_values` are empty ones of their types.
    pub fn write(
        &self,
        names: &[String],
        columns: &[Column],
        key_values: &[Column],
        output: &mut Output,
    ) -> io::Result<()> {
        let like: Vec<Column> = columns.iter().chain(key_values).map(Column::like).collect();
        let mut task = self.task.lock().expect("no worker panics");
        if task.is_none() {
            // Should it fail, the others find that there is nothing left.
            *task = Some(None);
            *task = Some(self.begin(names, &like, output)?);
        }
        let found = task.clone().flatten();
        drop(task);
        match found {
            Some(task) => self.write_columns(&task, names, like, output),
            None => Ok(()),
        }
    }

    /// Begin the part; None where it is written already, or there is none.
    fn begin(
        &self,
        names: &[String],
        like: &[Column],
        output: &mut Output,
    ) -> io::Result<Option<Arc<Task>>> {
        let mut runs = std::mem::take(&mut *self.runs.lock().expect("no worker panics"));
        runs.sort_unstable_by_key(|(place, _)| *place);
        let mut runs: Vec<Run> = runs.into_iter().map(|(_, run)| run).collect();
        let rows: usize = runs.iter().map(|run| run.rows).sum();
        let bytes = runs.iter().map(|run| run.engine_bytes).sum();
        if rows == 0 {
            return Ok(None);
        }
        if let [_] = runs[..]
            && runs[0].is_in_memory()
        {
            let columns = runs.remove(0).into_columns();
            output.write(names, &columns, rows, None, None)?;
            return Ok(None);
        }
        let keys = (&self.keys[..], like);
        let picks = merge(&runs, keys, &self.scratch, self.most / PICK_SHARE)?;
        let facts =
            like.iter().enumerate().map(|(number, like)| facts(&runs, number, like)).collect();
        let Some(part) = output.begin_pieces(rows, bytes)? else {
            let mut columns: Vec<Column> = like.iter().map(Column::like).collect();
            for (number, column) in columns.iter_mut().enumerate() {
                let mut readers = self.readers(&runs, number, column);
                picks.read(&self.scratch).take(rows, &mut readers, column)?;
            }
            output.write(names, &columns, rows, None, None)?;
            return Ok(None);
        };
        let written = Mutex::new(like.iter().map(|_| None).collect());
        let next = AtomicUsize::new(0);
        Ok(Some(Arc::new(Task { runs, picks, facts, part, next, written })))
    }

    fn readers<'a>(&'a self, runs: &'a [Run], number: usize, like: &Column) -> Vec<Reader<'a>> {
        runs.iter().map(|run| run.read(number, like, &self.scratch)).collect()
    }

    /// Write columns that no other worker has taken; who writes the last one ends the part.
    fn write_columns(
        &self,
        task: &Task,
        names: &[String],
        mut columns: Vec<Column>,
        output: &mut Output,
    ) -> io::Result<()> {
        // The last part of this worker may have been a compact one, and this one is wide.
        output.streams().begin_part(false);
        loop {
            let number = task.next.fetch_add(1, Ordering::Relaxed);
            let Some(column) = columns.get_mut(number) else { return Ok(()) };
            let mut readers = self.readers(&task.runs, number, column);
            let mut picks = task.picks.read(&self.scratch);
            let mut fill = |rows: usize, to: &mut Column| picks.take(rows, &mut readers, to);
            let place = (number, names.get(number).map(String::as_str));
            let (facts, streams) = (&task.facts[number], output.streams());
            let found = task.part.column(place, facts, column, streams, &mut fill)?;
            let mut written = task.written.lock().expect("no worker panics");
            written[number] = Some(found);
            if written.iter().all(Option::is_some) {
                let all = written.drain(..).flatten().collect();
                return task.part.end(names, all, &task.facts, output.streams());
            }
        }
    }
}

/// What is known of a column of all runs.
fn facts(runs: &[Run], number: usize, like: &Column) -> Facts {
    let mut counts = runs[0].counts[number].clone();
    runs[1..].iter().for_each(|run| counts.add(&run.counts[number]));
    let of_runs: Option<Vec<&Vec<u8>>> =
        runs.iter().map(|run| run.dictionaries[number].as_ref()).collect();
    let keys = of_runs.map(|all| {
        let mut keys = Keys::default();
        all.into_iter().flat_map(|keys| strings_of(keys)).for_each(|key| {
            keys.number(key);
        });
        keys
    });
    let least = usize::from(like.data_type.nullable);
    Facts { counts, keys: keys.filter(|keys| keys.len() + least <= MAX_SHARED_KEYS) }
}
