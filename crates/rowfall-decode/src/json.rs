//! JSONEachRow: one object a line, its keys expected in the order of the line before.

use std::collections::HashMap;

use crate::block::{self, Bad, Sorting};
use crate::cells::{self, Cells, Column, Null, Page, Style};
use crate::types::{self, load8};

/// Where values stand: start and end, quotes included; `(0, 0)` where the key is missing.
pub type Span = (u32, u32);

/// What is known about the keys, kept from line to line.
pub struct Keys {
    /// `"name":` of each column; None where JSON writes the name with escapes.
    names: Vec<Option<Vec<u8>>>,
    numbers: HashMap<Vec<u8>, usize>,
    nullable: Vec<bool>,
    /// Columns in the order of the last line.
    order: Vec<usize>,
    skip_unknown: bool,
}

/// Spans of all columns of the rows of a chunk.
#[derive(Default)]
pub struct Rows {
    pub spans: Vec<Span>,
    pub count: usize,
    /// Where the first row that was not taken starts.
    pub end: usize,
    pub escapes: bool,
}

/// Why a line is declined, where, and of which column.
#[derive(Debug)]
pub struct Wrong {
    pub at: usize,
    pub end: usize,
    pub column: Option<usize>,
    pub message: &'static str,
}

type Found<T> = Result<T, Wrong>;

impl Keys {
    pub fn new(names: &[String], nullable: Vec<bool>, skip_unknown: bool) -> Keys {
        let bytes = |name: &String| name.as_bytes().to_vec();
        Keys {
            names: names.iter().map(plain_key).collect(),
            numbers: names.iter().enumerate().map(|(n, name)| (bytes(name), n)).collect(),
            nullable,
            order: (0..names.len()).collect(),
            skip_unknown,
        }
    }

    /// Find the values of whole lines of `text[from..to]`, up to the first line that is declined.
    /// 64 bytes follow `to`, and the byte before it is a line end.
    pub fn rows(&mut self, text: &[u8], (from, to): (usize, usize), out: &mut Rows) -> Found<()> {
        assert!(to + 64 <= text.len() && from <= to);
        let width = self.names.len();
        out.spans.clear();
        (out.count, out.end, out.escapes) = (0, from, false);
        while out.end < to {
            let first = out.count * width;
            out.spans.resize(first + width, (0, 0));
            let (spans, escapes) = (&mut out.spans[first..], &mut out.escapes);
            match self.line(text, out.end, spans, escapes) {
                Ok(next) => out.end = next,
                Err(wrong) => {
                    out.spans.truncate(first);
                    return Err(wrong);
                }
            }
            out.count += 1;
        }
        Ok(())
    }

    /// One object and its line end; the start of the next line.
    fn line(
        &mut self,
        text: &[u8],
        at: usize,
        spans: &mut [Span],
        escapes: &mut bool,
    ) -> Found<usize> {
        let mut place = blanks(text, expect(text, blanks(text, at), b'{', "an object")?);
        let mut number = 0;
        if text[place] == b'}' {
            place += 1;
        } else {
            loop {
                let (column, after) = self.key(text, place, number)?;
                let start = blanks(text, after);
                let end = value(text, start, escapes)?;
                if let Some(column) = column {
                    if spans[column] != (0, 0) {
                        return Err(wrong(place, after, "a key that the line has twice"));
                    }
                    spans[column] = (start as u32, end as u32);
                } else if !sound(&text[start..end]) {
                    return Err(wrong(start, end, "not surely a value"));
                }
                number += 1;
                place = blanks(text, end);
                match text[place] {
                    b',' => place = blanks(text, place + 1),
                    b'}' => break,
                    _ => return Err(wrong(start, place + 1, "no comma or brace behind a value")),
                }
            }
            place += 1;
        }
        if number < spans.len() || self.order.len() != spans.len() {
            self.missing(at, spans)?;
        }
        place = blanks(text, place);
        place += usize::from(text[place] == b'\r');
        expect(text, place, b'\n', "the end of the line")
    }

    fn missing(&self, at: usize, spans: &[Span]) -> Found<()> {
        let lacks = |n: &usize| spans[*n] == (0, 0) && !self.nullable[*n];
        match (0..spans.len()).find(lacks) {
            None => Ok(()),
            column => Err(Wrong { at, end: at, column, message: "the line lacks this key" }),
        }
    }

    /// The column of a key and where its colon ends; None for a key that nobody wants.
    #[inline(always)]
    fn key(&mut self, text: &[u8], at: usize, number: usize) -> Found<(Option<usize>, usize)> {
        if let Some(&column) = self.order.get(number)
            && let Some(Some(name)) = self.names.get(column)
            && same(text, at, name)
        {
            return Ok((Some(column), at + name.len()));
        }
        let (column, after) = self.new_key(text, at, number)?;
        Ok((column, expect(text, blanks(text, after), b':', "a colon")?))
    }

    #[inline(never)]
    fn new_key(&mut self, text: &[u8], at: usize, number: usize) -> Found<(Option<usize>, usize)> {
        let mut escaped = false;
        expect(text, at, b'"', "a key")?;
        let end = string(text, at, &mut escaped)?;
        if escaped {
            return Err(wrong(at, end, "a key with escapes"));
        }
        let column = self.numbers.get(&text[at + 1..end - 1]).copied();
        if column.is_none() && !self.skip_unknown {
            return Err(wrong(at, end, "a key that the table lacks"));
        }
        self.order.resize(self.order.len().max(number + 1), usize::MAX);
        self.order[number] = column.unwrap_or(usize::MAX);
        Ok((column, end))
    }
}

fn plain_key(name: &String) -> Option<Vec<u8>> {
    let plain = name.bytes().all(|c| c >= 0x20 && !matches!(c, b'"' | b'\\'));
    plain.then(|| [b"\"", name.as_bytes(), b"\":"].concat())
}

fn wrong(at: usize, end: usize, message: &'static str) -> Wrong {
    Wrong { at, end, column: None, message }
}

#[inline(always)]
fn blanks(text: &[u8], mut at: usize) -> usize {
    // Most values have none before or behind them.
    while text[at] <= b' ' && matches!(text[at], b' ' | b'\t') {
        at += 1;
    }
    at
}

#[inline(always)]
fn expect(text: &[u8], at: usize, byte: u8, what: &'static str) -> Found<usize> {
    if text[at] == byte { Ok(at + 1) } else { Err(wrong(at, at + 20, what)) }
}

/// Whether `name` stands at `at`: eight bytes at once, as keys are short.
#[inline(always)]
fn same(text: &[u8], at: usize, name: &[u8]) -> bool {
    if name.len() > 64 {
        return text[at..].starts_with(name);
    }
    if name.len() < 8 {
        return text[at..at + name.len()] == *name;
    }
    let last = name.len() - 8;
    let mut done = 0;
    while done < last {
        if load8(text, at + done) != load8(name, done) {
            return false;
        }
        done += 8;
    }
    load8(text, at + last) == load8(name, last)
}

/// The end of the value at `at`. Bare ones are checked to be words or numbers by their look only:
/// the types' parsers take nothing else.
#[inline(always)]
pub fn value(text: &[u8], at: usize, escapes: &mut bool) -> Found<usize> {
    if text[at] == b'"' {
        return string(text, at, escapes);
    }
    if matches!(text[at], b'[' | b'{') {
        return nested(text, at, escapes);
    }
    let end = bare(text, at);
    // A number starts with a digit or a minus, and with a zero only before a point or at its end.
    let digits = &text[at + usize::from(text[at] == b'-')..end];
    let fine = match digits {
        [b'0', b'0'..=b'9', ..] => false,
        [b'0'..=b'9', ..] => true,
        _ => matches!(&text[at..end], b"true" | b"false" | b"null"),
    };
    if fine { Ok(end) } else { Err(wrong(at, end.max(at + 1), "not surely a value")) }
}

/// The end of the array or object at `at`, by its brackets only: [`crate::nested`] looks at the rest.
fn nested(text: &[u8], at: usize, escapes: &mut bool) -> Found<usize> {
    let (mut place, mut depth) = (at, 0);
    loop {
        match text[place] {
            b'"' => {
                place = string(text, place, escapes)?;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            0..0x20 => {
                return Err(wrong(at, place, "a line break or control character in a value"));
            }
            _ => {}
        }
        place += 1;
        if depth == 0 {
            return Ok(place);
        }
    }
}

/// Whether a value that nobody parses is a string, a word or a number.
fn sound(value: &[u8]) -> bool {
    match value {
        [b'"', ..] | b"true" | b"false" | b"null" => true,
        _ => types::is_number(value),
    }
}

/// The end of the string whose opening quote is at `at`.
#[inline(always)]
fn string(text: &[u8], at: usize, escapes: &mut bool) -> Found<usize> {
    let mut place = at + 1;
    loop {
        place = special(text, place);
        match text[place] {
            b'"' => return Ok(place + 1),
            b'\\' => {
                *escapes = true;
                if text[place + 1] < 0x20 {
                    return Err(wrong(at, place + 1, "a control character in a string"));
                }
                place += 2;
            }
            _ => return Err(wrong(at, place, "a line break or control character in a string")),
        }
        if place + 64 > text.len() {
            return Err(wrong(at, at + 1, "a string that never ends"));
        }
    }
}

/// The first quote, backslash or control character from `at` on; the text ends with a line end.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn special(text: &[u8], mut at: usize) -> usize {
    use std::arch::x86_64::*;
    loop {
        if at + 16 > text.len() {
            return text.len() - 1;
        }
        // SAFETY: 16 bytes are readable at `at`, and every x86-64 CPU has SSE2.
        let mask = unsafe {
            let bytes = _mm_loadu_si128(text.as_ptr().add(at).cast());
            let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
            let slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control))
        };
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
    }
}

#[cfg(not(target_arch = "x86_64"))]
use special_portable as special;

/// The first byte from `at` on that is of no number and no word; the text ends with a line end.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bare(text: &[u8], mut at: usize) -> usize {
    use std::arch::x86_64::*;
    loop {
        if at + 16 > text.len() {
            return bare_portable(text, at);
        }
        // SAFETY: 16 bytes are readable at `at`, and every x86-64 CPU has SSE2.
        let mask = unsafe {
            let bytes = _mm_loadu_si128(text.as_ptr().add(at).cast());
            let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            let range = |first: u8, more: i8| {
                let from = _mm_sub_epi8(bytes, _mm_set1_epi8(first as i8));
                _mm_cmpeq_epi8(_mm_min_epu8(from, _mm_set1_epi8(more)), from)
            };
            // From + to . there is the comma, too.
            let marks = _mm_andnot_si128(is(b','), range(b'+', 3));
            let words = _mm_or_si128(range(b'a', 25), is(b'E'));
            let all = _mm_or_si128(_mm_or_si128(range(b'0', 9), marks), words);
            !_mm_movemask_epi8(all) & 0xffff
        };
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
    }
}

#[cfg(not(target_arch = "x86_64"))]
use bare_portable as bare;

/// The same by one byte at a time.
pub fn bare_portable(text: &[u8], at: usize) -> usize {
    let of = |c: &u8| matches!(c, b'0'..=b'9' | b'-' | b'+' | b'.' | b'a'..=b'z' | b'E');
    at + text[at..].iter().take_while(|c| of(c)).count()
}

/// The same by one byte at a time.
pub fn special_portable(text: &[u8], at: usize) -> usize {
    let stop = text[at..].iter().position(|c| matches!(c, b'"' | b'\\' | 0..0x20));
    stop.map_or(text.len() - 1, |n| at + n)
}

/// Undo the escapes of a string's content; None for one that is not surely understood.
pub fn unescape(content: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = content;
    while let Some(at) = rest.iter().position(|c| *c == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let byte = match rest.get(at + 1)? {
            c @ (b'"' | b'\\' | b'/') => *c,
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => {
                let (letter, used) = unicode(&rest[at..])?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[at + used..];
                continue;
            }
            _ => return None,
        };
        out.push(byte);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Some(())
}

/// `\u0041`, or a pair of surrogates; the character and the bytes it takes.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at + 2..at + 6).filter(|d| d.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = if text.get(6..8)? == b"\\u" { unit(6)? } else { return None };
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

/// Append `count` rows from row `first` on to the columns, or say which value is the first bad one.
pub fn decode(
    columns: &mut [Column],
    rows: &Rows,
    text: &[u8],
    rules: &cells::Rules,
    (first, count): (usize, usize),
    sorting: &mut Sorting,
) -> Result<(), Bad> {
    let width = columns.len();
    let page =
        Page { text, rows: count, width, order: &[], escapes: rows.escapes, broken: false, rules };
    let spans = &rows.spans[first * width..(first + count) * width];
    block::decode(columns, &mut Objects { page, spans, column: 0 }, sorting)
}

/// The values of one column.
struct Objects<'a> {
    page: Page<'a>,
    spans: &'a [Span],
    column: usize,
}

impl<'a> Cells<'a> for Objects<'a> {
    const STYLE: Style = Style::Json;

    #[inline(always)]
    fn page(&self) -> &Page<'a> {
        &self.page
    }

    fn page_mut(&mut self) -> &mut Page<'a> {
        &mut self.page
    }

    fn choose(&mut self, column: usize) {
        self.column = column;
    }

    #[inline(always)]
    fn get(&self, number: usize) -> (usize, usize) {
        let (start, end) = self.spans[self.page.row(number) * self.page.width + self.column];
        (start as usize, end as usize)
    }

    #[inline(always)]
    fn unquote(&self, from: usize, to: usize) -> (usize, usize) {
        // A missing value is at 0, where no text ever is.
        let quoted = usize::from(self.page.text[from] == b'"' && from > 0);
        (from + quoted, to - quoted)
    }

    fn null(&self, from: usize, to: usize) -> Null {
        let missing = from == 0 || &self.page.text[from..to] == b"null";
        if missing { Null::Yes } else { Null::No }
    }

    fn span(&self) -> usize {
        let mine = self.spans.iter().skip(self.column).step_by(self.page.width);
        mine.map(|s| (s.1 - s.0) as usize).sum()
    }
}
