//! Types of columns: their names, and one tight loop each that turns cells into Native bytes.

mod decimal;
mod float;
mod int;
mod net;
mod text;
pub use text::{append as append_text, starts_of, strings_of};
mod time;
mod wide;
mod zone;

pub use float::ordinary as is_number;
pub use int::load8;

use crate::cells::{Cells, Column, Null, Style};

#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// Bytes and whether it is signed.
    Int(u8, bool),
    Float32,
    Float64,
    /// Bytes, digits, digits behind the point.
    Decimal(u8, u8, u8),
    Bool,
    String,
    FixedString(usize),
    Date,
    Date32,
    /// Its zone, None for UTC.
    DateTime(Option<String>),
    DateTime64(u8, Option<String>),
    Uuid,
    Ipv4,
    Ipv6,
    /// Bytes (1 or 2), and the elements.
    Enum(u8, Vec<(Vec<u8>, i16)>),
}

/// How points in time are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Plain,
    T,
    Z,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// As given: what the header of a Native column says.
    pub name: String,
    pub base: Base,
    pub nullable: bool,
    pub low: bool,
    pub shape: Shape,
}

/// What `--types` prints.
pub const SUPPORTED: &[&str] = &[
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Int256",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "UInt256",
    "Float32",
    "Float64",
    "Decimal(P, S)",
    "Decimal32(S)",
    "Decimal64(S)",
    "Decimal128(S)",
    "Decimal256(S)",
    "Bool",
    "String",
    "FixedString(N)",
    "Date",
    "Date32",
    "DateTime",
    "DateTime('UTC')",
    "DateTime64(P)",
    "DateTime64(P, 'UTC')",
    "DateTime('Zone/Name')",
    "DateTime64(P, 'Zone/Name')",
    "UUID",
    "IPv4",
    "IPv6",
    "Enum8(...)",
    "Enum16(...)",
    "LowCardinality(String)",
    "LowCardinality(Nullable(String))",
    "Nullable(T)",
];

/// `Name(args)` taken apart; None when the brackets do not match.
fn call(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    match text.find('(') {
        None => Some((text, "")),
        Some(at) => Some((text[..at].trim(), text[at + 1..].strip_suffix(')')?.trim())),
    }
}

fn number(text: &str) -> Option<usize> {
    let text = text.trim();
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

impl Type {
    pub fn parse(name: &str, shape: &str, zone: Option<&str>) -> Result<Type, String> {
        let unsupported = || format!("type {name} is not supported");
        let (mut nullable, mut low) = (false, false);
        let mut inner = name.trim();
        loop {
            match call(inner).ok_or_else(unsupported)? {
                ("LowCardinality", args) if !low && !nullable && !args.is_empty() => {
                    low = true;
                    inner = args;
                }
                ("Nullable", args) if !nullable && !args.is_empty() => {
                    nullable = true;
                    inner = args;
                }
                _ => break,
            }
        }
        let (base, args) = call(inner).ok_or_else(unsupported)?;
        let base = parse_base(base, args, zone).ok_or_else(unsupported)??;
        if low && base != Base::String {
            return Err(format!("type {name}: LowCardinality is supported of String only"));
        }
        let shape = match shape {
            "" => Shape::Plain,
            "T" => Shape::T,
            "Z" => Shape::Z,
            _ => return Err(format!("times written as {shape:?} are not supported")),
        };
        let moment = matches!(base, Base::DateTime(_) | Base::DateTime64(..));
        if shape != Shape::Plain && !moment {
            return Err(format!("type {name} has no shape"));
        }
        Ok(Type { name: name.trim().to_owned(), base, nullable, low, shape })
    }

    /// Bytes of a value; 0 where they vary.
    pub fn width(&self) -> usize {
        match self.base {
            Base::Int(n, _) | Base::Decimal(n, ..) | Base::Enum(n, _) => usize::from(n),
            Base::Bool => 1,
            Base::Date => 2,
            Base::Float32 | Base::Date32 | Base::DateTime(_) | Base::Ipv4 => 4,
            Base::Float64 | Base::DateTime64(..) => 8,
            Base::Uuid | Base::Ipv6 => 16,
            Base::FixedString(n) => n,
            Base::String => 0,
        }
    }
}

type Parsed = Option<Result<Base, String>>;

/// None: unknown; an error: known, but not this one.
fn parse_base(base: &str, args: &str, zone: Option<&str>) -> Parsed {
    let plain = |base| args.is_empty().then_some(Ok(base));
    match base {
        "Float32" => plain(Base::Float32),
        "Float64" => plain(Base::Float64),
        "Bool" => plain(Base::Bool),
        "String" => plain(Base::String),
        "Date" => plain(Base::Date),
        "Date32" => plain(Base::Date32),
        "UUID" => plain(Base::Uuid),
        "IPv4" => plain(Base::Ipv4),
        "IPv6" => plain(Base::Ipv6),
        "FixedString" => {
            number(args).filter(|n| (1..=4096).contains(n)).map(Base::FixedString).map(Ok)
        }
        "Decimal" => parse_decimal(args),
        "Decimal32" => decimal_of(9, number(args)?),
        "Decimal64" => decimal_of(18, number(args)?),
        "Decimal128" => decimal_of(38, number(args)?),
        "Decimal256" => decimal_of(76, number(args)?),
        "DateTime" | "DateTime32" => Some(zone_of(args, zone).map(Base::DateTime)),
        "DateTime64" => {
            let (digits, own) = args.split_once(',').unwrap_or((args, ""));
            let digits = if args.is_empty() { 3 } else { number(digits).filter(|n| *n <= 9)? };
            Some(zone_of(own, zone).map(|zone| Base::DateTime64(digits as u8, zone)))
        }
        "Enum8" => parse_enum(args, 1),
        "Enum16" => parse_enum(args, 2),
        _ => {
            let signed = !base.starts_with('U');
            let bits = number(base.strip_prefix('U').unwrap_or(base).strip_prefix("Int")?)?;
            let known = args.is_empty() && matches!(bits, 8 | 16 | 32 | 64 | 128 | 256);
            known.then_some(Ok(Base::Int((bits / 8) as u8, signed)))
        }
    }
}

/// The zone that a type names, or else the spec; None for UTC.
fn zone_of(own: &str, zone: Option<&str>) -> Result<Option<String>, String> {
    let own = own.trim();
    let name = if own.is_empty() { zone.unwrap_or("") } else { own.trim_matches('\'') };
    match name {
        "UTC" | "Etc/UTC" => Ok(None),
        "" => Err("a DateTime without a time zone needs the spec's timezone".into()),
        _ if zone::ZONES.contains(&name) => Ok(Some(name.to_owned())),
        _ => Err(format!("times in {name} are not supported")),
    }
}

fn parse_decimal(args: &str) -> Parsed {
    let (digits, scale) = args.split_once(',').unwrap_or((args, "0"));
    decimal_of(number(digits)?, number(scale)?)
}

fn decimal_of(digits: usize, scale: usize) -> Parsed {
    let bytes = match digits {
        1..=9 => 4,
        10..=18 => 8,
        19..=38 => 16,
        39..=76 => 32,
        _ => return None,
    };
    (scale <= digits).then_some(Ok(Base::Decimal(bytes, digits as u8, scale as u8)))
}

/// `'a' = 1, 'b' = 2` with `\'`, `\\` and `''` in the names.
fn parse_enum(args: &str, bytes: u8) -> Parsed {
    let (low, high) = if bytes == 1 { (-128, 127) } else { (-32768, 32767) };
    let mut rest = args.trim().as_bytes();
    let mut elements: Vec<(Vec<u8>, i16)> = Vec::new();
    while !rest.is_empty() {
        let mut name = Vec::new();
        rest = rest.strip_prefix(b"'")?;
        loop {
            match rest {
                [b'\\', c @ (b'\'' | b'\\'), more @ ..] => (name.push(*c), rest = more).1,
                [b'\\', ..] => return None,
                [b'\'', b'\'', more @ ..] => (name.push(b'\''), rest = more).1,
                [b'\'', more @ ..] => {
                    rest = more.trim_ascii_start();
                    break;
                }
                [c, more @ ..] => (name.push(*c), rest = more).1,
                [] => return None,
            }
        }
        rest = rest.strip_prefix(b"=")?.trim_ascii_start();
        let stop = rest.iter().position(|c| *c == b',').unwrap_or(rest.len());
        let value: i32 = std::str::from_utf8(rest[..stop].trim_ascii()).ok()?.parse().ok()?;
        if value < low || value > high || elements.iter().any(|e| e.0 == name) {
            return None;
        }
        elements.push((name, value as i16));
        rest = rest.get(stop + 1..).unwrap_or(b"").trim_ascii_start();
    }
    (!elements.is_empty()).then_some(Ok(Base::Enum(bytes, elements)))
}

/// One value of fixed width; `parse` gives None for whatever is not certainly right.
pub trait Fixed {
    type Out: Copy;
    const ZERO: Self::Out;
    /// NULL may also be written as nothing or `\N` whatever the spec's `null` is.
    const LOOSE_NULL: bool = true;
    /// JSON may hold it without quotes.
    const BARE: bool = false;

    /// Parse `text[start..end]`; 64 bytes are readable from any position up to `end`, and 16
    /// before `start`.
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<Self::Out>;
}

/// Decode all cells of a column; the row of the first that is declined otherwise.
pub fn decode<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    let kind = column.kind.clone();
    match &kind.base {
        Base::Int(1, true) => fixed(column, cells, int::Signed::<i8>::default()),
        Base::Int(2, true) => fixed(column, cells, int::Signed::<i16>::default()),
        Base::Int(4, true) => fixed(column, cells, int::Signed::<i32>::default()),
        Base::Int(8, true) => fixed(column, cells, int::Signed::<i64>::default()),
        Base::Int(1, false) => fixed(column, cells, int::Unsigned::<u8>::default()),
        Base::Int(2, false) => fixed(column, cells, int::Unsigned::<u16>::default()),
        Base::Int(4, false) => fixed(column, cells, int::Unsigned::<u32>::default()),
        Base::Int(8, false) => fixed(column, cells, int::Unsigned::<u64>::default()),
        Base::Int(16, signed) => fixed(column, cells, wide::Int128 { signed: *signed }),
        Base::Int(_, signed) => fixed(column, cells, wide::Int256 { signed: *signed }),
        Base::Float32 => fixed(column, cells, float::F32),
        Base::Float64 => fixed(column, cells, float::F64),
        Base::Decimal(4, p, s) => fixed(column, cells, decimal::Small::<i32>::new(*p, *s)),
        Base::Decimal(8, p, s) => fixed(column, cells, decimal::Small::<i64>::new(*p, *s)),
        Base::Decimal(16, p, s) => fixed(column, cells, decimal::Wide::<2>::new(*p, *s)),
        Base::Decimal(_, p, s) => fixed(column, cells, decimal::Wide::<4>::new(*p, *s)),
        Base::Bool => fixed(column, cells, net::Bool),
        Base::Date => fixed(column, cells, time::Date::default()),
        Base::Date32 => fixed(column, cells, time::Date32::default()),
        Base::DateTime(zone) => moments(column, cells, time::DateTime::new(kind.shape), zone),
        Base::DateTime64(p, zone) => {
            moments(column, cells, time::DateTime64::new(*p, kind.shape), zone)
        }
        Base::Uuid => fixed(column, cells, net::Uuid),
        Base::Ipv4 => fixed(column, cells, net::Ipv4),
        Base::Ipv6 => fixed(column, cells, net::Ipv6),
        Base::Enum(1, elements) => text::enums::<C, i8>(column, cells, elements),
        Base::Enum(_, elements) => text::enums::<C, i16>(column, cells, elements),
        Base::FixedString(n) => text::fixed_strings(column, cells, *n),
        Base::String => text::strings(column, cells),
    }
}

fn fixed<'a, C: Cells<'a>, P: Fixed>(
    column: &mut Column,
    cells: &C,
    parser: P,
) -> Result<(), usize> {
    if column.kind.nullable {
        run::<C, P, true>(column, cells, parser)
    } else {
        run::<C, P, false>(column, cells, parser)
    }
}

/// Points in time of UTC, or of a zone; a `Z` behind them says UTC whatever the zone is.
fn moments<'a, C: Cells<'a>, P: Fixed + time::Moment>(
    column: &mut Column,
    cells: &C,
    parser: P,
    zone: &Option<String>,
) -> Result<(), usize> {
    match zone.as_deref().filter(|_| column.kind.shape != Shape::Z) {
        None => fixed(column, cells, parser),
        Some(name) => {
            let zone = zone::Zone::new(name).expect("checked when the type was parsed");
            fixed(column, cells, time::Local { parser, zone })
        }
    }
}

/// The loop of all types of fixed width: find the cell, drop its quotes, parse, store.
#[inline(always)]
fn run<'a, C: Cells<'a>, P: Fixed, const NULLS: bool>(
    column: &mut Column,
    cells: &C,
    mut parser: P,
) -> Result<(), usize> {
    let rows = cells.page().rows;
    let width = size_of::<P::Out>();
    column.data.reserve(rows * width);
    column.nulls.reserve(rows);
    let text = cells.page().text;
    let values = column.data.as_mut_ptr_range().start;
    // SAFETY: `len` bytes are in use, and `rows * width` more were reserved behind them.
    let values = unsafe { values.add(column.data.len()) };
    // SAFETY: the same for one byte a row.
    let marks = unsafe { column.nulls.as_mut_ptr().add(column.nulls.len()) };
    for row in 0..rows {
        let (from, to) = cells.get(row);
        let (start, end) = cells.unquote(from, to);
        let mut value = P::ZERO;
        let mut null = 0u8;
        let bare = C::STYLE == Style::Json && start == from;
        match parser.parse(text, start, end) {
            Some(parsed) if P::BARE || !bare => value = parsed,
            _ if NULLS && is_null::<C, P>(cells, from, to) => null = 1,
            _ => return Err(row),
        }
        // SAFETY: row < rows, see the reservations above.
        unsafe {
            values.add(row * width).cast::<P::Out>().write_unaligned(value);
            if NULLS {
                *marks.add(row) = null;
            }
        }
    }
    // SAFETY: the loop wrote `rows` values, and as many marks where there are any.
    unsafe {
        column.data.set_len(column.data.len() + rows * width);
        if NULLS {
            column.nulls.set_len(column.nulls.len() + rows);
        }
    }
    Ok(())
}

#[inline(never)]
fn is_null<'a, C: Cells<'a>, P: Fixed>(cells: &C, from: usize, to: usize) -> bool {
    match cells.null(from, to) {
        Null::Yes => true,
        Null::Loose => P::LOOSE_NULL,
        Null::No => false,
    }
}

/// A name of a header without quotes and escapes; None for one that is empty or unusual.
pub fn text_of_name(cell: &[u8], csv: bool) -> Option<Vec<u8>> {
    let quoted = csv && cell.first() == Some(&b'"');
    let content = if quoted { cell.get(1..cell.len() - 1)? } else { cell };
    let blank = |c: Option<&u8>| c.is_some_and(u8::is_ascii_whitespace);
    if content.is_empty() || blank(content.first()) || blank(content.last()) {
        return None;
    }
    let mut name = Vec::new();
    if csv && !quoted {
        name.extend_from_slice(content);
    } else {
        text::unescape(if csv { Style::Csv } else { Style::Tsv }, content, &mut name)?;
    }
    (!name.contains(&b'\n')).then_some(name)
}
