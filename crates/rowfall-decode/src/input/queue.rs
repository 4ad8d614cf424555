//! The inputs of a run: workers take them in order, and those behind a URL are fetched before that.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::sync::Mutex;

use ureq::Agent;

use crate::input::http::HttpReader;
use crate::input::http_request;
use crate::spec::Input;

/// Bytes for each worker that may be fetched of objects whose turn has not come: small objects
/// then arrive several at a time, and of big ones the beginning is there.
const AHEAD_BYTES: u64 = 16 << 20;
/// Such objects for each worker: requests of 30 ms for objects of 100 KB keep a core busy then.
const AHEAD_OBJECTS: usize = 8;

/// The stored bytes of an input.
pub enum InputReader {
    File(Take<File>),
    Http(HttpReader),
}

impl Read for InputReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            InputReader::File(file) => file.read(out),
            InputReader::Http(remote) => remote.read(out),
        }
    }
}

impl InputReader {
    fn file(input: &Input) -> io::Result<InputReader> {
        let mut file = File::open(if input.path == "-" { "/dev/stdin" } else { &input.path })?;
        if input.start > 0 {
            file.seek(SeekFrom::Start(input.start))?;
        }
        let max_objects = input.stop.map_or(u64::MAX, |stop| stop.saturating_sub(input.start));
        Ok(InputReader::File(file.take(max_objects)))
    }
}

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
    /// Of the inputs from `next` on, and the room they take.
    opened: VecDeque<(HttpReader, u64)>,
}

impl<'a> InputQueue<'a> {
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

    /// The next input that nobody has taken, opened; None when there is none left.
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
            let room = HttpReader::room(input);
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
