//! Takes lines apart that no delimiter divides: fixed widths, logs of web servers, logfmt.

use std::borrow::Cow;

use crate::calendar::{civil, days};

/// A field, and whether it is a text also where it is empty.
pub type Field<'a> = (Cow<'a, [u8]>, bool);

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// Host, ident, user, time, method, path, protocol, status, bytes; then referer and agent.
const COMMON: usize = 9;

/// How the fields of a line are told.
#[derive(Debug, Clone)]
pub enum LineForm {
    /// Characters of each field; the last one may be shorter.
    Widths(Vec<usize>),
    /// The access log of nginx and Apache; with referer and agent, or without.
    Access {
        /// With them.
        combined: bool,
        /// Fields behind them, quoted or not, as nginx has `"$http_x_forwarded_for"`.
        more: usize,
    },
    /// `key=value`, by the keys that become columns.
    Logfmt(Vec<Vec<u8>>),
}

impl LineForm {
    /// The form that a dialect names; None for text with delimiters.
    pub fn of(words: &[String]) -> Result<Option<LineForm>, String> {
        let Some((name, rest)) = words.split_first() else { return Ok(None) };
        Ok(Some(match name.as_str() {
            "widths" => {
                let widths: Result<Vec<usize>, _> = rest.iter().map(|w| w.parse()).collect();
                let widths = widths.map_err(|_| "widths are numbers".to_owned())?;
                if widths.is_empty() || widths.contains(&0) {
                    return Err("widths are numbers above 0".into());
                }
                LineForm::Widths(widths)
            }
            "common" if rest.is_empty() => LineForm::Access { combined: false, more: 0 },
            "combined" => LineForm::Access { combined: true, more: rest.len() },
            "logfmt" if !rest.is_empty() => {
                LineForm::Logfmt(rest.iter().map(|k| k.clone().into_bytes()).collect())
            }
            _ => return Err(format!("the form of lines {name} is not known")),
        }))
    }

    /// Fields of a line.
    pub fn width(&self) -> usize {
        match self {
            LineForm::Widths(widths) => widths.len(),
            LineForm::Access { combined, more } => COMMON + 2 * usize::from(*combined) + more,
            LineForm::Logfmt(keys) => keys.len(),
        }
    }

    /// The fields of a line without its end; None for a line that is none of this form.
    ///
    /// `fill`: a line may end before its last field.
    pub fn split<'a>(&self, line: &'a [u8], fill: bool) -> Option<Vec<Field<'a>>> {
        match self {
            LineForm::Widths(widths) => by_widths(line, widths, fill),
            LineForm::Access { combined, more } => access(line, *combined, *more),
            LineForm::Logfmt(keys) => logfmt(line, keys),
        }
    }
}

fn by_widths<'a>(line: &'a [u8], widths: &[usize], fill: bool) -> Option<Vec<Field<'a>>> {
    let mut fields = Vec::with_capacity(widths.len());
    let mut rest = line;
    for &width in widths {
        // An empty line has been left out, so what is missing here was cut off.
        if rest.is_empty() && !fill {
            return None;
        }
        let end = rest
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte & 0xC0 != 0x80)
            .nth(width)
            .map_or(rest.len(), |(at, _)| at);
        fields.push((Cow::Borrowed(rest[..end].trim_ascii()), false));
        rest = &rest[end..];
    }
    rest.trim_ascii().is_empty().then_some(fields)
}

fn access(line: &[u8], combined: bool, more: usize) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::with_capacity(COMMON + 2 + more);
    let mut rest = line;
    for _ in 0..3 {
        fields.push(known(Cow::Borrowed(word(&mut rest)?)));
    }
    rest = rest.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest)?;
    fields.push((Cow::Owned(moment(&rest[..end])?), false));
    rest = rest[end + 1..].strip_prefix(b" ")?;
    let request = quoted(&mut rest)?;
    let (method, path, protocol) = parts_of(&request);
    for part in [method, path, protocol] {
        fields.push(known(Cow::Owned(part)));
    }
    rest = rest.strip_prefix(b" ")?;
    let status = word(&mut rest)?;
    if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
        return None;
    }
    fields.push((Cow::Borrowed(status), false));
    let last = if combined { word(&mut rest)? } else { std::mem::take(&mut rest).trim_ascii_end() };
    if last != b"-" && (last.is_empty() || !last.iter().all(u8::is_ascii_digit)) {
        return None;
    }
    fields.push(known(Cow::Borrowed(last)));
    if combined {
        fields.push(known(quoted(&mut rest)?));
        rest = rest.strip_prefix(b" ")?;
        fields.push(known(quoted(&mut rest)?));
    }
    for _ in 0..more {
        rest = rest.strip_prefix(b" ")?;
        fields.push(known(match rest.first()? {
            b'"' => quoted(&mut rest)?,
            _ => {
                let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
                let found = rest[..end].trim_ascii_end();
                rest = &rest[end..];
                if found.is_empty() {
                    return None;
                }
                Cow::Borrowed(found)
            }
        }));
    }
    rest.trim_ascii().is_empty().then_some(fields)
}

/// What a log has in place of a value it does not know is NULL.
fn known(value: Cow<'_, [u8]>) -> Field<'_> {
    if value.as_ref() == b"-" || value.is_empty() {
        return (Cow::Borrowed(b""), false);
    }
    (value, false)
}

/// The letters up to the next blank, which is taken, too.
fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b' ', rest)?;
    let found = &rest[..end];
    *rest = &rest[end + 1..];
    (!found.is_empty()).then_some(found)
}

/// A value in quotes; nginx writes those in it as `\x22`, Apache behind a backslash.
fn quoted<'a>(rest: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let text = rest.strip_prefix(b"\"")?;
    let mut at = 0;
    let mut value: Option<Vec<u8>> = None;
    let mut from = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &text[at..])?;
        if text[at] == b'"' {
            break;
        }
        if matches!(text.get(at + 1), Some(b'"' | b'\\')) {
            let value = value.get_or_insert_default();
            value.extend_from_slice(&text[from..at]);
            from = at + 1;
        }
        at += 2;
        if at > text.len() {
            return None;
        }
    }
    *rest = &text[at + 1..];
    Some(match value {
        None => Cow::Borrowed(&text[..at]),
        Some(mut value) => {
            value.extend_from_slice(&text[from..at]);
            Cow::Owned(value)
        }
    })
}

/// Method, path and protocol of a request; what is no request is a path.
fn parts_of(request: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let whole = || (Vec::new(), request.to_vec(), Vec::new());
    let Some(first) = memchr::memchr(b' ', request) else { return whole() };
    let method = &request[..first];
    if method.is_empty() || !method.iter().all(|c| c.is_ascii_uppercase() || *c == b'-') {
        return whole();
    }
    let rest = &request[first + 1..];
    match memchr::memrchr(b' ', rest) {
        Some(last) if rest[last + 1..].starts_with(b"HTTP/") => {
            (method.to_vec(), rest[..last].to_vec(), rest[last + 1..].to_vec())
        }
        _ => (method.to_vec(), rest.to_vec(), Vec::new()),
    }
}

/// `10/Oct/2000:13:55:36 -0700` as `2000-10-10T20:55:36Z`.
fn moment(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() != 26 {
        return None;
    }
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = &text[from..to];
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |n, c| n * 10 + u32::from(c - b'0')))
    };
    let month = 1 + MONTHS.iter().position(|m| *m == &text[3..6])? as u32;
    let day = days(number(7, 11)?, month, number(0, 2)?)?;
    let (hour, minute, second) = (number(12, 14)?, number(15, 17)?, number(18, 20)?);
    let (hours, minutes) = (number(22, 24)?, number(24, 26)?);
    if hour > 23 || minute > 59 || second > 59 || minutes > 59 {
        return None;
    }
    let ahead = match text[21] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let local = i64::from(day) * 1440 + i64::from(hour * 60 + minute);
    let utc = local - ahead * i64::from(hours * 60 + minutes);
    let (year, month, day) = civil(utc.div_euclid(1440) as i32);
    let (hour, minute) = (utc.rem_euclid(1440) / 60, utc.rem_euclid(60));
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z").into_bytes())
}

fn logfmt<'a>(line: &'a [u8], keys: &[Vec<u8>]) -> Option<Vec<Field<'a>>> {
    let mut fields: Vec<Field<'a>> = vec![(Cow::Borrowed(b""), false); keys.len()];
    let mut seen = vec![false; keys.len()];
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        let end = rest.iter().position(|c| matches!(c, b'=' | b' ' | b'\t')).unwrap_or(rest.len());
        let place = keys.iter().position(|key| key == &rest[..end])?;
        if std::mem::replace(&mut seen[place], true) {
            return None;
        }
        let value = rest.get(end) == Some(&b'=');
        rest = &rest[end + usize::from(value)..];
        fields[place] = if !value {
            (Cow::Borrowed(b"true".as_slice()), true)
        } else if rest.first() == Some(&b'"') {
            (escaped(&mut rest)?, true)
        } else {
            let end = rest.iter().position(|c| matches!(c, b' ' | b'\t')).unwrap_or(rest.len());
            let found = &rest[..end];
            rest = &rest[end..];
            if found.contains(&b'"') {
                return None;
            }
            (Cow::Borrowed(found), true)
        };
        if !rest.is_empty() && !matches!(rest[0], b' ' | b'\t') {
            return None;
        }
        rest = rest.trim_ascii_start();
    }
    seen.contains(&true).then_some(fields)
}

/// A value in quotes with the escapes of Go.
fn escaped<'a>(rest: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let text = rest.strip_prefix(b"\"")?;
    let first = memchr::memchr2(b'"', b'\\', text)?;
    if text[first] == b'"' {
        *rest = &text[first + 1..];
        return Some(Cow::Borrowed(&text[..first]));
    }
    let mut value = text[..first].to_vec();
    let mut at = first;
    loop {
        match *text.get(at)? {
            b'"' => break,
            b'\\' => {
                value.push(match *text.get(at + 1)? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other @ (b'"' | b'\\' | b'/') => other,
                    _ => return None,
                });
                at += 2;
            }
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
    *rest = &text[at + 1..];
    Some(Cow::Owned(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(form: &[&str], line: &str) -> Option<Vec<String>> {
        let words: Vec<String> = form.iter().map(|w| (*w).to_owned()).collect();
        let form = LineForm::of(&words).unwrap().unwrap();
        let fields = form.split(line.as_bytes(), false)?;
        assert_eq!(fields.len(), form.width());
        Some(fields.into_iter().map(|(f, _)| String::from_utf8(f.into_owned()).unwrap()).collect())
    }

    fn fields(of: &[&str]) -> Option<Vec<String>> {
        Some(of.iter().map(|f| (*f).to_owned()).collect())
    }

    #[test]
    fn lines_of_access_logs() {
        let line =
            r#"10.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /a b?q=1 HTTP/1.1" 200 2326"#;
        let common = [
            "10.0.0.1",
            "",
            "ann",
            "2000-10-10T20:55:36Z",
            "GET",
            "/a b?q=1",
            "HTTP/1.1",
            "200",
            "2326",
        ];
        assert_eq!(split(&["common"], line), fields(&common));
        assert_eq!(split(&["combined"], line), None);
        let more = format!(r#"{line} "http://x/\"y\"" "Mozilla \x22""#);
        let combined = [&common[..], &["http://x/\"y\"", "Mozilla \\x22"]].concat();
        assert_eq!(split(&["combined"], &more), fields(&combined));
        assert_eq!(split(&["common"], &more), None);
        let behind = ["combined", "x_forwarded_for", "field_13"];
        let longer = [&combined[..], &["10.0.0.2, 10.0.0.3", "0.25"]].concat();
        let tail = r#" "10.0.0.2, 10.0.0.3" 0.25"#;
        assert_eq!(split(&behind, &format!("{more}{tail}")), fields(&longer));
        for tail in ["", " \"-\"", " \"-\" ", " - - -", " \"open 0.25", "\"-\" 1"] {
            assert_eq!(split(&behind, &format!("{more}{tail}")), None, "{tail}");
        }
        for (old, new) in [
            ("10/Oct", "31/Sep"),
            ("10/Oct", "10/Okt"),
            (" 200 ", " 2xx "),
            ("2326", "x"),
            ("13:55", "25:55"),
            ("[", ""),
            ("-0700", "0700 "),
            (" \"GET", "\"GET"),
        ] {
            assert_eq!(split(&["common"], &line.replace(old, new)), None, "{new}");
        }
        let odd = r#"::1 - - [01/Jan/2024:00:30:00 +0100] "\x16\x03" 400 -"#;
        let found = split(&["common"], odd).unwrap();
        assert_eq!(found[3..], ["2023-12-31T23:30:00Z", "", r"\x16\x03", "", "400", ""]);
        assert!(split(&["common"], r#"h - - [29/Feb/2024:00:00:00 +0000] "-" 408 0"#).is_some());
        assert!(split(&["common"], r#"h - - [29/Feb/2023:00:00:00 +0000] "-" 408 0"#).is_none());
    }

    #[test]
    fn lines_of_fixed_widths() {
        let widths = ["widths", "3", "5", "2"];
        assert_eq!(split(&widths, " 1 Zoë  xy"), fields(&["1", "Zoë", "xy"]));
        assert_eq!(split(&widths, "123abcdex  "), fields(&["123", "abcde", "x"]));
        for line in ["123abcde", "123abcdexyz", "12"] {
            assert_eq!(split(&widths, line), None, "{line}");
        }
    }

    #[test]
    fn lines_of_logfmt() {
        let keys = ["logfmt", "level", "msg", "ok"];
        assert_eq!(
            split(&keys, r#"msg="a \"b\"\n" level=info ok"#),
            fields(&["info", "a \"b\"\n", "true"])
        );
        assert_eq!(split(&keys, "level="), fields(&["", "", ""]));
        for line in ["level=info level=x", "other=1", "level=a\"b", "msg=\"open", "msg=\"a\"b"] {
            assert_eq!(split(&keys, line), None, "{line}");
        }
    }
}
