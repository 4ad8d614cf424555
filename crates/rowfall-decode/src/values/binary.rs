//! Decodes fields of packets: numbers and times in binary, and all else as text. What a binary
//! value cannot be turned into by itself is written as the text that the server would send, and
//! parsed like that.

use std::io::Write;
use std::marker::PhantomData;

use crate::calendar::{civil, days};
use crate::column::Column;
use crate::input::buffer::{FRONT, PAD};
use crate::packets::Wire;
use crate::text::fields::{Fields, NullMatch, RowBatch, Span, Syntax};
use crate::types::BaseType;
use crate::values::fixed_width::FixedWidth;
use crate::values::flat::{self, decode_fixed};
use crate::values::integer::{Integer, load8};
use crate::values::time::{FIRST, LAST};

/// The fields of some rows of packets.
pub struct PacketFields<'a> {
    /// The rows that are decoded; `width` is not looked at.
    pub batch: RowBatch<'a>,
    /// Where the fields of `rows` rows are, column after column; (0, 0) for NULL.
    pub spans: &'a [Span],
    /// See `spans`.
    pub rows: usize,
    /// Rows of `spans` before the first one that is decoded.
    pub first: usize,
    /// How the fields of each column of the packets are written.
    pub wires: &'a [Wire],
    /// For each column that is decoded, the number of its column of the packets.
    pub field_numbers: &'a [usize],
    /// The number of the column of the packets that is decoded now.
    pub field_number: usize,
}

impl<'a> Fields<'a> for PacketFields<'a> {
    const SYNTAX: Syntax = Syntax::Packet;

    #[inline(always)]
    fn batch(&self) -> &RowBatch<'a> {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut RowBatch<'a> {
        &mut self.batch
    }

    fn select_column(&mut self, column: usize) {
        self.field_number = self.field_numbers[column];
    }

    #[inline(always)]
    fn bounds(&self, number: usize) -> (usize, usize) {
        let row = self.first + self.batch.row(number);
        let (start, end) = self.spans[self.field_number * self.rows + row];
        (start as usize, end as usize)
    }

    #[inline(always)]
    fn unquoted(&self, from: usize, to: usize) -> (usize, usize) {
        (from, to)
    }

    /// Zeros for a date, too, where the server would say NULL.
    fn null_match(&self, from: usize, to: usize) -> NullMatch {
        let zeros = match self.wires[self.field_number] {
            Wire::Day(null) | Wire::Moment(_, null) => null && is_zero(&self.batch.text[from..to]),
            _ => false,
        };
        if from == 0 || zeros { NullMatch::Yes } else { NullMatch::No }
    }

    fn text_bytes(&self) -> usize {
        let at = self.field_number * self.rows + self.first;
        self.spans[at..at + self.batch.rows].iter().map(|s| (s.1 - s.0) as usize).sum()
    }

    fn decode_binary(&self, column: &mut Column) -> Option<Result<(), usize>> {
        let wire = self.wires[self.field_number];
        if wire == Wire::Text {
            return None;
        }
        let base = column.data_type.base.clone();
        Some(match (wire, &base) {
            (Wire::Int(1, false), BaseType::Bool) => decode_fixed(column, self, Flag),
            (Wire::Int(n, signed), BaseType::Int(bytes @ 1..=8, of_signed)) => {
                match (bytes, of_signed) {
                    (1, true) => decode_fixed(column, self, Number::<i8>::new(n, signed)),
                    (2, true) => decode_fixed(column, self, Number::<i16>::new(n, signed)),
                    (4, true) => decode_fixed(column, self, Number::<i32>::new(n, signed)),
                    (_, true) => decode_fixed(column, self, Number::<i64>::new(n, signed)),
                    (1, false) => decode_fixed(column, self, Number::<u8>::new(n, signed)),
                    (2, false) => decode_fixed(column, self, Number::<u16>::new(n, signed)),
                    (4, false) => decode_fixed(column, self, Number::<u32>::new(n, signed)),
                    (_, false) => decode_fixed(column, self, Number::<u64>::new(n, signed)),
                }
            }
            (Wire::Float32, BaseType::Float32) => decode_fixed(column, self, Single),
            (Wire::Float32, BaseType::Float64) => decode_fixed(column, self, Widened),
            (Wire::Float64, BaseType::Float64) => decode_fixed(column, self, Double),
            (Wire::Day(_), BaseType::Date32) => decode_fixed(column, self, Day32::default()),
            (Wire::Moment(0, _), BaseType::DateTime(None)) => {
                decode_fixed(column, self, Moment { days: Days::default(), digits: 0 }.seconds())
            }
            (Wire::Moment(own, _), BaseType::DateTime64(digits, None)) if own <= *digits => {
                decode_fixed(column, self, Moment { days: Days::default(), digits: *digits })
            }
            (Wire::DayNumber, BaseType::Date32) => decode_fixed(column, self, DayNumber),
            (Wire::Micros, BaseType::DateTime(None)) => decode_fixed(column, self, Clock),
            (Wire::Micros, BaseType::DateTime64(digits, None)) => {
                decode_fixed(column, self, Micros { digits: *digits })
            }
            (Wire::Uuid, BaseType::Uuid) => decode_fixed(column, self, Halves),
            // The server would round them its own way.
            (Wire::Float32 | Wire::Float64, _) => Err(0),
            _ => self.decode_as_text(column),
        })
    }
}

impl PacketFields<'_> {
    /// Decode the fields as the text of which the server would write them.
    fn decode_as_text(&self, column: &mut Column) -> Result<(), usize> {
        let (mut text, mut spans) = (vec![0; FRONT], Vec::with_capacity(self.batch.rows));
        for row in 0..self.batch.rows {
            let (from, to) = self.bounds(row);
            let start = text.len();
            if self.null_match(from, to) == NullMatch::No {
                write_text(self.wires[self.field_number], &self.batch.text[from..to], &mut text)
                    .ok_or(row)?;
                spans.push((start as u32, text.len() as u32));
            } else {
                spans.push((0, 0));
            }
        }
        text.resize(text.len() + PAD, 0);
        let batch = RowBatch { text: &text, order: &[], ..self.batch };
        let rows = self.batch.rows;
        let (wires, field_numbers) = (&[Wire::Text], &[0]);
        let fields = PacketFields {
            batch,
            spans: &spans,
            rows,
            first: 0,
            wires,
            field_numbers,
            field_number: 0,
        };
        flat::decode(column, &fields)
    }
}

/// Append a value as the text that the server would write; None for what has no certain one.
fn write_text(wire: Wire, value: &[u8], to: &mut Vec<u8>) -> Option<()> {
    match wire {
        Wire::Text => to.extend_from_slice(value),
        Wire::Int(_, signed) => {
            let minus = signed && value.last()? & 128 != 0;
            let mut bytes = [if minus { 255 } else { 0 }; 16];
            bytes[..value.len()].copy_from_slice(value);
            write!(to, "{}", i128::from_le_bytes(bytes)).ok()?;
        }
        Wire::Float32 | Wire::Float64 => return None,
        Wire::Day(_) => {
            let (year, month, day) = date(value).filter(|_| value.len() <= 4)?;
            write!(to, "{year:04}-{month:02}-{day:02}").ok()?;
        }
        Wire::DayNumber => {
            let (year, month, day) = civil_of(DayNumber.parse(&padded(value), 0, 4)?)?;
            write!(to, "{year:04}-{month:02}-{day:02}").ok()?;
        }
        Wire::Micros => {
            let micros = Micros { digits: 6 }.parse(&padded(value), 0, 8)?;
            let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let (year, month, day) = civil_of(i32::try_from(seconds.div_euclid(86_400)).ok()?)?;
            let clock = seconds.rem_euclid(86_400);
            let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
            write!(to, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}").ok()?;
            if micros > 0 {
                let fraction = format!(".{micros:06}");
                to.extend_from_slice(fraction.trim_end_matches('0').as_bytes());
            }
        }
        Wire::Uuid => {
            let mut hex = String::with_capacity(32);
            value.iter().rev().for_each(|byte| hex.push_str(&format!("{byte:02x}")));
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            to.extend_from_slice(parts.join("-").as_bytes());
        }
        Wire::Numeric => write_numeric(value, to)?,
        Wire::Moment(digits, _) => {
            let (year, month, day) = date(value)?;
            let (seconds, micros) = clock(value)?;
            let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
            write!(to, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", seconds % 60)
                .ok()?;
            match digits {
                0 if micros == 0 => {}
                1..=6 => {
                    let micros = format!(".{micros:06}");
                    to.extend_from_slice(&micros.as_bytes()[..1 + usize::from(digits)]);
                }
                _ => return None,
            }
        }
    }
    Some(())
}

/// Append a number of digits of 10,000, as its text; None for what is none, as NaN.
fn write_numeric(value: &[u8], to: &mut Vec<u8>) -> Option<()> {
    const MINUS: u16 = 0x4000;
    let mut words = value.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let (count, weight, sign) = (words.next()?, words.next()? as i16, words.next()?);
    let scale = usize::from(words.next()?);
    let digits: Vec<u16> = words.collect();
    let fine = digits.len() == usize::from(count) && digits.iter().all(|digit| *digit < 10_000);
    if !fine || value.len() % 2 == 1 || !matches!(sign, 0 | MINUS) || scale > 16_383 {
        return None;
    }
    if sign == MINUS {
        to.push(b'-');
    }
    let digit = |power: i32| {
        let at = usize::try_from(i32::from(weight) - power).ok();
        at.and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    write!(to, "{}", digit(i32::from(weight).max(0))).ok()?;
    for power in (0..i32::from(weight)).rev() {
        write!(to, "{:04}", digit(power)).ok()?;
    }
    if scale > 0 {
        to.push(b'.');
        let end = to.len() + scale;
        for power in 1..=scale.div_ceil(4) {
            write!(to, "{:04}", digit(-(power as i32))).ok()?;
        }
        to.truncate(end);
    }
    Some(())
}

/// Year, month and day; None where the year has not four digits.
fn civil_of(day: i32) -> Option<(i32, u32, u32)> {
    Some(civil(day)).filter(|(year, ..)| (1..10_000).contains(year))
}

/// A value of up to 8 bytes, for who reads 8 of them.
fn padded(value: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..value.len()].copy_from_slice(value);
    bytes
}

/// True for a date without a month or a day.
fn is_zero(value: &[u8]) -> bool {
    value.len() < 4 || value[2] == 0 || value[3] == 0
}

/// Year, month and day.
fn date(value: &[u8]) -> Option<(u32, u32, u32)> {
    match value {
        [] => Some((0, 0, 0)),
        [low, high, month, day, ..] => {
            Some((u16::from_le_bytes([*low, *high]).into(), (*month).into(), (*day).into()))
        }
        _ => None,
    }
}

/// Seconds of the day and microseconds of what stands behind the date.
fn clock(value: &[u8]) -> Option<(u32, u32)> {
    let (seconds, micros) = match value.len() {
        0 | 4 => return Some((0, 0)),
        7 => (&value[4..7], 0),
        11 => (&value[4..7], u32::from_le_bytes([value[7], value[8], value[9], value[10]])),
        _ => return None,
    };
    let (hour, minute, second) = (seconds[0], seconds[1], seconds[2]);
    let fine = hour < 24 && minute < 60 && second < 60 && micros < 1_000_000;
    let seconds = u32::from(hour) * 3600 + u32::from(minute) * 60 + u32::from(second);
    fine.then_some((seconds, micros))
}

/// Reads integers of up to 8 bytes.
struct Number<T> {
    /// Bits of 64 that are not the number's.
    shift: u32,
    signed: bool,
    kind: PhantomData<T>,
}

impl<T> Number<T> {
    fn new(bytes: usize, signed: bool) -> Number<T> {
        Number { shift: 64 - 8 * bytes as u32, signed, kind: PhantomData }
    }
}

impl<T: TryFrom<i128> + Copy + Integer> FixedWidth for Number<T> {
    type Out = T;
    const ZERO: T = T::ZERO;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<T> {
        let high = load8(text, start) << self.shift;
        let value = match self.signed {
            true => i128::from(high as i64 >> self.shift),
            false => i128::from(high >> self.shift),
        };
        T::try_from(value).ok()
    }
}

/// The value, unless it is infinite: whether the engine takes the word of a server for that is its
/// own affair.
#[inline(always)]
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| !value.is_infinite())
}

/// Reads Float32.
struct Single;

impl FixedWidth for Single {
    type Out = f32;
    const ZERO: f32 = 0.0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<f32> {
        finite(f32::from_bits(load8(text, start) as u32).into()).map(|value| value as f32)
    }
}

/// Reads Float64 of 4 bytes.
struct Widened;

impl FixedWidth for Widened {
    type Out = f64;
    const ZERO: f64 = 0.0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<f64> {
        finite(f32::from_bits(load8(text, start) as u32).into())
    }
}

/// Reads Float64.
struct Double;

impl FixedWidth for Double {
    type Out = f64;
    const ZERO: f64 = 0.0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<f64> {
        finite(f64::from_bits(load8(text, start)))
    }
}

/// Reads Bool.
struct Flag;

impl FixedWidth for Flag {
    type Out = u8;
    const ZERO: u8 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<u8> {
        Some(text[start]).filter(|value| *value < 2)
    }
}

/// Reads UUID, whose bytes come from the last to the first: two numbers, the upper one first.
struct Halves;

impl FixedWidth for Halves {
    type Out = [u64; 2];
    const ZERO: [u64; 2] = [0; 2];

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<[u64; 2]> {
        Some([load8(text, start + 8), load8(text, start)])
    }
}

/// Days and microseconds between 1970 and 2000.
const DAYS: i32 = 10_957;
const MICROS: i64 = DAYS as i64 * 86_400 * 1_000_000;

/// Reads Date32 of days since 2000.
struct DayNumber;

impl FixedWidth for DayNumber {
    type Out = i32;
    const ZERO: i32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<i32> {
        let day = (load8(text, start) as u32 as i32).checked_add(DAYS)?;
        (FIRST..=LAST).contains(&day).then_some(day)
    }
}

/// Reads DateTime64 of microseconds since 2000.
struct Micros {
    digits: u8,
}

impl FixedWidth for Micros {
    type Out = i64;
    const ZERO: i64 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, _: usize) -> Option<i64> {
        const DAY: i64 = 86_400 * 1_000_000;
        let micros = (load8(text, start) as i64).checked_add(MICROS)?;
        let within = i64::from(FIRST) * DAY..(i64::from(LAST) + 1) * DAY;
        // As of text: the engine's signs of fractions before 1970 are its own affair.
        if !within.contains(&micros) || (micros < 0 && micros % 1_000_000 != 0) {
            return None;
        }
        let digits = u32::from(self.digits);
        if digits >= 6 {
            return micros.checked_mul(10i64.pow(digits - 6));
        }
        let unit = 10i64.pow(6 - digits);
        (micros % unit == 0).then_some(micros / unit)
    }
}

/// Reads DateTime of microseconds since 2000.
struct Clock;

impl FixedWidth for Clock {
    type Out = u32;
    const ZERO: u32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        u32::try_from(Micros { digits: 0 }.parse(text, start, end)?).ok()
    }
}

/// Counts the days since 1970 of a date and remembers the last one: neighbouring rows often have
/// the same one.
#[derive(Default)]
struct Days {
    bytes: u32,
    found: Option<i32>,
}

impl Days {
    /// The days of the four bytes at `start`; None for what is not a date of Date32.
    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize) -> Option<i32> {
        let bytes = load8(text, start) as u32;
        if bytes != self.bytes {
            let [low, high, month, day] = bytes.to_le_bytes();
            let year = u16::from_le_bytes([low, high]).into();
            let found = days(year, month.into(), day.into());
            self.found = found.filter(|days| (FIRST..=LAST).contains(days));
            self.bytes = bytes;
        }
        self.found
    }
}

/// Reads Date32.
#[derive(Default)]
struct Day32(Days);

impl FixedWidth for Day32 {
    type Out = i32;
    const ZERO: i32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<i32> {
        if end - start != 4 {
            return None;
        }
        self.0.parse(text, start)
    }
}

/// Reads DateTime64.
struct Moment {
    days: Days,
    digits: u8,
}

impl Moment {
    /// Read DateTime.
    fn seconds(self) -> Seconds {
        Seconds(self)
    }
}

impl FixedWidth for Moment {
    type Out = i64;
    const ZERO: i64 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<i64> {
        if end - start < 4 {
            return None;
        }
        let days = i64::from(self.days.parse(text, start)?);
        let (clock, micros) = clock(&text[start..end])?;
        let seconds = days * 86_400 + i64::from(clock);
        // As of text: the engine's signs of fractions before 1970 are its own affair.
        if seconds < 0 && micros != 0 {
            return None;
        }
        let digits = u32::from(self.digits);
        let fraction = match digits {
            0..6 => {
                let unit = 10u32.pow(6 - digits);
                (micros % unit == 0).then_some(i64::from(micros / unit))?
            }
            _ => i64::from(micros) * 10i64.pow(digits - 6),
        };
        seconds.checked_mul(10i64.pow(digits))?.checked_add(fraction)
    }
}

/// Reads DateTime.
struct Seconds(Moment);

impl FixedWidth for Seconds {
    type Out = u32;
    const ZERO: u32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        u32::try_from(self.0.parse(text, start, end)?).ok()
    }
}
