//! Hands the pieces of the inputs to the workers: an input is read by all of them, before the next
//! one is opened.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::columnar::native;
use crate::columnar::{BatchError, BatchReader, Input};
#[cfg(feature = "arrow")]
use crate::columnar::{ipc, objects::Object, parquet};
#[cfg(feature = "arrow")]
use crate::input::http_request;
use crate::input::queue::InputReader;
use crate::spec::{Format, Spec};
use crate::types::Type;

/// What one worker reads: a block, a batch, a row group.
pub type Piece = Box<dyn BatchReader>;

/// The pieces that no worker has taken yet.
pub struct PieceQueue<'a> {
    spec: &'a Spec,
    wanted: Vec<(String, Type)>,
    state: Mutex<State>,
    /// The client with the connections of all objects.
    #[cfg(feature = "arrow")]
    agent: ureq::Agent,
    /// Stored bytes that were read and not counted yet.
    read: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    next: usize,
    open: Option<(usize, Box<dyn Input>)>,
}

/// Counts the bytes of a stream.
struct Counted(InputReader, Arc<AtomicU64>);

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(out)?;
        self.1.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl<'a> PieceQueue<'a> {
    /// The inputs of a spec, of columns of these types.
    pub fn new(spec: &'a Spec, types: Vec<Type>) -> PieceQueue<'a> {
        let names = spec.columns.iter().map(|column| column.source().to_owned());
        let wanted = names.zip(types).collect();
        PieceQueue {
            spec,
            wanted,
            state: Mutex::default(),
            #[cfg(feature = "arrow")]
            agent: http_request::agent(),
            read: Arc::default(),
        }
    }

    /// The next piece, and the number of its input; None when there is none left.
    pub fn take(&self) -> Option<(usize, Result<Piece, BatchError>)> {
        let mut state = self.state.lock().expect("no worker panics");
        loop {
            if let Some((number, input)) = &mut state.open {
                match input.next_piece() {
                    Ok(Some(piece)) => return Some((*number, Ok(piece))),
                    Ok(None) => {}
                    Err(error) => return Some((*number, Err(error))),
                }
            }
            let number = state.next;
            if number >= self.spec.inputs.len() {
                state.open = None;
                return None;
            }
            state.next += 1;
            match self.open(number) {
                Ok(input) => state.open = Some((number, input)),
                Err(error) => return Some((number, Err(error))),
            }
        }
    }

    /// The stored bytes that were read since this was asked last.
    pub fn bytes_read(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }

    fn stream(&self, number: usize) -> io::Result<Counted> {
        Ok(Counted(InputReader::file(&self.spec.inputs[number])?, Arc::clone(&self.read)))
    }

    #[cfg(feature = "arrow")]
    fn open(&self, number: usize) -> Result<Box<dyn Input>, BatchError> {
        let (input, workers) = (&self.spec.inputs[number], self.spec.outputs.len());
        Ok(match self.spec.format {
            Format::Parquet => {
                let object = Object::open(&self.agent, input, Arc::clone(&self.read))?;
                // So that all workers have something to do at the end.
                let few = self.spec.inputs.len() < 2 * workers;
                let parts = if few { workers } else { 1 };
                Box::new(parquet::File::open(object, &self.wanted, parts)?)
            }
            Format::ArrowStream => Box::new(ipc::Stream::open(self.stream(number)?, &self.wanted)?),
            _ => Box::new(native::Stream::open(self.stream(number)?, &self.wanted)),
        })
    }

    #[cfg(not(feature = "arrow"))]
    fn open(&self, number: usize) -> Result<Box<dyn Input>, BatchError> {
        Ok(Box::new(native::Stream::open(self.stream(number)?, &self.wanted)))
    }
}
