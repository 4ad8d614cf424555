//! Says why a run failed: as one JSON line and an exit status.

use std::io;

use serde_json::{Value, json};

/// Longest piece of a value that a message repeats, in characters.
const SHOWN: usize = 100;

/// What kind of thing is declined. Whoever started the program goes by that, and never by a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineKind {
    /// A value, row or header.
    Value,
    /// A line that is no object of JSON.
    Malformed,
    /// A record that is longer than the spec allows.
    TooLong,
    /// A quote that is opened and not closed before the input ends.
    Unclosed,
}

impl DeclineKind {
    /// Its name in the line for stderr.
    pub fn name(self) -> &'static str {
        match self {
            DeclineKind::Value => "value",
            DeclineKind::Malformed => "malformed",
            DeclineKind::TooLong => "too_long",
            DeclineKind::Unclosed => "unclosed",
        }
    }
}

/// A value, row or header that is declined, and where it stands.
#[derive(Debug, Clone)]
pub struct Decline {
    /// What kind of thing it is.
    pub kind: DeclineKind,
    /// The name of the input.
    pub uri: String,
    /// The line in the decompressed text, from 1 on.
    pub line: u64,
    /// The offset in the decompressed text, in bytes.
    pub offset: u64,
    /// The name of the column; empty where it is not about one.
    pub column: String,
    /// The text, shortened to 100 characters.
    pub value: String,
    /// The type of the column; empty where it is not about one.
    pub expected: String,
    /// What is wrong.
    pub message: String,
}

/// The reason why a run failed.
#[derive(Debug)]
pub enum Fail {
    /// The spec cannot be followed at all: exit status 2.
    Spec(Vec<String>),
    /// The text is not what was promised, or is unusual: exit status 3.
    Value(Box<Decline>),
    /// Reading, decompressing or writing failed: exit status 4.
    Io {
        /// The name of the input or the path of the output.
        uri: String,
        /// What the system or the decompressor said.
        message: String,
    },
    /// The reader of the output went away: exit status 5.
    Pipe,
}

impl Fail {
    /// One reason against the spec.
    pub fn spec(reason: impl Into<String>) -> Fail {
        Fail::Spec(vec![reason.into()])
    }

    /// The input `uri` as a whole is declined; of several ones it has no name.
    pub fn declined(uri: &str, what: &str) -> Fail {
        Fail::Value(Box::new(Decline {
            kind: DeclineKind::Value,
            uri: uri.to_owned(),
            line: 0,
            offset: 0,
            column: String::new(),
            value: String::new(),
            expected: String::new(),
            message: what.to_owned(),
        }))
    }

    /// A record of the input `uri` is too long; `line` and `offset` are where it begins, or 0.
    pub fn too_long(uri: &str, line: u64, offset: u64) -> Fail {
        let Fail::Value(mut decline) = Fail::declined(uri, "a record that is too long") else {
            unreachable!("an input is declined")
        };
        (decline.kind, decline.line, decline.offset) = (DeclineKind::TooLong, line, offset);
        Fail::Value(decline)
    }

    /// An error about the input `uri`.
    pub fn io(uri: &str, error: &io::Error) -> Fail {
        Fail::Io { uri: uri.to_owned(), message: error.to_string() }
    }

    /// An error of writing to `path`; a closed pipe is [`Fail::Pipe`], about which nothing is
    /// printed.
    pub fn output(path: &str, error: &io::Error) -> Fail {
        if error.kind() == io::ErrorKind::BrokenPipe { Fail::Pipe } else { Fail::io(path, error) }
    }

    /// The exit status of the program.
    pub fn status(&self) -> i32 {
        match self {
            Fail::Spec(_) => 2,
            Fail::Value(_) => 3,
            Fail::Io { .. } => 4,
            Fail::Pipe => 5,
        }
    }

    /// The line for stderr; None where there is nothing to say.
    pub fn json(&self) -> Option<Value> {
        match self {
            Fail::Spec(reasons) => {
                Some(json!({"error": "spec", "message": reasons.join("; "), "reasons": reasons}))
            }
            Fail::Value(d) => Some(json!({
                "error": d.kind.name(), "uri": d.uri, "line": d.line, "offset": d.offset,
                "column": d.column, "value": d.value, "type": d.expected, "message": d.message,
            })),
            Fail::Io { uri, message } => {
                Some(json!({"error": "io", "uri": uri, "message": message}))
            }
            Fail::Pipe => None,
        }
    }
}

/// Bytes as text of at most 100 characters.
pub fn shorten(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN + 4)]);
    if text.chars().count() <= SHOWN && bytes.len() <= 4 * SHOWN {
        return text.into_owned();
    }
    let mut short: String = text.chars().take(SHOWN - 3).collect();
    short.push_str("...");
    short
}
