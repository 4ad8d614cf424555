//! Writes rows as text: as the engine's TSV, CSV and JSONEachRow have them, or as TSV for a database,
//! which takes some bytes in another way. And rows in binary: of parameters for MariaDB, and of COPY.

mod connection;
mod json;
mod numbers;
mod parameters;
mod tuples;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;

use crate::calendar::civil;
use crate::column::Column;
use crate::column::strings::read_varint;
use crate::columnar::Batch;
pub use crate::output::text::connection::Destination;
use crate::output::text::numbers::{
    pair, put_decimal, put_f32, put_f64, put_i64, put_padded, put_u64, put_wide, put_wide_decimal,
};
use crate::spec::{OutputFormat, Spec};
use crate::types::postgresql::Field;
use crate::types::{BaseType, Type};

/// Bytes that are written together: a pipe takes some of them while the next ones are made.
const WRITE_BYTES: usize = 128 << 10;

/// Bytes that every text needs behind it: strings are looked at so many bytes at a time.
const STEP: usize = 16;

/// Bytes of a long string that are looked at together; they are copied with all before them.
const LONG_STEP: usize = 64;

/// How the values of a column look.
enum Kind {
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    /// Bytes, and true where it is signed.
    Wide(usize, bool),
    Float32,
    Float64,
    /// Scale.
    Decimal32(u8),
    Decimal64(u8),
    /// Bytes and scale.
    WideDecimal(usize, u8),
    /// The texts of false and true.
    Bool([&'static [u8]; 2]),
    String,
    /// Bytes.
    FixedString(usize),
    /// Bytes; the zero bytes at its end are no part of the value.
    CutString(usize),
    Date,
    Date32,
    DateTime,
    /// Digits of fractions, and units a second.
    DateTime64(usize, i64),
    Uuid,
    Ipv4,
    Ipv6,
    /// Bytes, and the texts of the elements.
    Enum(usize, HashMap<i16, Vec<u8>>),
}

/// Writes the rows of one worker.
pub struct Output {
    to: Destination,
    out: Vec<u8>,
    /// Room for lines that a batch writes by itself: it is never cleared.
    made: Vec<u8>,
    kinds: Vec<Kind>,
    /// Of each column.
    as_text: Vec<bool>,
    escapes: Escapes,
    delimiter: u8,
    /// Of each column, for COPY in binary.
    fields: Vec<Field>,
    /// What stands before the value of each column, for JSON.
    keys: Vec<Vec<u8>>,
    format: OutputFormat,
}

/// What is written in place of a byte; empty for bytes that stay.
struct Escapes {
    texts: [&'static [u8]; 256],
    /// All bytes that do not stay are below this, or one of the marks.
    below: u8,
    marks: [u8; 4],
}

impl Escapes {
    fn of(format: OutputFormat) -> Escapes {
        let mut texts: [&[u8]; 256] = [b""; 256];
        if format == OutputFormat::Csv {
            texts[usize::from(b'"')] = b"\"\"";
            return Escapes { texts, below: 0, marks: [b'"'; 4] };
        }
        if format == OutputFormat::JsonEachRow {
            return Escapes { texts: json::TEXTS, below: 32, marks: json::MARKS };
        }
        if matches!(format, OutputFormat::MariaDb | OutputFormat::PostgreSqlBinary) {
            // Values have their lengths before them, and all bytes stay.
            return Escapes { texts, below: 0, marks: [0; 4] };
        }
        for (byte, text) in [
            (b'\x08', &b"\\b"[..]),
            (b'\n', b"\\n"),
            (b'\r', b"\\r"),
            (b'\t', b"\\t"),
            (b'\\', b"\\\\"),
            // PostgreSQL would take digits that follow for a part of an octal number.
            (0, if format == OutputFormat::PostgreSql { b"\\000" } else { b"\\0" }),
            // LOAD DATA knows no \f: it would take it for the letter.
            (b'\x0c', if is_mysql(format) { b"" } else { b"\\f" }),
            // Databases take quotes as they are, and escapes cost them more.
            (b'\'', if format == OutputFormat::Tsv { b"\\'" } else { b"" }),
        ] {
            texts[usize::from(byte)] = text;
        }
        let quote = if format == OutputFormat::Tsv { b'\'' } else { b'\\' };
        Escapes { texts, below: 32, marks: [b'\\', quote, quote, quote] }
    }

    /// Append a string that begins at `data[start]`, and is followed by `STEP` bytes where `data`
    /// has so many.
    #[inline(always)]
    fn put(&self, out: &mut Vec<u8>, data: &[u8], start: usize, len: usize) {
        let mut at = start;
        let end = start + len;
        out.reserve(len + STEP);
        let (below, [a, b, c, d]) = (self.below, self.marks);
        let special =
            |byte: u8| (byte < below) | (byte == a) | (byte == b) | (byte == c) | (byte == d);
        if len >= LONG_STEP {
            let (steps, _) = data[start..end].as_chunks::<LONG_STEP>();
            let plain = |step: &&[u8; LONG_STEP]| {
                !step.iter().fold(false, |found, &byte| found | special(byte))
            };
            at += steps.iter().take_while(plain).count() * LONG_STEP;
            out.extend_from_slice(&data[start..at]);
        }
        while at < end {
            let Some(step) = data.get(at..at + STEP) else { break };
            let step: &[u8; STEP] = step.try_into().expect("so many bytes");
            let used = (end - at).min(STEP);
            if step.iter().fold(false, |found, &b| found | special(b))
                && step[..used].iter().any(|&b| special(b))
            {
                at += self.put_slowly(out, &data[at..end], used);
            } else {
                // All 16 bytes are copied, which is one instruction; those behind are cut off.
                out.extend_from_slice(step);
                out.truncate(out.len() - (STEP - used));
                at += used;
            }
        }
        if at < end {
            self.put_slowly(out, &data[at..end], end - at);
        }
    }

    fn put_all(&self, out: &mut Vec<u8>, text: &[u8]) {
        self.put_slowly(out, text, text.len());
    }

    /// Append the first bytes of a text, `count` or some more where characters are replaced as a
    /// whole; return how many.
    #[inline(never)]
    fn put_slowly(&self, out: &mut Vec<u8>, text: &[u8], count: usize) -> usize {
        let mut at = 0;
        while at < count {
            let byte = text[at];
            at += 1;
            match self.texts[usize::from(byte)] {
                b"" => out.push(byte),
                json::SEPARATOR => at += json::put_separator(out, &text[at - 1..]) - 1,
                text => out.extend_from_slice(text),
            }
        }
        at
    }
}

impl Kind {
    fn of(data_type: &Type, format: OutputFormat, escapes: &Escapes) -> Kind {
        match &data_type.base {
            BaseType::Int(1, true) => Kind::Int8,
            BaseType::Int(2, true) => Kind::Int16,
            BaseType::Int(4, true) => Kind::Int32,
            BaseType::Int(8, true) => Kind::Int64,
            BaseType::Int(1, false) => Kind::UInt8,
            BaseType::Int(2, false) => Kind::UInt16,
            BaseType::Int(4, false) => Kind::UInt32,
            BaseType::Int(8, false) => Kind::UInt64,
            BaseType::Int(bytes, signed) => Kind::Wide(usize::from(*bytes), *signed),
            BaseType::Float32 => Kind::Float32,
            BaseType::Float64 => Kind::Float64,
            BaseType::Decimal(4, _, scale) => Kind::Decimal32(*scale),
            BaseType::Decimal(8, _, scale) => Kind::Decimal64(*scale),
            BaseType::Decimal(bytes, _, scale) => Kind::WideDecimal(usize::from(*bytes), *scale),
            BaseType::Bool if is_mysql(format) => Kind::Bool([b"0", b"1"]),
            BaseType::Bool => Kind::Bool([b"false", b"true"]),
            BaseType::FixedString(n) if is_postgresql(format) => Kind::CutString(*n),
            BaseType::FixedString(n) => Kind::FixedString(*n),
            BaseType::Date => Kind::Date,
            BaseType::Date32 => Kind::Date32,
            BaseType::DateTime(_) => Kind::DateTime,
            BaseType::DateTime64(digits, _) => {
                Kind::DateTime64(usize::from(*digits), 10i64.pow((*digits).into()))
            }
            BaseType::Uuid => Kind::Uuid,
            BaseType::Ipv4 => Kind::Ipv4,
            BaseType::Ipv6 => Kind::Ipv6,
            BaseType::Enum(bytes, elements) => {
                let texts = elements.iter().map(|(name, number)| {
                    let mut text = Vec::new();
                    escapes.put_all(&mut text, name);
                    (*number, text)
                });
                Kind::Enum(usize::from(*bytes), texts.collect())
            }
            // The spec is refused with nested columns.
            BaseType::String | BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..) => {
                Kind::String
            }
        }
    }
}

/// True for formats that write true as 1: the word is not a number there.
fn is_mysql(format: OutputFormat) -> bool {
    matches!(format, OutputFormat::MySql | OutputFormat::MariaDb)
}

/// True for formats whose texts have no zero byte.
fn is_postgresql(format: OutputFormat) -> bool {
    matches!(format, OutputFormat::PostgreSql | OutputFormat::PostgreSqlBinary)
}

/// True where CSV and JSON have values of a type between quotes.
fn is_quoted(data_type: &Type) -> bool {
    !matches!(
        data_type.base,
        BaseType::Int(..)
            | BaseType::Float32
            | BaseType::Float64
            | BaseType::Decimal(..)
            | BaseType::Bool
    )
}

/// One column, and how far its rows have been written.
struct Cell<'a> {
    kind: &'a Kind,
    /// Not in the form of a binary format.
    as_text: bool,
    quoted: bool,
    nulls: &'a [u8],
    data: &'a [u8],
    /// Of the next value.
    at: usize,
    /// The date that was written last, and its text.
    day: i32,
    date: [u8; 10],
}

/// Values of a column as texts, one after the other: those that have no other form elsewhere.
#[cfg(feature = "arrow")]
pub struct Texts {
    kind: Kind,
    escapes: Escapes,
}

#[cfg(feature = "arrow")]
impl Texts {
    /// Those of a type that is not nested.
    pub fn of(data_type: &Type) -> Texts {
        let format = OutputFormat::PostgreSqlBinary; // in which no byte is replaced
        let escapes = Escapes::of(format);
        Texts { kind: Kind::of(data_type, format, &escapes), escapes }
    }

    /// The texts of all rows, and where each begins and the last one ends.
    pub fn write(&self, column: &Column, rows: usize) -> (Vec<i32>, Vec<u8>) {
        let mut cell = Cell::of(&self.kind, true, column);
        let (mut ends, mut out) = (Vec::with_capacity(rows + 1), Vec::new());
        ends.push(0);
        for _ in 0..rows {
            cell.put(&mut out, &self.escapes);
            ends.push(out.len() as i32);
        }
        (ends, out)
    }
}

/// No day of a value.
const NO_DAY: i32 = i32::MIN;

/// The date of a day since 1970.
#[inline(never)]
fn date_of(day: i32) -> [u8; 10] {
    let (year, month, of_month) = civil(day);
    let year = year as u32;
    let ([a, b], [c, d]) = (pair(year / 100 % 100), pair(year % 100));
    let ([e, f], [g, h]) = (pair(month), pair(of_month));
    [a, b, c, d, b'-', e, f, b'-', g, h]
}

impl<'a> Cell<'a> {
    fn of(kind: &'a Kind, as_text: bool, column: &'a Column) -> Cell<'a> {
        let (nulls, data) = (&column.nulls[..], &column.data[..]);
        Cell { kind, as_text, quoted: false, nulls, data, at: 0, day: NO_DAY, date: [0; 10] }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let at = self.at;
        self.at += N;
        self.data[at..at + N].try_into().expect("N bytes")
    }

    #[inline(always)]
    fn take_slice(&mut self, count: usize) -> &'a [u8] {
        let at = self.at;
        self.at += count;
        &self.data[at..at + count]
    }

    #[inline(always)]
    fn put_date(&mut self, out: &mut Vec<u8>, day: i32) {
        if day != self.day {
            (self.day, self.date) = (day, date_of(day));
        }
        out.extend_from_slice(&self.date);
    }

    #[inline(always)]
    fn put_moment(&mut self, out: &mut Vec<u8>, seconds: i64) {
        self.put_date(out, seconds.div_euclid(86_400) as i32);
        let second = seconds.rem_euclid(86_400) as u32;
        let ([a, b], [c, d]) = (pair(second / 3600), pair(second / 60 % 60));
        let [e, f] = pair(second % 60);
        out.extend_from_slice(&[b' ', a, b, b':', c, d, b':', e, f]);
    }

    /// Append the next value, whatever it is worth where it is NULL.
    #[inline(always)]
    fn put(&mut self, out: &mut Vec<u8>, escapes: &Escapes) {
        match self.kind {
            Kind::Int8 => put_i64(out, i8::from_le_bytes(self.take()).into()),
            Kind::Int16 => put_i64(out, i16::from_le_bytes(self.take()).into()),
            Kind::Int32 => put_i64(out, i32::from_le_bytes(self.take()).into()),
            Kind::Int64 => put_i64(out, i64::from_le_bytes(self.take())),
            Kind::UInt8 => put_u64(out, u8::from_le_bytes(self.take()).into()),
            Kind::UInt16 => put_u64(out, u16::from_le_bytes(self.take()).into()),
            Kind::UInt32 => put_u64(out, u32::from_le_bytes(self.take()).into()),
            Kind::UInt64 => put_u64(out, u64::from_le_bytes(self.take())),
            Kind::Wide(bytes, signed) => put_wide(out, self.take_slice(*bytes), *signed),
            Kind::Float32 => put_f32(out, f32::from_le_bytes(self.take())),
            Kind::Float64 => put_f64(out, f64::from_le_bytes(self.take())),
            Kind::Decimal32(scale) => {
                put_decimal(out, i32::from_le_bytes(self.take()).into(), *scale);
            }
            Kind::Decimal64(scale) => put_decimal(out, i64::from_le_bytes(self.take()), *scale),
            Kind::WideDecimal(bytes, scale) => {
                put_wide_decimal(out, self.take_slice(*bytes), *scale);
            }
            Kind::Bool(texts) => {
                let [value] = self.take();
                out.extend_from_slice(texts[usize::from(value != 0)]);
            }
            Kind::String => {
                let (len, used) = read_varint(&self.data[self.at..]);
                let start = self.at + used;
                self.at = start + len;
                escapes.put(out, self.data, start, len);
            }
            Kind::FixedString(bytes) => {
                escapes.put(out, self.data, self.at, *bytes);
                self.at += bytes;
            }
            Kind::CutString(bytes) => {
                let text = self.take_slice(*bytes);
                let len = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                escapes.put_all(out, &text[..len]);
            }
            Kind::Date => {
                let day = u16::from_le_bytes(self.take());
                self.put_date(out, day.into());
            }
            Kind::Date32 => {
                let day = i32::from_le_bytes(self.take());
                self.put_date(out, day);
            }
            Kind::DateTime => {
                let seconds = u32::from_le_bytes(self.take());
                self.put_moment(out, seconds.into());
            }
            Kind::DateTime64(digits, units) => {
                let count = i64::from_le_bytes(self.take());
                self.put_moment(out, count.div_euclid(*units));
                if *digits > 0 {
                    out.push(b'.');
                    put_padded(out, count.rem_euclid(*units) as u64, *digits);
                }
            }
            Kind::Uuid => put_uuid(out, self.take()),
            Kind::Ipv4 => put_ipv4(out, u32::from_le_bytes(self.take()).to_be_bytes()),
            Kind::Ipv6 => put_ipv6(out, self.take()),
            Kind::Enum(bytes, texts) => {
                let code = match bytes {
                    1 => i8::from_le_bytes(self.take()).into(),
                    _ => i16::from_le_bytes(self.take()),
                };
                out.extend_from_slice(texts.get(&code).map_or(b"", |text| text));
            }
        }
    }
}

/// Append each row by `put`, and write what has come together.
#[inline(always)]
fn write_rows(
    to: &mut Destination,
    out: &mut Vec<u8>,
    rows: usize,
    mut put: impl FnMut(&mut Vec<u8>, usize),
) -> io::Result<()> {
    for row in 0..rows {
        put(out, row);
        if out.len() >= WRITE_BYTES {
            to.write_all(out)?;
            out.clear();
        }
    }
    to.write_all(out)?;
    out.clear();
    Ok(())
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The bytes of a UUID, which is stored as two numbers, the upper one first.
fn uuid_bytes(halves: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|n| halves[n / 8 * 8 + 7 - n % 8])
}

/// Append a UUID.
fn put_uuid(out: &mut Vec<u8>, halves: [u8; 16]) {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (n, byte) in uuid_bytes(halves).into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    out.extend_from_slice(&text);
}

fn put_ipv4(out: &mut Vec<u8>, octets: [u8; 4]) {
    write!(out, "{}", Ipv4Addr::from(octets)).expect("memory takes all");
}

/// Append an address with its longest run of zero groups, the first of several, as `::`, and with
/// the last two groups as IPv4 where that run or `ffff` is before them.
fn put_ipv6(out: &mut Vec<u8>, octets: [u8; 16]) {
    let groups: [u16; 8] =
        std::array::from_fn(|n| u16::from_be_bytes([octets[2 * n], octets[2 * n + 1]]));
    let (mut first, mut longest) = (8, 1);
    let mut n = 0;
    while n < 8 {
        let zeros = groups[n..].iter().take_while(|group| **group == 0).count();
        if zeros > longest {
            (first, longest) = (n, zeros);
        }
        n += zeros.max(1);
    }
    let mapped = first == 0 && (longest == 6 || (longest == 5 && groups[5] == 0xffff));
    let mut n = 0;
    while n < 8 {
        if n == first {
            out.extend_from_slice(b"::");
            n += longest;
            continue;
        }
        if n > 0 && n != first + longest {
            out.push(b':');
        }
        if mapped && n == 6 {
            let [.., a, b, c, d] = octets;
            return put_ipv4(out, [a, b, c, d]);
        }
        write!(out, "{:x}", groups[n]).expect("memory takes all");
        n += 1;
    }
}

impl Output {
    /// Write rows of columns of these types, as a spec says.
    pub fn new(to: Destination, types: &[Type], spec: &Spec) -> Output {
        let (format, texts) = (spec.output_format, &spec.output_texts);
        let escapes = Escapes::of(format);
        let kinds = types.iter().map(|found| Kind::of(found, format, &escapes)).collect();
        let delimiter = if format == OutputFormat::Csv { b',' } else { b'\t' };
        let as_text = (0..types.len()).map(|number| texts.contains(&number)).collect();
        let field = |(found, name): (&Type, &String)| Field::of(found, name).expect("was checked");
        let fields = types.iter().zip(&spec.output_types).map(field).collect();
        let names = spec.columns.iter().map(|column| column.name.as_bytes());
        let keys = json::keys(names, &escapes);
        let out = Vec::with_capacity(2 * WRITE_BYTES);
        Output {
            to,
            out,
            made: Vec::new(),
            kinds,
            as_text,
            escapes,
            delimiter,
            fields,
            keys,
            format,
        }
    }

    /// Write the rows of one block.
    pub fn write(&mut self, columns: &[Column], rows: usize) -> io::Result<()> {
        match self.format {
            OutputFormat::MariaDb => self.write_frames(columns, rows),
            OutputFormat::PostgreSqlBinary => self.write_tuples(columns, rows),
            OutputFormat::JsonEachRow => self.write_objects(columns, rows),
            _ => self.write_lines(columns, rows),
        }
    }

    /// Write the rows of a batch that has them as lines of this format; false where it has not.
    pub fn write_batch(&mut self, batch: &mut dyn Batch) -> io::Result<bool> {
        let formats = [OutputFormat::Tsv, OutputFormat::MySql, OutputFormat::PostgreSql];
        if !formats.contains(&self.format) {
            return Ok(false);
        }
        let Some(bytes) = batch.write_lines(&mut self.made) else { return Ok(false) };
        self.to.write_all(&self.made[..bytes])?;
        Ok(true)
    }

    fn write_lines(&mut self, columns: &[Column], rows: usize) -> io::Result<()> {
        let csv = self.delimiter == b',';
        let cells = columns.iter().zip(&self.kinds).map(|(column, kind)| Cell {
            quoted: csv && is_quoted(&column.data_type),
            ..Cell::of(kind, true, column)
        });
        let mut cells: Vec<Cell<'_>> = cells.collect();
        let (escapes, delimiter) = (&self.escapes, self.delimiter);
        write_rows(&mut self.to, &mut self.out, rows, |out, row| {
            for cell in &mut cells {
                let before = out.len();
                if cell.quoted {
                    out.push(b'"');
                }
                cell.put(out, escapes);
                if cell.quoted {
                    out.push(b'"');
                }
                if cell.nulls.get(row).is_some_and(|null| *null != 0) {
                    out.truncate(before);
                    out.extend_from_slice(b"\\N");
                }
                out.push(delimiter);
            }
            if let Some(last) = out.last_mut() {
                *last = b'\n';
            }
        })
    }
}
