//! Decodes the fields of a column whose type is not nested: one loop for each type, compiled for it.

use crate::column::Column;
use crate::text::fields::{Cells, Null, Style};
use crate::types::{Base, Shape, zone};
use crate::values::fixed_width::Fixed;
use crate::values::short_integers::{self, CELLS};
use crate::values::{bool_uuid_ip, decimal, float, integer, string, time, wide_integer};

/// Decode all cells of a column; the row of the first that is declined otherwise.
pub fn decode<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    let kind = column.kind.clone();
    match &kind.base {
        Base::Int(1, true) => fixed(column, cells, integer::Signed::<i8>::default()),
        Base::Int(2, true) => fixed(column, cells, integer::Signed::<i16>::default()),
        Base::Int(4, true) => fixed(column, cells, integer::Signed::<i32>::default()),
        Base::Int(8, true) => fixed(column, cells, integer::Signed::<i64>::default()),
        Base::Int(1, false) => fixed(column, cells, integer::Unsigned::<u8>::default()),
        Base::Int(2, false) => fixed(column, cells, integer::Unsigned::<u16>::default()),
        Base::Int(4, false) => fixed(column, cells, integer::Unsigned::<u32>::default()),
        Base::Int(8, false) => fixed(column, cells, integer::Unsigned::<u64>::default()),
        Base::Int(16, signed) => fixed(column, cells, wide_integer::Int128 { signed: *signed }),
        Base::Int(_, signed) => fixed(column, cells, wide_integer::Int256 { signed: *signed }),
        Base::Float32 => fixed(column, cells, float::F32),
        Base::Float64 => fixed(column, cells, float::F64),
        Base::Decimal(4, p, s) => fixed(column, cells, decimal::Small::<i32>::new(*p, *s)),
        Base::Decimal(8, p, s) => fixed(column, cells, decimal::Small::<i64>::new(*p, *s)),
        Base::Decimal(16, p, s) => fixed(column, cells, decimal::Wide::<2>::new(*p, *s)),
        Base::Decimal(_, p, s) => fixed(column, cells, decimal::Wide::<4>::new(*p, *s)),
        // As elements of text 1 and 0 are no Bools to some versions of the engine.
        Base::Bool => {
            fixed(column, cells, bool_uuid_ip::Bool { digits: C::STYLE != Style::Quoted })
        }
        Base::Date => fixed(column, cells, time::Date::default()),
        Base::Date32 => fixed(column, cells, time::Date32::default()),
        Base::DateTime(zone) => moments(column, cells, time::DateTime::new(kind.shape), zone),
        Base::DateTime64(p, zone) => {
            moments(column, cells, time::DateTime64::new(*p, kind.shape), zone)
        }
        Base::Uuid => fixed(column, cells, bool_uuid_ip::Uuid),
        Base::Ipv4 => fixed(column, cells, bool_uuid_ip::Ipv4),
        Base::Ipv6 => fixed(column, cells, bool_uuid_ip::Ipv6),
        Base::Enum(1, elements) => string::enums::<C, i8>(column, cells, elements),
        Base::Enum(_, elements) => string::enums::<C, i16>(column, cells, elements),
        Base::FixedString(n) => string::fixed_strings(column, cells, *n),
        Base::String => string::strings(column, cells),
        Base::Array(_) | Base::Map(_) | Base::Tuple(..) => {
            unreachable!("nested::decode takes them")
        }
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
                    let odd = short_integers::numbers(cells, first, most, &mut numbers);
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
