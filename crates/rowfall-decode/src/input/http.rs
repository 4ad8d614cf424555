//! Reads an object behind a URL like a file: threads fetch ranges of it ahead of the reader.
//!
//! Threads that wait for sockets are cheaper here than an async runtime: the decoder takes all the
//! CPU there is, and a piece of 4 MiB costs one wake-up.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once};
use std::thread;
use std::time::Duration;

use ureq::{Agent, Body};

use crate::input::data_node;
use crate::input::http_request::{self, Answer, ObjectAddress, Paced, RequestError};
use crate::spec::{Block, Input};

/// Bytes of a request: at 30 ms to the first byte and 80 MB/s a connection most of the time goes
/// into bytes, and a lost request loses little.
const PIECE_BYTES: u64 = 4 << 20;
/// Pieces of an object that are fetched or ready at a time: 16 MiB, about 200 MB/s with such requests.
const PIECES_AHEAD: u64 = 4;
/// The same of WebHDFS, where a request costs a client of HDFS in the data node, and there is no
/// store far away: a quarter of the requests for twice the memory.
const HDFS_PIECE_BYTES: u64 = 16 << 20;
const HDFS_PIECES_AHEAD: u64 = 2;
/// Requests in a row that may fail, with pauses of 0.1, 0.4, 1.6 and 3 s; one that timed out counts
/// twice. A longer outage is rowfall's business: the engine reads, or another attempt does.
const MAX_FAILURES: u32 = 5;
/// A request that brought so many bytes before it failed does not count as failed in a row.
const ENOUGH_BYTES: usize = 64 << 10;

/// Reads an object; dropping it ends the threads that fetch.
pub struct HttpReader {
    download: Arc<Download>,
    piece: Vec<u8>,
    at: usize,
}

impl HttpReader {
    /// Start fetching. Errors of requests come when the bytes are read.
    pub fn open(agent: &Agent, input: &Input) -> io::Result<HttpReader> {
        HttpReader::start(agent, input, pieces_of(input).1)
    }

    /// The same for a reader that wants the first rows only: no more than the piece that it is at
    /// is fetched.
    pub fn beginning(agent: &Agent, input: &Input) -> io::Result<HttpReader> {
        HttpReader::start(agent, input, 1)
    }

    fn start(agent: &Agent, input: &Input, pieces_ahead: u64) -> io::Result<HttpReader> {
        let missing = || io::Error::other("it has no address");
        let all = input.stop.is_none();
        let (piece_bytes, _) = pieces_of(input);
        let pieces = input.bytes().map(|bytes| bytes.div_ceil(piece_bytes));
        let download = Arc::new(Download {
            address: ObjectAddress::new(agent, input).ok_or_else(missing)?,
            blocks: input.blocks.clone(),
            piece_bytes,
            pieces_ahead,
            all: all && input.start == 0,
            start: input.start,
            stop: input.end(),
            state: Mutex::new(State { end: pieces, ..State::default() }),
            changed: Condvar::new(),
            ranges: Once::new(),
        });
        download.start_thread()?;
        Ok(HttpReader { download, piece: Vec::new(), at: 0 })
    }

    /// Bytes that an object holds in memory at most while it is fetched.
    pub fn memory_bytes(input: &Input) -> u64 {
        let (piece_bytes, pieces_ahead) = pieces_of(input);
        input.size.unwrap_or(u64::MAX).min(piece_bytes * pieces_ahead)
    }
}

/// Bytes of a request, and how many are fetched or ready at a time.
fn pieces_of(input: &Input) -> (u64, u64) {
    match input.by_query {
        true => (HDFS_PIECE_BYTES, HDFS_PIECES_AHEAD),
        false => (PIECE_BYTES, PIECES_AHEAD),
    }
}

impl Read for HttpReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            self.at = 0;
            match self.download.take(std::mem::take(&mut self.piece)) {
                None => return Ok(0),
                Some(piece) => self.piece = piece?,
            }
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Drop for HttpReader {
    fn drop(&mut self) {
        self.download.state().closed = true;
        self.download.changed.notify_all();
    }
}

/// An object that is being fetched; shared by its reader and the threads that fetch.
struct Download {
    address: ObjectAddress,
    /// Of a file in HDFS: where its bytes are.
    blocks: Vec<Block>,
    piece_bytes: u64,
    pieces_ahead: u64,
    /// The whole object is wanted, not a range of it.
    all: bool,
    /// The wanted range in bytes; no end where the size is unknown.
    start: u64,
    stop: Option<u64>,
    state: Mutex<State>,
    changed: Condvar,
    /// Called once the server has answered with a range: from then on several threads fetch.
    ranges: Once,
}

#[derive(Default)]
struct State {
    /// The next piece to ask for, and the next one to give to the reader.
    next: u64,
    first: u64,
    /// How many pieces there are, as soon as it is known.
    end: Option<u64>,
    /// The pieces from `first` on; None while one is fetched.
    ready: VecDeque<Option<io::Result<Vec<u8>>>>,
    /// Buffers of pieces that were read, to be filled again.
    spare: Vec<Vec<u8>>,
    closed: bool,
}

/// The reason why a thread stops without a piece.
enum Stop {
    Failed(io::Error),
    /// All has been delivered, or nobody wants it any more.
    NotNeeded,
}

impl Download {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics")
    }

    // --- the reader's side

    /// Wait for the next piece; None at the end. The buffer `used` is filled again.
    fn take(&self, used: Vec<u8>) -> Option<io::Result<Vec<u8>>> {
        let mut state = self.state();
        if used.capacity() > 0 {
            state.spare.push(used);
        }
        loop {
            if state.end.is_some_and(|end| state.first >= end) {
                return None;
            }
            if let Some(piece) = state.ready.front_mut().and_then(Option::take) {
                state.ready.pop_front();
                state.first += 1;
                self.changed.notify_all();
                return Some(piece);
            }
            state = self.changed.wait(state).expect("no thread panics");
        }
    }

    // --- the fetching side

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let download = self.clone();
        thread::Builder::new()
            .name("fetch".into())
            .spawn(move || download.fetch_pieces())
            .map(|_| ())
    }

    /// Fetch piece after piece until there are none: the work of each thread.
    fn fetch_pieces(self: &Arc<Self>) {
        while let Some((piece, buffer)) = self.claim_piece() {
            let from = self.start + piece * self.piece_bytes;
            let to = self.stop.map(|stop| stop.min(from + self.piece_bytes));
            match self.fetch_range(from, to, buffer) {
                Ok(bytes) => self.deliver(piece, Ok(bytes)),
                Err(Stop::Failed(error)) => self.deliver(piece, Err(error)),
                Err(Stop::NotNeeded) => return,
            }
        }
    }

    /// Wait for room; the number of the next piece and a buffer for it. None when all are taken.
    fn claim_piece(&self) -> Option<(u64, Vec<u8>)> {
        let mut state = self.state();
        loop {
            if state.closed || state.end.is_some_and(|end| state.next >= end) {
                return None;
            }
            if state.next < state.first + self.pieces_ahead {
                state.next += 1;
                state.ready.push_back(None);
                let mut buffer = state.spare.pop().unwrap_or_default();
                buffer.clear();
                return Some((state.next - 1, buffer));
            }
            state = self.changed.wait(state).expect("no thread panics");
        }
    }

    /// Give a piece, or the error in its place, to the reader.
    fn deliver(&self, piece: u64, result: io::Result<Vec<u8>>) {
        let mut state = self.state();
        let place = (piece - state.first) as usize;
        state.ready[place] = Some(result);
        self.changed.notify_all();
    }

    /// Fetch the bytes `from..to`, in as many requests as it takes.
    fn fetch_range(
        self: &Arc<Self>,
        from: u64,
        to: Option<u64>,
        mut bytes: Vec<u8>,
    ) -> Result<Vec<u8>, Stop> {
        if let (false, Some(to)) = (self.blocks.is_empty(), to) {
            self.ranges.call_once(|| self.start_others());
            // What no data node gives is asked for over WebHDFS, which finds them anew.
            if data_node::read(&self.blocks, from, to, &mut bytes).is_ok() {
                return Ok(bytes);
            }
        }
        let mut failed = 0;
        loop {
            let had = bytes.len();
            let at = from + had as u64;
            let error = match self.address.ask(to.map(|to| (at, to))) {
                Ok(Answer::Range(body)) => {
                    self.ranges.call_once(|| self.start_others());
                    match http_request::receive(body, to.unwrap_or(at) - at, &mut bytes) {
                        Ok(()) => return Ok(bytes),
                        Err(error) => error,
                    }
                }
                Ok(Answer::Whole(body, promised)) if at == 0 && self.all => {
                    self.stream(body, promised);
                    return Err(Stop::NotNeeded);
                }
                Ok(Answer::Whole(..)) => {
                    RequestError::broken("everything where a range was asked for")
                }
                Err(error) => error,
            };
            let error = match error {
                RequestError::Temporary(error) => error,
                RequestError::Permanent(error) => return Err(Stop::Failed(error)),
            };
            if bytes.len() - had >= ENOUGH_BYTES {
                failed = 0;
            }
            failed += if error.kind() == io::ErrorKind::TimedOut { 2 } else { 1 };
            if failed >= MAX_FAILURES {
                let message = format!("{error}, again and again");
                return Err(Stop::Failed(io::Error::new(error.kind(), message)));
            }
            pause(failed);
            if self.state().closed {
                return Err(Stop::NotNeeded);
            }
        }
    }

    /// Start a thread for each piece that may be fetched at a time.
    fn start_others(self: &Arc<Self>) {
        let pieces = self.state().end.unwrap_or(1);
        // This thread goes on alone where there are no more threads to be had.
        let _ = (1..pieces.min(self.pieces_ahead)).try_for_each(|_| self.start_thread());
    }

    /// Read the object from one answer: the server knows no ranges, or the size is unknown.
    ///
    /// What has been read cannot be asked for again, so the first error ends it.
    fn stream(&self, mut body: Body, promised: Option<u64>) {
        self.state().end = None;
        let mut reader = Paced::new(body.as_reader(), http_request::READ_TIMEOUT);
        let (mut piece, mut total) = (0, 0);
        loop {
            let mut bytes = Vec::new();
            let read = (&mut reader).take(self.piece_bytes).read_to_end(&mut bytes);
            total += bytes.len() as u64;
            let ended = read.is_ok() && (bytes.len() as u64) < self.piece_bytes;
            let missing = promised.filter(|all| ended && total < *all);
            let result = match (read, missing) {
                (Err(error), _) => Err(http_request::interrupted(error)),
                (_, Some(all)) => Err(http_request::connection_lost(all - total)),
                _ => Ok(bytes),
            };
            let last = ended || result.is_err();
            if last {
                self.state().end = Some(piece + 1);
            }
            self.deliver(piece, result);
            if last || !self.wait_for_room() {
                return;
            }
            piece += 1;
        }
    }

    /// Wait for room for another piece of a stream; false when its reader is gone.
    fn wait_for_room(&self) -> bool {
        let mut state = self.state();
        while !state.closed && state.next >= state.first + self.pieces_ahead {
            state = self.changed.wait(state).expect("no thread panics");
        }
        state.next += 1;
        state.ready.push_back(None);
        !state.closed
    }
}

/// Sleep before the next request, the longer the more have failed in a row.
fn pause(failed: u32) {
    let longest = Duration::from_millis(100 * 4u64.pow(failed - 1)).min(Duration::from_secs(3));
    // Threads that were refused together do not come back together.
    let share = 0.5 + 0.5 * (RandomState::new().hash_one(0) as f64 / u64::MAX as f64);
    thread::sleep(longest.mul_f64(share));
}
