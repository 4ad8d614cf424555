//! Runs a spec: one worker, with a thread and an output of its own, takes inputs from the shared
//! queue until none is left; and sums up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::columnar::queue::PieceQueue;
use crate::computed::Computed;
use crate::cpu_time;
use crate::error::Fail;
use crate::input::buffer::TextBuffer;
use crate::input::queue::InputQueue;
use crate::input::read_ahead::ReadAhead;
use crate::merge::Merging;
use crate::output::Output;
use crate::progress::{InputSummary, Progress};
use crate::simd::Simd;
use crate::spec::{Format, Spec};
use crate::text::layout::Layout;
use crate::worker::{Common, Partitioned, Worker};

/// The state that all workers share.
struct Shared<'a> {
    spec: &'a Spec,
    simd: Simd,
    inputs: InputQueue<'a>,
    pieces: PieceQueue<'a>,
    /// Stored bytes of all inputs, where they are known.
    bytes: Option<u64>,
    stop: AtomicBool,
    partitioned: Option<Partitioned>,
    computed: Option<Computed>,
    merging: Option<Merging>,
    /// All workers have read what there is.
    all_read: Barrier,
    progress: Progress,
    done: Mutex<Vec<Option<InputSummary>>>,
    /// The inputs that are decompressed in threads of their own, and read by all workers.
    shared_inputs: Mutex<Vec<Arc<SharedInput>>>,
    /// The failure of the first input that failed, in the order of the spec, its number, and that
    /// of the piece of it.
    failed: Mutex<Option<((usize, usize), Fail)>>,
}

/// An input of which each worker takes the next piece.
struct SharedInput {
    /// Its number in the spec.
    number: usize,
    pieces: Mutex<Pieces>,
    spent: Sender<TextBuffer>,
    /// Lines of the pieces that were decoded.
    lines: Mutex<Vec<u64>>,
}

struct Pieces {
    ahead: ReadAhead,
    taken: usize,
    /// Stored bytes of the pieces so far.
    stored_bytes: u64,
    layout: Option<Layout>,
    ended: bool,
}

/// Do what the spec asks for. Returns the summary that is printed, as JSON.
pub fn run(spec: &Spec) -> Result<Value, Fail> {
    let simd = spec.simd.as_deref().unwrap_or("auto");
    limit_memory(spec.memory_bytes);
    let simd = Simd::choose(simd)
        .ok_or_else(|| Fail::spec(format!("this machine has no {simd} instructions")))?;
    let shared = Shared {
        spec,
        simd,
        inputs: InputQueue::new(&spec.inputs, spec.outputs.len()),
        pieces: PieceQueue::new(spec, spec.types()?, simd),
        bytes: spec.bytes(),
        stop: AtomicBool::new(false),
        partitioned: Partitioned::new(spec),
        computed: Computed::new(spec),
        merging: spec.merge.as_ref().map(|asked| Merging::new(asked, spec)),
        all_read: Barrier::new(spec.outputs.len()),
        progress: Progress::default(),
        done: Mutex::new(vec![None; spec.inputs.len()]),
        shared_inputs: Mutex::default(),
        failed: Mutex::new(None),
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reporter = scope.spawn(|| shared.report_progress(&over));
        let (shared, mut others) = (&shared, Vec::new());
        for path in &spec.outputs[1..] {
            others.push(scope.spawn(move || shared.work(path)));
        }
        shared.work(&spec.outputs[0]);
        others.into_iter().for_each(|other| other.join().expect("no worker panics"));
        over.store(true, Ordering::Relaxed); // the unpark below orders it
        reporter.thread().unpark();
    });
    if let Some(((input, piece), mut fail)) = shared.failed.into_inner().expect("no worker panics")
    {
        if spec.output_arrow.is_some() {
            // Whoever has these rows goes on behind them.
            let done = shared.done.lock().expect("no worker panics");
            let rows: Vec<u64> = done.iter().flatten().map(|done| done.rows).collect();
            eprintln!("{}", json!({"input_rows": rows, "failed": input}));
        }
        let inputs = shared.shared_inputs.into_inner().expect("no worker panics");
        if let (Fail::Value(decline), Some(found)) =
            (&mut fail, inputs.iter().find(|found| found.number == input))
        {
            // All pieces before it have been decoded: they were taken before.
            let lines = found.lines.lock().expect("no worker panics");
            decline.line += lines[..piece.min(lines.len())].iter().sum::<u64>();
        }
        return Err(fail);
    }
    let done = shared.done.into_inner().expect("no worker panics");
    let done: Vec<_> = done.into_iter().map(Option::unwrap_or_default).collect();
    Ok(summary(spec, &done, &shared.progress))
}

/// Let the system refuse memory beyond a limit; then the program is aborted.
fn limit_memory(bytes: Option<u64>) {
    #[cfg(target_os = "linux")]
    if let Some(bytes) = bytes {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: the limit outlives the call.
        unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

fn summary(spec: &Spec, done: &[InputSummary], progress: &Progress) -> Value {
    let seconds = |seconds: f64| (seconds * 1e3).round() / 1e3;
    let inputs: Vec<Value> = spec
        .inputs
        .iter()
        .zip(done)
        .map(|(i, d)| json!({"uri": i.name(), "rows": d.rows, "bytes_raw": d.bytes_raw}))
        .collect();
    json!({
        "rows": done.iter().map(|d| d.rows).sum::<u64>(),
        "bytes_read": done.iter().map(|d| d.bytes_read).sum::<u64>(),
        "bytes_raw": done.iter().map(|d| d.bytes_raw).sum::<u64>(),
        "cpu_seconds": seconds(cpu_time::process_seconds()),
        "writing_seconds": seconds(progress.part_nanoseconds.load(Ordering::Relaxed) as f64 / 1e9),
        "waited_seconds": seconds(progress.waited_nanoseconds.load(Ordering::Relaxed) as f64 / 1e9),
        "inputs": inputs,
    })
}

impl Shared<'_> {
    fn fail(&self, input: usize, fail: Fail) {
        self.fail_piece((input, 0), fail);
    }

    /// Keep the failure of a piece of an input, unless an earlier one has failed.
    fn fail_piece(&self, input: (usize, usize), fail: Fail) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().expect("no worker panics");
        if failed.as_ref().is_none_or(|(first, _)| input < *first) {
            *failed = Some((input, fail));
        }
    }

    /// Print the progress every `progress_ms` milliseconds, and when the run is over.
    fn report_progress(&self, over: &AtomicBool) {
        if self.spec.progress_ms == 0 {
            return;
        }
        let mut reported = (0, 0, 0);
        loop {
            thread::park_timeout(Duration::from_millis(self.spec.progress_ms));
            let ended = over.load(Ordering::Relaxed);
            let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (rows, read) = (of(&self.progress.rows), of(&self.progress.read_bytes));
            let decoded = of(&self.progress.decoded_rows);
            if (rows, decoded, read) != reported {
                reported = (rows, decoded, read);
                // A block may hold half of a file: what is read moves while none is written.
                let line = json!({
                    "written_rows": rows,
                    "written_bytes": of(&self.progress.bytes),
                    "decoded_rows": decoded,
                    "read_bytes": read,
                });
                eprintln!("{line}");
            }
            if ended {
                return;
            }
        }
    }

    fn work(&self, path: &str) {
        let worker = self.read(path);
        if self.partitioned.is_some() || self.merging.is_some() {
            self.all_read.wait();
            if let Some(mut worker) = worker.filter(|_| !self.stop.load(Ordering::Relaxed))
                && let Err(fail) = worker.write_rest()
            {
                self.fail(self.spec.inputs.len(), fail);
            }
        }
        self.progress
            .waited_nanoseconds
            .fetch_add(cpu_time::waited_nanoseconds(), Ordering::Relaxed);
    }

    /// Read until no input is left; None where something failed.
    fn read(&self, path: &str) -> Option<Worker<'_>> {
        let last = self.spec.inputs.len();
        let output = match Output::open(path, self.spec) {
            Ok(output) => output,
            Err(error) => {
                self.fail(last, Fail::output(path, &error));
                return None;
            }
        };
        let common = Common {
            progress: &self.progress,
            partitioned: self.partitioned.as_ref(),
            computed: self.computed.as_ref(),
            merging: self.merging.as_ref(),
        };
        let mut worker = Worker::new(self.spec, self.simd, output, common);
        if self.spec.format.is_columnar() {
            if let Err((input, fail)) = self.copy(&mut worker) {
                self.fail(input, fail);
                return None;
            }
        } else if !self.decode(&mut worker) {
            return None;
        }
        if let Err(fail) = worker.flush() {
            self.fail(last, fail);
            return None;
        }
        Some(worker)
    }

    /// Take piece after piece of inputs of columns; the error is about an input, by its number.
    fn copy<'a>(&'a self, worker: &mut Worker<'a>) -> Result<(), (usize, Fail)> {
        let mut last = None;
        while !self.stop.load(Ordering::Relaxed) {
            let Some((input, piece)) = self.pieces.take() else { break };
            let spec = &self.spec.inputs[input];
            let piece = piece.map_err(|error| (input, worker.unreadable(spec, error)))?;
            let rows = worker.read_piece(spec, piece);
            let rows = rows.map_err(|fail| (self.number_of(&fail).unwrap_or(input), fail))?;
            self.count_copied(worker, input, rows)?;
            last = Some(input);
        }
        // Pieces that were held are read now.
        let Some(input) = last.filter(|_| !self.stop.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        worker.flush().map_err(|fail| (self.number_of(&fail).unwrap_or(input), fail))?;
        self.count_copied(worker, input, 0)
    }

    /// The number of the input that a failure is about: a piece that was held may be of an earlier one.
    fn number_of(&self, fail: &Fail) -> Option<usize> {
        let Fail::Value(decline) = fail else { return None };
        self.spec.inputs.iter().position(|input| input.name() == decline.uri)
    }

    /// Count rows of an input, and the bytes that were read since.
    fn count_copied(
        &self,
        worker: &mut Worker<'_>,
        input: usize,
        rows: u64,
    ) -> Result<(), (usize, Fail)> {
        let workers = self.spec.outputs.len() as u64;
        let made = self.pieces.bytes_read();
        let bytes = if self.spec.format == Format::Random { 0 } else { made };
        let read = self.progress.read_bytes.load(Ordering::Relaxed) + bytes;
        let left = self.bytes.map(|all| all.saturating_sub(read) / workers);
        worker.add_bytes(bytes, left).map_err(|fail| (input, fail))?;
        let mut done = self.done.lock().expect("no worker panics");
        let summary = done[input].get_or_insert_default();
        summary.rows += rows;
        summary.bytes_read += bytes;
        summary.bytes_raw += made;
        Ok(())
    }

    /// Decode input after input of text; false where one failed.
    fn decode(&self, worker: &mut Worker<'_>) -> bool {
        let packets = self.spec.format.is_packets();
        if self.spec.read_ahead && !packets {
            return self.decode_shared(worker);
        }
        while !self.stop.load(Ordering::Relaxed) {
            let Some((input, raw)) = self.inputs.take() else { break };
            let spec = &self.spec.inputs[input];
            let read = match packets {
                true => worker.read_packets(spec, raw),
                false => worker.read(spec, raw),
            };
            match read {
                Ok(done) => self.done.lock().expect("no worker panics")[input] = Some(done),
                Err(fail) => {
                    self.fail(input, fail);
                    return false;
                }
            }
        }
        true
    }

    /// Take inputs, and pieces of those that others have taken where there are no more; false where
    /// one failed.
    fn decode_shared(&self, worker: &mut Worker<'_>) -> bool {
        while let Some(input) = self.next_shared(worker) {
            let Some(input) = input else { return false };
            loop {
                if self.stop.load(Ordering::Relaxed) {
                    return true;
                }
                match self.decode_piece(worker, &input) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err((piece, fail)) => {
                        self.fail_piece((input.number, piece), fail);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// The next input, opened here, or one that has pieces left; None where there are none, and
    /// Some(None) for one that cannot be opened.
    fn next_shared(&self, worker: &Worker<'_>) -> Option<Option<Arc<SharedInput>>> {
        // One takes an input and starts it while the others wait: they may have to help with it.
        let mut open = self.shared_inputs.lock().expect("no worker panics");
        if let Some((number, raw)) = self.inputs.take() {
            let (spec, workers) = (self.spec, self.spec.outputs.len());
            let input = &spec.inputs[number];
            let threads = workers.div_ceil(spec.inputs.len());
            let ahead = match worker.open(input, raw, threads) {
                Ok(source) => {
                    let (csv, bytes) = (spec.format.is_csv(), spec.chunk_bytes);
                    ReadAhead::start(source, input.start, csv, bytes, workers, spec.record_bytes)
                }
                Err(error) => {
                    self.fail(number, Fail::io(input.name(), &error));
                    return Some(None);
                }
            };
            let spent = ahead.spent.clone();
            let pieces =
                Mutex::new(Pieces { ahead, taken: 0, stored_bytes: 0, layout: None, ended: false });
            self.done.lock().expect("no worker panics")[number] = Some(InputSummary::default());
            let lines = Mutex::default();
            open.push(Arc::new(SharedInput { number, pieces, spent, lines }));
            return open.last().cloned().map(Some);
        }
        let left =
            |input: &&Arc<SharedInput>| !input.pieces.lock().expect("no worker panics").ended;
        // Each has one reference here, and one of each worker that reads it.
        open.iter().filter(left).min_by_key(|input| Arc::strong_count(input)).cloned().map(Some)
    }

    /// Decode the next piece of an input; false where there was none left. The error is about a
    /// piece, by its number.
    fn decode_piece(
        &self,
        worker: &mut Worker<'_>,
        shared: &SharedInput,
    ) -> Result<bool, (usize, Fail)> {
        let input = &self.spec.inputs[shared.number];
        let mut pieces = shared.pieces.lock().expect("no worker panics");
        let Some(piece) = pieces.ahead.next() else {
            pieces.ended = true;
            return Ok(false);
        };
        let number = pieces.taken;
        pieces.taken += 1;
        let mut piece = piece.map_err(|error| (number, Fail::io(input.name(), &error)))?;
        pieces.stored_bytes += piece.stored_bytes;
        let stored_bytes = piece.stored_bytes;
        let workers = self.spec.outputs.len() as u64;
        let left = input.bytes().map(|all| all.saturating_sub(pieces.stored_bytes) / workers);
        let mut layout = pieces.layout.clone();
        let counts = if layout.is_none() && self.spec.format.has_names() {
            // The others wait for the header.
            let counts = worker.read_records(input, &mut piece, left, &mut layout);
            pieces.layout = layout;
            drop(pieces);
            counts
        } else {
            drop(pieces);
            worker.read_records(input, &mut piece, left, &mut layout)
        };
        let counts = match counts {
            Ok(counts) => counts,
            Err(fail) => {
                // Who cuts a large piece waits for this one, and another worker for that piece.
                let _ = shared.spent.send(piece.text);
                return Err((number, fail));
            }
        };
        let mut lines = shared.lines.lock().expect("no worker panics");
        if lines.len() <= number {
            lines.resize(number + 1, 0);
        }
        lines[number] = counts.lines;
        let mut done = self.done.lock().expect("no worker panics");
        let summary = done[shared.number].get_or_insert_default();
        summary.rows += counts.rows;
        summary.bytes_read += stored_bytes;
        summary.bytes_raw += counts.bytes;
        // Nobody takes it once the last piece was sent.
        let _ = shared.spent.send(piece.text);
        Ok(true)
    }
}
