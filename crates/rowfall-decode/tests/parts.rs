//! Parts hold the rows of the Native blocks: flat and nested types, several granules and parts, in
//! order of a key and as they come.

mod common;
#[path = "common/parts.rs"]
mod parts;

use rowfall_decode::run::run;
use rowfall_decode::spec::Spec;
use serde_json::json;

use crate::common::{Temporary, native};
use crate::parts::{compare, compare_parts};

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
    assert!(read(json!({"sort_by": [0], "block_bytes": 1 << 20, "read_ahead": true})) > 3);
    assert_eq!(compare(b"", "TSV", COLUMNS, &json!({})), 0);
    assert_eq!(compare(b"x\n", "TSV", COLUMNS, &json!({})), 0);
}

const NESTED: &[(&str, &str)] = &[
    ("number", "Int64"),
    ("list", "Array(UInt16)"),
    ("texts", "Array(Nullable(String))"),
    ("lists", "Array(Array(LowCardinality(String)))"),
    ("map", "Map(String, Array(Nullable(UInt8)))"),
    ("pair", "Tuple(UInt8, String)"),
    ("deep", "Array(Tuple(a Date, b Map(LowCardinality(String), Tuple(UInt8, FixedString(2)))))"),
];

/// Rows of nested values, many of them empty, some long.
fn nested_rows(count: u64) -> String {
    let list = |count: u64, each: &dyn Fn(u64) -> String| {
        format!("[{}]", (0..count).map(each).collect::<Vec<_>>().join(","))
    };
    let row = |n: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let size = if mixed.is_multiple_of(1000) { 4000 } else { mixed % 5 };
        let list_ = list(size, &|i| (i * mixed % 60_000).to_string());
        let texts = list(mixed % 4, &|i| match (mixed + i) % 3 {
            0 => "NULL".to_owned(),
            left => format!("'{}'", "t".repeat(left as usize * 70)),
        });
        let lists =
            list(mixed % 3, &|i| list(mixed % (i + 2), &|j| format!("'k{}'", j * mixed % 30)));
        let map = match mixed % 3 {
            0 => "{}".to_owned(),
            left => format!("{{'a':[NULL,{left}],'':[]}}"),
        };
        let deep =
            list(mixed % 3, &|i| format!("('2024-02-29',{{'x{i}':({i},'ab'),'y':(7,'x')}})"));
        format!("{mixed}\t{list_}\t{texts}\t{lists}\t{map}\t({},'{n}')\t{deep}\n", n % 256)
    };
    (0..count).map(row).collect()
}

#[test]
fn nested_columns_are_parts() {
    let text = nested_rows(20_000);
    let read = |more| compare(text.as_bytes(), "TSV", NESTED, &more);
    assert_eq!(read(json!({})), 1);
    assert_eq!(read(json!({"sort_by": [0]})), 1);
    assert_eq!(read(json!({"sort_by": [0], "block_rows": 7_000})), 3);
    let small = json!({"granule_rows": 100, "min_block": 1000, "max_block": 3000});
    assert_eq!(read(json!({"sort_by": [0], "layout": small})), 1);
    let columns: Vec<_> = (0..10).flat_map(|_| NESTED).collect();
    let names: Vec<String> = (0..columns.len()).map(|n| format!("c{n}")).collect();
    let columns: Vec<_> = names.iter().zip(columns).map(|(n, (_, kind))| (&n[..], *kind)).collect();
    let text: String =
        nested_rows(500).lines().map(|line| format!("{}\n", [line; 10].join("\t"))).collect();
    assert_eq!(compare(text.as_bytes(), "TSV", &columns, &json!({"sort_by": [0]})), 1);
}

#[test]
fn columns_of_defaults_are_sparse() {
    let columns = [
        ("key", "UInt32"),
        ("some", "UInt64"),
        ("text", "String"),
        ("none", "FixedString(3)"),
        ("pair", "Tuple(Int8, String)"),
        ("list", "Array(UInt8)"),
    ];
    let row = |n: u64| {
        let some = if n.is_multiple_of(40) || n > 29_990 { n } else { 0 };
        let text = if some > 0 { "t".repeat(n as usize % 200) } else { String::new() };
        let key = n * 7919 % 30_011;
        format!("{key}\t{some}\t{text}\t\\0\\0\\0\t({},'{text}')\t[]\n", some % 100)
    };
    let text: String = (0..30_000).map(row).collect();
    let read = |more| compare(text.as_bytes(), "TSV", &columns, &more);
    assert_eq!(read(json!({})), 1);
    assert_eq!(read(json!({"sort_by": [0]})), 1);
    assert_eq!(read(json!({"sort_by": [1, 0], "block_rows": 7_000})), 5);
    let small = json!({"granule_rows": 100, "min_block": 1000, "max_block": 3000});
    assert_eq!(read(json!({"sort_by": [0], "layout": small})), 1);
    assert_eq!(read(json!({"layout": {"sparse_above": 0.0}})), 1);
    assert_eq!(read(json!({"layout": {"sparse_above": 1.0}})), 1);
}

#[test]
fn what_the_engine_writes_is_refused_by_name() {
    let by = json!({"columns": [{"index": 0}], "file": "keys"});
    for (kind, more, reason) in [
        ("Array(UInt8)", json!({"partition_by": by}), "partitions by nested values"),
        ("Array(UInt8)", json!({"sort_by": [0]}), "blocks are not sorted by nested values"),
    ] {
        let mut spec = json!({
            "version": 2, "inputs": [], "format": "TSV", "outputs": ["-"], "parts": true,
            "columns": [{"name": "odd", "position": 0, "type": kind}],
        });
        for (name, value) in more.as_object().expect("an object") {
            spec[name] = value.clone();
        }
        let said = format!("{:?}", Spec::parse(&spec.to_string()).expect_err("refused"));
        assert!(said.contains(&format!("column odd: {reason}")), "{said}");
    }
}

#[test]
fn few_columns_are_counted_into_order() {
    let text: String = (0..50_000u64).map(|n| format!("{},{}\n", n * 7919 % 100, n)).collect();
    let columns = [("a", "UInt8"), ("b", "UInt32")];
    for keys in [json!([0]), json!([0, 1]), json!([1, 0])] {
        assert_eq!(compare(text.as_bytes(), "CSV", &columns, &json!({"sort_by": keys})), 1);
    }
}

/// Write the rows of a text as one sorted block, and as one part of each kind that is merged of many
/// blocks, which hold the same rows in the same order.
fn compare_merged(
    text: &[u8],
    columns: &[(&str, &str)],
    sort_by: &[usize],
    (block_rows, hold_bytes): (usize, usize),
) {
    let block = native(text, "TSV", columns, json!({"sort_by": sort_by}));
    for least in [0, u64::MAX] {
        let file = Temporary::new(b"").0.with_extension("scratch");
        let more = json!({
            "sort_by": sort_by, "block_rows": block_rows, "layout": {"wide_bytes": least},
            "merge": {"hold_bytes": hold_bytes, "file": file},
        });
        assert_eq!(compare_parts(text, "TSV", columns, &more, &block), 1);
        assert!(!file.exists(), "the scratch file has a name");
    }
}

/// Blocks beyond those that can be merged are parts of their own, and small ones are compact: the
/// streams of a worker that has written one are no longer held when it writes columns of the wide part.
#[test]
fn a_wide_part_follows_a_compact_one() {
    let text: String =
        (0..300_000u64).map(|n| format!("{}{}\n", n * 7919 % 300_000, "\t7".repeat(39))).collect();
    let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
    let columns: Vec<(&str, &str)> = names.iter().map(|name| (&name[..], "UInt32")).collect();
    let (input, one) = (Temporary::new(text.as_bytes()), Temporary::new(b""));
    let folders = ["a", "b"].map(|name| Temporary(one.0.with_extension(name)));
    let more = json!({
        "sort_by": [0], "block_rows": 3_000, "read_ahead": true, "chunk_bytes": 250_000, "parts": true,
        "outputs": folders.each_ref().map(|folder| &folder.0),
        "layout": {"wide_bytes": 0, "wide_rows": 20_000, "sparse_above": 1.0},
        "merge": {"hold_bytes": 8 << 20, "block_bytes": 1 << 20, "file": one.0.with_extension("scratch")},
    });
    let spec = common::spec(&input, &one, "TSV", &columns, &more);
    Spec::parse(&spec.to_string()).and_then(|spec| run(&spec)).expect("parts");
    let mut wide = 0;
    for part in folders.iter().flat_map(|folder| std::fs::read_dir(&folder.0).expect("parts")) {
        let part = part.expect("a part").path();
        let rows: u64 = std::fs::read_to_string(part.join("count.txt"))
            .expect("a count")
            .parse()
            .expect("rows");
        if rows >= 20_000 {
            wide += 1;
            names
                .iter()
                .for_each(|name| assert!(part.join(format!("{name}.bin")).exists(), "{name}"));
        }
        std::fs::remove_dir_all(part).expect("a part");
    }
    assert_eq!(wide, 1);
    folders.iter().for_each(|folder| std::fs::remove_dir(&folder.0).expect("a folder"));
}

/// Blocks that are merged hold the rows as one block that is sorted: in memory and in the scratch file,
/// by keys of few and of many values, of numbers that fit into 64 and into 128 bits, and of text.
#[test]
fn merged_blocks_are_one_part() {
    let text = rows(12_000);
    for sort_by in [&[][..], &[0], &[1], &[3, 0], &[4, 6], &[6], &[7], &[5, 2, 0]] {
        for held in [(1_000, usize::MAX), (2_001, 1 << 19), (700, 0)] {
            compare_merged(text.as_bytes(), COLUMNS, sort_by, held);
        }
    }
    let text = nested_rows(8_000);
    for sort_by in [&[][..], &[0]] {
        for held in [(999, usize::MAX), (999, 1 << 19), (12_000, 0)] {
            compare_merged(text.as_bytes(), NESTED, sort_by, held);
        }
    }
}
