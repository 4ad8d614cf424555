//! Strings of a column in another order, their sizes apart from their bytes: what the streams of a
//! finished part hold.

use std::io;

use crate::column::Values;
use crate::column::reorder::{Rows, Sink, copy, prefetch, repeats, words};
use crate::column::strings::starts_of;

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
            Texts::Even(stride) => rows * usize::from(*stride == 1),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use crate::column::strings::append_text;
    use crate::types::Type;

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
