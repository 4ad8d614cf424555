//! Finds where a JSON value ends, and declines what is no JSON. Values are parsed in `values`.

use crate::text::json::byte_search::{Baseline, ByteSearch, find_non_word, find_special};
use crate::text::number;

/// The reason why a line is declined, where it shows, and the column where there is one.
#[derive(Debug)]
pub struct JsonError {
    pub at: usize,
    pub end: usize,
    pub column: Option<usize>,
    pub message: &'static str,
    /// The line is no object at all.
    pub malformed: bool,
}

/// A result, or the reason why the line is declined.
pub type JsonResult<T> = Result<T, JsonError>;

/// A reason that belongs to `text[at..end]`, not to a column.
pub fn json_error(at: usize, end: usize, message: &'static str) -> JsonError {
    JsonError { at, end, column: None, message, malformed: false }
}

/// The first position from `at` on that is neither a blank nor a tab.
#[inline(always)]
pub fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    // Most values have none before or behind them.
    while text[at] <= b' ' && matches!(text[at], b' ' | b'\t') {
        at += 1;
    }
    at
}

/// The position behind `byte`, which has to stand at `at`; `what` is the message otherwise.
#[inline(always)]
pub fn expect_byte(text: &[u8], at: usize, byte: u8, what: &'static str) -> JsonResult<usize> {
    if text[at] == byte {
        return Ok(at + 1);
    }
    Err(JsonError { malformed: true, ..json_error(at, at + 20, what) })
}

/// The end of the value at `at`. Values without quotes are only checked to consist of the
/// characters of a word or a number: the types' parsers take nothing else. `escapes` is set where
/// there is one.
pub fn value_end(text: &[u8], at: usize, escapes: &mut bool) -> JsonResult<usize> {
    // SAFETY: every CPU has the instructions.
    unsafe { value_end_with::<Baseline>(text, at, escapes) }
}

/// [`value_end`] with the instructions of `S`.
///
/// SAFETY: the CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn value_end_with<S: ByteSearch>(
    text: &[u8],
    at: usize,
    escapes: &mut bool,
) -> JsonResult<usize> {
    if text[at] == b'"' {
        // SAFETY: the caller's promise.
        return unsafe { string_end::<S>(text, at, escapes) };
    }
    if matches!(text[at], b'[' | b'{') {
        return nested(text, at, escapes);
    }
    // SAFETY: the caller's promise.
    let end = unsafe { find_non_word::<S>(text, at) };
    // A number starts with a digit or a minus, and with a zero only before a point or at its end.
    let digits = &text[at + usize::from(text[at] == b'-')..end];
    let fine = match digits {
        [b'0', b'0'..=b'9', ..] => false,
        [b'0'..=b'9', ..] => true,
        _ => matches!(&text[at..end], b"true" | b"false" | b"null"),
    };
    if fine {
        Ok(end)
    } else {
        Err(json_error(at, end.max(at + 1), "a value that may not be JSON"))
    }
}

/// The end of the array or object at `at`, by its brackets only: `values/nested.rs` looks at the
/// rest.
fn nested(text: &[u8], at: usize, escapes: &mut bool) -> JsonResult<usize> {
    let (mut place, mut depth) = (at, 0);
    loop {
        match text[place] {
            b'"' => {
                // SAFETY: every CPU has the instructions.
                place = unsafe { string_end::<Baseline>(text, place, escapes)? };
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            0..0x20 => {
                return Err(json_error(at, place, "a line break or control character in a value"));
            }
            _ => {}
        }
        place += 1;
        if depth == 0 {
            return Ok(place);
        }
    }
}

/// True for strings, words and numbers: a value of an unknown key, which no type parses.
pub fn is_scalar(value: &[u8]) -> bool {
    match value {
        [b'"', ..] | b"true" | b"false" | b"null" => true,
        _ => number::is_plain_number(value),
    }
}

/// True for a value that a string column keeps as it is written, as the engine does: a number, true,
/// false, or an object or array whose brackets close in their order, with no backslash outside of
/// strings. The engine looks for the end by the brackets of one kind, and at no more.
pub fn is_plain_value(value: &[u8]) -> bool {
    match value {
        [b'[' | b'{', ..] => closes_in_order(value),
        b"true" | b"false" => true,
        _ => number::is_plain_number(value),
    }
}

/// Levels of objects and arrays that are followed.
const MAX_DEPTH: u32 = 128;

fn closes_in_order(value: &[u8]) -> bool {
    // A bit for each open bracket, 1 for an object.
    let (mut open, mut depth, mut place) = (0u128, 0, 0);
    while let Some(&byte) = value.get(place) {
        match byte {
            b'"' => {
                place += 1;
                while value.get(place).is_some_and(|c| *c != b'"') {
                    place += if value[place] == b'\\' { 2 } else { 1 };
                }
            }
            b'\\' => return false,
            b'[' | b'{' => {
                open = open << 1 | u128::from(byte == b'{');
                depth += 1;
                if depth > MAX_DEPTH {
                    return false;
                }
            }
            b']' | b'}' => {
                if depth == 0 || (open & 1 == 1) != (byte == b'}') {
                    return false;
                }
                open >>= 1;
                depth -= 1;
            }
            _ => {}
        }
        place += 1;
    }
    depth == 0
}

/// The end of the string whose opening quote is at `at`.
///
/// SAFETY: the CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn string_end<S: ByteSearch>(
    text: &[u8],
    at: usize,
    escapes: &mut bool,
) -> JsonResult<usize> {
    let mut place = at + 1;
    loop {
        // SAFETY: the caller's promise.
        place = unsafe { find_special::<S>(text, place) };
        match text[place] {
            b'"' => return Ok(place + 1),
            b'\\' => {
                *escapes = true;
                if text[place + 1] < 0x20 {
                    return Err(json_error(at, place + 1, "a control character in a string"));
                }
                place += 2;
            }
            _ => {
                return Err(json_error(at, place, "a line break or control character in a string"));
            }
        }
        if place + 64 > text.len() {
            return Err(json_error(at, at + 1, "a string that never ends"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_plain_value;

    #[test]
    fn values_that_are_kept_as_they_are_written() {
        for value in [
            "{}",
            "[]",
            "{\"a\" : [1, {\"}\":\"]\\\"\"}]}",
            "1",
            "-1.5e-3",
            "true",
            "false",
            "[\"\\\\\", \"\\\"]\"]",
        ] {
            assert!(is_plain_value(value.as_bytes()), "{value}");
        }
        let deep = ["[".repeat(129), "]".repeat(129)].concat();
        for value in ["{]", "[}", "{\"a\":[}]", "[\\\"]", "null", "tru", &deep] {
            assert!(!is_plain_value(value.as_bytes()), "{value}");
        }
    }
}
