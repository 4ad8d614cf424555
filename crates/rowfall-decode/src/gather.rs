//! Values of a column in another order, a piece at a time: what is written out need never be in
//! memory as a whole once more.

use std::io;

use crate::cells::Values;
use crate::types::starts_of;

/// Where bytes go: memory, or a buffer that is written out when it is full.
pub trait Sink {
    /// The bytes so far that are still here, with room for `more`.
    fn room(&mut self, more: usize) -> io::Result<&mut Vec<u8>>;
}

impl Sink for Vec<u8> {
    fn room(&mut self, more: usize) -> io::Result<&mut Vec<u8>> {
        self.reserve(more);
        Ok(self)
    }
}

/// Rows that are gathered between two looks at the room that is left.
const STEP: usize = 1024;

/// Some rows of a column: a run of neighbours, or those of an order.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    From(usize, usize),
    Order(&'a [u32]),
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        match self {
            Rows::From(from, to) => to - from,
            Rows::Order(order) => order.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Something of each row.
    pub fn map<T>(self, each: impl FnMut(usize) -> T) -> impl Iterator<Item = T> {
        let (run, order) = match self {
            Rows::From(from, to) => (from..to, &[][..]),
            Rows::Order(order) => (0..0, order),
        };
        run.chain(order.iter().map(|row| *row as usize)).map(each)
    }
}

/// Append the marks of NULL (if there are any) and the values, in an order that has each row once.
pub fn gather(values: Values<'_>, order: &[u32], out: &mut impl Sink) -> io::Result<()> {
    let rows = Rows::Order(order);
    if values.kind.nullable {
        fixed(values.nulls, 1, rows, out)?;
    }
    match values.kind.width() {
        0 => strings(values, order, out),
        width => fixed(values.data, width, rows, out),
    }
}

/// Append values of `width` bytes.
pub fn fixed(data: &[u8], width: usize, rows: Rows<'_>, out: &mut impl Sink) -> io::Result<()> {
    let order = match rows {
        Rows::Order(order) => order,
        Rows::From(from, to) => {
            let bytes = &data[from * width..to * width];
            out.room(bytes.len())?.extend_from_slice(bytes);
            return Ok(());
        }
    };
    match width {
        1 => values::<1>(data, order, out),
        2 => values::<2>(data, order, out),
        4 => values::<4>(data, order, out),
        8 => values::<8>(data, order, out),
        16 => values::<16>(data, order, out),
        32 => values::<32>(data, order, out),
        n => slices(data, n, order, out),
    }
}

/// Where the strings of a column are.
pub enum Texts {
    /// Each takes as many bytes, its length included.
    Even(u32),
    /// Each starts here, length included, and the last one ends.
    Apart(Vec<u32>),
}

impl Texts {
    pub fn of(values: Values<'_>, rows: usize) -> Texts {
        match values.sizes {
            [size, ..] if *size > 0 && values.sizes.len() == rows && repeats(values.sizes, 1) => {
                Texts::Even(u32::from(*size))
            }
            _ => Texts::Apart(starts_of(values, rows)),
        }
    }

    /// Strings without a byte.
    pub fn empty(&self, rows: usize) -> usize {
        match self {
            Texts::Even(stride) => {
                if *stride == 1 {
                    rows
                } else {
                    0
                }
            }
            Texts::Apart(starts) => starts.windows(2).filter(|w| w[1] - w[0] == 1).count(),
        }
    }

    /// Append their sizes, eight bytes each.
    pub fn sizes(&self, rows: Rows<'_>, out: &mut impl Sink) -> io::Result<()> {
        let bytes = 8 * rows.len();
        let out = out.room(bytes)?;
        let used = out.len();
        let room = out.spare_capacity_mut()[..bytes].as_chunks_mut::<8>().0;
        let size = |start: u32, end: u32| {
            let (_, size) = text_between(start, end);
            u64::from(size).to_le_bytes().map(std::mem::MaybeUninit::new)
        };
        match (self, rows) {
            (Texts::Even(stride), _) => room.fill(size(0, *stride)),
            (Texts::Apart(starts), Rows::From(from, to)) => {
                for (place, ends) in room.iter_mut().zip(starts[from..=to].windows(2)) {
                    *place = size(ends[0], ends[1]);
                }
            }
            (Texts::Apart(starts), Rows::Order(order)) => {
                for (place, &row) in room.iter_mut().zip(order) {
                    let row = row as usize;
                    prefetch(starts, row + 16);
                    *place = size(starts[row], starts[row + 1]);
                }
            }
        }
        // SAFETY: `room` is the next eight bytes for each row, and each of its places was written.
        unsafe { out.set_len(used + bytes) };
        Ok(())
    }

    /// Append strings without their lengths.
    pub fn texts(&self, data: &[u8], rows: Rows<'_>, out: &mut impl Sink) -> io::Result<()> {
        match (self, rows) {
            (Texts::Even(stride), Rows::From(from, to)) => {
                let (used, size) = text_between(0, *stride);
                let span = |row: usize| (row as u32 * stride + used, size);
                copy(data, (from..to).map(span), out)
            }
            (Texts::Even(stride), Rows::Order(order)) => match text_between(0, *stride).1 {
                0 => Ok(()),
                1..=16 => even::<16>(data, *stride, order, out),
                17..=32 => even::<32>(data, *stride, order, out),
                33..=64 => even::<64>(data, *stride, order, out),
                _ => even::<256>(data, *stride, order, out),
            },
            (Texts::Apart(starts), Rows::From(from, to)) => {
                copy(data, (from..to).map(|row| text_of(starts, row)), out)
            }
            (Texts::Apart(starts), Rows::Order(order)) => copy(
                data,
                order.iter().map(|row| {
                    prefetch(starts, *row as usize + 16);
                    text_of(starts, *row as usize)
                }),
                out,
            ),
        }
    }
}

/// Append strings of up to N bytes that all take as many, by copies of N.
fn even<const N: usize>(
    data: &[u8],
    stride: u32,
    order: &[u32],
    out: &mut impl Sink,
) -> io::Result<()> {
    let (used, size) = text_between(0, stride);
    let (stride, used, size) = (stride as usize, used as usize, size as usize);
    for rows in order.chunks(64) {
        let out = out.room(rows.len() * size + N)?;
        let mut at = out.len();
        for &row in rows {
            let start = row as usize * stride + used;
            prefetch(data, start + 64);
            assert!(start + size <= data.len());
            // SAFETY: a chunk's strings and N bytes more were reserved, and reads stay in the data.
            unsafe {
                let (from, to) = (data.as_ptr().add(start), out.as_mut_ptr().add(at));
                if start + N > data.len() {
                    std::ptr::copy_nonoverlapping(from, to, size);
                } else {
                    words::<0, N>(from, to);
                }
            }
            at += size;
        }
        // SAFETY: everything up to `at` was written.
        unsafe { out.set_len(at) };
    }
    Ok(())
}

/// Whether all values of so many bytes are the same; the first that differs ends the comparison.
pub fn repeats(data: &[u8], width: usize) -> bool {
    data.len() >= width && data[width..] == data[..data.len() - width]
}

/// Where the text of a string starts behind its length, and its size.
#[inline(always)]
pub fn text_of(starts: &[u32], row: usize) -> (u32, u32) {
    text_between(starts[row], starts[row + 1])
}

#[inline(always)]
fn text_between(start: u32, end: u32) -> (u32, u32) {
    let whole = end - start;
    // A length takes one byte up to 127, two up to 16,383, three up to 2,097,151; no string is as
    // long as what takes five.
    let used = 1
        + u32::from(whole >= 130)
        + u32::from(whole >= (1 << 14) + 3)
        + u32::from(whole >= (1 << 21) + 4);
    (start + used, whole - used)
}

/// Values of N bytes.
fn values<const N: usize>(data: &[u8], order: &[u32], out: &mut impl Sink) -> io::Result<()> {
    let values = data.as_chunks::<N>().0;
    for rows in order.chunks(STEP) {
        let out = out.room(rows.len() * N)?;
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

/// Where the rows of an array end when they are in another order, and the order of their elements.
pub fn gather_offsets(
    offsets: &[u8],
    order: &[u32],
    elements: &mut Vec<u32>,
    out: &mut impl Sink,
) -> io::Result<()> {
    let offsets = offsets.as_chunks::<8>().0;
    let end = |row: usize| u64::from_le_bytes(offsets[row]) as u32;
    for &row in order {
        let row = row as usize;
        elements.extend(row.checked_sub(1).map_or(0, end)..end(row));
        out.room(8)?.extend_from_slice(&(elements.len() as u64).to_le_bytes());
    }
    Ok(())
}

/// Values of a width that is rare.
fn slices(data: &[u8], width: usize, order: &[u32], out: &mut impl Sink) -> io::Result<()> {
    for &row in order {
        out.room(width)?.extend_from_slice(&data[row as usize * width..][..width]);
    }
    Ok(())
}

/// Strings with their lengths before them.
fn strings(values: Values<'_>, order: &[u32], out: &mut impl Sink) -> io::Result<()> {
    let starts = starts_of(values, order.len());
    let span = |row: &u32| {
        let row = *row as usize;
        prefetch(&starts, row + 16);
        (starts[row], starts[row + 1] - starts[row])
    };
    copy(values.data, order.iter().map(span), out)
}

/// Copies of up to so many bytes are made without a call: memcpy takes 20 instructions to find out
/// how long a short string is.
const SHORT: usize = 64;

/// Append pieces of the data, given by where they start and how long they are.
fn copy(
    data: &[u8],
    mut spans: impl Iterator<Item = (u32, u32)>,
    out: &mut impl Sink,
) -> io::Result<()> {
    let mut now = [(0, 0); 64];
    loop {
        let (mut count, mut total) = (0, 0);
        for (place, span) in now.iter_mut().zip(&mut spans) {
            *place = span;
            prefetch(data, span.0 as usize + 64);
            total += span.1 as usize;
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let out = out.room(total + SHORT)?;
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
                    words::<0, 16>(from, to);
                    if len > 16 {
                        words::<16, 16>(from, to);
                    }
                    if len > 32 {
                        words::<32, 32>(from, to);
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
unsafe fn words<const AT: usize, const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.add(AT).cast::<[u8; N]>().write(from.add(AT).cast::<[u8; N]>().read()) };
}

/// Have a later place of the data on its way: an order walks through many runs of rows side by
/// side, more of them than the processor follows by itself.
#[inline(always)]
fn prefetch<T>(data: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, wherever it points; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Column;
    use crate::types::{Type, append_text};

    /// Strings that all take as many bytes, by their sizes and without them, in both orders.
    #[test]
    fn even_strings_are_as_others() {
        for size in [0, 1, 15, 16, 17, 32, 33, 64, 65, 126, 127, 128, 200, 253, 254, 300] {
            for rows in [1, 2, 70] {
                let mut column = Column::new(Type::parse("String", "", None).expect("a type"));
                let text = |row: usize| vec![b'a' + row as u8 % 26; size];
                for row in 0..rows {
                    append_text(&mut column.data, &text(row));
                    let whole = size + 1 + usize::from(size > 127);
                    column.sizes.push(u8::try_from(whole).unwrap_or(0));
                }
                let even = Texts::of(column.values(), rows);
                assert_eq!(matches!(even, Texts::Even(_)), size < 254, "{size}");
                column.sizes.clear();
                let apart = Texts::of(column.values(), rows);
                assert!(matches!(apart, Texts::Apart(_)));
                let order: Vec<u32> = (0..rows as u32).rev().collect();
                for (which, back) in [(Rows::From(0, rows), false), (Rows::Order(&order), true)] {
                    let place = |n: usize| if back { rows - 1 - n } else { n };
                    let wanted: Vec<u8> = (0..rows).flat_map(|n| text(place(n))).collect();
                    for texts in [&even, &apart] {
                        let (mut sizes, mut found) = (Vec::new(), Vec::new());
                        texts.sizes(which, &mut sizes).expect("memory");
                        texts.texts(&column.data, which, &mut found).expect("memory");
                        assert_eq!(sizes, (size as u64).to_le_bytes().repeat(rows), "{size}");
                        assert!(found == wanted, "{size} {rows}");
                        assert_eq!(texts.empty(rows), if size == 0 { rows } else { 0 });
                    }
                }
            }
        }
    }
}
