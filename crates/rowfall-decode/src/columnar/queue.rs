//! Hands the pieces of the inputs to the workers: an input is read by all of them, before the next
//! one is opened.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
#[cfg(feature = "arrow")]
use std::thread;
use std::thread::JoinHandle;

use crate::columnar::{BatchError, BatchReader, Input, native, random};
#[cfg(feature = "arrow")]
use crate::columnar::{ipc, objects::Object, parquet};
#[cfg(feature = "arrow")]
use crate::input::http_request;
use crate::input::queue::InputReader;
use crate::simd::Simd;
use crate::spec::{self, Format, Spec};
use crate::types::Type;

/// What one worker reads: a block, a batch, a row group.
pub type Piece = Box<dyn BatchReader>;

/// The pieces that no worker has taken yet.
pub struct PieceQueue<'a> {
    spec: &'a Spec,
    wanted: Vec<(String, Type)>,
    simd: Simd,
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
    /// The next input, which is being opened: it takes two answers from somewhere else.
    opening: Option<JoinHandle<Opened>>,
}

type Opened = Result<Box<dyn Input>, BatchError>;

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
    pub fn new(spec: &'a Spec, types: Vec<Type>, simd: Simd) -> PieceQueue<'a> {
        let names = spec.columns.iter().map(|column| column.source().to_owned());
        let wanted = names.zip(types).collect();
        PieceQueue {
            spec,
            wanted,
            simd,
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
            let opened = match state.opening.take() {
                Some(opening) => opening.join().expect("no thread panics"),
                None => self.open(number),
            };
            state.opening = self.open_ahead(state.next);
            match opened {
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

    fn open_random(&self, input: &spec::Input) -> Opened {
        let read = Arc::clone(&self.read);
        Ok(Box::new(random::Rows::open(input, &self.wanted, self.simd, read)?))
    }

    /// Begin to open an input that comes from somewhere else, beside the workers.
    #[cfg(feature = "arrow")]
    fn open_ahead(&self, number: usize) -> Option<JoinHandle<Opened>> {
        let input = self.spec.inputs.get(number).filter(|input| input.url().is_some())?;
        if self.spec.format != Format::Parquet {
            return None;
        }
        let (agent, read, input) = (self.agent.clone(), Arc::clone(&self.read), input.clone());
        let (wanted, parts) = (self.wanted.clone(), self.parts());
        // Where there are no more threads, it is opened when its turn has come.
        thread::Builder::new()
            .name("open".into())
            .spawn(move || open_parquet(&agent, &input, read, &wanted, parts))
            .ok()
    }

    #[cfg(not(feature = "arrow"))]
    fn open_ahead(&self, _: usize) -> Option<JoinHandle<Opened>> {
        None
    }

    /// Into how many parts row groups are cut, so that all workers have something to do at the end.
    #[cfg(feature = "arrow")]
    fn parts(&self) -> usize {
        let workers = self.spec.outputs.len();
        if self.spec.inputs.len() < 2 * workers { workers } else { 1 }
    }

    #[cfg(feature = "arrow")]
    fn open(&self, number: usize) -> Opened {
        let input = &self.spec.inputs[number];
        Ok(match self.spec.format {
            Format::Parquet => {
                let read = Arc::clone(&self.read);
                return open_parquet(&self.agent, input, read, &self.wanted, self.parts());
            }
            Format::Random => return self.open_random(input),
            Format::ArrowStream => {
                Box::new(ipc::Batches::new(ipc::open_stream(self.stream(number)?)?, &self.wanted)?)
            }
            Format::Arrow => {
                let object = Object::open(&self.agent, input, Arc::clone(&self.read))?;
                Box::new(ipc::Batches::new(ipc::open_file(object)?, &self.wanted)?)
            }
            _ => Box::new(native::Stream::open(self.stream(number)?, &self.wanted)),
        })
    }

    #[cfg(not(feature = "arrow"))]
    fn open(&self, number: usize) -> Opened {
        if self.spec.format == Format::Random {
            return self.open_random(&self.spec.inputs[number]);
        }
        Ok(Box::new(native::Stream::open(self.stream(number)?, &self.wanted)))
    }
}

#[cfg(feature = "arrow")]
fn open_parquet(
    agent: &ureq::Agent,
    input: &spec::Input,
    read: Arc<AtomicU64>,
    wanted: &[(String, Type)],
    parts: usize,
) -> Opened {
    let object = Object::open(agent, input, read)?;
    Ok(Box::new(parquet::File::open(object, wanted, parts)?))
}
