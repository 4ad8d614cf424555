//! Reads ranges of a Parquet file: of a file here where they are needed, of an object behind a URL
//! the row group as a whole.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use ureq::Agent;

use crate::columnar::BatchError;
use crate::input::http::HttpReader;
use crate::spec::Input;

/// Bytes at the end of an object that are asked for first: nearly every footer.
const TAIL_BYTES: u64 = 256 << 10;
/// Ranges of an object with fewer bytes between them are one request.
const GAP_BYTES: u64 = 1 << 20;
/// A row group that is fetched as a whole takes so much memory at most, for each worker.
const MOST_BYTES: u64 = 256 << 20;
/// Headers of pages take 20 to 100 bytes, more with statistics of long strings.
const HEADER_BYTES: usize = 512;

/// A file or an object, whose ranges are read.
#[derive(Clone)]
pub struct Object {
    place: Place,
    size: u64,
    read: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Place {
    File(Arc<File>),
    /// With the last bytes, from an offset on.
    Http(Agent, Arc<Input>, u64, Bytes),
}

impl Object {
    /// Open a file, or an object by its address. What is read of it is added to `read`.
    pub fn open(
        agent: &Agent,
        input: &Input,
        read: Arc<AtomicU64>,
    ) -> std::result::Result<Object, BatchError> {
        if input.start > 0 || input.stop.is_some() {
            return Err(BatchError::declined("a range of a file"));
        }
        if input.url().is_none() {
            let file = File::open(&input.path)?;
            let found = file.metadata()?;
            if !found.is_file() {
                return Err(BatchError::declined("no file, but something that has no end"));
            }
            return Ok(Object { place: Place::File(Arc::new(file)), size: found.len(), read });
        }
        let size =
            input.size.ok_or_else(|| BatchError::declined("an object of an unknown size"))?;
        let from = size.saturating_sub(TAIL_BYTES);
        let tail = fetch(agent, input, from, size)?;
        let place = Place::Http(agent.clone(), Arc::new(input.clone()), from, tail);
        Ok(Object { place, size, read })
    }

    fn range(&self, from: u64, length: usize) -> io::Result<Bytes> {
        let to = from.checked_add(length as u64).filter(|to| *to <= self.size);
        let to = to.ok_or_else(|| io::Error::other("a part of it that lies behind its end"))?;
        match &self.place {
            Place::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, from)?;
                self.read.fetch_add(length as u64, Ordering::Relaxed);
                Ok(bytes.into())
            }
            Place::Http(_, _, start, tail) if from >= *start => {
                Ok(tail.slice((from - start) as usize..(to - start) as usize))
            }
            Place::Http(agent, input, ..) => fetch(agent, input, from, to),
        }
    }

    /// True for what is fetched from somewhere else.
    pub fn is_remote(&self) -> bool {
        matches!(self.place, Place::Http(..))
    }

    /// Begin to fetch the given ranges, of (start, length), which together are a row group, while
    /// others are decoded. Of a file nothing is fetched.
    pub fn row_group(&self, ranges: Vec<(u64, u64)>) -> FetchedGroup {
        let found = Arc::new(OnceLock::new());
        let bytes = if self.is_remote() { bytes_of(&spans_of(ranges.clone())) as usize } else { 0 };
        let fetch = {
            let (object, found, ranges) = (self.clone(), Arc::clone(&found), ranges.clone());
            move || drop(found.set(object.fetch_group(ranges)))
        };
        let named = thread::Builder::new().name("row group".into());
        if !self.is_remote() || named.spawn(fetch).is_err() {
            let _ = found.set(self.fetch_group(ranges));
        }
        FetchedGroup { found, bytes }
    }

    fn fetch_group(&self, ranges: Vec<(u64, u64)>) -> std::result::Result<RowGroup, BatchError> {
        let Place::Http(agent, input, ..) = &self.place else {
            return Ok(RowGroup { object: self.clone(), held: Vec::new() });
        };
        let spans = spans_of(ranges);
        let bytes = bytes_of(&spans);
        if bytes > MOST_BYTES || spans.iter().any(|(_, to)| *to > self.size) {
            return Err(BatchError::declined(format!("a row group of {bytes} bytes")));
        }
        let mut held = Vec::new();
        for (from, to) in spans {
            held.push((from, fetch(agent, input, from, to)?));
        }
        self.read.fetch_add(bytes, Ordering::Relaxed);
        Ok(RowGroup { object: self.clone(), held })
    }
}

/// What is fetched for some ranges, from starts to ends: those that are near each other at once.
fn spans_of(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (from, length) in ranges {
        let to = from.saturating_add(length);
        match spans.last_mut() {
            Some(last) if from <= last.1.saturating_add(GAP_BYTES) => last.1 = last.1.max(to),
            _ => spans.push((from, to)),
        }
    }
    spans
}

fn bytes_of(spans: &[(u64, u64)]) -> u64 {
    spans.iter().fold(0, |bytes, (from, to)| bytes.saturating_add(to - from))
}

/// A row group that is there, or will be soon; parts of it share it.
#[derive(Clone)]
pub struct FetchedGroup {
    found: Arc<OnceLock<std::result::Result<RowGroup, BatchError>>>,
    bytes: usize,
}

impl FetchedGroup {
    /// The memory that it takes, none of a file here: an address, which its parts share, and bytes.
    pub fn held(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.found) as usize, self.bytes)
    }

    /// Wait until it is there.
    pub fn wait(&self) -> std::result::Result<RowGroup, BatchError> {
        match self.found.wait() {
            Ok(group) => Ok(group.clone()),
            Err(BatchError::Declined(column, what)) => {
                Err(BatchError::Declined(*column, what.clone()))
            }
            Err(BatchError::Io(error)) => {
                Err(BatchError::Io(io::Error::new(error.kind(), error.to_string())))
            }
        }
    }
}

/// Fetch a range of an object.
fn fetch(agent: &Agent, input: &Input, from: u64, to: u64) -> io::Result<Bytes> {
    let range = Input { start: from, stop: Some(to), ..input.clone() };
    let mut bytes = Vec::with_capacity((to - from) as usize);
    HttpReader::open(agent, &range)?.read_to_end(&mut bytes)?;
    if bytes.len() as u64 != to - from {
        return Err(io::Error::other("the object is shorter than it was"));
    }
    Ok(bytes.into())
}

impl Length for Object {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Object {
    type T = BufReader<At>;

    fn get_read(&self, start: u64) -> Result<BufReader<At>> {
        let group = RowGroup { object: self.clone(), held: Vec::new() };
        group.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.range(start, length).map_err(|error| ParquetError::External(error.into()))
    }
}

/// The ranges of a row group.
#[derive(Clone)]
pub struct RowGroup {
    object: Object,
    /// What was fetched, from its offset on; nothing of a file.
    held: Vec<(u64, Bytes)>,
}

impl RowGroup {
    fn held(&self, from: u64, length: usize) -> Option<Bytes> {
        let (start, bytes) = self.held.iter().rev().find(|(start, _)| *start <= from)?;
        let at = usize::try_from(from - start).ok()?;
        let to = at.checked_add(length).filter(|to| *to <= bytes.len())?;
        Some(bytes.slice(at..to))
    }
}

impl Length for RowGroup {
    fn len(&self) -> u64 {
        self.object.size
    }
}

impl ChunkReader for RowGroup {
    type T = BufReader<At>;

    fn get_read(&self, start: u64) -> Result<BufReader<At>> {
        Ok(BufReader::with_capacity(HEADER_BYTES, At { group: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        match self.held(start, length) {
            Some(bytes) => Ok(bytes),
            None => self.object.get_bytes(start, length),
        }
    }
}

/// An object as a file with a position, for who knows beforehand what is read: each piece is one
/// request.
pub struct ObjectFile {
    object: Object,
    at: u64,
}

impl ObjectFile {
    /// At the beginning of an object.
    pub fn new(object: Object) -> ObjectFile {
        ObjectFile { object, at: 0 }
    }
}

impl Read for ObjectFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = (out.len() as u64).min(self.object.size.saturating_sub(self.at)) as usize;
        if length == 0 {
            return Ok(0);
        }
        if let Place::File(file) = &self.object.place {
            file.read_exact_at(&mut out[..length], self.at)?;
            self.object.read.fetch_add(length as u64, Ordering::Relaxed);
        } else {
            out[..length].copy_from_slice(&self.object.range(self.at, length)?);
        }
        self.at += length as u64;
        Ok(length)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let found = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(back) => self.object.size.checked_add_signed(back),
            SeekFrom::Current(on) => self.at.checked_add_signed(on),
        };
        self.at = found.ok_or_else(|| io::Error::other("a place before its beginning"))?;
        Ok(self.at)
    }
}

/// Reads on from an offset.
pub struct At {
    group: RowGroup,
    at: u64,
}

impl Read for At {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let end = self.group.held.iter().rev().find(|(start, _)| *start <= self.at);
        let end = end.map_or(self.group.object.size, |(start, bytes)| start + bytes.len() as u64);
        let length = (out.len() as u64).min(end.saturating_sub(self.at)) as usize;
        if length == 0 {
            return Ok(0);
        }
        if let Place::File(file) = &self.group.object.place {
            file.read_exact_at(&mut out[..length], self.at)?;
        } else {
            let bytes = self.group.get_bytes(self.at, length).map_err(io::Error::other)?;
            out[..length].copy_from_slice(&bytes);
        }
        self.at += length as u64;
        Ok(length)
    }
}
