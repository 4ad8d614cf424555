//! Takes apart what PostgreSQL answers to COPY in binary: messages, one a row, whose fields have
//! their highest byte first. They are turned round here, so that one reader takes those of all
//! databases.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>,
//! <https://www.postgresql.org/docs/current/sql-copy.html> (Binary Format)

use crate::packets::{Answer, Broken, LocatedRows, Wire};

/// What a message is, and its length (4 bytes, which it counts itself).
const HEADER: usize = 5;
/// Bytes of a message that is not a row at most: of an error with its context.
const MOST_BYTES: usize = 1 << 20;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Flags of 4 bytes, of which the upper 16 bits change how the rows are read; bytes of an extension.
const FIXED: usize = SIGNATURE.len() + 8;
/// In front of each row, and of its fields.
const COUNT: usize = 2;
const LENGTH: usize = 4;
/// The count behind the last row, and the length of NULL.
const END: i16 = -1;
const NULL: i32 = -1;
/// The width of columns whose values have any length.
const ANY: usize = 0;

/// The state of one answer.
pub struct Copy {
    wires: Vec<Wire>,
    widths: Vec<usize>,
    /// The signature has come, and what stands behind the last row.
    begun: bool,
    complete: bool,
    /// Rows so far, and how many the server says it has sent.
    came: u64,
    sent: Option<u64>,
    ended: bool,
    /// Start and end of each row that has been found.
    rows: Vec<(usize, usize)>,
}

impl Copy {
    /// The answer to a COPY of columns of these types, as the database calls them; None where one
    /// of them is not known.
    pub fn of(types: &[String]) -> Option<Copy> {
        let wires: Vec<Wire> = types.iter().map(|name| wire(name)).collect::<Option<_>>()?;
        let widths = wires.iter().map(width).collect();
        let (begun, complete, came, sent, ended) = (false, false, 0, None, false);
        Some(Copy { wires, widths, begun, complete, came, sent, ended, rows: Vec::new() })
    }

    /// Take data: the signature before the first row, a row, or what stands behind the last one.
    fn data(&mut self, text: &[u8], (mut start, end): (usize, usize)) -> Result<(), Broken> {
        if !self.begun {
            let odd = Broken::Odd("the server sent something that is not a row");
            let Some(head) = text[start..end].get(..FIXED) else { return Err(odd) };
            let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("4"));
            let (flags, more) = (number(SIGNATURE.len()), number(SIGNATURE.len() + 4) as usize);
            if !head.starts_with(SIGNATURE) || flags >> 16 != 0 || more > end - start - FIXED {
                return Err(odd);
            }
            self.begun = true;
            start += FIXED + more;
            if start == end {
                return Ok(());
            }
        }
        if self.complete {
            return Err(Broken::Odd("there is more behind the end of the rows"));
        }
        if text[start..end] == END.to_be_bytes() {
            self.complete = true;
        } else {
            self.rows.push((start, end));
            self.came += 1;
        }
        Ok(())
    }
}

impl Answer for Copy {
    fn read(&mut self, text: &mut [u8], start: usize, end: usize) -> Result<usize, Broken> {
        self.rows.clear();
        let mut at = start;
        while !self.ended && end - at >= HEADER {
            let head = &text[at..at + HEADER];
            let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let kind = head[0];
            let size = size.checked_sub(4).ok_or(Broken::Odd("a message without a length"))?;
            if kind != b'd' && (size > MOST_BYTES || !b"HcCZNSAE".contains(&kind)) {
                return Err(Broken::Odd("the server sent something that is not a row"));
            }
            let (from, to) = (at + HEADER, at + HEADER + size);
            if to > end {
                return Ok(at);
            }
            let body = &text[from..to];
            match kind {
                b'd' => self.data(text, (from, to))?,
                b'E' => return Err(Broken::Said(said(body))),
                b'C' => self.sent = count(body), // COPY 1000
                b'Z' if self.sent == Some(self.came) && self.complete => self.ended = true,
                b'Z' => return Err(Broken::Lost { sent: self.sent, came: self.came }),
                _ => {}
            }
            at = to;
        }
        if self.ended && at < end {
            return Err(Broken::Odd("there is more behind the end of the rows"));
        }
        Ok(at)
    }

    fn columns(&self) -> Option<&[Wire]> {
        Some(&self.wires)
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn locate(&self, text: &mut [u8], to: &mut LocatedRows) -> Result<(), Broken> {
        let (rows, columns) = (self.rows.len(), self.wires.len());
        let odd = || Broken::Odd("a row that is not as long as its fields");
        // Before memory is taken for their fields.
        if self.rows.iter().any(|(start, end)| end - start < COUNT + LENGTH * columns) {
            return Err(odd());
        }
        to.count = rows;
        to.spans.clear();
        to.spans.resize(rows * columns, (0, 0));
        for (row, &(start, end)) in self.rows.iter().enumerate() {
            if usize::from(u16::from_be_bytes([text[start], text[start + 1]])) != columns {
                return Err(Broken::Odd("a row of another number of columns"));
            }
            let mut at = start + COUNT;
            for (column, &width) in self.widths.iter().enumerate() {
                let head = text[..end].get(at..at + LENGTH).ok_or_else(odd)?;
                let size = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
                at += LENGTH;
                if size == NULL {
                    continue;
                }
                let size = usize::try_from(size).ok().filter(|size| *size <= end - at);
                let size = size.ok_or_else(odd)?;
                if width != ANY && size != width {
                    return Err(Broken::Odd("a value of another length than its type"));
                }
                turn_round(&mut text[at..at + width]);
                // A buffer holds some MiB more than the longest record, which is below 4 GiB.
                to.spans[column * rows + row] = (at as u32, (at + size) as u32);
                at += size;
            }
            if at != end {
                return Err(odd());
            }
        }
        Ok(())
    }
}

/// Put the lowest byte first; those of numbers in a register.
#[inline(always)]
fn turn_round(value: &mut [u8]) {
    if let Ok(value) = <&mut [u8; 8]>::try_from(&mut *value) {
        *value = u64::from_be_bytes(*value).to_le_bytes();
    } else if let Ok(value) = <&mut [u8; 4]>::try_from(&mut *value) {
        *value = u32::from_be_bytes(*value).to_le_bytes();
    } else {
        value.reverse();
    }
}

/// How the values of a type are written.
fn wire(name: &str) -> Option<Wire> {
    Some(match name {
        "bool" => Wire::Int(1, false),
        "int2" => Wire::Int(2, true),
        "int4" => Wire::Int(4, true),
        "int8" => Wire::Int(8, true),
        "oid" => Wire::Int(4, false),
        "float4" => Wire::Float32,
        "float8" => Wire::Float64,
        "date" => Wire::DayNumber,
        "timestamp" => Wire::Micros,
        "numeric" => Wire::Numeric,
        "uuid" => Wire::Uuid,
        "text" => Wire::Text,
        _ => return None,
    })
}

fn width(wire: &Wire) -> usize {
    match wire {
        Wire::Int(bytes, _) => *bytes,
        Wire::Float32 | Wire::DayNumber => 4,
        Wire::Float64 | Wire::Micros => 8,
        Wire::Uuid => 16,
        Wire::Text | Wire::Numeric | Wire::Day(_) | Wire::Moment(..) => ANY,
    }
}

/// The number behind the last blank.
fn count(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?.trim_end_matches('\0');
    text.rsplit(' ').next()?.parse().ok()
}

/// The text of an error: fields of a letter and a text each.
fn said(body: &[u8]) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let text = fields.find_map(|field| field.strip_prefix(b"M"));
    text.map_or("the server broke off".into(), |text| String::from_utf8_lossy(text).into_owned())
}
