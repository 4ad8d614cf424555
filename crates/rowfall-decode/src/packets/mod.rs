//! Takes the answer of a database apart as it came from its socket: packets, rows, and where the
//! fields of a row are. Their values are written in binary for the most part; parsing them is left
//! to `values`.

pub mod mysql;
pub mod postgresql;

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
    /// Days since 2000-01-01, 4 bytes.
    DayNumber,
    /// Microseconds since 2000-01-01, 8 bytes.
    Micros,
    /// 16 bytes.
    Uuid,
    /// Digits of 10,000 with their weight, sign and scale, 2 bytes each; the highest byte first.
    Numeric,
}

/// Why an answer cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server ended it with this error.
    Said(String),
    /// It is no answer of the protocol.
    Odd(&'static str),
    /// Rows are missing, or there is nothing that says how many there are.
    Lost {
        /// Rows that the server says it has sent.
        sent: Option<u64>,
        /// Rows that came.
        came: u64,
    },
    /// Only another reader can take it.
    Declined(String),
}

/// The answer of a database, of which more and more is there.
pub trait Answer {
    /// Find the whole packets in `text[start..end]`. Returns where the first one begins that is
    /// not there as a whole.
    fn read(&mut self, text: &mut [u8], start: usize, end: usize) -> Result<usize, Broken>;

    /// Find the fields of the rows that the last [`Answer::read`] has found; once.
    fn locate(&self, text: &mut [u8], to: &mut LocatedRows) -> Result<(), Broken>;

    /// How the values of its columns are written; None before that is known.
    fn columns(&self) -> Option<&[Wire]>;

    /// The last packet has come.
    fn ended(&self) -> bool;
}

/// Rows of packets, and where their fields are.
#[derive(Default)]
pub struct LocatedRows {
    /// How many rows there are.
    pub count: usize,
    /// Where each field is, column after column; (0, 0) for NULL.
    pub spans: Vec<Span>,
}
