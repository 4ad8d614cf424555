//! Keeps what does not fit into memory in a file without a name: it is gone when the program is,
//! however that ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::column::Column;

/// The file, which is made when something is put into it.
pub struct Scratch {
    path: String,
    file: OnceLock<Result<File, io::ErrorKind>>,
    end: AtomicU64,
}

/// Where something is in the file: its offset, and its bytes there and in memory.
#[derive(Clone, Copy)]
pub struct Place {
    at: u64,
    packed: usize,
    plain: usize,
}

impl Scratch {
    /// A file that will be made at a path, and have no name a moment later.
    pub fn new(path: &str) -> Scratch {
        Scratch { path: path.to_owned(), file: OnceLock::new(), end: AtomicU64::new(0) }
    }

    fn file(&self) -> io::Result<&File> {
        let made = self.file.get_or_init(|| {
            let path = Path::new(&self.path);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(path);
            file.and_then(|file| fs::remove_file(path).map(|()| file)).map_err(|e| e.kind())
        });
        made.as_ref().map_err(|kind| (*kind).into())
    }

    /// Put bytes into the file, compressed by LZ4.
    pub fn put(&self, plain: &[u8]) -> io::Result<Place> {
        let mut packed = vec![0; get_maximum_output_size(plain.len())];
        let size = compress_into(plain, &mut packed).expect("it has the most room");
        let at = self.end.fetch_add(size as u64, Ordering::Relaxed);
        self.file()?.write_all_at(&packed[..size], at)?;
        Ok(Place { at, packed: size, plain: plain.len() })
    }

    /// Read what was put there.
    pub fn get(&self, place: Place) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; place.packed];
        self.file()?.read_exact_at(&mut packed, place.at)?;
        let mut plain = vec![0; place.plain];
        let read = decompress_into(&packed, &mut plain).map_err(io::Error::other)?;
        if read == plain.len() { Ok(plain) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Put a column into the file.
    pub fn put_column(&self, column: &Column) -> io::Result<Place> {
        let mut plain = Vec::with_capacity(column.bytes() + 64);
        append(column, &mut plain);
        self.put(&plain)
    }

    /// Read a column, into an empty one of its type.
    pub fn get_column(&self, place: Place, to: &mut Column) -> io::Result<()> {
        read(&mut &self.get(place)?[..], to);
        Ok(())
    }
}

fn append(column: &Column, out: &mut Vec<u8>) {
    for bytes in [&column.nulls, &column.sizes, &column.data] {
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    column.children.iter().for_each(|child| append(child, out));
}

fn read(rest: &mut &[u8], column: &mut Column) {
    for bytes in [&mut column.nulls, &mut column.sizes, &mut column.data] {
        let (size, more) = rest.split_first_chunk().expect("its size");
        let (own, more) = more.split_at(u64::from_le_bytes(*size) as usize);
        bytes.extend_from_slice(own);
        *rest = more;
    }
    column.children.iter_mut().for_each(|child| read(rest, child));
}
