//! Types of columns: their names, and one tight loop each that turns cells into Native bytes.

mod batch;
mod decimal;
mod float;
mod int;
mod names;
mod net;
mod text;
pub use text::{append as append_text, append_number, starts_of, strings_of, unescape};
mod time;
mod wide;
mod zone;

pub use float::ordinary as is_number;
pub use int::load8;
pub use names::SUPPORTED;

use self::batch::CELLS;
use crate::cells::{Cells, Column, Null, Style};
use crate::nested;

#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// Bytes and whether it is signed.
    Int(u8, bool),
    Float32,
    Float64,
    /// Bytes, digits, digits behind the point.
    Decimal(u8, u8, u8),
    Bool,
    String,
    FixedString(usize),
    Date,
    Date32,
    /// Its zone, None for UTC.
    DateTime(Option<String>),
    DateTime64(u8, Option<String>),
    Uuid,
    Ipv4,
    Ipv6,
    /// Bytes (1 or 2), and the elements.
    Enum(u8, Vec<(Vec<u8>, i16)>),
    Array(Box<Type>),
    /// Types of keys and of values.
    Map(Box<[Type; 2]>),
    /// Types, and their names if they have any.
    Tuple(Vec<Type>, Vec<Vec<u8>>),
}

/// How points in time are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Plain,
    T,
    Z,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// As given: what the header of a Native column says.
    pub name: String,
    pub base: Base,
    pub nullable: bool,
    pub low: bool,
    pub shape: Shape,
}

impl Type {
    /// Bytes of a value; 0 where they vary.
    pub fn width(&self) -> usize {
        match self.base {
            Base::Int(n, _) | Base::Decimal(n, ..) | Base::Enum(n, _) => usize::from(n),
            Base::Bool => 1,
            Base::Date => 2,
            Base::Float32 | Base::Date32 | Base::DateTime(_) | Base::Ipv4 => 4,
            Base::Float64 | Base::DateTime64(..) => 8,
            Base::Uuid | Base::Ipv6 => 16,
            Base::FixedString(n) => n,
            Base::String | Base::Array(_) | Base::Map(_) | Base::Tuple(..) => 0,
        }
    }

    /// Fields of CSV that its values take where the elements of tuples have their own.
    pub fn fields(&self) -> usize {
        match &self.base {
            Base::Tuple(elements, _) => elements.iter().map(Type::fields).sum(),
            _ => 1,
        }
    }

    /// The types of what its values are made of; none for a type that is not nested.
    pub fn parts(&self) -> &[Type] {
        match &self.base {
            Base::Array(element) => std::slice::from_ref(element),
            Base::Map(pair) => &pair[..],
            Base::Tuple(elements, _) => elements,
            _ => &[],
        }
    }
}

/// One value of fixed width; `parse` gives None for whatever is not certainly right.
pub trait Fixed {
    type Out: Copy;
    const ZERO: Self::Out;
    /// NULL may also be written as nothing or `\N` whatever the spec's `null` is.
    const LOOSE_NULL: bool = true;
    /// JSON may hold it without quotes.
    const BARE: bool = false;
    /// JSON may hold it in quotes as an element of something else.
    const QUOTED: bool = true;
    /// The greatest whole number that is a value, where digits are read like those of an integer.
    const MOST: Option<u32> = None;

    /// The value of a number that is not greater than `MOST`.
    fn number(_: u32) -> Self::Out {
        Self::ZERO
    }

    /// Parse `text[start..end]`; 64 bytes are readable from any position up to `end`, and 16
    /// before `start`.
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<Self::Out>;
}

/// Decode all cells of a column; the row of the first that is declined otherwise.
pub fn decode<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    let kind = column.kind.clone();
    match &kind.base {
        Base::Int(1, true) => fixed(column, cells, int::Signed::<i8>::default()),
        Base::Int(2, true) => fixed(column, cells, int::Signed::<i16>::default()),
        Base::Int(4, true) => fixed(column, cells, int::Signed::<i32>::default()),
        Base::Int(8, true) => fixed(column, cells, int::Signed::<i64>::default()),
        Base::Int(1, false) => fixed(column, cells, int::Unsigned::<u8>::default()),
        Base::Int(2, false) => fixed(column, cells, int::Unsigned::<u16>::default()),
        Base::Int(4, false) => fixed(column, cells, int::Unsigned::<u32>::default()),
        Base::Int(8, false) => fixed(column, cells, int::Unsigned::<u64>::default()),
        Base::Int(16, signed) => fixed(column, cells, wide::Int128 { signed: *signed }),
        Base::Int(_, signed) => fixed(column, cells, wide::Int256 { signed: *signed }),
        Base::Float32 => fixed(column, cells, float::F32),
        Base::Float64 => fixed(column, cells, float::F64),
        Base::Decimal(4, p, s) => fixed(column, cells, decimal::Small::<i32>::new(*p, *s)),
        Base::Decimal(8, p, s) => fixed(column, cells, decimal::Small::<i64>::new(*p, *s)),
        Base::Decimal(16, p, s) => fixed(column, cells, decimal::Wide::<2>::new(*p, *s)),
        Base::Decimal(_, p, s) => fixed(column, cells, decimal::Wide::<4>::new(*p, *s)),
        // As elements of text 1 and 0 are no Bools to some versions of the engine.
        Base::Bool => fixed(column, cells, net::Bool { digits: C::STYLE != Style::Quoted }),
        Base::Date => fixed(column, cells, time::Date::default()),
        Base::Date32 => fixed(column, cells, time::Date32::default()),
        Base::DateTime(zone) => moments(column, cells, time::DateTime::new(kind.shape), zone),
        Base::DateTime64(p, zone) => {
            moments(column, cells, time::DateTime64::new(*p, kind.shape), zone)
        }
        Base::Uuid => fixed(column, cells, net::Uuid),
        Base::Ipv4 => fixed(column, cells, net::Ipv4),
        Base::Ipv6 => fixed(column, cells, net::Ipv6),
        Base::Enum(1, elements) => text::enums::<C, i8>(column, cells, elements),
        Base::Enum(_, elements) => text::enums::<C, i16>(column, cells, elements),
        Base::FixedString(n) => text::fixed_strings(column, cells, *n),
        Base::String => text::strings(column, cells),
        Base::Array(_) | Base::Map(_) | Base::Tuple(..) => nested::decode(column, cells),
    }
}

fn fixed<'a, C: Cells<'a>, P: Fixed>(
    column: &mut Column,
    cells: &C,
    parser: P,
) -> Result<(), usize> {
    if column.kind.nullable {
        run::<C, P, true>(column, cells, parser)
    } else {
        run::<C, P, false>(column, cells, parser)
    }
}

/// Points in time of UTC, or of a zone; a `Z` behind them says UTC whatever the zone is.
fn moments<'a, C: Cells<'a>, P: Fixed + time::Moment>(
    column: &mut Column,
    cells: &C,
    parser: P,
    zone: &Option<String>,
) -> Result<(), usize> {
    match zone.as_deref().filter(|_| column.kind.shape != Shape::Z) {
        None => fixed(column, cells, parser),
        Some(name) => {
            let zone = zone::Zone::new(name).expect("checked when the type was parsed");
            fixed(column, cells, time::Local { parser, zone })
        }
    }
}

/// The loop of all types of fixed width: find the cell, drop its quotes, parse, store.
#[inline(always)]
fn run<'a, C: Cells<'a>, P: Fixed, const NULLS: bool>(
    column: &mut Column,
    cells: &C,
    mut parser: P,
) -> Result<(), usize> {
    let rows = cells.page().rows;
    let width = size_of::<P::Out>();
    column.data.reserve(rows * width);
    column.nulls.reserve(rows);
    let values = column.data.as_mut_ptr_range().start;
    // SAFETY: `len` bytes are in use, and `rows * width` more were reserved behind them.
    let values = unsafe { values.add(column.data.len()) };
    // SAFETY: the same for one byte a row.
    let marks = unsafe { column.nulls.as_mut_ptr().add(column.nulls.len()) };
    let put = |row: usize, (value, null): (P::Out, u8)| {
        debug_assert!(row < rows);
        // SAFETY: row < rows, see the reservations above.
        unsafe {
            values.add(row * width).cast::<P::Out>().write_unaligned(value);
            if NULLS {
                *marks.add(row) = null;
            }
        }
    };
    match P::MOST {
        Some(most) if C::STYLE != Style::Quoted => {
            let (mut usual, mut numbers) = (true, [0; CELLS]);
            for first in (0..rows).step_by(CELLS) {
                let count = CELLS.min(rows - first);
                let mut left = u64::MAX >> (CELLS - count);
                if usual && count == CELLS {
                    let odd = batch::numbers(cells, first, most, &mut numbers);
                    for (n, number) in numbers.into_iter().enumerate() {
                        put(first + n, (P::number(number), 0));
                    }
                    left = odd;
                    // Long numbers and NULLs: looking twice is no gain.
                    usual = odd.count_ones() <= CELLS as u32 / 2;
                }
                while left != 0 {
                    let row = first + left.trailing_zeros() as usize;
                    put(row, one::<C, P, NULLS>(cells, &mut parser, row).ok_or(row)?);
                    left &= left - 1;
                }
            }
        }
        _ => {
            for row in 0..rows {
                put(row, one::<C, P, NULLS>(cells, &mut parser, row).ok_or(row)?);
            }
        }
    }
    // SAFETY: the loops wrote `rows` values, and as many marks where there are any.
    unsafe {
        column.data.set_len(column.data.len() + rows * width);
        if NULLS {
            column.nulls.set_len(column.nulls.len() + rows);
        }
    }
    Ok(())
}

/// The value of a cell and its mark of NULL.
#[inline(always)]
fn one<'a, C: Cells<'a>, P: Fixed, const NULLS: bool>(
    cells: &C,
    parser: &mut P,
    row: usize,
) -> Option<(P::Out, u8)> {
    let (from, to) = cells.get(row);
    let (start, end) = cells.unquote(from, to);
    let bare = start == from;
    let fine = match C::STYLE {
        Style::Csv | Style::Tsv => true,
        Style::Json => {
            if bare {
                P::BARE
            } else {
                P::QUOTED || !C::ELEMENTS
            }
        }
        Style::Quoted => P::BARE == bare,
    };
    match parser.parse(cells.page().text, start, end) {
        Some(value) if fine => Some((value, 0)),
        _ if NULLS && is_null::<C, P>(cells, from, to) => Some((P::ZERO, 1)),
        _ => None,
    }
}

#[inline(never)]
fn is_null<'a, C: Cells<'a>, P: Fixed>(cells: &C, from: usize, to: usize) -> bool {
    match cells.null(from, to) {
        Null::Yes => true,
        Null::Loose => P::LOOSE_NULL,
        Null::No => false,
    }
}

/// A name of a header without quotes and escapes; None for one that is empty or unusual.
pub fn text_of_name(cell: &[u8], csv: bool) -> Option<Vec<u8>> {
    let quoted = csv && cell.first() == Some(&b'"');
    let content = if quoted { cell.get(1..cell.len() - 1)? } else { cell };
    let blank = |c: Option<&u8>| c.is_some_and(u8::is_ascii_whitespace);
    if content.is_empty() || blank(content.first()) || blank(content.last()) {
        return None;
    }
    let mut name = Vec::new();
    if csv && !quoted {
        name.extend_from_slice(content);
    } else {
        text::unescape(if csv { Style::Csv } else { Style::Tsv }, content, &mut name)?;
    }
    (!name.contains(&b'\n')).then_some(name)
}
