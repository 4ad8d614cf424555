//! Parses dates and points in time: ten or nineteen bytes checked and joined in registers.

use crate::calendar::days;
use crate::types::TimeNotation;
use crate::types::zone::Zone;
use crate::values::fixed_width::FixedWidth;
use crate::values::integer::{all_digits, load8};

/// Parses dates and remembers the last one: neighbouring rows often have the same one.
#[derive(Default)]
pub struct DateCache {
    text: [u64; 2],
    value: Option<i32>,
}

impl DateCache {
    /// Parse `YYYY-MM-DD` at `start`: days since 1970.
    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize) -> Option<i32> {
        let (head, tail) = (load8(text, start), load8(text, start + 8) & 0xffff);
        if [head, tail] != self.text {
            self.value = parse_date(text, start);
            self.text = [head, tail];
        }
        self.value
    }
}

#[inline(never)]
fn parse_date(text: &[u8], start: usize) -> Option<i32> {
    let at = |i: usize| u32::from(text[start + i].wrapping_sub(b'0'));
    let digits = [0, 1, 2, 3, 5, 6, 8, 9].iter().all(|i| at(*i) < 10);
    if !digits || text[start + 4] != b'-' || text[start + 7] != b'-' {
        return None;
    }
    days(at(0) * 1000 + at(1) * 100 + at(2) * 10 + at(3), at(5) * 10 + at(6), at(8) * 10 + at(9))
}

/// Parse `hh:mm:ss` as seconds of the day.
#[inline(always)]
fn seconds(text: &[u8], start: usize) -> Option<u32> {
    // With the colons turned into zeros, all eight bytes are digits.
    let v = load8(text, start) ^ 0x3030_3a30_303a_3030;
    if v & 0x0000_ff00_00ff_0000 != 0 || !all_digits(v) {
        return None;
    }
    let pairs = v.wrapping_mul(10).wrapping_add(v >> 8);
    let (hour, minute, second) = (pairs & 0xff, (pairs >> 24) & 0xff, (pairs >> 48) & 0xff);
    (hour < 24 && minute < 60 && second < 60).then_some((hour * 3600 + minute * 60 + second) as u32)
}

/// Parses Date.
#[derive(Default)]
pub struct Date(DateCache);

impl FixedWidth for Date {
    type Out = u16;
    const ZERO: u16 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<u16> {
        if end.wrapping_sub(start) != 10 {
            return None;
        }
        u16::try_from(self.0.parse(text, start)?).ok()
    }
}

/// Parses Date32.
#[derive(Default)]
pub struct Date32(DateCache);

/// 1900-01-01 and 2299-12-31, the ends of Date32 and DateTime64.
pub const FIRST: i32 = -25_567;
/// The last day.
pub const LAST: i32 = 120_529;

impl FixedWidth for Date32 {
    type Out = i32;
    const ZERO: i32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<i32> {
        if end.wrapping_sub(start) != 10 {
            return None;
        }
        self.0.parse(text, start).filter(|days| (FIRST..=LAST).contains(days))
    }
}

/// The byte between date and time, and true where a Z has to follow.
fn separators(notation: TimeNotation) -> (u8, bool) {
    match notation {
        TimeNotation::Plain => (b' ', false),
        TimeNotation::T => (b'T', false),
        TimeNotation::Z => (b'T', true),
    }
}

/// Parses DateTime in UTC.
pub struct DateTime {
    days: DateCache,
    separator: u8,
    zulu: bool,
}

impl DateTime {
    pub fn new(notation: TimeNotation) -> DateTime {
        let (separator, zulu) = separators(notation);
        DateTime { days: DateCache::default(), separator, zulu }
    }
}

impl FixedWidth for DateTime {
    type Out = u32;
    const ZERO: u32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        if end.wrapping_sub(start) != 19 + usize::from(self.zulu)
            || text[start + 10] != self.separator
            || (self.zulu && text[end - 1] != b'Z')
        {
            return None;
        }
        let days = self.days.parse(text, start)?;
        let seconds = seconds(text, start + 11)?;
        u32::try_from(i64::from(days) * 86_400 + i64::from(seconds)).ok()
    }
}

/// Parses DateTime64 in UTC.
pub struct DateTime64 {
    days: DateCache,
    separator: u8,
    zulu: bool,
    digits: usize,
}

impl DateTime64 {
    pub fn new(digits: u8, notation: TimeNotation) -> DateTime64 {
        let (separator, zulu) = separators(notation);
        DateTime64 { days: DateCache::default(), separator, zulu, digits: usize::from(digits) }
    }
}

impl FixedWidth for DateTime64 {
    type Out = i64;
    const ZERO: i64 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<i64> {
        let len = end.wrapping_sub(start).wrapping_sub(usize::from(self.zulu));
        if len.wrapping_sub(19) > self.digits + 1
            || len == 20
            || text[start + 10] != self.separator
            || (self.zulu && text[end - 1] != b'Z')
        {
            return None;
        }
        let days = self.days.parse(text, start).filter(|days| (FIRST..=LAST).contains(days))?;
        let seconds = i64::from(days) * 86_400 + i64::from(seconds(text, start + 11)?);
        let mut fraction = 0i64;
        let given = len.saturating_sub(20);
        if given > 0 {
            if text[start + 19] != b'.' {
                return None;
            }
            for &byte in &text[start + 20..start + 20 + given] {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                fraction = fraction * 10 + i64::from(digit);
            }
        }
        let scale = 10i64.pow(self.digits as u32);
        fraction *= 10i64.pow((self.digits - given) as u32);
        // Before 1970 the engine's signs of fractions are its own affair.
        if seconds < 0 && fraction != 0 {
            return None;
        }
        seconds.checked_mul(scale)?.checked_add(fraction)
    }
}

/// A parser whose values count units since 1970.
pub trait TimePoint: FixedWidth {
    /// How many units a second has.
    fn units(&self) -> i64;
    /// A value as a number of units.
    fn count(value: Self::Out) -> i64;
    /// The value of a number of units; None where it is out of range.
    fn value(count: i64) -> Option<Self::Out>;
}

impl TimePoint for DateTime {
    fn units(&self) -> i64 {
        1
    }

    fn count(value: u32) -> i64 {
        value.into()
    }

    fn value(count: i64) -> Option<u32> {
        u32::try_from(count).ok()
    }
}

impl TimePoint for DateTime64 {
    fn units(&self) -> i64 {
        10i64.pow(self.digits as u32)
    }

    fn count(value: i64) -> i64 {
        value
    }

    fn value(count: i64) -> Option<i64> {
        Some(count)
    }
}

/// Parses points in time of another time zone: as if they were UTC, then shifted by the offset.
pub struct LocalTime<P> {
    pub parser: P,
    pub zone: Zone,
}

impl<P: TimePoint> FixedWidth for LocalTime<P> {
    type Out = P::Out;
    const ZERO: P::Out = P::ZERO;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<P::Out> {
        let count = P::count(self.parser.parse(text, start, end)?);
        let units = self.parser.units();
        let seconds = count.div_euclid(units);
        P::value(self.zone.utc(seconds)? * units + count.rem_euclid(units))
    }
}
