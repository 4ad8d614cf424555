//! Reads JSON objects, one a line: finds the value of each column by its key. Keys are expected in
//! the order of the line before.

use std::collections::HashMap;

use crate::simd::Simd;
use crate::text::fields::Span;
#[cfg(target_arch = "x86_64")]
use crate::text::json::byte_search::x86::Avx2;
use crate::text::json::byte_search::{Baseline, ByteSearch, find_line_end};
use crate::text::json::value::{
    JsonError, JsonResult, expect_byte, is_scalar, json_error, skip_blanks, string_end,
    value_end_with,
};

/// Finds the values of objects; what is known about the keys is kept from line to line.
pub struct ObjectReader {
    numbers: HashMap<Vec<u8>, usize>,
    nullable: Vec<bool>,
    /// The text before each value, as the last lines had it.
    before: Vec<KeyText>,
    skip_unknown: bool,
    /// How many lines to read one by one, as two at once were not alike.
    one_by_one: u32,
}

/// Lines that are read one by one after two that were not alike: where no two are, trying it costs
/// a sixteenth of a line.
const ONE_BY_ONE: u32 = 32;

/// Values of as many rows as are found at once: lines of `{}` with 1,000 columns, all of them left
/// out, would take 4,000 times the memory of their text. 16 MiB, more than a chunk of usual text has.
const MAX_SPANS: usize = (16 << 20) / size_of::<Span>();

/// The values of all columns of some rows.
#[derive(Default)]
pub struct ObjectRows {
    pub spans: Vec<Span>,
    pub count: usize,
    /// Position of the first line that was not read.
    pub end: usize,
    pub escapes: bool,
}

impl ObjectReader {
    pub fn new(names: &[String], nullable: Vec<bool>, skip_unknown: bool) -> ObjectReader {
        let bytes = |name: &String| name.as_bytes().to_vec();
        ObjectReader {
            numbers: names.iter().enumerate().map(|(n, name)| (bytes(name), n)).collect(),
            nullable,
            before: Vec::new(),
            skip_unknown,
            one_by_one: 1, // the first line says what stands before each value
        }
    }

    /// Find the values of whole lines of `text[from..to]`, up to the first line that is declined,
    /// or as many as are found at once. 64 bytes follow `to`, and the byte before it is a line end.
    pub fn read_rows(
        &mut self,
        simd: Simd,
        text: &[u8],
        range: (usize, usize),
        out: &mut ObjectRows,
    ) -> JsonResult<()> {
        // SAFETY: `Simd::choose` has found AVX2, which is part of both; all have `Baseline`.
        unsafe {
            match simd {
                Simd::Scalar => self.read_all::<Baseline>(text, range, out),
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2 | Simd::Avx512 => self.read_all_avx2(text, range, out),
            }
        }
    }

    /// SAFETY: on a CPU with AVX2 and BMI1.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1")]
    unsafe fn read_all_avx2(
        &mut self,
        text: &[u8],
        range: (usize, usize),
        out: &mut ObjectRows,
    ) -> JsonResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.read_all::<Avx2>(text, range, out) }
    }

    /// SAFETY: the CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn read_all<S: ByteSearch>(
        &mut self,
        text: &[u8],
        (from, to): (usize, usize),
        out: &mut ObjectRows,
    ) -> JsonResult<()> {
        assert!(to + 64 <= text.len() && from <= to);
        let width = self.nullable.len();
        out.spans.clear();
        (out.count, out.end, out.escapes) = (0, from, false);
        while out.end < to && out.spans.len() < MAX_SPANS {
            let first = out.count * width;
            if self.one_by_one == 0 {
                out.spans.resize(first + 2 * width, (0, 0));
                let (spans, escapes) = (&mut out.spans[first..], &mut out.escapes);
                // SAFETY: the caller's promise.
                let two = unsafe { self.read_two::<S>(text, (out.end, to), spans, escapes) };
                if let Some(end) = two {
                    (out.end, out.count) = (end, out.count + 2);
                    continue;
                }
                out.spans.truncate(first);
                self.one_by_one = ONE_BY_ONE;
            }
            self.one_by_one -= 1;
            out.spans.resize(first + width, (0, 0));
            let (spans, escapes) = (&mut out.spans[first..], &mut out.escapes);
            // SAFETY: the caller's promise.
            match unsafe { self.read_one::<S>(text, out.end, spans, escapes) } {
                Ok(next) => out.end = next,
                Err(error) => {
                    out.spans.truncate(first);
                    return Err(error);
                }
            }
            out.count += 1;
        }
        Ok(())
    }

    /// Two objects whose keys stand as in the line before, and their line ends; None for all
    /// others.
    ///
    /// A value starts where the one before it ends, so the processor waits for each in turn; it
    /// follows two lines at once in little more time than one. Taxi (51 keys): 3.8 CPU-seconds of
    /// the decoder for 2 million rows, 4.1 line by line.
    ///
    /// SAFETY: the CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn read_two<S: ByteSearch>(
        &self,
        text: &[u8],
        (at, to): (usize, usize),
        spans: &mut [Span],
        escapes: &mut bool,
    ) -> Option<usize> {
        // SAFETY: the caller's promise.
        let other = unsafe { find_line_end::<S>(text, at) } + 1;
        if other >= to {
            return None;
        }
        let (first, second) = spans.split_at_mut(self.nullable.len());
        let (mut one, mut two) = (at, other);
        let mut known = 0;
        for before in &self.before {
            // SAFETY: the caller's promise.
            let (end, other_end) = unsafe {
                if !before.matches::<S>(text, one) || !before.matches::<S>(text, two) {
                    return None;
                }
                (one, two) = (one + before.len, two + before.len);
                let end = value_end_with::<S>(text, one, escapes).ok()?;
                (end, value_end_with::<S>(text, two, escapes).ok()?)
            };
            match (first.get_mut(before.column), second.get_mut(before.column)) {
                // Not a key that is there twice.
                (Some(first), Some(second)) if *first == (0, 0) => {
                    *first = (one as u32, end as u32);
                    *second = (two as u32, other_end as u32);
                    known += 1;
                }
                (None, None) if is_scalar(&text[one..end]) && is_scalar(&text[two..other_end]) => {}
                _ => return None,
            }
            (one, two) = (end, other_end);
        }
        let ends = |end: usize, next: usize| text[end] == b'}' && end + 2 == next;
        let whole = known == first.len() || self.missing(at, first).is_ok();
        // SAFETY: the caller's promise.
        let next = unsafe { find_line_end::<S>(text, two) } + 1;
        (whole && ends(one, other) && ends(two, next)).then_some(next)
    }

    /// One object and its line end; the start of the next line.
    ///
    /// SAFETY: the CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn read_one<S: ByteSearch>(
        &mut self,
        text: &[u8],
        at: usize,
        spans: &mut [Span],
        escapes: &mut bool,
    ) -> JsonResult<usize> {
        let (mut place, mut number, mut known) = (at, 0, 0);
        loop {
            let (column, start) = match self.before.get(number) {
                // SAFETY: the caller's promise.
                Some(before) if unsafe { before.matches::<S>(text, place) } => {
                    (before.column, place + before.len)
                }
                _ => match self.key(text, place, number)? {
                    Next::Value(column, start) => (column, start),
                    Next::End(end) => break place = end,
                },
            };
            // SAFETY: the caller's promise.
            let end = unsafe { value_end_with::<S>(text, start, escapes)? };
            if let Some(span) = spans.get_mut(column) {
                if *span != (0, 0) {
                    return Err(json_error(place, start, "a key that the line has twice"));
                }
                *span = (start as u32, end as u32);
                known += 1;
            } else if !is_scalar(&text[start..end]) {
                return Err(json_error(start, end, "a value that may not be JSON"));
            }
            number += 1;
            place = end;
        }
        if known < spans.len() {
            self.missing(at, spans)?;
        }
        place = skip_blanks(text, place);
        place += usize::from(text[place] == b'\r');
        expect_byte(text, place, b'\n', "more stands behind the object")
    }

    fn missing(&self, at: usize, spans: &[Span]) -> JsonResult<()> {
        let lacks = |n: &usize| spans[*n] == (0, 0) && !self.nullable[*n];
        match (0..spans.len()).find(lacks) {
            None => Ok(()),
            column => Err(JsonError { column, ..json_error(at, at, "the line lacks this key") }),
        }
    }

    /// The `number`-th key, which stands behind a value that ends at `at`, or the end of the
    /// object.
    #[inline(never)]
    fn key(&mut self, text: &[u8], at: usize, number: usize) -> JsonResult<Next> {
        let mark = skip_blanks(text, at);
        let key = skip_blanks(text, mark + 1);
        match (text[mark], number) {
            (b'{', 0) if text[key] == b'}' => return Ok(Next::End(key + 1)),
            (b'{', 0) => {}
            (_, 0) => {
                return Err(JsonError {
                    malformed: true,
                    ..json_error(mark, mark + 20, "it is not an object")
                });
            }
            (b',', _) => {}
            (b'}', _) => return Ok(Next::End(mark + 1)),
            _ => return Err(json_error(at, mark + 1, "no comma or brace behind a value")),
        }
        let mut escaped = false;
        expect_byte(text, key, b'"', "a brace without a key behind it")?;
        // SAFETY: every CPU has the instructions.
        let end = unsafe { string_end::<Baseline>(text, key, &mut escaped)? };
        if escaped {
            return Err(json_error(key, end, "a key with escapes"));
        }
        let column = self.numbers.get(&text[key + 1..end - 1]).copied();
        if column.is_none() && !self.skip_unknown {
            return Err(json_error(key, end, "a key that the table lacks"));
        }
        let column = column.unwrap_or(UNKNOWN);
        let start = skip_blanks(
            text,
            expect_byte(text, skip_blanks(text, end), b':', "a key without a colon behind it")?,
        );
        let before = KeyText::new(&text[at..start], column);
        match self.before.get_mut(number) {
            Some(place) => *place = before,
            None => self.before.push(before),
        }
        Ok(Next::Value(column, start))
    }
}

/// The result of reading on behind a value.
enum Next {
    /// The column of a key, [`UNKNOWN`] where the spec has none, and where its value starts.
    Value(usize, usize),
    /// The end of the object, behind its brace.
    End(usize),
}

/// The column of a key that the spec does not ask for.
const UNKNOWN: usize = usize::MAX;

/// Bytes of a [`KeyText`]; a longer one is looked up in each line.
const MAX_KEY_TEXT: usize = 64;

/// The text before a value: the comma behind the last one, the key, the colon and blanks among
/// them. It is the same in nearly every line, and is compared as a whole: 10 instructions up to 32
/// bytes, where looking for each of its parts took 60.
struct KeyText {
    text: [u8; MAX_KEY_TEXT],
    /// A bit for each of its bytes; 0 where it is too long to be kept.
    mask: u64,
    len: usize,
    column: usize,
}

impl KeyText {
    fn new(text: &[u8], column: usize) -> KeyText {
        let mut kept = [0; MAX_KEY_TEXT];
        let len = text.len();
        if let Some(place) = kept.get_mut(..len) {
            place.copy_from_slice(text);
        }
        let mask = if len > MAX_KEY_TEXT { 0 } else { u64::MAX >> (MAX_KEY_TEXT - len) };
        KeyText { text: kept, mask, len, column }
    }

    /// True where this text stands at `at`.
    ///
    /// SAFETY: the CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn matches<S: ByteSearch>(&self, text: &[u8], at: usize) -> bool {
        let Some(here) = text.get(at..at + MAX_KEY_TEXT) else { return false };
        // SAFETY: 32 bytes from 0 and from 32 of 64 each, and the caller's promise.
        let other =
            |n: usize| unsafe { !S::equal(here.as_ptr().add(n), self.text.as_ptr().add(n)) };
        let (low, high) = (self.mask as u32, (self.mask >> 32) as u32);
        low != 0 && low & other(0) == 0 && (high == 0 || high & other(32) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines as most are, and others: keys in another order, missing, twice or unknown, escapes,
    /// nested values, blanks, CRLF, long strings, no JSON at all.
    fn line() -> impl Strategy<Value = String> {
        let usual = || {
            (any::<i16>(), "[a-z]{0,40}", any::<bool>())
                .prop_map(|(n, s, m)| format!("{{\"n\":{n},\"s\":\"{s}\",\"m\":{m}}}\n"))
        };
        let other = prop::sample::select(vec![
            "{\"s\":\"x\",\"n\":1,\"m\":2}\n",
            "{\"n\":1,\"s\":\"x\"}\n",
            "{\"n\":1,\"s\":\"x\",\"m\":2,\"u\":[3]}\n",
            "{\"n\":1,\"n\":1,\"s\":\"x\"}\n",
            "{\"n\":1,\"s\":\"x\\\"y\",\"m\":2}\n",
            "{\"n\":[1,{\"a\":\"}\"}],\"s\":\"x\",\"m\":2}\n",
            "{\"n\":1,\"s\":\"x\",\"m\":2} \r\n",
            "{\"n\": 1, \"s\": \"x\", \"m\": 2}\n",
            "{\"n\":1,\"s\":\"x\",\"m\":02}\n",
            "{\"n\":1,\"s\":\"x\",\"m\":2}}\n",
            "{\"n\":1,\"s\":\"x,\"m\":2}\n",
            "{\"n\":1,\"s\":\"x\",\"m\":2\n",
            "{}\n",
            "\n",
        ]);
        prop_oneof![9 => usual(), 1 => other.prop_map(str::to_owned)]
    }

    /// Spans and what ended them, of lines that are looked at by twos or one by one.
    fn found(text: &[u8], to: usize, skip: bool, apart: bool, simd: Simd) -> (Vec<Span>, String) {
        let names = ["n", "s", "m"].map(String::from);
        let mut keys = ObjectReader::new(&names, vec![false, false, true], skip);
        keys.one_by_one = if apart { u32::MAX } else { keys.one_by_one };
        let mut rows = ObjectRows::default();
        let ended = keys.read_rows(simd, text, (64, to), &mut rows);
        assert_eq!(rows.spans.len(), 3 * rows.count);
        let ended = ended.map_err(|w| (w.at, w.end, w.column, w.message));
        (rows.spans, format!("{} {} {ended:?}", rows.count, rows.end))
    }

    proptest! {
        #[test]
        fn two_lines_at_once_are_as_two_lines(lines in prop::collection::vec(line(), 0..12), skip in any::<bool>()) {
            let lines = lines.concat();
            let text = [&[b'\n'; 64][..], lines.as_bytes(), &[0; 128]].concat();
            let to = 64 + lines.len();
            for simd in ["scalar", "avx2"].into_iter().filter_map(Simd::choose) {
                prop_assert_eq!(found(&text, to, skip, false, simd), found(&text, to, skip, true, simd));
            }
        }
    }

    /// What stands before the values of a shorter line is followed by what a longer one had there.
    #[test]
    fn a_key_twice_is_seen_in_two_lines_at_once() {
        for short in 1..3 * ONE_BY_ONE as usize {
            let lines = ["{\"n\":1,\"m\":2}\n", &"{\"m\":2}\n".repeat(short)].concat();
            let lines = lines + &"{\"m\":2,\"m\":3}\n".repeat(2);
            let text = ["\n".repeat(64), lines.clone(), " ".repeat(128)].concat();
            let mut keys = ObjectReader::new(&["n", "m"].map(String::from), vec![true; 2], false);
            let mut rows = ObjectRows::default();
            let ended =
                keys.read_rows(Simd::Scalar, text.as_bytes(), (64, 64 + lines.len()), &mut rows);
            assert_eq!((rows.count, ended.is_err()), (1 + short, true), "{short}");
        }
    }

    #[test]
    fn usual_lines_are_taken_by_twos() {
        let line = "{\"n\":1,\"s\":\"x\",\"m\":2}\n";
        let text = ["\n".repeat(64), line.repeat(5), " ".repeat(128)].concat();
        let mut keys = ObjectReader::new(&["n", "s", "m"].map(String::from), vec![false; 3], false);
        let mut rows = ObjectRows::default();
        let range = (64, 64 + 5 * line.len());
        keys.read_rows(Simd::Scalar, text.as_bytes(), range, &mut rows).expect("sound");
        assert_eq!((rows.count, rows.end, keys.one_by_one), (5, range.1, 0));
    }
}
