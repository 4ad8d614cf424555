//! Writes blocks in the Native format of files and HTTP bodies (revision 0), compressed or not.

use std::borrow::{Borrow, Cow};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};

use crate::codec::Codec;
use crate::column::Column;
use crate::column::reorder::{ByteSink, gather, gather_offsets};
use crate::column::strings::{append_string, append_varint};
use crate::output::compressed::CompressedBlocks;
use crate::output::low_cardinality;
use crate::types::{BaseType, Type};

/// The bytes before the data of a column: its name and type; before the first one the block's
/// numbers of columns and rows.
fn column_header(
    first: bool,
    columns: usize,
    rows: usize,
    name: &str,
    data_type: &Type,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(32 + name.len() + data_type.name.len());
    if first {
        append_varint(&mut head, columns);
        append_varint(&mut head, rows);
    }
    append_string(&mut head, name.as_bytes());
    append_string(&mut head, data_type.name.as_bytes());
    put_versions(&mut head, data_type);
    head
}

/// Append the versions of all dictionaries in a column, which stand before its data.
fn put_versions(out: &mut Vec<u8>, data_type: &Type) {
    if data_type.low_cardinality {
        out.extend_from_slice(&low_cardinality::VERSION);
    }
    data_type.children().iter().for_each(|child| put_versions(out, child));
}

/// Add the pieces of a column's data in the order in which they are written.
fn add_pieces<'a>(column: &'a Column, rows: usize, out: &mut Vec<Cow<'a, [u8]>>) {
    if column.data_type.low_cardinality {
        out.push(Cow::Owned(low_cardinality::encode(column, rows, None)));
        return;
    }
    out.push(Cow::Borrowed(&column.nulls));
    out.push(Cow::Borrowed(&column.data));
    let rows = column.elements(rows);
    column.children.iter().for_each(|child| add_pieces(child, rows, out));
}

/// Write the data of a column with its rows in another order.
fn gather_column(column: &Column, rows: usize, order: &[u32], out: &mut Output) -> io::Result<()> {
    if column.data_type.low_cardinality {
        let data = low_cardinality::encode(column, rows, Some(order));
        out.buffer_for(data.len())?.extend_from_slice(&data);
        return Ok(());
    }
    if column.children.is_empty() {
        return gather(column.values(), order, out);
    }
    let (rows, mut elements) = (column.elements(rows), Vec::new());
    let order = match column.data_type.base {
        BaseType::Tuple(..) => order,
        _ => {
            gather_offsets(&column.data, order, &mut elements, out)?;
            &elements
        }
    };
    column.children.iter().try_for_each(|child| gather_column(child, rows, order, out))
}

/// Writes blocks to a pipe, a file or stdout.
pub struct Output {
    file: File,
    buffer: Vec<u8>,
    /// The buffer of compressed blocks; None to write blocks as they are.
    compressed: Option<CompressedBlocks>,
}

/// Bytes that are buffered before they are written: so few stay in the cache.
const BUFFER_BYTES: usize = 256 << 10;

impl ByteSink for Output {
    fn buffer_for(&mut self, more: usize) -> io::Result<&mut Vec<u8>> {
        if self.buffer.len() + more > BUFFER_BYTES {
            self.flush()?;
        }
        self.buffer.reserve(more);
        Ok(&mut self.buffer)
    }
}

impl Output {
    /// Open for writing, compressed where `packed`; of a named pipe this waits for its reader.
    pub fn open(path: &str, packed: bool) -> io::Result<Output> {
        let file = open(path)?;
        Ok(Output { file, buffer: Vec::new(), compressed: packed.then(CompressedBlocks::default) })
    }

    /// Write one block of all columns, its rows in `order` if there is one.
    pub fn write(
        &mut self,
        names: &[String],
        columns: &[impl Borrow<Column>],
        rows: usize,
        order: Option<&[u32]>,
    ) -> io::Result<()> {
        let columns: Vec<&Column> = columns.iter().map(Borrow::borrow).collect();
        let children = columns.iter().zip(names).enumerate();
        let heads: Vec<Vec<u8>> = children
            .map(|(n, (c, name))| column_header(n == 0, columns.len(), rows, name, &c.data_type))
            .collect();
        if let Some(order) = order {
            for (head, &column) in heads.iter().zip(&columns) {
                self.buffer_for(head.len())?.extend_from_slice(head);
                gather_column(column, rows, order, self)?;
            }
            return self.flush();
        }
        let mut pieces = Vec::with_capacity(columns.len() * 3);
        for (head, &column) in heads.iter().zip(&columns) {
            pieces.push(Cow::Borrowed(&head[..]));
            add_pieces(column, rows, &mut pieces);
        }
        let filled = pieces.iter().filter(|piece| !piece.is_empty());
        let mut slices: Vec<IoSlice<'_>> = filled.map(|piece| IoSlice::new(piece)).collect();
        if self.compressed.is_none() {
            return write_all(&mut self.file, &mut slices);
        }
        for piece in slices.iter().flat_map(|slice| slice.chunks(BUFFER_BYTES)) {
            self.buffer_for(piece.len())?.extend_from_slice(piece);
        }
        self.flush()
    }

    /// Write out what the buffer holds.
    fn flush(&mut self) -> io::Result<()> {
        let bytes = match &mut self.compressed {
            None => &self.buffer[..],
            Some(compressed) => {
                compressed.clear();
                compressed.append(&self.buffer, Codec::Lz4);
                compressed.bytes()
            }
        };
        self.file.write_all(bytes)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Open for writing; of a named pipe this waits for its reader.
pub fn open(path: &str) -> io::Result<File> {
    let file = if path == "-" {
        use std::os::fd::AsFd;
        File::from(io::stdout().as_fd().try_clone_to_owned()?)
    } else {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)?
    };
    enlarge_pipe(&file);
    Ok(file)
}

/// A larger pipe means fewer switches between its two ends. No harm if it is not a pipe.
fn enlarge_pipe(file: &File) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open, and the call takes a plain number.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = file;
}

/// Write all slices.
pub fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match file.write_vectored(&slices[..slices.len().min(512)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
