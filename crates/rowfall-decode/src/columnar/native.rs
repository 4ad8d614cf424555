//! Reads blocks of the Native format, as an engine writes them into a pipe; several workers share
//! the pipe: each takes the next block.
//!
//! LowCardinality columns come as plain strings: whoever runs the engine casts them.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use crate::column::Column;
use crate::column::reorder::array_start;
use crate::column::strings::append_varint;
use crate::columnar::{Batch, BatchError, BatchReader, Input};
use crate::types::{BaseType, Type};

/// Bytes that are read at a time: what a pipe holds.
const BUFFER_BYTES: usize = 1 << 20;
/// Rows of a block at most: engines write 65,505 or so many as they were asked for.
const MOST_ROWS: u64 = 1 << 28;
/// Elements of the arrays of a block at most.
const MOST_ELEMENTS: u64 = u32::MAX as u64;
/// Bytes of a value at most, as of text.
const MOST_BYTES: u64 = 1 << 30;
/// Memory is taken as bytes come in, however long a column says it is.
const STEP_BYTES: usize = 1 << 20;

/// A stream of blocks.
pub struct Stream<R> {
    reader: BufReader<R>,
    wanted: Arc<[(String, Type)]>,
}

impl<R: Read> Stream<R> {
    /// Read blocks with just these columns, in their order.
    pub fn open(reader: R, wanted: &[(String, Type)]) -> Stream<R> {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Stream { reader, wanted: wanted.into() }
    }

    /// The next number, None at the end of the stream.
    fn varint(&mut self) -> io::Result<Option<u64>> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let mut byte = [0];
            if shift == 0 {
                if self.reader.read(&mut byte)? == 0 {
                    return Ok(None);
                }
            } else {
                self.reader.read_exact(&mut byte)?;
            }
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(Some(value));
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a number that never ends"))
    }

    fn length(&mut self) -> io::Result<u64> {
        self.varint()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Append so many bytes.
    fn bytes(&mut self, mut count: usize, to: &mut Vec<u8>) -> io::Result<()> {
        while count > 0 {
            let step = count.min(STEP_BYTES);
            let start = to.len();
            to.resize(start + step, 0);
            self.reader.read_exact(&mut to[start..])?;
            count -= step;
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String, BatchError> {
        let length = self.length()?;
        if length > 1 << 16 {
            return Err(BatchError::declined("a name of more than 64 KiB"));
        }
        let mut bytes = Vec::new();
        self.bytes(length as usize, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| BatchError::declined("a name that is not UTF-8"))
    }

    fn block(&mut self) -> Result<Option<Block>, BatchError> {
        let Some(columns) = self.varint()? else { return Ok(None) };
        let rows = self.length()?;
        if columns != self.wanted.len() as u64 || rows > MOST_ROWS {
            return Err(BatchError::declined(format!("a block of {columns} columns, {rows} rows")));
        }
        let rows = rows as usize;
        let all = Arc::clone(&self.wanted);
        let mut found = Vec::with_capacity(all.len());
        for (number, (wanted, data_type)) in all.iter().enumerate() {
            let (name, type_name) = (self.text()?, self.text()?);
            let found_type = Type::parse(&type_name, Some("UTC"));
            if name != *wanted || !found_type.is_ok_and(|found| same_values(&found, data_type)) {
                let what = format!("the column {name} {type_name} in its place");
                return Err(BatchError::Declined(Some(number), what));
            }
            let mut column = Column::new(data_type.clone());
            let mut ends = StringEnds::of(&column);
            self.values(rows, &mut column, &mut ends)?;
            found.push((column, ends));
        }
        Ok(Some(Block { columns: found, rows }))
    }

    /// Append so many values, with all their elements.
    fn values(
        &mut self,
        rows: usize,
        column: &mut Column,
        ends: &mut StringEnds,
    ) -> Result<(), BatchError> {
        if column.data_type.nullable {
            self.bytes(rows, &mut column.nulls)?;
        }
        match (&column.data_type.base, column.width()) {
            (BaseType::Array(_) | BaseType::Map(_), _) => {
                self.bytes(rows.saturating_mul(size_of::<u64>()), &mut column.data)?;
                let ends = || column.data.as_chunks().0.iter().map(|end| u64::from_le_bytes(*end));
                if !ends().is_sorted() || ends().next_back() > Some(MOST_ELEMENTS) {
                    return Err(BatchError::declined("arrays that end before they begin"));
                }
            }
            (BaseType::Tuple(..), _) => {}
            (_, 0) => return self.strings(rows, column, &mut ends.own),
            (_, width) => self.bytes(rows.saturating_mul(width), &mut column.data)?,
        }
        let count = column.elements(rows);
        for (child, ends) in column.children.iter_mut().zip(&mut ends.children) {
            self.values(count, child, ends)?;
        }
        Ok(())
    }

    /// Append one string, wherever it ends.
    fn string(&mut self, column: &mut Column) -> Result<(), BatchError> {
        let length = self.length()?;
        if length > MOST_BYTES {
            return Err(BatchError::declined("a string of more than 1 GiB"));
        }
        append_varint(&mut column.data, length as usize);
        self.bytes(length as usize, &mut column.data)?;
        Ok(())
    }

    fn strings(
        &mut self,
        rows: usize,
        column: &mut Column,
        ends: &mut Vec<usize>,
    ) -> Result<(), BatchError> {
        let mut left = rows;
        while left > 0 {
            // Those that lie in the buffer as a whole: they are copied together, lengths and all.
            let (buffer, start, mut at) = (self.reader.fill_buf()?, column.data.len(), 0);
            while left > 0 {
                let Some((length, used)) = varint_in(&buffer[at..]) else { break };
                let Some(end) = (at + used).checked_add(length).filter(|e| *e <= buffer.len())
                else {
                    break;
                };
                at = end;
                ends.push(start + at);
                left -= 1;
            }
            column.data.extend_from_slice(&buffer[..at]);
            self.reader.consume(at);
            if left > 0 {
                self.string(column)?;
                ends.push(column.data.len());
                left -= 1;
            }
        }
        Ok(())
    }
}

/// The length before a string and the bytes that it takes itself; None where that is not a number that
/// an engine writes, or where more bytes are needed.
#[inline(always)]
fn varint_in(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    if first < 128 {
        return Some((usize::from(first), 1));
    }
    let mut length = usize::from(first & 127);
    for (used, byte) in (1..5).zip(&bytes[1..]) {
        length |= usize::from(byte & 127) << (7 * used);
        if *byte < 128 {
            return (*byte > 0).then_some((length, used + 1));
        }
    }
    None
}

/// True for the same type, without dictionaries; a point in time is the same in every zone.
fn same_values(found: &Type, wanted: &Type) -> bool {
    let same = match (&found.base, &wanted.base) {
        (BaseType::DateTime(_), BaseType::DateTime(_))
        | (BaseType::Array(_), BaseType::Array(_))
        | (BaseType::Map(_), BaseType::Map(_)) => true,
        (BaseType::DateTime64(a, _), BaseType::DateTime64(b, _)) => a == b,
        (BaseType::Tuple(_, own), BaseType::Tuple(_, names)) => own == names,
        (one, other) => one == other,
    };
    same && found.nullable == wanted.nullable
        && !found.low_cardinality
        && found.children().len() == wanted.children().len()
        && found.children().iter().zip(wanted.children()).all(|(a, b)| same_values(a, b))
}

/// Where each string of a column ends, and of its children.
struct StringEnds {
    own: Vec<usize>,
    children: Vec<StringEnds>,
}

impl StringEnds {
    fn of(column: &Column) -> StringEnds {
        let children = column.children.iter().map(StringEnds::of).collect();
        StringEnds { own: Vec::new(), children }
    }
}

impl<R: Read + Send> Input for Stream<R> {
    fn next_piece(&mut self) -> Result<Option<Box<dyn BatchReader>>, BatchError> {
        let block = self.block()?;
        Ok(block.map(|block| Box::new(One(Some(block))) as Box<dyn BatchReader>))
    }
}

struct One(Option<Block>);

impl BatchReader for One {
    fn next_batch(&mut self) -> Result<Option<Box<dyn Batch>>, BatchError> {
        Ok(self.0.take().map(|block| Box::new(block) as Box<dyn Batch>))
    }
}

/// A block: columns, and where each of their strings ends.
struct Block {
    columns: Vec<(Column, StringEnds)>,
    rows: usize,
}

impl Batch for Block {
    fn rows(&self) -> usize {
        self.rows
    }

    fn append(
        &mut self,
        number: usize,
        rows: (usize, usize),
        column: &mut Column,
    ) -> Result<(), String> {
        let (own, ends) = &self.columns[number];
        append(column, own, ends, rows);
        Ok(())
    }
}

/// Append some neighbouring values, with all their elements.
fn append(column: &mut Column, own: &Column, ends: &StringEnds, (from, to): (usize, usize)) {
    if own.data_type.nullable {
        column.nulls.extend_from_slice(&own.nulls[from..to]);
    }
    let mut elements = (from, to);
    match (&own.data_type.base, own.width()) {
        (BaseType::Array(_) | BaseType::Map(_), _) => {
            let offsets = own.data.as_chunks().0;
            let (first, last) = (array_start(offsets, from), array_start(offsets, to));
            let before = column.elements(0);
            let ends = (from..to).map(|row| before + array_start(offsets, row + 1) - first);
            column.data.extend(ends.flat_map(|end| (end as u64).to_le_bytes()));
            elements = (first, last);
        }
        (BaseType::Tuple(..), _) => {}
        (_, 0) => return append_strings(column, own, &ends.own, (from, to)),
        (_, width) => column.data.extend_from_slice(&own.data[from * width..to * width]),
    }
    for (child, (own, ends)) in
        column.children.iter_mut().zip(own.children.iter().zip(&ends.children))
    {
        append(child, own, ends, elements);
    }
}

fn append_strings(column: &mut Column, own: &Column, ends: &[usize], (from, to): (usize, usize)) {
    let end = |row: usize| if row == 0 { 0 } else { ends[row - 1] };
    column.data.extend_from_slice(&own.data[end(from)..end(to)]);
    if column.keeps_sizes {
        let sizes = (from..to).map(|row| u8::try_from(end(row + 1) - end(row)).unwrap_or(0));
        column.sizes.extend(sizes);
    }
}
