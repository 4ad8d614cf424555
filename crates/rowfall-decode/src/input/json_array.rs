//! Makes lines of an array of JSON objects, one an object, between decompression and whoever reads
//! JSONEachRow: `[{"a":1}, {"a":2}]` becomes ` {"a":1}\n {"a":2} `.
//!
//! Each byte stays or becomes a blank or a line end, so that offsets stay what they are. What is no
//! such array is left as it is where it is wrong, and is then no object on a line of its own: who
//! reads the lines declines it. A text that does not begin with a bracket is left alone.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::input::buffer::TextBuffer;
use crate::input::source::TextSource;

/// Bytes of decompressed text that are taken at a time; they stay in the cache.
const CHUNK_BYTES: usize = 256 << 10;
/// What ends a text whose array is not closed: no object.
const NOT_CLOSED: &[u8] = b"\n]";

/// Read a text from its beginning, as lines if it is an array.
pub fn as_lines(mut source: TextSource) -> io::Result<TextSource> {
    if source.first_byte()? != Some(b'[') {
        return Ok(source);
    }
    let bytes = Arc::new(AtomicU64::new(0));
    let reader = ArrayReader {
        source,
        buffer: TextBuffer::default(),
        lines: ArrayLines::default(),
        out: Vec::new(),
        taken: 0,
        ended: false,
        bytes: bytes.clone(),
    };
    Ok(TextSource::from_reader(Box::new(reader), bytes))
}

struct ArrayReader {
    source: TextSource,
    buffer: TextBuffer,
    lines: ArrayLines,
    out: Vec<u8>,
    taken: usize,
    ended: bool,
    bytes: Arc<AtomicU64>,
}

impl Read for ArrayReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.out.len() {
            if self.ended {
                return Ok(0);
            }
            // The buffer itself keeps what gzip refers to, so a copy is changed.
            self.buffer.start = self.buffer.end;
            self.buffer.advance(&mut self.source, CHUNK_BYTES)?;
            self.bytes.store(self.source.bytes_read(), Ordering::Relaxed);
            self.ended = self.buffer.ended;
            self.out.clear();
            self.out.extend_from_slice(&self.buffer.text()[self.buffer.start..self.buffer.end]);
            self.taken = 0;
            self.lines.make(&mut self.out);
            if self.ended && self.lines.is_open() {
                self.out.extend_from_slice(NOT_CLOSED);
            }
        }
        let n = out.len().min(self.out.len() - self.taken);
        out[..n].copy_from_slice(&self.out[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

/// Where in an array the text stands that comes next.
#[derive(Default, Clone, Copy, PartialEq, Debug)]
enum Place {
    /// Before its bracket.
    #[default]
    Before,
    /// In the array, behind its bracket or a comma.
    Element,
    /// In the array, behind an object.
    BehindElement,
    /// In an object, so many brackets and braces deep.
    Object(u32),
    /// In a string of it.
    String(u32),
    /// Behind a backslash in a string.
    Escape(u32),
    /// Behind the array.
    Behind,
}

/// Changes the text of an array, a chunk after the other.
#[derive(Default)]
struct ArrayLines {
    place: Place,
}

impl ArrayLines {
    /// True inside of an array.
    fn is_open(&self) -> bool {
        self.place != Place::Behind
    }

    fn make(&mut self, text: &mut [u8]) {
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            let blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            self.place = match self.place {
                Place::Before | Place::Element | Place::BehindElement | Place::Behind if blank => {
                    text[at] = b' ';
                    self.place
                }
                Place::Before if byte == b'[' => {
                    text[at] = b' ';
                    Place::Element
                }
                Place::Element if byte == b'{' => Place::Object(1),
                Place::BehindElement if byte == b',' => {
                    text[at] = b'\n';
                    Place::Element
                }
                Place::BehindElement if byte == b']' => {
                    text[at] = b' ';
                    Place::Behind
                }
                Place::Before | Place::Element | Place::BehindElement | Place::Behind => self.place,
                Place::Object(depth) => {
                    let rest = &mut text[at..];
                    let (read, place) = object(rest, depth);
                    at += read;
                    self.place = place;
                    continue;
                }
                Place::String(depth) => {
                    match memchr::memchr2(b'"', b'\\', &text[at..]) {
                        None => return,
                        Some(found) => at += found,
                    }
                    match text[at] {
                        b'"' => Place::Object(depth),
                        _ => Place::Escape(depth),
                    }
                }
                Place::Escape(depth) => Place::String(depth),
            };
            at += 1;
        }
    }
}

/// Change the text of an object outside of its strings; how much of it was read, and what is next.
#[inline]
fn object(text: &mut [u8], mut depth: u32) -> (usize, Place) {
    for (at, byte) in text.iter_mut().enumerate() {
        match *byte {
            b'"' => return (at + 1, Place::String(depth)),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return (at + 1, Place::BehindElement),
            b'}' | b']' => depth -= 1,
            b'\n' | b'\r' => *byte = b' ',
            _ => {}
        }
    }
    (text.len(), Place::Object(depth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::io::Cursor;

    fn lines(text: &str, chunk: usize) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let mut made = ArrayLines::default();
        bytes.chunks_mut(chunk).for_each(|part| made.make(part));
        if made.is_open() {
            bytes.extend_from_slice(NOT_CLOSED);
        }
        String::from_utf8(bytes).expect("as it was")
    }

    /// The objects of all lines; None where a line is none, as who reads the lines would see it.
    fn objects(text: &str) -> Option<Vec<Value>> {
        text.split('\n')
            .map(|line| serde_json::from_str(line).ok().filter(Value::is_object))
            .collect()
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(Value::from),
            "[a-z\\\\\"{}\\[\\],\n]{0,9}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"]{1,3}", inner, 0..3)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn each_object_of_an_array_gets_a_line(
            values in prop::collection::vec(prop::collection::btree_map("[a-z]{1,3}", value(), 0..4), 1..6),
            pretty in any::<bool>(), crlf in any::<bool>(), chunk in 1usize..70, before in "[ \n\t]{0,3}",
        ) {
            let rows: Vec<Value> = values.into_iter().map(|row| Value::Object(row.into_iter().collect())).collect();
            let text = if pretty { serde_json::to_string_pretty(&rows) } else { serde_json::to_string(&rows) };
            let text = before + &text.expect("JSON") + "\n";
            let text = if crlf { text.replace('\n', "\r\n") } else { text };
            let made = lines(&text, chunk);
            prop_assert_eq!(made.len(), text.len());
            prop_assert_eq!(objects(&made), Some(rows));
        }

        /// Whatever stands there: where all lines are objects, the text is an array of them.
        #[test]
        fn what_is_no_array_is_not_made_one(text in "(\\[[ \n]{0,2})?(\\{\"a\":[1x\\]}]?|\\}|[,\\]\\[ \n\"\\\\]|\\{\\}){0,12}", chunk in 1usize..9) {
            prop_assume!(text.trim_start().starts_with('['));
            if let Some(rows) = objects(&lines(&text, chunk)) {
                let wanted: Result<Vec<Value>, _> = serde_json::from_str(&text);
                prop_assert_eq!(wanted.ok(), Some(rows));
            }
        }
    }

    fn read(text: &str) -> String {
        let text = Box::new(Cursor::new(text.as_bytes().to_vec()));
        let source = TextSource::from_reader(text, Arc::default());
        let mut made = as_lines(source).expect("text");
        let mut out = vec![0; 2_000_000];
        let end = made.fill(&mut out, 0, 1_900_000).expect("text");
        out.truncate(end);
        String::from_utf8(out).expect("as it was")
    }

    #[test]
    fn it_is_read_through_a_source() {
        let text = "[\n".to_owned() + &"{\"a\":\"x, y\"},\n".repeat(50_000) + "{\"a\":\"z\"}\n]\n";
        let out = read(&text);
        assert_eq!((out.len(), objects(&out).map(|rows| rows.len())), (text.len(), Some(50_001)));
        assert_eq!(read("[{\"a\":1}"), " {\"a\":1}\n]");
        for lines in ["", "{\"a\":[\n1]}\n", "\n\n{\"a\":1}\n[", &"{\"a\":1}\n".repeat(99)] {
            assert_eq!(read(lines), lines);
        }
    }
}
