//! Takes apart what MySQL answers to COM_STMT_EXECUTE: columns, then rows in binary.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>

use crate::error::shorten;
use crate::packets::{Answer, Broken, LocatedRows, Wire};

/// Length (3 bytes) and number of a packet.
const HEADER: usize = 4;
/// A packet of so many bytes goes on in the next one.
const LONGEST: usize = (1 << 24) - 1;
const NOT_NULL: u16 = 1;
const UNSIGNED: u16 = 32;
/// The status of an end behind which there is another result.
const MORE_RESULTS: u16 = 8;
/// Bits in front of those of the first column.
const NULL_BITS: usize = 2;
/// The widths of columns whose values begin with their length: of text, and of one byte.
const TEXT: u8 = 0;
const SHORT: u8 = 255;

/// The state of one answer.
#[derive(Default)]
pub struct ResultSet {
    /// How many columns there will be; None before that is known.
    count: Option<usize>,
    /// What is known of the columns so far.
    wires: Vec<Wire>,
    /// Of each column, the bytes of its values, [`TEXT`] or [`SHORT`].
    widths: Vec<u8>,
    /// All columns are known.
    in_rows: bool,
    /// The last packet has come.
    ended: bool,
    /// Start and end of each row that has been found.
    rows: Vec<(usize, usize)>,
}

impl ResultSet {
    /// Take a packet that is not a row.
    fn special(&mut self, body: &[u8]) -> Result<(), Broken> {
        match body.first() {
            Some(0xff) => return Err(said(body)),
            Some(0xfe) if body.len() == 5 && self.in_rows => {
                let status = u16::from_le_bytes([body[3], body[4]]);
                if status & MORE_RESULTS != 0 {
                    return Err(Broken::Odd("there are several results"));
                }
                self.ended = true;
                return Ok(());
            }
            _ if self.in_rows => return Err(Broken::Odd("a packet that is not a row")),
            _ => {}
        }
        let Some(count) = self.count else {
            let mut fields = Reader { body, at: 0 };
            let count = fields.number().filter(|n| (1..=65_535).contains(n));
            self.count = Some(count.ok_or(Broken::Odd("no columns"))?);
            return Ok(());
        };
        if self.wires.len() < count {
            let wire = column(body)?;
            self.wires.push(wire);
            self.widths.push(match wire {
                Wire::Text => TEXT,
                Wire::Int(bytes, _) => bytes as u8,
                Wire::Float32 => 4,
                Wire::Float64 => 8,
                _ => SHORT, // dates
            });
            return Ok(());
        }
        if body.first() != Some(&0xfe) || body.len() != 5 {
            return Err(Broken::Odd("no end of the columns"));
        }
        self.in_rows = true;
        Ok(())
    }
}

impl Answer for ResultSet {
    /// As of the trait; rows of several packets are put together.
    fn read(&mut self, text: &mut [u8], start: usize, end: usize) -> Result<usize, Broken> {
        self.rows.clear();
        let mut at = start;
        while !self.ended {
            let Some((body, next)) = whole_packet(text, at, end) else { return Ok(at) };
            if self.in_rows && text[at + HEADER..].first() == Some(&0) && body.1 > body.0 {
                self.rows.push(body);
            } else {
                self.special(&text[body.0..body.1])?;
                // What is behind the columns is found with the next call: they are looked at.
                if self.in_rows && self.rows.is_empty() && !self.ended {
                    return Ok(next);
                }
            }
            at = next;
        }
        if at < end {
            return Err(Broken::Odd("there is more behind the end of the rows"));
        }
        Ok(at)
    }

    fn columns(&self) -> Option<&[Wire]> {
        self.in_rows.then_some(&self.wires)
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn locate(&self, text: &mut [u8], to: &mut LocatedRows) -> Result<(), Broken> {
        let (rows, columns) = (self.rows.len(), self.wires.len());
        let nulls = (columns + NULL_BITS).div_ceil(8);
        // Before memory is taken for their fields: of a byte there are eight columns at most.
        if self.rows.iter().any(|(start, end)| end - start < 1 + nulls) {
            return Err(Broken::Odd("a row that is not as long as its fields"));
        }
        to.count = rows;
        to.spans.clear();
        to.spans.resize(rows * columns, (0, 0));
        for (row, &(start, end)) in self.rows.iter().enumerate() {
            let odd = Broken::Odd("a row that is not as long as its fields");
            let mut at = start + 1 + nulls;
            for (column, &width) in self.widths.iter().enumerate() {
                let bit = column + NULL_BITS;
                if text[start + 1 + bit / 8] >> (bit % 8) & 1 == 1 {
                    continue;
                }
                let size = match width {
                    TEXT => match length(&text[at..end]) {
                        Some((size, used)) => {
                            at += used;
                            size
                        }
                        None => return Err(odd),
                    },
                    SHORT if at < end => {
                        at += 1;
                        usize::from(text[at - 1])
                    }
                    width => usize::from(width),
                };
                if size > end - at {
                    return Err(odd);
                }
                // A buffer holds some MiB more than the longest record, which is below 4 GiB.
                to.spans[column * rows + row] = (at as u32, (at + size) as u32);
                at += size;
            }
            if at != end {
                return Err(odd);
            }
        }
        Ok(())
    }
}

/// The body of the packet at `at`, and where the next one begins; None where it is not there as a
/// whole. Bodies of packets that go on in the next one are moved together.
fn whole_packet(text: &mut [u8], at: usize, end: usize) -> Option<((usize, usize), usize)> {
    let size_at = |text: &[u8], at: usize| {
        let size = text.get(at..at + 3).filter(|_| at + HEADER <= end)?;
        let size = usize::from(size[0]) | usize::from(size[1]) << 8 | usize::from(size[2]) << 16;
        (at + HEADER + size <= end).then_some(size)
    };
    let size = size_at(text, at)?;
    let start = at + HEADER;
    if size < LONGEST {
        return Some(((start, start + size), start + size));
    }
    // All of them have to be there before one is moved.
    let (mut next, mut sizes) = (at, Vec::new());
    while sizes.last().is_none_or(|last| *last == LONGEST) {
        let size = size_at(text, next)?;
        sizes.push(size);
        next += HEADER + size;
    }
    let (mut from, mut to) = (at, start);
    for size in sizes {
        text.copy_within(from + HEADER..from + HEADER + size, to);
        from += HEADER + size;
        to += size;
    }
    Some(((start, to), next))
}

/// A number of one to nine bytes in front of what it counts, and the bytes that it takes itself.
#[inline(always)]
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    if first < 0xfb {
        return Some((usize::from(first), 1));
    }
    let used = match first {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let mut number = [0; 8];
    number[..used].copy_from_slice(bytes.get(1..1 + used)?);
    Some((usize::try_from(u64::from_le_bytes(number)).ok()?, 1 + used))
}

/// Reads the fields of a packet.
struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<usize> {
        let (number, used) = length(self.body.get(self.at..)?)?;
        self.at += used;
        Some(number)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let found = self.body.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(found)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.bytes(count)
    }
}

/// How the values of the column are written that a packet describes.
fn column(body: &[u8]) -> Result<Wire, Broken> {
    let mut fields = Reader { body, at: 0 };
    let mut names = || {
        let all: Option<Vec<&[u8]>> = (0..6).map(|_| fields.text()).collect();
        Some((all?[4], fields.text()?))
    };
    let (name, fixed) = names().ok_or(Broken::Odd("no column"))?;
    // Charset (2 bytes), length (4), type, flags (2), digits.
    if fixed.len() < 10 {
        return Err(Broken::Odd("no column"));
    }
    let (kind, digits) = (fixed[6], fixed[9]);
    let flags = u16::from_le_bytes([fixed[7], fixed[8]]);
    let (signed, nullable) = (flags & UNSIGNED == 0, flags & NOT_NULL == 0);
    Ok(match kind {
        1 => Wire::Int(1, signed),
        2 => Wire::Int(2, signed),
        13 => Wire::Int(2, false), // YEAR
        3 | 9 => Wire::Int(4, signed),
        8 => Wire::Int(8, signed),
        4 => Wire::Float32,
        5 => Wire::Float64,
        10 | 14 => Wire::Day(nullable),
        7 | 12 => Wire::Moment(digits, nullable),
        // Decimals, texts, JSON, ENUM, SET, bytes. TIME and BIT are asked for in other types.
        0 | 6 | 15 | 245..=254 => Wire::Text,
        _ => {
            let name = shorten(name);
            return Err(Broken::Declined(format!("the column {name} has the MySQL type {kind}")));
        }
    })
}

/// What a packet says that is an error.
fn said(body: &[u8]) -> Broken {
    let Some(number) = body.get(1..3) else { return Broken::Odd("an error without a number") };
    let text = &body[3..];
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or(b"") } else { text };
    Broken::Said(format!(
        "{} (error {})",
        shorten(text),
        u16::from_le_bytes([number[0], number[1]])
    ))
}
