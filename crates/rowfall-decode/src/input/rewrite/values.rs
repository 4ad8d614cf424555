//! Rewrites numbers with other marks and dates of another order.

use crate::dialect::DateOrder;

/// The marks of numbers.
#[derive(Debug, Clone)]
pub struct Marks {
    pub decimal: u8,
    pub thousands: Vec<u8>,
}

/// What follows a number that would be read as another one if it went on as it is.
const DOUBTFUL: &[u8] = b" (decimal mark?)";

/// Append a number as `1234.56`; anything else as it is.
///
/// A text that is not a number by these marks and one by the usual ones, like `1.5` where commas are
/// before decimals, is marked, so that whoever reads numbers refuses it.
pub fn number(text: &[u8], marks: &Marks, out: &mut Vec<u8>) {
    let bare = text.trim_ascii();
    let start = out.len();
    if plain_number(bare, marks, out).is_some() {
        return;
    }
    out.truncate(start);
    out.extend_from_slice(text);
    let digits = bare.iter().any(u8::is_ascii_digit);
    if digits && bare.contains(&b'.') && bare.iter().all(|c| b"0123456789+-.eE".contains(c)) {
        out.extend_from_slice(DOUBTFUL);
    }
}

fn plain_number(bare: &[u8], marks: &Marks, out: &mut Vec<u8>) -> Option<()> {
    let (sign, mut rest) = match bare.first()? {
        b'-' => (&b"-"[..], &bare[1..]),
        b'+' => (&b""[..], &bare[1..]),
        _ => (&b""[..], bare),
    };
    out.extend_from_slice(sign);
    let mut group = take_digits(&mut rest, out);
    let mut any = group > 0;
    let mut grouped = false;
    while any && !marks.thousands.is_empty() && rest.starts_with(&marks.thousands) {
        // Before a mark there are one to three digits, behind it three.
        if group > 3 {
            return None;
        }
        rest = &rest[marks.thousands.len()..];
        group = take_digits(&mut rest, out);
        grouped = true;
        if group != 3 {
            return None;
        }
    }
    if grouped && group != 3 {
        return None;
    }
    if rest.first() == Some(&marks.decimal) {
        rest = &rest[1..];
        if !any {
            out.push(b'0');
        }
        out.push(b'.');
        let decimals = take_digits(&mut rest, out);
        any |= decimals > 0;
        if decimals == 0 {
            out.pop();
        }
    }
    if !any {
        return None;
    }
    if let Some(b'e' | b'E') = rest.first() {
        out.push(b'e');
        rest = &rest[1..];
        if let Some(sign @ (b'+' | b'-')) = rest.first() {
            out.push(*sign);
            rest = &rest[1..];
        }
        if take_digits(&mut rest, out) == 0 {
            return None;
        }
    }
    rest.is_empty().then_some(())
}

fn take_digits(rest: &mut &[u8], out: &mut Vec<u8>) -> usize {
    let count = rest.iter().take_while(|c| c.is_ascii_digit()).count();
    out.extend_from_slice(&rest[..count]);
    *rest = &rest[count..];
    count
}

/// Append a date, with or without a time, as `2023-12-31 23:59:59`; anything else as it is.
pub fn date(text: &[u8], order: DateOrder, out: &mut Vec<u8>) {
    let start = out.len();
    if iso_date(text.trim_ascii(), order, out).is_none() {
        out.truncate(start);
        out.extend_from_slice(text);
    }
}

fn iso_date(text: &[u8], order: DateOrder, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    let (first, width) = number_of(&mut rest)?;
    let mark = *rest.first()?;
    if !matches!(mark, b'/' | b'.' | b'-') {
        return None;
    }
    let (second, _) = number_behind(mark, &mut rest)?;
    let (third, last) = number_behind(mark, &mut rest)?;
    let (year, month, day, digits) = match order {
        DateOrder::Dmy => (third, second, first, last),
        DateOrder::Mdy => (third, first, second, last),
        DateOrder::Ymd | DateOrder::Utc => (first, second, third, width),
    };
    // Two digits may mean 1923 or 2023: whoever reads dates refuses them.
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if digits != 4 || day == 0 || day > days {
        return None;
    }
    push_padded(year, 4, out);
    out.push(b'-');
    push_padded(month, 2, out);
    out.push(b'-');
    push_padded(day, 2, out);
    match rest.first() {
        None => Some(()),
        Some(mark @ (b' ' | b'T')) => {
            // Before a Z no reader takes a blank.
            let utc = matches!(order, DateOrder::Utc);
            out.push(if utc { b'T' } else { *mark });
            let zone = time(&rest[1..], out)?;
            if !utc {
                out.extend_from_slice(zone);
            } else if AT_UTC.contains(&zone.trim_ascii_start()) {
                out.push(b'Z');
            } else {
                return None; // another time, which whoever reads times refuses
            }
            Some(())
        }
        Some(_) => None,
    }
}

/// What stands behind a time of day that is one of UTC.
const AT_UTC: [&[u8]; 7] = [b"Z", b"UTC", b"+00:00", b"+0000", b"+00", b"-00:00", b"-0000"];

/// Append `hours:minutes[:seconds[.fraction]]`, with AM or PM, and return whatever zone follows.
fn time<'a>(text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = text.trim_ascii();
    let (mut hour, width) = number_of(&mut rest)?;
    let (minute, minute_width) = number_behind(b':', &mut rest)?;
    if width > 2 || minute_width != 2 || minute > 59 {
        return None;
    }
    let mut second = 0;
    let mut fraction: &[u8] = b"";
    if rest.first() == Some(&b':') {
        let (found, width) = number_behind(b':', &mut rest)?;
        if width != 2 || found > 60 {
            return None;
        }
        second = found;
        if rest.first() == Some(&b'.') {
            let digits = rest[1..].iter().take_while(|c| c.is_ascii_digit()).count();
            fraction = &rest[..=digits];
            rest = &rest[1 + digits..];
        }
    }
    let half = rest.trim_ascii_start();
    if half.len() >= 2 && half[1].eq_ignore_ascii_case(&b'm') {
        if hour == 0 || hour > 12 {
            return None;
        }
        hour = match half[0].to_ascii_lowercase() {
            b'a' => hour % 12,
            b'p' => hour % 12 + 12,
            _ => return None,
        };
        rest = &half[2..];
    }
    if hour > 23 {
        return None;
    }
    push_padded(hour, 2, out);
    out.push(b':');
    push_padded(minute, 2, out);
    out.push(b':');
    push_padded(second, 2, out);
    out.extend_from_slice(fraction);
    Some(rest)
}

/// A number of at most four digits, and how many it has.
fn number_of(rest: &mut &[u8]) -> Option<(u32, usize)> {
    let count = rest.iter().take_while(|c| c.is_ascii_digit()).count();
    if count == 0 || count > 4 {
        return None;
    }
    let value = rest[..count].iter().fold(0, |value, c| value * 10 + u32::from(c - b'0'));
    *rest = &rest[count..];
    Some((value, count))
}

/// The number behind a mark; see `number_of`.
fn number_behind(mark: u8, rest: &mut &[u8]) -> Option<(u32, usize)> {
    *rest = rest.strip_prefix(&[mark])?;
    number_of(rest)
}

fn push_padded(value: u32, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{value:0width$}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Marks, date, number};
    use crate::dialect::DateOrder::{self, Dmy, Mdy, Utc, Ymd};

    #[test]
    fn numbers_lose_their_marks() {
        let german = Marks { decimal: b',', thousands: b".".to_vec() };
        let swiss = Marks { decimal: b'.', thousands: b"'".to_vec() };
        let bare = Marks { decimal: b',', thousands: Vec::new() };
        for (text, marks, expected) in [
            ("1.234,56", &german, "1234.56"),
            ("-1.234.567", &german, "-1234567"),
            (" +12,5 ", &german, "12.5"),
            (",5", &german, "0.5"),
            ("5,", &german, "5"),
            ("1,5e-3", &german, "1.5e-3"),
            ("1234,5", &german, "1234.5"),
            // By the usual marks these are other numbers.
            ("1.5", &german, "1.5 (decimal mark?)"),
            ("1234.567", &german, "1234.567 (decimal mark?)"),
            ("1.5", &bare, "1.5 (decimal mark?)"),
            ("1'234.5", &swiss, "1234.5"),
            ("12'34", &swiss, "12'34"),
            ("n/a", &german, "n/a"),
            ("-", &german, "-"),
            ("1,2,3", &german, "1,2,3"),
        ] {
            let mut out = Vec::new();
            number(text.as_bytes(), marks, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn dates_become_iso() {
        for (text, order, expected) in [
            ("31.12.2023", Dmy, "2023-12-31"),
            ("1/2/2023", Dmy, "2023-02-01"),
            ("1/2/2023", Mdy, "2023-01-02"),
            ("2023/12/31", Ymd, "2023-12-31"),
            ("12/31/2023 1:05 PM", Mdy, "2023-12-31 13:05:00"),
            ("12/31/2023 12:00:01 AM", Mdy, "2023-12-31 00:00:01"),
            ("31-12-2023T23:59:58.125Z", Dmy, "2023-12-31T23:59:58.125Z"),
            ("29.02.2024 7:30", Dmy, "2024-02-29 07:30:00"),
            ("2023-12-31 10:30:00+00:00", Utc, "2023-12-31T10:30:00Z"),
            ("2023-12-31T10:30:00.250+0000", Utc, "2023-12-31T10:30:00.250Z"),
            ("2023-12-31 10:30 UTC", Utc, "2023-12-31T10:30:00Z"),
            ("2023-12-31T10:30:00Z", Utc, "2023-12-31T10:30:00Z"),
            ("2023-12-31 10:30:00+02:00", Utc, "2023-12-31 10:30:00+02:00"),
            ("2023-12-31 10:30:00", Utc, "2023-12-31 10:30:00"),
            ("2023-12-31 10:30:00+00:00", Ymd, "2023-12-31 10:30:00+00:00"),
            // What is no such date goes on as it is, and is refused there.
            ("29.02.2023", Dmy, "29.02.2023"),
            ("12/31/2023", Dmy, "12/31/2023"),
            ("31.12.23", Dmy, "31.12.23"),
            ("2023-12-31", Dmy, "2023-12-31"),
            ("31.12/2023", Dmy, "31.12/2023"),
            ("", Dmy, ""),
        ] {
            assert_eq!(rewritten(text, order), expected, "{text}");
        }
    }

    fn rewritten(text: &str, order: DateOrder) -> String {
        let mut out = Vec::new();
        date(text.as_bytes(), order, &mut out);
        String::from_utf8(out).unwrap()
    }
}
