//! How the values of one column of text are written: what a plan chooses types by.
//!
//! Each fact is defined by an expression of the engine in `src/rowfall/schema/column_facts.py`;
//! `tests/unit/schema/text/test_text_facts.py` compares the two.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use serde_json::{Value, json};

use crate::calendar::days;
use crate::sample::reader::Reader;
use crate::text::fields::Syntax;

/// Counts of values, and the extremes among them.
#[derive(Default)]
pub(super) struct Facts {
    nulls: u64,
    blanks: u64,
    bytes: u64,
    /// Hashes of the values that are not NULL, by which the different ones are counted.
    distinct: HashSet<u64>,
    hasher: RandomState,
    /// `\N`, not as NULL.
    marks: u64,
    /// Values with blanks around them, and those that are nothing but blanks.
    padded: u64,
    hollow: u64,
    /// Values with line breaks, and those that hold whole lines of the file.
    breaks: u64,
    swallowed: u64,
    integers: u64,
    low: Option<i128>,
    high: Option<i128>,
    /// Numbers with leading zeros, and integers with a plus.
    zeros: u64,
    plus: u64,
    /// Values that Float64 takes, and infinite ones that are written so.
    floats: u64,
    infinite: u64,
    /// The greatest, as text, of the fractions of more digits than Float64 keeps.
    rounded: Vec<u8>,
    places: usize,
    /// The greatest, as text, of what may be a code, see [`code`], and of fractions that end in 0.
    code: Vec<u8>,
    zeroed: Vec<u8>,
    /// Fractions of one place.
    tenths: u64,
    booleans: u64,
    uuids: u64,
    days: u64,
    moments: u64,
    /// What has the shape of a moment, with a T, and with a Z.
    with_t: u64,
    with_z: u64,
    /// Digits of fractions of a second, at most.
    digits: usize,
    /// The least text that is not empty, and the greatest one.
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
}

impl Facts {
    /// Count a value; the error is why it cannot be told what it is.
    pub(super) fn add(
        &mut self,
        value: Option<&[u8]>,
        reader: &Reader<'_>,
    ) -> Result<(), &'static str> {
        let Some(x) = value else {
            self.nulls += 1;
            return Ok(());
        };
        self.bytes += x.len() as u64;
        self.distinct.insert(self.hasher.hash_one(x));
        self.blanks += u64::from(x.is_empty());
        // Strings of JSON are meant as they are written.
        let as_written = reader.syntax == Syntax::Json;
        let mark = x == b"\\N" && !as_written;
        self.marks += u64::from(mark);
        self.nulls += u64::from(mark);
        let t = if as_written { x } else { trim(x) };
        self.padded += u64::from(t.len() != x.len());
        self.hollow += u64::from(t.is_empty() && !x.is_empty());
        if memchr::memchr(b'\n', x).is_some() {
            self.breaks += 1;
            let whole = |line: &&[u8]| {
                line.iter().filter(|c| **c == reader.delimiter).count() + 1 == reader.width
            };
            let lines = x.split(|c| *c == b'\n').filter(whole).count();
            self.swallowed += u64::from(reader.width > 1 && lines > 1);
        }
        self.booleans +=
            u64::from(t.eq_ignore_ascii_case(b"true") || t.eq_ignore_ascii_case(b"false"));
        self.uuids += u64::from(is_uuid(t));
        self.add_number(t)?;
        self.add_time(t)?;
        if !t.is_empty() && self.first.as_deref().is_none_or(|first| t < first) {
            self.first = Some(t.to_vec());
        }
        if self.last.as_deref().is_none_or(|last| t > last) {
            self.last = Some(t.to_vec());
        }
        Ok(())
    }

    fn add_number(&mut self, t: &[u8]) -> Result<(), &'static str> {
        self.zeros += u64::from(has_leading_zero(t));
        if memchr::memchr2(b'e', b'E', t).is_some() {
            self.places = MANY_PLACES;
            if let Some(found) = code(t)
                && found > self.code
            {
                self.code = found;
            }
        }
        match unsigned_places(t) {
            1 => self.tenths += 1,
            2.. if t.ends_with(b"0") && t > self.zeroed.as_slice() => self.zeroed = t.to_vec(),
            _ => {}
        }
        if let Some(number) = integer(t)? {
            self.plus += u64::from(t[0] == b'+');
            self.integers += 1;
            self.low = Some(self.low.map_or(number, |low| low.min(number)));
            self.high = Some(self.high.map_or(number, |high| high.max(number)));
        }
        match float(t)? {
            Float::No => {}
            Float::Infinite => (self.floats, self.infinite) = (self.floats + 1, self.infinite + 1),
            Float::NotANumber => self.floats += 1,
            Float::Number => {
                self.floats += 1;
                if let Some(places) = rounded_places(t) {
                    self.places = self.places.max(places);
                    if t > self.rounded.as_slice() {
                        self.rounded = t.to_vec();
                    }
                }
            }
        }
        Ok(())
    }

    fn add_time(&mut self, t: &[u8]) -> Result<(), &'static str> {
        let year = t.get(..10).and_then(day);
        if year.is_some_and(|year| !(1900..2300).contains(&year)) {
            return Err("a day that not every version of the engine can hold");
        }
        if let Some((separator, zone)) = moment(t) {
            self.with_t += u64::from(separator == b'T');
            self.with_z += u64::from(zone);
            self.moments += u64::from(year.is_some());
        }
        self.days += u64::from(year.is_some() && t.len() == 10);
        self.digits = self.digits.max(fraction_digits(t));
        Ok(())
    }

    /// Return the facts by the names that the engine's expressions have.
    pub(super) fn json(&self, rows: usize) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        json!({
            "nulls": self.nulls, "blanks": self.blanks, "marks": self.marks,
            "distinct": self.distinct.len(), "bytes_each": self.bytes as f64 / rows as f64,
            "padded": self.padded, "hollow": self.hollow,
            "breaks": self.breaks, "swallowed": self.swallowed,
            "integers": self.integers, "zeros": self.zeros, "plus": self.plus,
            "low": self.low.map(|n| n.to_string()), "high": self.high.map(|n| n.to_string()),
            "floats": self.floats, "infinite": self.infinite,
            "rounded": text(&self.rounded), "places": self.places,
            "code": text(&self.code), "zeroed": text(&self.zeroed), "tenths": self.tenths,
            "booleans": self.booleans, "uuids": self.uuids,
            "days": self.days, "moments": self.moments,
            "with_t": self.with_t, "with_z": self.with_z, "digits": self.digits,
            "first": self.first.as_deref().map(text),
            "last": self.last.as_deref().map(text),
        })
    }
}

/// True for a number as text, which no column of integers need take.
pub(super) fn is_float(t: &[u8]) -> bool {
    float(t) == Ok(Float::Number)
}

fn trim(x: &[u8]) -> &[u8] {
    let blank = |c: &u8| matches!(c, b' ' | b'\t');
    let start = x.iter().position(|c| !blank(c)).unwrap_or(x.len());
    let end = x.iter().rposition(|c| !blank(c)).map_or(start, |n| n + 1);
    &x[start..end]
}

/// `[-+]?0[0-9]` at the start.
fn has_leading_zero(t: &[u8]) -> bool {
    matches!(without_sign(t), [b'0', second, ..] if second.is_ascii_digit())
}

fn without_sign(t: &[u8]) -> &[u8] {
    t.strip_prefix(b"-").or_else(|| t.strip_prefix(b"+")).unwrap_or(t)
}

/// `[-+]?[0-9]{1,38}`: all of them fit into 128 bits. Of longer ones the engine wraps around what
/// does not fit.
fn integer(t: &[u8]) -> Result<Option<i128>, &'static str> {
    let digits = without_sign(t);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    if digits.len() > 38 {
        return Err("an integer of more than 38 digits");
    }
    let number = digits.iter().fold(0, |number, c| number * 10 + i128::from(c - b'0'));
    Ok(Some(if t[0] == b'-' { -number } else { number }))
}

#[derive(Debug, PartialEq)]
enum Float {
    No,
    Number,
    Infinite,
    NotANumber,
}

/// What the engine's cast to Float64 takes: `[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?`
/// and three words.
fn float(t: &[u8]) -> Result<Float, &'static str> {
    let unsigned = without_sign(t);
    let digits = |t: &[u8]| t.iter().take_while(|c| c.is_ascii_digit()).count();
    let whole = digits(unsigned);
    let mut rest = &unsigned[whole..];
    let mut count = whole;
    if let [b'.', fraction @ ..] = rest {
        let places = digits(fraction);
        count += places;
        rest = &fraction[places..];
    }
    if count == 0 {
        return match unsigned.first().map(u8::to_ascii_lowercase) {
            Some(b'i')
                if unsigned.eq_ignore_ascii_case(b"inf")
                    || unsigned.eq_ignore_ascii_case(b"infinity") =>
            {
                Ok(Float::Infinite)
            }
            Some(b'n') if unsigned.eq_ignore_ascii_case(b"nan") => Ok(Float::NotANumber),
            // The engine takes nan(1) for one, too.
            Some(b'n') if unsigned.get(..4).is_some_and(|n| n.eq_ignore_ascii_case(b"nan(")) => {
                Err("a NaN with a payload")
            }
            _ => Ok(Float::No),
        };
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = without_sign(exponent);
        let all = !exponent.is_empty() && digits(exponent) == exponent.len();
        return Ok(if all { Float::Number } else { Float::No });
    }
    Ok(if rest.is_empty() { Float::Number } else { Float::No })
}

/// Stands for the places of numbers with an exponent, as in `column_facts.py`.
const MANY_PLACES: usize = 1 << 16;

/// `[0-9]+[eE][0-9]+`: digits that read as a number and may be a code.
///
/// Behind `~` where the number is infinite, behind a blank where programs write numbers so: with
/// one digit in front of a small exponent. None of others with one digit.
fn code(t: &[u8]) -> Option<Vec<u8>> {
    let at = t.iter().position(|c| !c.is_ascii_digit())?;
    let exponent = t.get(at + 1..)?;
    let plain = at > 0 && !exponent.is_empty() && exponent.iter().all(u8::is_ascii_digit);
    if !plain || !matches!(t[at], b'e' | b'E') {
        return None;
    }
    let number: f64 = std::str::from_utf8(t).ok()?.parse().ok()?;
    if number.is_infinite() {
        return Some([b"~", t].concat());
    }
    if at > 1 {
        return Some(t.to_vec());
    }
    let zeros = exponent.iter().take_while(|c| **c == b'0').count();
    let small = match &exponent[zeros..] {
        [] | [_] => true,
        [b'1', second] => *second <= b'4',
        _ => false,
    };
    small.then(|| [b" ", t].concat())
}

/// The digits behind the point of `[0-9]+[.][0-9]+`; 0 of anything else.
fn unsigned_places(t: &[u8]) -> usize {
    let whole = t.iter().take_while(|c| c.is_ascii_digit()).count();
    match &t[whole..] {
        [b'.', places @ ..] if whole > 0 && places.iter().all(u8::is_ascii_digit) => places.len(),
        _ => 0,
    }
}

/// The digits behind the point of a fraction that has more digits than its Float64 keeps.
///
/// A double keeps 15 digits, from the first to the last one that is not 0, whatever they are.
fn rounded_places(t: &[u8]) -> Option<usize> {
    let point = t.iter().position(|c| *c == b'.')?;
    let places = t[point + 1..].iter().take_while(|c| c.is_ascii_digit()).count();
    if t.len() <= 16 || places == 0 {
        return None;
    }
    let own = significant(t);
    if own.len() <= 15 {
        return None;
    }
    // Rust's parser takes the same grammar, and both are exact.
    let number: f64 = std::str::from_utf8(t).ok()?.parse().ok()?;
    (own != significant(format!("{number:e}").as_bytes())).then_some(places)
}

/// The digits of the mantissa from the first to the last one that is not 0.
fn significant(t: &[u8]) -> Vec<u8> {
    let mantissa = without_sign(t).iter().take_while(|c| c.is_ascii_digit() || **c == b'.');
    let digits: Vec<u8> = mantissa.filter(|c| **c != b'.').copied().collect();
    let start = digits.iter().position(|c| *c != b'0').unwrap_or(digits.len());
    let end = digits.iter().rposition(|c| *c != b'0').map_or(start, |n| n + 1);
    digits[start..end].to_vec()
}

/// `01234567-89ab-cdef-0123-456789abcdef`, in either case.
fn is_uuid(t: &[u8]) -> bool {
    t.len() == 36
        && t.iter().enumerate().all(|(n, c)| match n {
            8 | 13 | 18 | 23 => *c == b'-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// The year of a real day, written as `2024-02-29`.
fn day(t: &[u8]) -> Option<u32> {
    if t.len() != 10 || !has_shape(t, b"0000-00-00") {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0, |n, c| n * 10 + u32::from(c - b'0'));
    let (year, month, day) = (number(&t[..4]), number(&t[5..7]), number(&t[8..]));
    days(year, month, day).map(|_| year)
}

/// `2024-02-29 12:00:00.5Z`: what stands between day and time, and whether there is a Z.
fn moment(t: &[u8]) -> Option<(u8, bool)> {
    if t.len() < 19 || !has_shape(&t[..10], b"0000-00-00") || !has_shape(&t[11..19], b"00:00:00") {
        return None;
    }
    if t[11..13] > b"23"[..] || t[14] > b'5' || t[17] > b'5' {
        return None; // 24:00:00 is no time of day that a column holds
    }
    let (rest, zone) = match &t[19..] {
        [rest @ .., b'Z'] => (rest, true),
        rest => (rest, false),
    };
    let fraction = match rest {
        [] => true,
        [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (matches!(t[10], b' ' | b'T') && fraction).then_some((t[10], zone))
}

/// The number of digits behind a point that nineteen letters stand in front of.
fn fraction_digits(t: &[u8]) -> usize {
    // Nineteen letters are 76 bytes at most.
    let head = &t[..t.len().min(80)];
    let head = match std::str::from_utf8(head) {
        Ok(head) => head,
        Err(cut) => {
            std::str::from_utf8(&head[..cut.valid_up_to()]).expect("it is valid up to there")
        }
    };
    match head.char_indices().nth(19) {
        Some((at, '.')) => t[at + 1..].iter().take_while(|c| c.is_ascii_digit()).count(),
        _ => 0,
    }
}

/// A 0 of the shape stands for any digit.
fn has_shape(t: &[u8], shape: &[u8]) -> bool {
    t.iter().zip(shape).all(|(c, s)| if *s == b'0' { c.is_ascii_digit() } else { c == s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_real_ones() {
        for (text, year) in [
            ("2024-02-29", Some(2024)),
            ("2023-02-29", None),
            ("1900-02-29", None),
            ("2000-02-29", Some(2000)),
            ("1899-12-31", Some(1899)),
            ("2024-13-01", None),
            ("2024-00-10", None),
            ("2024-04-31", None),
            ("2024-4-3111", None),
            ("2024/04/30", None),
        ] {
            assert_eq!(day(text.as_bytes()), year, "{text}");
        }
    }

    #[test]
    fn integers_have_38_digits_at_most() {
        let most = "9".repeat(38);
        for text in [&most, &format!("-{most}"), "0", "-0"] {
            assert_eq!(integer(text.as_bytes()), Ok(text.parse().ok()), "{text}");
        }
        for text in ["", "-", "+", "1.5", " 1", "--1", "1_000"] {
            assert_eq!(integer(text.as_bytes()), Ok(None), "{text}");
        }
        assert_eq!(integer(b"+007"), Ok(Some(7)));
        assert!(integer("1".repeat(39).as_bytes()).is_err());
    }

    #[test]
    fn moments_have_their_shape() {
        for (text, found) in [
            ("2024-02-29 12:00:00", Some((b' ', false))),
            ("2024-02-29T12:00:00Z", Some((b'T', true))),
            ("2024-99-99T23:59:59.123Z", Some((b'T', true))),
            ("2024-02-29T24:00:00Z", None),
            ("2024-02-29 12:60:00", None),
            ("2024-02-29 12:00:60", None),
            ("2024-02-29T12:00:00.", None),
            ("2024-02-29T12:00:00ZZ", None),
            ("2024-02-29_12:00:00", None),
            ("2024-02-29", None),
        ] {
            assert_eq!(moment(text.as_bytes()), found, "{text}");
        }
    }

    #[test]
    fn floats_are_what_the_engine_casts() {
        for text in ["0", "-1.5", "+.5", "5.", "1e5", "1E+05", "-.5e-7", "1e400"] {
            assert_eq!(float(text.as_bytes()), Ok(Float::Number), "{text}");
        }
        for text in
            ["", ".", "-", "e5", "1e", "1e+", "--1", "1..2", "1,5", "0x10", "infi", "information"]
        {
            assert_eq!(float(text.as_bytes()), Ok(Float::No), "{text}");
        }
        assert_eq!(float(b"-Infinity"), Ok(Float::Infinite));
        assert_eq!(float(b"NaN"), Ok(Float::NotANumber));
        assert!(float(b"nan(1)").is_err());
    }

    #[test]
    fn digits_with_an_e_may_be_codes() {
        for (text, found) in [
            ("1234e56", Some("1234e56")),
            ("00E1", Some("00E1")),
            ("12e560", Some("~12e560")),
            ("1E5", Some(" 1E5")),
            ("1e0014", Some(" 1e0014")),
            ("1e000", Some(" 1e000")),
            ("1e15", None),
            ("1e99", None),
            ("1e+5", None),
            ("-12e5", None),
            ("1.5e5", None),
            ("e5", None),
            ("12e", None),
            ("12f5", None),
        ] {
            assert_eq!(code(text.as_bytes()).as_deref(), found.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn places_are_those_of_numbers_without_a_sign() {
        for (text, places) in
            [("1.10", 2), ("1.5", 1), ("1.", 0), (".5", 0), ("-1.5", 0), ("1.5e", 0), ("15", 0)]
        {
            assert_eq!(unsigned_places(text.as_bytes()), places, "{text}");
        }
    }

    #[test]
    fn fractions_of_too_many_digits_are_rounded() {
        assert_eq!(rounded_places(b"3.5215257120407011"), Some(16));
        assert_eq!(rounded_places(b"-0.00000000012345678901234567"), Some(26));
        for text in ["0.1000000000000000055", "12345678901234567.0"] {
            assert!(rounded_places(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["1.5", "0.10000000000000000000", "1234567890123456789", "0.30000000000000004"]
        {
            assert_eq!(rounded_places(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn fractions_of_a_second_stand_behind_nineteen_letters() {
        assert_eq!(fraction_digits(b"2024-02-29 12:00:00.123Z"), 3);
        assert_eq!(fraction_digits("äääääääääääääääääää.12".as_bytes()), 2);
        assert_eq!(fraction_digits(b"2024-02-29 12:00:00"), 0);
        assert_eq!(fraction_digits(b"2024-02-29 12:00:00.Z"), 0);
    }
}
