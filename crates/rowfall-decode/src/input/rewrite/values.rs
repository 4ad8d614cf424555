//! Rewrites numbers with other marks and dates of another order.

use crate::calendar::days;
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

/// What follows a number without the unit that all others of its field have.
const WITHOUT_UNIT: &[u8] = b" (unit?)";

/// Append a number with a unit beside it, in brackets or with a minus behind it where it is
/// negative, as `-1234.56`; anything else as it is.
///
/// Without its unit it may be another number, as 0.5 is among percentages: it is marked.
pub fn amount(text: &[u8], unit: &[u8], marks: &Marks, out: &mut Vec<u8>) {
    let start = out.len();
    if plain_amount(without_blanks(text), unit, marks, out).is_some() {
        return;
    }
    out.truncate(start);
    out.extend_from_slice(text);
    let bare = text.trim_ascii();
    let digits = bare.iter().any(u8::is_ascii_digit);
    if digits && bare.iter().all(|c| b"0123456789+-.eE".contains(c)) {
        out.extend_from_slice(WITHOUT_UNIT);
    }
}

fn plain_amount(mut rest: &[u8], unit: &[u8], marks: &Marks, out: &mut Vec<u8>) -> Option<()> {
    let mut signs = 0;
    let mut units = 0;
    if let Some(inner) = rest.strip_prefix(b"(") {
        rest = without_blanks(inner.strip_suffix(b")")?);
        signs += 1;
    }
    // A sign may stand on either side of a currency: -$5, $-5, 5- €, 5 €-.
    for _ in 0..2 {
        if let Some(behind) = rest.strip_prefix(b"-") {
            (rest, signs) = (without_blanks(behind), signs + 1);
        }
        if let Some(before) = rest.strip_suffix(b"-") {
            (rest, signs) = (without_blanks(before), signs + 1);
        }
        if units == 0 && !unit.is_empty() {
            let bare = rest.strip_prefix(unit).or_else(|| rest.strip_suffix(unit));
            if let Some(bare) = bare {
                (rest, units) = (without_blanks(bare), 1);
            }
        }
    }
    if signs > 1 || (units == 0 && !unit.is_empty()) || !rest.first()?.is_ascii_digit() {
        return None;
    }
    if signs == 1 {
        out.push(b'-');
    }
    plain_number(rest, marks, out)
}

/// A text without blanks at its ends, among them those that keep words together.
fn without_blanks(text: &[u8]) -> &[u8] {
    const BLANKS: [&[u8]; 4] = [b" ", b"\t", "\u{a0}".as_bytes(), "\u{202f}".as_bytes()];
    let mut rest = text;
    while let Some(bare) = BLANKS
        .iter()
        .find_map(|blank| rest.strip_prefix(*blank).or_else(|| rest.strip_suffix(*blank)))
    {
        rest = bare;
    }
    rest
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
    if matches!(order, DateOrder::Named) {
        named_date(&mut rest, out)?;
        let Some(mark) = rest.first() else { return Some(()) };
        rest = match (mark, rest.get(1)) {
            (b',', Some(b' ')) => &rest[2..],
            (b' ' | b'T' | b':', _) => &rest[1..],
            _ => return None,
        };
        out.push(b' ');
        let zone = time(rest, out)?;
        out.extend_from_slice(zone);
        return Some(());
    }
    let (first, width) = number_of(&mut rest)?;
    let mark = *rest.first()?;
    if !matches!(mark, b'/' | b'.' | b'-') {
        return None;
    }
    let (second, _) = number_behind(mark, &mut rest)?;
    let (third, last) = number_behind(mark, &mut rest)?;
    let (year, month, day, digits) = match order {
        DateOrder::Dmy | DateOrder::Dmy2 => (third, second, first, last),
        DateOrder::Mdy | DateOrder::Mdy2 => (third, first, second, last),
        _ => (first, second, third, width),
    };
    let short = matches!(order, DateOrder::Dmy2 | DateOrder::Mdy2);
    // Two digits may mean 1923 or 2023: whoever reads dates refuses them.
    if digits != if short { 2 } else { 4 } {
        return None;
    }
    let year = if short { year_of(year)? } else { year };
    days(year, month, day)?;
    push_date(year, month, day, out);
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

fn push_date(year: u32, month: u32, day: u32, out: &mut Vec<u8>) {
    push_padded(year, 4, out);
    out.push(b'-');
    push_padded(month, 2, out);
    out.push(b'-');
    push_padded(day, 2, out);
}

/// The year that two digits mean to everyone: where those who guess do not agree it is none.
fn year_of(two: u32) -> Option<u32> {
    match two {
        0..30 => Some(2000 + two),
        70..100 => Some(1900 + two),
        _ => None,
    }
}

const MONTHS: [&[u8]; 12] = [
    b"january",
    b"february",
    b"march",
    b"april",
    b"may",
    b"june",
    b"july",
    b"august",
    b"september",
    b"october",
    b"november",
    b"december",
];

/// Append the date with the name of a month in front of `rest`, which is cut.
fn named_date(rest: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (month, (day, width), (year, digits));
    if rest.first()?.is_ascii_digit() {
        (day, width) = number_of(rest)?;
        skip_marks(rest);
        month = month_of(rest)?;
        skip_marks(rest);
        (year, digits) = number_of(rest)?;
    } else {
        month = month_of(rest)?;
        skip_marks(rest);
        (day, width) = number_of(rest)?;
        skip_marks(rest);
        (year, digits) = number_of(rest)?;
        if digits != 4 {
            return None;
        }
    }
    let year = match digits {
        4 => year,
        2 => year_of(year)?,
        _ => return None,
    };
    if width > 2 {
        return None;
    }
    days(year, month, day)?;
    push_date(year, month, day, out);
    Some(())
}

/// The number of a month with the name that stands in front of `rest`, or its first three letters.
fn month_of(rest: &mut &[u8]) -> Option<u32> {
    let count = rest.iter().take_while(|c| c.is_ascii_alphabetic()).count();
    let name = rest[..count].to_ascii_lowercase();
    *rest = &rest[count..];
    let is = |month: &&[u8]| name == **month || (count == 3 && month.starts_with(&name));
    Some(MONTHS.iter().position(is)? as u32 + 1)
}

/// Skip what stands between the parts of a date: one mark, or one and a blank, or nothing.
fn skip_marks(rest: &mut &[u8]) {
    if let Some(b'-' | b'/' | b'.' | b',') = rest.first() {
        *rest = &rest[1..];
    }
    if rest.first() == Some(&b' ') {
        *rest = &rest[1..];
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
    // Newer programs write a narrow blank in front of AM and PM.
    let half = rest.strip_prefix("\u{202f}".as_bytes()).unwrap_or(rest.trim_ascii_start());
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
    use super::{Marks, amount, date, number};
    use crate::dialect::DateOrder::{self, Dmy, Dmy2, Mdy, Mdy2, Named, Utc, Ymd};

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
    fn amounts_lose_their_units() {
        let german = Marks { decimal: b',', thousands: b".".to_vec() };
        let english = Marks { decimal: b'.', thousands: b",".to_vec() };
        for (text, unit, marks, expected) in [
            ("$1,250.00", "$", &english, "1250.00"),
            ("-$48.19", "$", &english, "-48.19"),
            ("$-48.19", "$", &english, "-48.19"),
            ("($48.19)", "$", &english, "-48.19"),
            (" $ 20,989.50 ", "$", &english, "20989.50"),
            ("12.5%", "%", &english, "12.5"),
            ("-1.234,56 €", "€", &german, "-1234.56"),
            ("1.234,56\u{a0}€", "€", &german, "1234.56"),
            ("1.234,56-", "", &german, "-1234.56"),
            ("5,00- EUR", "EUR", &german, "-5.00"),
            ("(7)", "", &english, "-7"),
            ("7", "", &english, "7"),
            // Neither is a number: whoever reads numbers refuses them.
            ("0.5", "%", &english, "0.5 (unit?)"),
            ("-3", "$", &english, "-3 (unit?)"),
            ("€ 5", "$", &english, "€ 5"),
            ("$$5", "$", &english, "$$5"),
            ("--5", "", &english, "--5 (unit?)"),
            ("(-5)", "", &english, "(-5)"),
            ("(5", "", &english, "(5"),
            ("$", "$", &english, "$"),
            ("-", "", &english, "-"),
            ("", "%", &english, ""),
        ] {
            let mut out = Vec::new();
            amount(text.as_bytes(), unit.as_bytes(), marks, &mut out);
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
            ("31.12.23", Dmy2, "2023-12-31"),
            ("1/2/99 1:05 PM", Mdy2, "1999-01-02 13:05:00"),
            ("31.12.45", Dmy2, "31.12.45"),
            ("31.12.2023", Dmy2, "31.12.2023"),
            ("05JAN2024", Named, "2024-01-05"),
            ("05JAN2024:10:30:00", Named, "2024-01-05 10:30:00"),
            ("5-Jan-09", Named, "2009-01-05"),
            ("28/Jun/24 9:05 AM", Named, "2024-06-28 09:05:00"),
            ("17 March 2023", Named, "2023-03-17"),
            ("Mar 14, 2024, 12:00:00 PM", Named, "2024-03-14 12:00:00"),
            ("Mar 14, 2024, 1:00:00\u{202f}PM", Named, "2024-03-14 13:00:00"),
            ("Marc 14, 2024", Named, "Marc 14, 2024"),
            ("31 Jun 2024", Named, "31 Jun 2024"),
            ("5-Jan-45", Named, "5-Jan-45"),
            ("Jan 5 24", Named, "Jan 5 24"),
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
