//! Writes the strings of a column in another order, their sizes apart from their bytes: the two
//! streams of a String column in a part; or each behind its length, as one.

use std::borrow::Cow;
use std::io;

use crate::column::Values;
use crate::column::filled::{bits, filled};
use crate::column::reorder::{
    ByteSink, LOOKAHEAD, RowSelection, all_equal, copy_bytes, copy_spans, gather_fixed, prefetch,
    with_lookahead,
};
use crate::column::strings::{append_string, starts_of};

/// Strings at most whose sizes are written at once.
const STEP: usize = 8192;

/// The strings of a column, and where they are.
pub struct StringLayout<'a> {
    data: &'a [u8],
    positions: Positions<'a>,
}

enum Positions<'a> {
    /// Every string takes so many bytes, its length included.
    SameSize(u32),
    /// Where each string starts with its length, and where the last one ends.
    Starts(Vec<u32>),
    /// Each row has the number of its string.
    Numbers(NumberedTexts<'a>),
}

use Positions::{Numbers, SameSize, Starts};

/// Rows of the numbers of strings, of which the first one is empty, and no other.
struct NumberedTexts<'a> {
    numbers: Cow<'a, [[u8; 4]]>,
    /// Where each string starts, and where the last one ends.
    starts: Vec<u32>,
    /// The strings in places of so many bytes each, as far as they are short; 0 where they are not.
    places: (usize, Vec<u8>),
}

/// The strings have places of their own where these take so many bytes at most, so that they stay in
/// the cache: copying 16 bytes then takes 2 ns, and finding out how many it would be 15.
const PLACES: usize = 256 << 10;

impl<'a> NumberedTexts<'a> {
    fn new(numbers: &'a [[u8; 4]], data: &[u8], starts: &[u32]) -> NumberedTexts<'a> {
        let starts = [starts, &[data.len() as u32]].concat();
        let longest = starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0) as usize;
        let count = starts.len() - 1;
        let fits = |width: &usize| longest <= *width && width * count <= PLACES;
        let width = [16, 32, 64].into_iter().find(fits).unwrap_or(0);
        let mut places = (width, vec![0; width * count]);
        for (place, ends) in places.1.chunks_exact_mut(width.max(1)).zip(starts.windows(2)) {
            let text = &data[ends[0] as usize..ends[1] as usize];
            place[..text.len()].copy_from_slice(text);
        }
        NumberedTexts { numbers: numbers.into(), starts, places }
    }

    /// Position and size of the string of a row.
    #[inline(always)]
    fn span(&self, row: usize) -> (u32, u32) {
        let number = u32::from_le_bytes(self.numbers[row]) as usize;
        (self.starts[number], self.starts[number + 1] - self.starts[number])
    }

    /// Append the strings of neighbouring rows, each by a copy of N bytes.
    fn copy<const N: usize>(
        &self,
        (from, to): (usize, usize),
        out: &mut impl ByteSink,
    ) -> io::Result<()> {
        let places = self.places.1.as_chunks::<N>().0;
        // Room is asked for 512 times less often so; of the longest strings it is 32 KiB.
        for numbers in self.numbers[from..to].chunks(512) {
            let out = out.buffer_for((numbers.len() + 1) * N)?;
            let mut at = out.len();
            for number in numbers {
                let number = u32::from_le_bytes(*number) as usize;
                let text = &places[number];
                // SAFETY: no string is longer than N bytes, and there is room for one more than all.
                unsafe { out.as_mut_ptr().add(at).cast::<[u8; N]>().write(*text) };
                at += (self.starts[number + 1] - self.starts[number]) as usize;
            }
            // SAFETY: everything up to `at` was written.
            unsafe { out.set_len(at) };
        }
        Ok(())
    }
}

impl<'a> StringLayout<'a> {
    /// The positions of these values; without their sizes all strings are walked through.
    pub fn new(values: Values<'a>, rows: usize) -> StringLayout<'a> {
        if let Some(keys) = values.keys {
            let (data, starts) = keys.texts();
            let numbers = values.data.as_chunks().0;
            return StringLayout {
                data,
                positions: Numbers(NumberedTexts::new(numbers, data, starts)),
            };
        }
        let positions = match values.sizes {
            [size, ..] if *size > 0 && values.sizes.len() == rows && all_equal(values.sizes, 1) => {
                SameSize(u32::from(*size))
            }
            _ => Starts(starts_of(values, rows)),
        };
        StringLayout { data: values.data, positions }
    }

    /// Put the rows into an order, if only their numbers have to be moved; false otherwise.
    pub fn reorder(&mut self, order: &[u32]) -> bool {
        let Numbers(texts) = &mut self.positions else { return false };
        let found = order.iter().enumerate().map(|(place, row)| {
            prefetch(&texts.numbers, order.get(place + LOOKAHEAD).map_or(0, |row| *row as usize));
            texts.numbers[*row as usize]
        });
        let found = found.collect();
        texts.numbers = Cow::Owned(found);
        true
    }

    /// How many strings are empty.
    pub fn count_empty(&self, rows: usize) -> usize {
        match &self.positions {
            SameSize(stride) => rows * usize::from(*stride == 1),
            Starts(starts) => starts.windows(2).filter(|w| w[1] - w[0] == 1).count(),
            Numbers(texts) => texts.numbers.iter().filter(|number| **number == [0; 4]).count(),
        }
    }

    /// A bit for each string that is not empty.
    pub fn filled(&self, rows: usize) -> Vec<u64> {
        match &self.positions {
            SameSize(stride) => {
                vec![if *stride == 1 { 0 } else { u64::MAX }; rows.div_ceil(64)]
            }
            Starts(starts) => bits(starts.windows(2).map(|w| w[1] - w[0] != 1)),
            Numbers(texts) => filled(texts.numbers.as_flattened(), 4),
        }
    }

    /// Append the sizes of some strings, eight bytes each.
    pub fn write_sizes(&self, rows: RowSelection<'_>, out: &mut impl ByteSink) -> io::Result<()> {
        let (Starts(starts), RowSelection::Runs(runs)) = (&self.positions, rows) else {
            return rows.pieces(STEP, |rows| self.write_some_sizes(rows, out));
        };
        with_lookahead(runs, |later| prefetch(starts, later)).try_for_each(|(from, to)| {
            let run = RowSelection::Range(from as usize, to as usize);
            run.pieces(STEP, |rows| self.write_some_sizes(rows, out))
        })
    }

    #[inline(always)]
    fn write_some_sizes(&self, rows: RowSelection<'_>, out: &mut impl ByteSink) -> io::Result<()> {
        let bytes = 8 * rows.len();
        let out = out.buffer_for(bytes)?;
        let used = out.len();
        let room = out.spare_capacity_mut()[..bytes].as_chunks_mut::<8>().0;
        let stored = |size: u32| u64::from(size).to_le_bytes().map(std::mem::MaybeUninit::new);
        let size = |start: u32, end: u32| stored(text_in(start, end).1);
        match (&self.positions, rows) {
            (SameSize(stride), _) => room.fill(size(0, *stride)),
            (Starts(starts), RowSelection::Range(from, to)) => {
                for (place, ends) in room.iter_mut().zip(starts[from..=to].windows(2)) {
                    *place = size(ends[0], ends[1]);
                }
            }
            (Starts(starts), RowSelection::Order(order)) => {
                for (place, &row) in room.iter_mut().zip(order) {
                    let row = row as usize;
                    prefetch(starts, row + 16);
                    *place = size(starts[row], starts[row + 1]);
                }
            }
            (Numbers(texts), RowSelection::Range(from, to)) => {
                for (place, row) in room.iter_mut().zip(from..to) {
                    *place = stored(texts.span(row).1);
                }
            }
            (Numbers(texts), rows) => {
                let found = rows.map(|row| stored(texts.span(row).1));
                room.iter_mut().zip(found).for_each(|(place, size)| *place = size);
            }
            (Starts(_), RowSelection::Runs(_)) => unreachable!("no piece is one"),
        }
        // SAFETY: `room` is the next eight bytes for each row, and each of its places was written.
        unsafe { out.set_len(used + bytes) };
        Ok(())
    }

    /// Append some strings, each behind its length, as the column has them.
    pub fn write_whole(&self, rows: RowSelection<'_>, out: &mut impl ByteSink) -> io::Result<()> {
        let data = self.data;
        let starts = match &self.positions {
            SameSize(stride) => return gather_fixed(data, *stride as usize, rows, out),
            Numbers(texts) => {
                return rows.pieces(STEP, |rows| {
                    rows.map(|row| texts.span(row)).try_for_each(|(at, size)| {
                        let text = &data[at as usize..][..size as usize];
                        append_string(out.buffer_for(text.len() + 10)?, text);
                        Ok(())
                    })
                });
            }
            Starts(starts) => starts,
        };
        let span = |from: usize, to: usize| (starts[from], starts[to] - starts[from]);
        match rows {
            RowSelection::Range(from, to) => {
                copy_spans(data, (from..to).map(|row| span(row, row + 1)), out)
            }
            RowSelection::Order(order) => copy_spans(
                data,
                order.iter().map(|row| {
                    prefetch(starts, *row as usize + 16);
                    span(*row as usize, *row as usize + 1)
                }),
                out,
            ),
            RowSelection::Runs(runs) => {
                let runs = with_lookahead(runs, |later| prefetch(data, starts[later] as usize));
                copy_spans(data, runs.map(|(from, to)| span(from as usize, to as usize)), out)
            }
        }
    }

    /// Append some strings without their lengths.
    pub fn write_strings(&self, rows: RowSelection<'_>, out: &mut impl ByteSink) -> io::Result<()> {
        let data = self.data;
        match (&self.positions, rows) {
            (Numbers(texts), RowSelection::Range(from, to)) => match texts.places.0 {
                16 => texts.copy::<16>((from, to), out),
                32 => texts.copy::<32>((from, to), out),
                64 => texts.copy::<64>((from, to), out),
                _ => copy_spans(data, (from..to).map(|row| texts.span(row)), out),
            },
            (Numbers(texts), RowSelection::Runs(runs)) => {
                let rows = runs.iter().flat_map(|(from, to)| *from as usize..*to as usize);
                copy_spans(data, rows.map(|row| texts.span(row)), out)
            }
            (Numbers(texts), rows) => copy_spans(data, rows.map(|row| texts.span(row)), out),
            (SameSize(stride), RowSelection::Range(from, to)) => {
                let (used, size) = text_in(0, *stride);
                let span = |row: usize| (row as u32 * stride + used, size);
                copy_spans(data, (from..to).map(span), out)
            }
            (SameSize(stride), RowSelection::Runs(runs)) => {
                let (used, size) = text_in(0, *stride);
                let span = |row: u32| (row * stride + used, size);
                copy_spans(data, runs.iter().flat_map(|(from, to)| *from..*to).map(span), out)
            }
            (Starts(starts), RowSelection::Runs(runs)) => {
                let runs = with_lookahead(runs, |later| {
                    prefetch(data, starts[later] as usize);
                });
                let span = |row: u32| text_span(starts, row as usize);
                copy_spans(data, runs.flat_map(|(from, to)| from..to).map(span), out)
            }
            (SameSize(stride), RowSelection::Order(order)) => match text_in(0, *stride).1 {
                0 => Ok(()),
                1..=16 => copy_same_size::<16>(data, *stride, order, out),
                17..=32 => copy_same_size::<32>(data, *stride, order, out),
                33..=64 => copy_same_size::<64>(data, *stride, order, out),
                _ => copy_same_size::<256>(data, *stride, order, out),
            },
            (Starts(starts), RowSelection::Range(from, to)) => {
                copy_spans(data, (from..to).map(|row| text_span(starts, row)), out)
            }
            (Starts(starts), RowSelection::Order(order)) => copy_spans(
                data,
                order.iter().map(|row| {
                    prefetch(starts, *row as usize + 16);
                    text_span(starts, *row as usize)
                }),
                out,
            ),
        }
    }
}

/// Append strings of one size, up to N bytes, by copies of N bytes.
fn copy_same_size<const N: usize>(
    data: &[u8],
    stride: u32,
    order: &[u32],
    out: &mut impl ByteSink,
) -> io::Result<()> {
    let (used, size) = text_in(0, stride);
    let (stride, used, size) = (stride as usize, used as usize, size as usize);
    for rows in order.chunks(64) {
        let out = out.buffer_for(rows.len() * size + N)?;
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
                    copy_bytes::<0, N>(from, to);
                }
            }
            at += size;
        }
        // SAFETY: everything up to `at` was written.
        unsafe { out.set_len(at) };
    }
    Ok(())
}

/// Position and size of a string's text, behind its length.
#[inline(always)]
pub fn text_span(starts: &[u32], row: usize) -> (u32, u32) {
    text_in(starts[row], starts[row + 1])
}

#[inline(always)]
fn text_in(start: u32, end: u32) -> (u32, u32) {
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
    use crate::column::keys::Keys;
    use crate::types::Type;

    /// Strings that all take as many bytes, by their sizes, without them and by numbers, in both orders.
    #[test]
    fn even_strings_are_as_others() {
        for size in [0, 1, 15, 16, 17, 32, 33, 64, 65, 126, 127, 128, 200, 253, 254, 300] {
            for rows in [1, 2, 70] {
                let mut column = Column::new(Type::parse("String", None).expect("a type"));
                let text = |row: usize| vec![b'a' + row as u8 % 26; size];
                for row in 0..rows {
                    append_string(&mut column.data, &text(row));
                    let whole = size + 1 + usize::from(size > 127);
                    column.sizes.push(u8::try_from(whole).unwrap_or(0));
                }
                let same_size = StringLayout::new(column.values(), rows);
                assert_eq!(matches!(same_size.positions, SameSize(_)), size < 254, "{size}");
                let apart = StringLayout::new(Values { sizes: &[], ..column.values() }, rows);
                assert!(matches!(apart.positions, Starts(_)));
                let mut keys = Keys::default();
                let numbers: Vec<u8> =
                    (0..rows).flat_map(|row| keys.number(&text(row)).to_le_bytes()).collect();
                let numbered = Values { data: &numbers, keys: Some(&keys), ..column.values() };
                let numbered = StringLayout::new(numbered, rows);
                assert!(matches!(numbered.positions, Numbers(..)));
                let order: Vec<u32> = (0..rows as u32).rev().collect();
                let runs: Vec<(u32, u32)> = order.iter().map(|row| (*row, row + 1)).collect();
                for (which, back) in [
                    (RowSelection::Range(0, rows), false),
                    (RowSelection::Order(&order), true),
                    (RowSelection::Runs(&runs), true),
                ] {
                    let place = |n: usize| if back { rows - 1 - n } else { n };
                    let wanted: Vec<u8> = (0..rows).flat_map(|n| text(place(n))).collect();
                    for texts in [&same_size, &apart, &numbered] {
                        let (mut sizes, mut found) = (Vec::new(), Vec::new());
                        texts.write_sizes(which, &mut sizes).expect("memory");
                        texts.write_strings(which, &mut found).expect("memory");
                        assert_eq!(sizes, (size as u64).to_le_bytes().repeat(rows), "{size}");
                        assert!(found == wanted, "{size} {rows}");
                        let (mut whole, mut listed) = (Vec::new(), Vec::new());
                        texts.write_whole(which, &mut whole).expect("memory");
                        (0..rows).for_each(|n| append_string(&mut listed, &text(place(n))));
                        assert!(whole == listed, "{size} {rows}");
                        assert_eq!(texts.count_empty(rows), if size == 0 { rows } else { 0 });
                        let all: u32 =
                            texts.filled(rows).iter().map(|word| word.count_ones()).sum();
                        assert!(size == 0 && all == 0 || size > 0 && all as usize >= rows);
                    }
                }
            }
        }
    }
}
