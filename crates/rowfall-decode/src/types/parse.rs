//! Parses the names of types as ClickHouse writes them.

use crate::types::{BaseType, TimeNotation, Type, zone};

/// Take `Name(args)` apart; None where the brackets do not match.
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
    /// Parse the name of a type whose values are written in the plain way. `zone` is the time zone
    /// of types that name none. The error is the reason why the type is not supported.
    pub fn parse(name: &str, zone: Option<&str>) -> Result<Type, String> {
        Type::parse_written(name, TimeNotation::Plain, false, zone)
    }

    /// The same for values in another notation, or such as have to be written as they are kept.
    pub fn parse_written(
        name: &str,
        time_notation: TimeNotation,
        canonical: bool,
        zone: Option<&str>,
    ) -> Result<Type, String> {
        let unsupported = || format!("type {name} is not supported");
        let (mut nullable, mut low_cardinality) = (false, false);
        let mut inner = name.trim();
        loop {
            match call(inner).ok_or_else(unsupported)? {
                ("LowCardinality", args) if !low_cardinality && !nullable && !args.is_empty() => {
                    low_cardinality = true;
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
        let base = parse_base(base, args, zone, canonical).ok_or_else(unsupported)??;
        let nested = matches!(base, BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..));
        if nullable && nested {
            return Err(unsupported());
        }
        if low_cardinality && base != BaseType::String {
            return Err(format!("type {name}: LowCardinality is supported of String only"));
        }
        let moment = matches!(base, BaseType::DateTime(_) | BaseType::DateTime64(..));
        if time_notation != TimeNotation::Plain && !moment {
            return Err(format!("values of the type {name} have no notation of times"));
        }
        let kept = matches!(base, BaseType::Int(1..=8, _) | BaseType::Float64 | BaseType::Bool);
        // Elements are written so where their types have other spellings at all.
        if canonical && !kept && !nested {
            return Err(format!("values of the type {name} have one spelling"));
        }
        Ok(Type {
            name: name.trim().to_owned(),
            base,
            nullable,
            low_cardinality,
            time_notation,
            canonical,
            blank: false,
            padded: false,
        })
    }

    /// Parse the type of an element of a nested one. `canonical`: it is written as it is kept, if
    /// its type has other spellings.
    fn element(name: &str, zone: Option<&str>, canonical: bool) -> Result<Type, String> {
        if canonical && let Ok(found) = Type::parse_written(name, TimeNotation::Plain, true, zone) {
            return Ok(found);
        }
        Type::parse(name, zone)
    }
}

type Parsed = Option<Result<BaseType, String>>;

/// Parse a type without Nullable and LowCardinality. None where its name is unknown, an error where
/// it is known, but not supported like this.
fn parse_base(base: &str, args: &str, zone: Option<&str>, canonical: bool) -> Parsed {
    let plain = |base| args.is_empty().then_some(Ok(base));
    match base {
        "Float32" => plain(BaseType::Float32),
        "Float64" => plain(BaseType::Float64),
        "Bool" => plain(BaseType::Bool),
        "String" => plain(BaseType::String),
        "Date" => plain(BaseType::Date),
        "Date32" => plain(BaseType::Date32),
        "UUID" => plain(BaseType::Uuid),
        "IPv4" => plain(BaseType::Ipv4),
        "IPv6" => plain(BaseType::Ipv6),
        "FixedString" => {
            number(args).filter(|n| (1..=4096).contains(n)).map(BaseType::FixedString).map(Ok)
        }
        "Decimal" => parse_decimal(args),
        "Decimal32" => decimal_of(9, number(args)?),
        "Decimal64" => decimal_of(18, number(args)?),
        "Decimal128" => decimal_of(38, number(args)?),
        "Decimal256" => decimal_of(76, number(args)?),
        "DateTime" | "DateTime32" => Some(zone_of(args, zone).map(BaseType::DateTime)),
        "DateTime64" => {
            let (digits, own) = args.split_once(',').unwrap_or((args, ""));
            let digits = if args.is_empty() { 3 } else { number(digits).filter(|n| *n <= 9)? };
            Some(zone_of(own, zone).map(|zone| BaseType::DateTime64(digits as u8, zone)))
        }
        "Enum8" => parse_enum(args, 1),
        "Enum16" => parse_enum(args, 2),
        "Array" => Some(
            Type::element(args, zone, canonical).map(|element| BaseType::Array(Box::new(element))),
        ),
        "Map" => parse_map(args, zone, canonical),
        "Tuple" => parse_tuple(args, zone, canonical),
        _ => {
            let signed = !base.starts_with('U');
            let bits = number(base.strip_prefix('U').unwrap_or(base).strip_prefix("Int")?)?;
            let known = args.is_empty() && matches!(bits, 8 | 16 | 32 | 64 | 128 | 256);
            known.then_some(Ok(BaseType::Int((bits / 8) as u8, signed)))
        }
    }
}

/// Split a list at its commas, but not at those in brackets and quotes.
fn split(args: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let mut bytes = args.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            b'\'' | b'`' => loop {
                match bytes.next()?.1 {
                    b'\\' => drop(bytes.next()?),
                    other if other == byte => break,
                    _ => {}
                }
            },
            b',' if depth == 0 => {
                parts.push(args[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(args[start..].trim());
    (depth == 0).then_some(parts)
}

fn parse_map(args: &str, zone: Option<&str>, canonical: bool) -> Parsed {
    let parts = split(args)?;
    let [key, value] = parts[..] else { return None };
    let pair =
        Type::parse(key, zone).and_then(|key| Ok([key, Type::element(value, zone, canonical)?]));
    match pair {
        // Nested keys have no text of their own in JSON, and NULL is none.
        Ok([key, _]) if key.nullable || !key.children().is_empty() => None,
        Ok(pair) => Some(Ok(BaseType::Map(Box::new(pair)))),
        Err(reason) => Some(Err(reason)),
    }
}

/// Elements of a tuple at most: the names found in an object are the bits of a number.
pub const ELEMENTS: usize = 64;

fn parse_tuple(args: &str, zone: Option<&str>, canonical: bool) -> Parsed {
    let (mut types, mut names) = (Vec::new(), Vec::new());
    for part in split(args)? {
        let (name, kind) = element(part)?;
        match Type::element(kind, zone, canonical) {
            Ok(kind) => types.push(kind),
            Err(reason) => return Some(Err(reason)),
        }
        if let Some(name) = name {
            if names.contains(&name) {
                return None;
            }
            names.push(name);
        }
    }
    let all = names.is_empty() || names.len() == types.len();
    (all && types.len() <= ELEMENTS).then_some(Ok(BaseType::Tuple(types, names)))
}

/// An element of a tuple: `Type`, `name Type` or `` `any name` Type``.
fn element(text: &str) -> Option<(Option<Vec<u8>>, &str)> {
    if let Some(rest) = text.strip_prefix('`') {
        let (name, kind) = rest.split_once('`')?;
        let plain = !name.is_empty() && !name.contains('\\') && !kind.starts_with('`');
        return plain.then(|| (Some(name.as_bytes().to_vec()), kind.trim()));
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.split_once(' ') {
        Some((name, kind)) if name.chars().all(word) && kind.trim_start().starts_with(word) => {
            Some((Some(name.as_bytes().to_vec()), kind.trim()))
        }
        _ => Some((None, text)),
    }
}

/// The time zone that a type names, or else that of the spec; None for UTC.
fn zone_of(own: &str, zone: Option<&str>) -> Result<Option<String>, String> {
    let own = own.trim();
    let name = if own.is_empty() { zone.unwrap_or("") } else { own.trim_matches('\'') };
    match name {
        _ if zone::UTC.contains(&name) => Ok(None),
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
    (scale <= digits).then_some(Ok(BaseType::Decimal(bytes, digits as u8, scale as u8)))
}

/// Parse `'a' = 1, 'b' = 2` with `\'`, `\\` and `''` in the names.
fn parse_enum(args: &str, bytes: u8) -> Parsed {
    let (least, greatest) = if bytes == 1 { (-128, 127) } else { (-32768, 32767) };
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
        if value < least || value > greatest || elements.iter().any(|e| e.0 == name) {
            return None;
        }
        elements.push((name, value as i16));
        rest = rest.get(stop + 1..).unwrap_or(b"").trim_ascii_start();
    }
    (!elements.is_empty()).then_some(Ok(BaseType::Enum(bytes, elements)))
}
