//! Takes the answer of a database apart as it came from its socket: packets, rows, and where the
//! fields of a row are. Their values are written in binary for the most part; parsing them is left
//! to `values`.

pub mod mysql;

use crate::text::fields::Span;

/// How the values of a column are written in packets. Numbers have their lowest byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Text, or any bytes.
    Text,
    /// An integer: bytes, and true where it is signed.
    Int(usize, bool),
    /// 4 bytes.
    Float32,
    /// 8 bytes.
    Float64,
    /// Year (2 bytes), month, day; nothing for a date of zeros. True where zeros are NULL.
    Day(bool),
    /// The same, then hour, minute, second, then microseconds (4 bytes); what is zero at the end is
    /// left out. So many digits of a second are shown; true where a date of zeros is NULL.
    Moment(u8, bool),
}

/// Why an answer cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server ended it with this error.
    Said(String),
    /// It is no answer of the protocol.
    Odd(&'static str),
    /// Only another reader can take it.
    Declined(String),
}

/// Rows of packets, and where their fields are.
#[derive(Default)]
pub struct LocatedRows {
    /// How many rows there are.
    pub count: usize,
    /// Where each field is, column after column; (0, 0) for NULL.
    pub spans: Vec<Span>,
}
