//! Copies the values of a column in another order, piece by piece into a sink, so that the
//! reordered column is never in memory as a whole. How the order is found is in `sort`.

use std::io;

use crate::column::strings::starts_of;
use crate::column::{Column, Values};
use crate::types::BaseType;

/// Takes bytes: memory, or a buffer that is written out when it is full.
pub trait ByteSink {
    /// The buffer to append to, with room for `more` bytes; writes out first what it holds where
    /// that is too much. Errors are those of writing.
    fn buffer_for(&mut self, more: usize) -> io::Result<&mut Vec<u8>>;
}

impl ByteSink for Vec<u8> {
    fn buffer_for(&mut self, more: usize) -> io::Result<&mut Vec<u8>> {
        self.reserve(more);
        Ok(self)
    }
}

/// Rows that are copied for each call of [`ByteSink::buffer_for`].
const STEP: usize = 1024;
/// Bytes of neighbours that are.
const PIECE: usize = 64 << 10;

/// Some rows of a column.
#[derive(Clone, Copy)]
pub enum RowSelection<'a> {
    /// Neighbours from the first to the second number.
    Range(usize, usize),
    /// Those of an order.
    Order(&'a [u32]),
    /// Several ranges: what arrays in another order have as their elements, of which there may be
    /// many more than arrays.
    Runs(&'a [(u32, u32)]),
}

impl<'a> RowSelection<'a> {
    /// How many rows they are.
    pub fn len(&self) -> usize {
        match self {
            RowSelection::Range(from, to) => to - from,
            RowSelection::Order(order) => order.len(),
            RowSelection::Runs(runs) => runs.iter().map(|(from, to)| (to - from) as usize).sum(),
        }
    }

    /// The results of `each` for the number of each row.
    ///
    /// # Panics
    /// Panics where they are runs, see [`RowSelection::without_runs`].
    pub fn map<T>(self, each: impl FnMut(usize) -> T) -> impl Iterator<Item = T> {
        let (run, order) = match self {
            RowSelection::Range(from, to) => (from..to, &[][..]),
            RowSelection::Order(order) => (0..0, order),
            RowSelection::Runs(_) => unreachable!("they were made an order"),
        };
        run.chain(order.iter().map(|row| *row as usize)).map(each)
    }

    /// The same rows, runs as an order, for which there is `memory`.
    pub fn without_runs<'b>(self, memory: &'b mut Vec<u32>) -> RowSelection<'b>
    where
        'a: 'b,
    {
        let RowSelection::Runs(runs) = self else { return self };
        memory.clear();
        runs.iter().for_each(|(from, to)| memory.extend(*from..*to));
        RowSelection::Order(memory)
    }

    /// Call `each` for pieces of at most `most` rows, which are no runs.
    #[inline(always)]
    pub fn pieces(
        self,
        most: usize,
        mut each: impl FnMut(RowSelection<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut range = |from: usize, to: usize| {
            let mut starts = (from..to).step_by(most);
            starts.try_for_each(|start| each(RowSelection::Range(start, to.min(start + most))))
        };
        match self {
            RowSelection::Range(from, to) => range(from, to),
            RowSelection::Runs(runs) => {
                runs.iter().try_for_each(|(from, to)| range(*from as usize, *to as usize))
            }
            RowSelection::Order(order) => {
                order.chunks(most).try_for_each(|rows| each(RowSelection::Order(rows)))
            }
        }
    }

    /// The elements of these rows of arrays, by the offsets of the arrays. Runs are added to what is
    /// in `memory`.
    pub fn elements<'b>(self, offsets: &[u8], memory: &'b mut Vec<(u32, u32)>) -> RowSelection<'b> {
        let offsets = offsets.as_chunks::<8>().0;
        let before = memory.len();
        let mut add = |from: usize, to: usize| {
            let (from, to) = (array_start(offsets, from) as u32, array_start(offsets, to) as u32);
            match memory[before..].last_mut() {
                _ if from == to => {}
                Some(last) if last.1 == from => last.1 = to,
                _ => memory.push((from, to)),
            }
        };
        match self {
            RowSelection::Range(from, to) => {
                return RowSelection::Range(array_start(offsets, from), array_start(offsets, to));
            }
            RowSelection::Order(order) => {
                for (place, row) in order.iter().enumerate() {
                    if let Some(later) = order.get(place + LOOKAHEAD) {
                        prefetch(offsets, *later as usize);
                    }
                    add(*row as usize, *row as usize + 1);
                }
            }
            RowSelection::Runs(runs) => {
                for (from, to) in with_lookahead(runs, |later| prefetch(offsets, later)) {
                    add(from as usize, to as usize);
                }
            }
        }
        RowSelection::Runs(&memory[before..])
    }
}

/// Rows or runs between the one that is copied and the one that is loaded into the cache.
pub const LOOKAHEAD: usize = 16;

/// The runs, with a call of `prepare` for the start of one that comes later: they are anywhere.
#[inline(always)]
pub fn with_lookahead(
    runs: &[(u32, u32)],
    prepare: impl Fn(usize),
) -> impl Iterator<Item = (u32, u32)> {
    runs.iter().enumerate().map(move |(place, run)| {
        if let Some((later, _)) = runs.get(place + LOOKAHEAD) {
            prepare(*later as usize);
        }
        *run
    })
}

/// The first element of a row of arrays: where those of the row before it end.
#[inline(always)]
pub fn array_start(offsets: &[[u8; 8]], row: usize) -> usize {
    row.checked_sub(1).map_or(0, |before| u64::from_le_bytes(offsets[before]) as usize)
}

/// Append the NULL marks (of a Nullable column) and the values in an order that has each row once.
pub fn gather(values: Values<'_>, order: &[u32], out: &mut impl ByteSink) -> io::Result<()> {
    let rows = RowSelection::Order(order);
    if values.data_type.nullable {
        gather_fixed(values.nulls, 1, rows, out)?;
    }
    match values.width() {
        0 => gather_strings(values, order, out),
        width => gather_fixed(values.data, width, rows, out),
    }
}

/// Append some values of `width` bytes.
pub fn gather_fixed(
    data: &[u8],
    width: usize,
    rows: RowSelection<'_>,
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let order = match rows {
        RowSelection::Order(order) => order,
        RowSelection::Range(from, to) => {
            return copy_range(&data[from * width..to * width], out);
        }
        RowSelection::Runs(runs) => {
            let wide = width as u32;
            let span = |(from, to): (u32, u32)| (from * wide, (to - from) * wide);
            let runs = with_lookahead(runs, |later| prefetch(data, later * width));
            return copy_spans(data, runs.map(span), out);
        }
    };
    match width {
        1 => gather_bytes::<1>(data, order, out),
        2 => gather_bytes::<2>(data, order, out),
        4 => gather_bytes::<4>(data, order, out),
        8 => gather_bytes::<8>(data, order, out),
        16 => gather_bytes::<16>(data, order, out),
        32 => gather_bytes::<32>(data, order, out),
        n => gather_any_width(data, n, order, out),
    }
}

/// Append neighbouring bytes.
fn copy_range(bytes: &[u8], out: &mut impl ByteSink) -> io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        out.buffer_for(piece.len())?.extend_from_slice(piece);
    }
    Ok(())
}

/// Append how many elements some rows of arrays have, in eight bytes each.
pub fn gather_array_sizes(
    offsets: &[u8],
    rows: RowSelection<'_>,
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let offsets = offsets.as_chunks::<8>().0;
    rows.pieces(STEP, |rows| {
        let out = out.buffer_for(8 * rows.len())?;
        let size = |row: usize| array_start(offsets, row + 1) - array_start(offsets, row);
        rows.map(size).for_each(|size| out.extend_from_slice(&(size as u64).to_le_bytes()));
        Ok(())
    })
}

/// Append some of the `count` rows of a column to another one of its type, with all their elements.
pub fn append_rows(to: &mut Column, from: &Column, count: usize, rows: RowSelection<'_>) {
    const NEVER: &str = "memory takes all";
    let fixed = |values: &[u8], width: usize, out: &mut Vec<u8>| {
        gather_fixed(values, width, rows, out).expect(NEVER);
    };
    if from.data_type.nullable {
        fixed(&from.nulls, 1, &mut to.nulls);
    }
    if from.keeps_sizes {
        fixed(&from.sizes, 1, &mut to.sizes);
    }
    let mut memory = Vec::new();
    let elements = match (&from.data_type.base, from.width()) {
        (BaseType::Array(_) | BaseType::Map(_), _) => {
            let mut end = to.elements(0);
            let offsets = from.data.as_chunks::<8>().0;
            let append = |rows: RowSelection<'_>| {
                rows.map(|row| array_start(offsets, row)..array_start(offsets, row + 1)).for_each(
                    |elements| {
                        end += elements.len();
                        to.data.extend_from_slice(&(end as u64).to_le_bytes());
                    },
                );
                Ok(())
            };
            rows.pieces(STEP, append).expect(NEVER);
            rows.elements(&from.data, &mut memory)
        }
        (BaseType::Tuple(..), _) => rows,
        (_, 0) => return append_strings(&mut to.data, from, count, rows).expect(NEVER),
        (_, width) => return fixed(&from.data, width, &mut to.data),
    };
    let count = from.elements(count);
    for (to, from) in to.children.iter_mut().zip(&from.children) {
        append_rows(to, from, count, elements);
    }
}

/// Append some of the `count` strings of a column with their lengths before them.
fn append_strings(
    to: &mut Vec<u8>,
    from: &Column,
    count: usize,
    rows: RowSelection<'_>,
) -> io::Result<()> {
    if matches!(rows, RowSelection::Range(0, all) if all == count) {
        to.extend_from_slice(&from.data);
        return Ok(());
    }
    let starts = starts_of(from.values(), count);
    let span = |first: usize, end: usize| (starts[first], starts[end] - starts[first]);
    match rows {
        RowSelection::Range(first, end) => {
            copy_spans(&from.data, std::iter::once(span(first, end)), to)
        }
        RowSelection::Runs(runs) => {
            let spans = runs.iter().map(|(first, end)| span(*first as usize, *end as usize));
            copy_spans(&from.data, spans, to)
        }
        RowSelection::Order(order) => {
            let spans = order.iter().map(|row| {
                let row = *row as usize;
                prefetch(&starts, row + 16);
                span(row, row + 1)
            });
            copy_spans(&from.data, spans, to)
        }
    }
}

/// True where all values of `width` bytes are the same; the first that differs ends the comparison.
pub fn all_equal(data: &[u8], width: usize) -> bool {
    data.len() >= width && data[width..] == data[..data.len() - width]
}

/// Append values of N bytes.
fn gather_bytes<const N: usize>(
    data: &[u8],
    order: &[u32],
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let values = data.as_chunks::<N>().0;
    for rows in order.chunks(STEP) {
        let out = out.buffer_for(rows.len() * N)?;
        let used = out.len();
        let room = out.spare_capacity_mut()[..rows.len() * N].as_chunks_mut::<N>().0;
        for (place, &row) in room.iter_mut().zip(rows) {
            prefetch(values, row as usize + (64 / N).max(1));
            *place = values[row as usize].map(std::mem::MaybeUninit::new);
        }
        // SAFETY: `room` is the next rows x N bytes, and each of its places was written.
        unsafe { out.set_len(used + rows.len() * N) };
    }
    Ok(())
}

/// Append the offsets of arrays in another order, and add the order of their elements to
/// `elements`.
pub fn gather_offsets(
    offsets: &[u8],
    order: &[u32],
    elements: &mut Vec<u32>,
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let offsets = offsets.as_chunks::<8>().0;
    let end = |row: usize| u64::from_le_bytes(offsets[row]) as u32;
    for &row in order {
        let row = row as usize;
        elements.extend(row.checked_sub(1).map_or(0, end)..end(row));
        out.buffer_for(8)?.extend_from_slice(&(elements.len() as u64).to_le_bytes());
    }
    Ok(())
}

/// Append values of a rare width.
fn gather_any_width(
    data: &[u8],
    width: usize,
    order: &[u32],
    out: &mut impl ByteSink,
) -> io::Result<()> {
    for &row in order {
        out.buffer_for(width)?.extend_from_slice(&data[row as usize * width..][..width]);
    }
    Ok(())
}

/// Append strings with their lengths before them.
pub fn gather_strings(
    values: Values<'_>,
    order: &[u32],
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let starts = starts_of(values, order.len());
    let span = |row: &u32| {
        let row = *row as usize;
        prefetch(&starts, row + 16);
        (starts[row], starts[row + 1] - starts[row])
    };
    copy_spans(values.data, order.iter().map(span), out)
}

/// Copies of up to so many bytes are made without a call: memcpy takes 20 instructions to find out
/// how long a short string is.
const SHORT: usize = 64;

/// Append pieces of `data`, given by (start, length) in bytes.
pub fn copy_spans(
    data: &[u8],
    mut spans: impl Iterator<Item = (u32, u32)>,
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let mut now = [(0, 0); 64];
    loop {
        let (mut count, mut total) = (0, 0);
        for (place, span) in now.iter_mut().zip(&mut spans) {
            *place = span;
            prefetch(data, span.0 as usize + 64);
            total += span.1 as usize;
            count += 1;
            if total >= PIECE {
                break;
            }
        }
        if count == 0 {
            return Ok(());
        }
        let out = out.buffer_for(total + SHORT)?;
        let mut at = out.len();
        let limit = at + total;
        for &(start, len) in &now[..count] {
            let (start, len) = (start as usize, len as usize);
            assert!(start + len <= data.len() && at + len <= limit);
            // SAFETY: `total` bytes and SHORT more were reserved behind what `out` held, the pieces
            // so far and this one are no longer than `total`, and reads stay inside the data.
            unsafe {
                let (from, to) = (data.as_ptr().add(start), out.as_mut_ptr().add(at));
                if len > SHORT || start + SHORT > data.len() {
                    std::ptr::copy_nonoverlapping(from, to, len);
                } else {
                    copy_bytes::<0, 16>(from, to);
                    if len > 16 {
                        copy_bytes::<16, 16>(from, to);
                    }
                    if len > 32 {
                        copy_bytes::<32, 32>(from, to);
                    }
                }
            }
            at += len;
        }
        // SAFETY: everything up to `at` was written.
        unsafe { out.set_len(at) };
    }
}

/// Copy N bytes at an offset of AT.
///
/// # Safety
/// Both have AT + N bytes, and are not the same.
#[inline(always)]
pub unsafe fn copy_bytes<const AT: usize, const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.add(AT).cast::<[u8; N]>().write(from.add(AT).cast::<[u8; N]>().read()) };
}

/// Load a later position of the data into the cache: an order walks through many runs of rows side
/// by side, more of them than the processor follows by itself.
#[inline(always)]
pub fn prefetch<T>(data: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, wherever it points; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}
