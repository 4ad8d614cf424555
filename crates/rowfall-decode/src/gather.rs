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

/// Append the marks of NULL (if there are any) and the values, in an order that has each row once.
pub fn gather(values: Values<'_>, order: &[u32], out: &mut impl Sink) -> io::Result<()> {
    if values.kind.nullable {
        fixed::<1>(values.nulls, order, out)?;
    }
    match values.kind.width() {
        0 => strings(values, order, out),
        1 => fixed::<1>(values.data, order, out),
        2 => fixed::<2>(values.data, order, out),
        4 => fixed::<4>(values.data, order, out),
        8 => fixed::<8>(values.data, order, out),
        16 => fixed::<16>(values.data, order, out),
        32 => fixed::<32>(values.data, order, out),
        n => slices(values.data, n, order, out),
    }
}

/// Values of N bytes.
pub fn fixed<const N: usize>(data: &[u8], order: &[u32], out: &mut impl Sink) -> io::Result<()> {
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

/// Strings with their lengths before them, copied 16 bytes at once.
fn strings(values: Values<'_>, order: &[u32], out: &mut impl Sink) -> io::Result<()> {
    let (data, starts) = (values.data, starts_of(values, order.len()));
    for rows in order.chunks(64) {
        let mut total = 0;
        for &row in rows {
            let start = starts[row as usize] as usize;
            prefetch(data, start + 64);
            prefetch(&starts, row as usize + 16);
            total += starts[row as usize + 1] as usize - start;
        }
        let out = out.room(total + 16)?;
        let mut at = out.len();
        let limit = at + total;
        for &row in rows {
            let (start, end) = (starts[row as usize] as usize, starts[row as usize + 1] as usize);
            let len = end - start;
            assert!(end <= data.len() && at + len <= limit);
            // SAFETY: `total` bytes and 16 more were reserved behind what `out` held, the strings
            // so far and this one are no longer than `total`, and reads stay inside the data.
            unsafe {
                let (from, to) = (data.as_ptr().add(start), out.as_mut_ptr().add(at));
                if start + len.next_multiple_of(16) > data.len() {
                    std::ptr::copy_nonoverlapping(from, to, len);
                } else {
                    let mut done = 0;
                    while done < len {
                        let word = from.add(done).cast::<u128>().read_unaligned();
                        to.add(done).cast::<u128>().write_unaligned(word);
                        done += 16;
                    }
                }
            }
            at += len;
        }
        // SAFETY: everything up to `at` was written.
        unsafe { out.set_len(at) };
    }
    Ok(())
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
