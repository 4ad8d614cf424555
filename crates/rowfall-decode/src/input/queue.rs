//! Hands the inputs of a run to its workers, in order, and starts to fetch those behind a URL
//! before their turn comes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::sync::Mutex;

use ureq::Agent;

use crate::input::handed::Answer;
use crate::input::http::HttpReader;
use crate::input::http_request;
use crate::spec::Input;

/// Bytes for each worker that may be fetched of objects whose turn has not come: then several small
/// objects arrive at a time, and the beginning of big ones is there.
const AHEAD_BYTES: u64 = 16 << 20;
/// Objects for each worker that are fetched before their turn: requests of 30 ms for objects of 100
/// KB keep a core busy then.
const AHEAD_OBJECTS: usize = 8;

/// Reads the stored bytes of an input, compressed ones as they are.
pub enum InputReader {
    /// A file, stdin, or a range of a file.
    File(Take<File>),
    /// The answer of a database.
    Answer(Answer),
    /// An object behind a URL.
    Http(HttpReader),
}

impl Read for InputReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            InputReader::File(file) => file.read(out),
            InputReader::Answer(answer) => answer.read(out),
            InputReader::Http(remote) => remote.read(out),
        }
    }
}

impl InputReader {
    /// Open a file, stdin or what is handed over.
    pub fn file(input: &Input) -> io::Result<InputReader> {
        let mut file = match File::open(if input.path == "-" { "/dev/stdin" } else { &input.path })
        {
            // Behind a socket there is no file.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Answer::open(&input.path).map(InputReader::Answer);
            }
            opened => opened?,
        };
        if input.start > 0 {
            file.seek(SeekFrom::Start(input.start))?;
        }
        let max_objects = input.stop.map_or(u64::MAX, |stop| stop.saturating_sub(input.start));
        Ok(InputReader::File(file.take(max_objects)))
    }
}

/// The inputs of a run that no worker has taken yet.
pub struct InputQueue<'a> {
    list: &'a [Input],
    agent: Agent,
    max_bytes: u64,
    max_objects: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: usize,
    /// Readers of the inputs from `next` on, and the bytes of memory they may take.
    opened: VecDeque<(HttpReader, u64)>,
}

impl<'a> InputQueue<'a> {
    /// The inputs of `list` in their order, for so many workers.
    pub fn new(list: &'a [Input], workers: usize) -> InputQueue<'a> {
        let (max_bytes, max_objects) = (AHEAD_BYTES * workers as u64, AHEAD_OBJECTS * workers);
        InputQueue {
            list,
            agent: http_request::agent(),
            max_bytes,
            max_objects,
            state: Mutex::default(),
        }
    }

    /// The number of the next input and its reader; None when there is none left. The error of an
    /// input that cannot be opened comes in place of its reader.
    pub fn take(&self) -> Option<(usize, io::Result<InputReader>)> {
        let mut state = self.state.lock().expect("no worker panics");
        let index = state.next;
        let input = self.list.get(index)?;
        state.next += 1;
        let raw = match state.opened.pop_front() {
            Some((remote, _)) => Ok(InputReader::Http(remote)),
            None if input.url().is_some() => {
                HttpReader::open(&self.agent, input).map(InputReader::Http)
            }
            None => InputReader::file(input),
        };
        self.open_ahead(&mut state);
        Some((index, raw))
    }

    fn open_ahead(&self, state: &mut State) {
        let mut held: u64 = state.opened.iter().map(|(_, room)| room).sum();
        while let Some(input) = self.list.get(state.next + state.opened.len()) {
            let room = HttpReader::memory_bytes(input);
            let full = held + room > self.max_bytes || state.opened.len() >= self.max_objects;
            if input.url().is_none() || full {
                return;
            }
            // It is tried again when its turn has come.
            let Ok(remote) = HttpReader::open(&self.agent, input) else { return };
            state.opened.push_back((remote, room));
            held += room;
        }
    }
}
