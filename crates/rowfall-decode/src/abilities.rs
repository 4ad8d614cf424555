//! Tells what the program can do, as it finds out by asking its own parsers. Of this JSON rowfall
//! keeps a copy (`src/rowfall/decoder/abilities_table.py`), so that plans start no process.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::codec;
#[cfg(feature = "arrow")]
use crate::columnar::arrow;
use crate::spec::{Compression, Format, OutputFormat, VERSION};
use crate::types::parse::ELEMENTS;
use crate::types::postgresql::{self, Field};
use crate::types::{Type, zone};

/// A type of each kind, with arguments where there have to be some; the program may know more of
/// the kind, and no other kinds.
const TYPES: &[&str] = &[
    "Bool",
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
    "BFloat16",
    "Decimal(9, 2)",
    "String",
    "FixedString(4)",
    "Date",
    "Date32",
    "DateTime",
    "DateTime64(6)",
    "Time",
    "Time64(3)",
    "UUID",
    "IPv4",
    "IPv6",
    "Enum8('a' = 1)",
    "Enum16('a' = 1)",
    "IntervalDay",
    "JSON",
    "Variant(String, UInt8)",
    "Dynamic",
    "Point",
    "Nothing",
    "Array(UInt8)",
    "Map(String, UInt8)",
    "Tuple(UInt8, String)",
    "Nested(a UInt8)",
];

const POSTGRESQL: &[&str] = &[
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "date",
    "timestamp",
    "timestamptz",
    "uuid",
    "inet",
    "text",
    "varchar",
    "bpchar",
    "json",
    "jsonb",
    "bytea",
    "interval",
    "time",
];

/// What `rowfall-decode --abilities` prints.
pub fn abilities() -> Value {
    let known: Vec<(&str, Type)> = TYPES
        .iter()
        .filter_map(|name| Some((kind(name), Type::parse(name, Some("UTC")).ok()?)))
        .collect();
    let (nested, flat): (Vec<_>, Vec<_>) =
        known.iter().partition(|(_, data_type)| !data_type.children().is_empty());
    let names = |types: &[&(&'static str, Type)]| -> Vec<&str> {
        types.iter().map(|(name, _)| *name).collect()
    };
    let dictionaries: Vec<&str> = flat
        .iter()
        .filter(|(_, t)| Type::parse(&format!("LowCardinality({})", t.name), Some("UTC")).is_ok())
        .map(|(name, _)| *name)
        .collect();
    let converted = converted(&flat);
    let postgresql: BTreeMap<&str, Vec<&str>> = POSTGRESQL
        .iter()
        .map(|server| {
            let takes = flat.iter().filter(|(_, t)| Field::of(t, server).is_some());
            (*server, takes.map(|(name, _)| *name).collect::<Vec<_>>())
        })
        .filter(|(_, types)| !types.is_empty())
        .collect();
    let formats = |wanted: fn(Format) -> bool| -> Vec<Value> {
        Format::ALL.iter().filter(|f| wanted(**f)).map(|f| json!(f)).collect()
    };
    json!({
        "version": VERSION,
        "text_formats": formats(Format::is_text),
        "column_formats": formats(|f| f.is_columnar() && f.is_built_in()),
        "row_formats": formats(Format::is_packets),
        "compressions": Compression::ALL,
        "types": names(&flat),
        "nested_types": names(&nested),
        "dictionary_types": dictionaries,
        "tuple_elements": ELEMENTS,
        "utc": zone::UTC,
        "timezones": zone::ZONES,
        "converted": converted,
        "codecs": codec::NAMES,
        "output_formats": OutputFormat::ALL,
        "postgresql": postgresql,
        "postgresql_second_digits": postgresql::MOST_DIGITS,
    })
}

/// The types that each type of Parquet and Arrow is read as.
#[cfg(feature = "arrow")]
fn converted(flat: &[&(&'static str, Type)]) -> BTreeMap<&'static str, Vec<&'static str>> {
    arrow::SAMPLES
        .iter()
        .map(|(own, found)| {
            let takes = flat.iter().filter(|(_, wanted)| arrow::takes(found, wanted));
            (kind(own), takes.map(|(name, _)| *name).collect())
        })
        .collect()
}

#[cfg(not(feature = "arrow"))]
fn converted(_: &[&(&'static str, Type)]) -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::new()
}

/// The name of a type without its arguments.
fn kind(name: &'static str) -> &'static str {
    name.split('(').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_found_by_the_parsers() {
        let said = abilities();
        let has = |list: &str, name: &str| {
            said[list].as_array().expect("a list").iter().any(|found| found == name)
        };
        assert!(has("types", "Enum16") && !has("types", "Time") && !has("types", "Array"));
        assert!(has("nested_types", "Map") && !has("nested_types", "Nested"));
        assert_eq!(said["dictionary_types"], json!(["String"]));
        assert!(has("text_formats", "CSVWithNames") && has("row_formats", "MySQL"));
        assert_eq!(
            said["postgresql"]["int4"],
            json!(["Int8", "Int16", "Int32", "UInt8", "UInt16"])
        );
    }
}
