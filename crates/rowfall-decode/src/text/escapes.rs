//! Undoes escapes: doubled quotes of CSV, backslashes of TSV, JSON and elements of arrays.

use crate::text::fields::Syntax;

/// Append a field's content to `out` without its escapes; None for escapes that readers do not
/// agree on.
pub fn unescape(style: Syntax, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match style {
        Syntax::Csv => unescape_csv(content, out),
        Syntax::Tsv => unescape_slashes(content, false, out),
        Syntax::Json => unescape_json(content, out),
        Syntax::Quoted => unescape_slashes(content, true, out),
        Syntax::Packet => {
            out.extend_from_slice(content); // there are none
            Some(())
        }
    }
}

fn unescape_csv(content: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = content;
    while let Some(at) = rest.iter().position(|c| *c == b'"') {
        if rest.get(at + 1) != Some(&b'"') {
            return None;
        }
        out.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Some(())
}

/// Undo the backslashes of TSV; with `quoted` those of strings in single quotes, where `\"` is one,
/// too.
fn unescape_slashes(content: &[u8], quoted: bool, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = content;
    while let Some(at) = rest.iter().position(|c| *c == b'\\') {
        out.extend_from_slice(&rest[..at]);
        out.push(match rest.get(at + 1)? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'0' => 0,
            c @ (b'\\' | b'\'') => *c,
            b'"' if quoted => b'"',
            _ => return None,
        });
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Some(())
}

/// Undo the escapes of a JSON string.
fn unescape_json(content: &[u8], out: &mut Vec<u8>) -> Option<()> {
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

/// Read `\u0041` or a pair of surrogates: the character, and the bytes of text that it takes.
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
