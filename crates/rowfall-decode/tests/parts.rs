//! Parts hold the rows of the Native blocks: every flat type, several granules and parts, in order
//! of a key and as they come.

mod common;
#[path = "common/parts.rs"]
mod parts;

use serde_json::json;

use crate::parts::compare;

const COLUMNS: &[(&str, &str)] = &[
    ("number", "Int64"),
    ("text", "String"),
    ("maybe", "Nullable(String)"),
    ("low", "LowCardinality(Nullable(String))"),
    ("many", "LowCardinality(String)"),
    ("fixed", "FixedString(3)"),
    ("day", "Nullable(Date)"),
    ("wide", "UInt256"),
];

/// Rows in no order: long and short strings, NULLs, dictionaries of few and of many values.
fn rows(count: u64) -> String {
    let row = |n: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let text = "t".repeat((mixed % 300) as usize);
        let maybe = if mixed.is_multiple_of(3) { "\\N" } else { "x" };
        let low = ["a", "bb", "\\N", ""][(mixed % 4) as usize];
        let day = if mixed.is_multiple_of(5) { "\\N" } else { "2024-02-29" };
        format!("{mixed}\t{text}\t{maybe}\t{low}\tk{}\tabc\t{day}\t{n}\n", mixed % 20_000)
    };
    (0..count).map(row).collect()
}

#[test]
fn parts_hold_the_rows_of_the_blocks() {
    let text = rows(30_000);
    let read = |more| compare(text.as_bytes(), "TSV", COLUMNS, &more);
    assert_eq!(read(json!({})), 1);
    assert_eq!(read(json!({"sort_by": [0]})), 1);
    assert_eq!(read(json!({"sort_by": [1, 0]})), 1);
    assert_eq!(read(json!({"sort_by": [7], "block_rows": 7_000, "simd": "scalar"})), 5);
    assert!(read(json!({"sort_by": [0], "block_bytes": 1 << 20, "ahead": true})) > 3);
    assert_eq!(compare(b"", "TSV", COLUMNS, &json!({})), 0);
    assert_eq!(compare(b"x\n", "TSV", COLUMNS, &json!({})), 0);
}

#[test]
fn few_columns_are_counted_into_order() {
    let text: String = (0..50_000u64).map(|n| format!("{},{}\n", n * 7919 % 100, n)).collect();
    let columns = [("a", "UInt8"), ("b", "UInt32")];
    for keys in [json!([0]), json!([0, 1]), json!([1, 0])] {
        assert_eq!(compare(text.as_bytes(), "CSV", &columns, &json!({"sort_by": keys})), 1);
    }
}
