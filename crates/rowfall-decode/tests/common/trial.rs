//! What has to be true of any bytes whatever: tried by mutations here, and by the targets in fuzz/.

#[path = "gunzip.rs"]
mod gunzip;
#[path = "parts.rs"]
mod parts;

use std::io::Read;

use rowfall_decode::simd::Simd;
use serde_json::json;

use crate::common::native;

const TYPES: [&str; 34] = [
    "Int8",
    "Nullable(Int64)",
    "UInt64",
    "Int128",
    "Nullable(UInt256)",
    "Float32",
    "Nullable(Float64)",
    "Decimal(9, 2)",
    "Nullable(Decimal(18, 4))",
    "Decimal(38, 10)",
    "Decimal(76, 30)",
    "Bool",
    "String",
    "Nullable(String)",
    "FixedString(3)",
    "Nullable(FixedString(1))",
    "LowCardinality(String)",
    "LowCardinality(Nullable(String))",
    "Date",
    "Nullable(Date32)",
    "DateTime",
    "DateTime('Europe/Berlin')",
    "Nullable(DateTime64(3))",
    "DateTime64(9, 'Asia/Tokyo')",
    "UUID",
    "Nullable(IPv4)",
    "IPv6",
    "Enum8('a' = 1, 'it\\'s' = 2)",
    "Array(Nullable(String))",
    "Map(LowCardinality(String), Array(UInt8))",
    "Array(Tuple(a Float64, `b c` Date))",
    "Array(Array(LowCardinality(Nullable(String))))",
    "Tuple(a Int8, b Array(String), c Nullable(UInt64))",
    "Map(UInt8, Tuple(Decimal(38, 10), FixedString(3)))",
];

/// The first of them, which parts have.
const FLAT_TYPES: usize = 28;

/// Bytes that a gzip file unpacks to at most here.
const MOST: usize = 4 << 20;

/// Read a file of twelve columns: two bytes choose their types and options, the rest is its text.
///
/// # Panics
/// Where the ways to read it differ, or the blocks are larger than such a text can give.
pub fn text(format: &str, data: &[u8]) {
    let [kind, options, text @ ..] = data else { return };
    let kind = TYPES[usize::from(*kind) % TYPES.len()];
    let wide = options & 1 == 1;
    let columns: Vec<_> = [("v", kind), ("k", "String")]
        .repeat(if wide { 6 } else { 1 })
        .iter()
        .enumerate()
        .map(|(n, (name, kind))| json!({"name": name, "position": n % 2, "type": kind}))
        .collect();
    if wide && format == "JSONEachRow" {
        return; // keys are found once only
    }
    let absent = if options & 2 == 2 { "" } else { "\\N" };
    let sorted = options & 16 == 16;
    let mut any_chunk = None;
    for chunk in [5, 1 << 16] {
        let mut first = None;
        for simd in ["scalar", "avx2", "avx512"] {
            if Simd::choose(simd).is_none() {
                continue;
            }
            let more = json!({
                "simd": simd, "chunk_bytes": chunk, "null": absent, "columns": columns,
                "allow_line_breaks": options & 4 == 4, "trim_strings": options & 8 == 8,
                "sort_by": sorted.then_some([1]),
                "tuples": if options & 32 == 32 { "value" } else { "fields" },
            });
            let found = native(text, format, &[], more);
            match &found {
                // The widest row of two bytes: six values of 33 bytes, and as many empty strings.
                Ok(blocks) => assert!(blocks.len() <= 2000 + text.len() * 6 * 34 / 2),
                Err(said) => {
                    let kind = said["error"].as_str().unwrap_or_default();
                    assert!(["value", "malformed", "unclosed"].contains(&kind), "{said}");
                }
            }
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(*first, found, "{simd}: {format} {kind}");
        }
        // What a message shows of a broken row, and dictionaries of sorted rows, may differ.
        let found = first.expect("scalar is everywhere");
        let found = found.map_err(|said| (said["line"].clone(), said["offset"].clone()));
        let found = found.map(|blocks| if kind.contains("Low") { Vec::new() } else { blocks });
        let any_chunk = any_chunk.get_or_insert_with(|| found.clone());
        assert_eq!(*any_chunk, found, "chunks of {chunk}: {format} {kind}");
        // In pieces that a thread of its own cuts.
        let more = json!({
            "read_ahead": true, "chunk_bytes": chunk, "null": absent, "columns": columns,
            "allow_line_breaks": options & 4 == 4, "trim_strings": options & 8 == 8,
            "sort_by": sorted.then_some([1]),
            "tuples": if options & 32 == 32 { "value" } else { "fields" },
        });
        let pieces = native(text, format, &[], more);
        let pieces = pieces.map_err(|said| (said["line"].clone(), said["offset"].clone()));
        let pieces = pieces.map(|blocks| if kind.contains("Low") { Vec::new() } else { blocks });
        assert_eq!(pieces, found, "pieces of {chunk}: {format} {kind}");
    }
}

/// Write a file of two columns as parts: two bytes choose the type and options, the rest is its text.
///
/// # Panics
/// Where they do not hold what the Native blocks hold.
pub fn part(format: &str, data: &[u8]) {
    let [kind, options, text @ ..] = data else { return };
    let kind = TYPES[usize::from(*kind) % FLAT_TYPES];
    let block_rows = [1, 7, 50, 1000][usize::from(options >> 1 & 3)];
    let more = json!({
        "sort_by": (options & 1 == 1).then_some([1]), "block_rows": block_rows,
        "allow_line_breaks": options & 8 == 8, "simd": if options & 16 == 16 { "scalar" } else { "auto" },
    });
    parts::compare(text, format, &[("v", kind), ("k", "String")], &more);
}

/// Unpack a gzip file.
///
/// # Panics
/// Where the outcome is not that of zlib-rs.
pub fn gzip(data: &[u8]) {
    let theirs = members(data);
    if matches!(&theirs, Ok(found) if found.len() > MOST) {
        return;
    }
    match (gunzip::gunzip(data, 1000), theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        // The other one does not look at all of the header, and at nothing behind the last member.
        (Err(_), _) => {}
        (Ok(_), Err(error)) => panic!("accepted, and refused by zlib-rs: {error}"),
    }
}

/// Unpack the members of a gzip file by zlib-rs, with the zeros that tapes and disks fill up with.
fn members(data: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut found, mut rest) = (Vec::new(), data);
    loop {
        let most = (MOST + 1).saturating_sub(found.len()) as u64;
        let mut member = flate2::bufread::GzDecoder::new(rest);
        (&mut member).take(most).read_to_end(&mut found)?;
        if found.len() > MOST {
            return Ok(found);
        }
        rest = member.into_inner();
        rest = &rest[rest.iter().take_while(|&&byte| byte == 0).count()..];
        if rest.is_empty() {
            return Ok(found);
        }
    }
}
