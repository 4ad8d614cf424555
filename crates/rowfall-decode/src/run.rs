//! Runs a spec: one worker, with a thread and an output of its own, takes inputs from the shared
//! queue until none is left; and sums up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::columnar::queue::PieceQueue;
use crate::cpu_time;
use crate::error::Fail;
use crate::input::queue::InputQueue;
use crate::output::Output;
use crate::simd::Simd;
use crate::spec::{Format, Input, Spec};
use crate::worker::{InputSummary, Progress, Worker};

/// The state that all workers share.
struct Shared<'a> {
    spec: &'a Spec,
    simd: Simd,
    inputs: InputQueue<'a>,
    pieces: PieceQueue<'a>,
    /// Stored bytes of all inputs, where they are known.
    bytes: Option<u64>,
    stop: AtomicBool,
    progress: Progress,
    done: Mutex<Vec<Option<InputSummary>>>,
    /// The failure of the first input that failed, in the order of the spec, and its number.
    failed: Mutex<Option<(usize, Fail)>>,
}

/// Do what the spec asks for. Returns the summary that is printed, as JSON.
pub fn run(spec: &Spec) -> Result<Value, Fail> {
    let simd = spec.simd.as_deref().unwrap_or("auto");
    limit_memory(spec.memory_bytes);
    let shared = Shared {
        spec,
        simd: Simd::choose(simd)
            .ok_or_else(|| Fail::spec(format!("this machine has no {simd} instructions")))?,
        inputs: InputQueue::new(&spec.inputs, spec.outputs.len()),
        pieces: PieceQueue::new(spec, spec.types()?),
        bytes: spec.inputs.iter().map(Input::bytes).sum(),
        stop: AtomicBool::new(false),
        progress: Progress::default(),
        done: Mutex::new(vec![None; spec.inputs.len()]),
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
    if let Some((_, fail)) = shared.failed.into_inner().expect("no worker panics") {
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
        let mut reported = (0, 0);
        loop {
            thread::park_timeout(Duration::from_millis(self.spec.progress_ms));
            let ended = over.load(Ordering::Relaxed);
            let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (rows, read) = (of(&self.progress.rows), of(&self.progress.read_bytes));
            if (rows, read) != reported {
                reported = (rows, read);
                // A block may hold half of a file: what is read moves while none is written.
                let line = json!({
                    "written_rows": rows,
                    "written_bytes": of(&self.progress.bytes),
                    "decoded_rows": of(&self.progress.decoded_rows),
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
        let last = self.spec.inputs.len();
        let mut worker = match Output::open(path, self.spec) {
            Ok(output) => Worker::new(self.spec, self.simd, output, &self.progress),
            Err(error) => return self.fail(last, Fail::output(path, &error)),
        };
        if self.spec.format.is_columnar() {
            if let Err((input, fail)) = self.copy(&mut worker) {
                return self.fail(input, fail);
            }
        } else if !self.decode(&mut worker) {
            return;
        }
        if let Err(fail) = worker.flush() {
            self.fail(last, fail);
        }
        self.progress
            .waited_nanoseconds
            .fetch_add(cpu_time::waited_nanoseconds(), Ordering::Relaxed);
    }

    /// Take piece after piece of inputs of columns; the error is about an input, by its number.
    fn copy(&self, worker: &mut Worker<'_>) -> Result<(), (usize, Fail)> {
        let workers = self.spec.outputs.len() as u64;
        while !self.stop.load(Ordering::Relaxed) {
            let Some((input, piece)) = self.pieces.take() else { break };
            let spec = &self.spec.inputs[input];
            let piece = piece.map_err(|error| (input, worker.unreadable(spec, error)))?;
            let rows = worker.read_piece(spec, piece).map_err(|fail| (input, fail))?;
            let bytes = self.pieces.bytes_read();
            let read = self.progress.read_bytes.load(Ordering::Relaxed) + bytes;
            let left = self.bytes.map(|all| all.saturating_sub(read) / workers);
            worker.add_bytes(bytes, left).map_err(|fail| (input, fail))?;
            let mut done = self.done.lock().expect("no worker panics");
            let summary = done[input].get_or_insert_default();
            summary.rows += rows;
            summary.bytes_read += bytes;
            summary.bytes_raw += bytes;
        }
        Ok(())
    }

    /// Decode input after input of text; false where one failed.
    fn decode(&self, worker: &mut Worker<'_>) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            let Some((input, raw)) = self.inputs.take() else { break };
            let spec = &self.spec.inputs[input];
            let read = match self.spec.format {
                Format::MySql => worker.read_packets(spec, raw),
                _ => worker.read(spec, raw),
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
}
