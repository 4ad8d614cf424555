//! Inputs of columns: Native blocks come out as they went in, and damaged ones end in an error. Rows
//! that are made.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use blocks::{block, string};
use common::native;
use proptest::prelude::*;
use serde_json::{Value, json};

const COLUMNS: [(&str, &str); 3] = [("n", "Int32"), ("s", "String"), ("m", "Nullable(UInt64)")];

type Row = (i32, Vec<u8>, Option<u64>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let text = proptest::collection::vec(any::<u8>(), 0..300);
    proptest::collection::vec((any::<i32>(), text, any::<Option<u64>>()), 0..40)
}

fn encoded(rows: &[Row]) -> Vec<u8> {
    let numbers = rows.iter().flat_map(|r| r.0.to_le_bytes()).collect();
    let mut texts = Vec::new();
    rows.iter().for_each(|r| string(&mut texts, &r.1));
    let mut most: Vec<u8> = rows.iter().map(|r| u8::from(r.2.is_none())).collect();
    most.extend(rows.iter().flat_map(|r| r.2.unwrap_or(0).to_le_bytes()));
    let datas = [numbers, texts, most];
    let columns: Vec<_> =
        COLUMNS.iter().zip(datas).map(|((name, kind), data)| (*name, *kind, data)).collect();
    block(rows.len(), &columns)
}

proptest! {
    #[test]
    fn blocks_are_joined(first in rows(), second in rows()) {
        let data = [encoded(&first), encoded(&second)].concat();
        let wanted = encoded(&[first, second].concat());
        prop_assert_eq!(native(&data, "Native", &COLUMNS, json!({})), Ok(wanted));
    }

    #[test]
    fn blocks_are_cut_and_sorted(all in rows(), size in 1..9usize) {
        let mut wanted = Vec::new();
        for some in all.chunks(size) {
            let mut some = some.to_vec();
            some.sort_by_key(|row| row.0);
            wanted.extend(encoded(&some));
        }
        let more = json!({"block_rows": size, "sort_by": [0]});
        prop_assert_eq!(native(&encoded(&all), "Native", &COLUMNS, more), Ok(wanted));
    }

    #[test]
    fn damaged_blocks_end_in_an_error_or_in_rows(all in rows(), at in any::<prop::sample::Index>(),
                                                  bits in 1..=255u8) {
        let mut data = encoded(&all);
        if !data.is_empty() {
            let at = at.index(data.len());
            data[at] ^= bits;
            let _ = native(&data, "Native", &COLUMNS, json!({}));
            let _ = native(&data[..at], "Native", &COLUMNS, json!({}));
        }
    }
}

#[test]
fn cut_blocks_are_no_blocks() {
    let data = encoded(&[(1, b"text".to_vec(), None), (2, Vec::new(), Some(7))]);
    for size in 1..data.len() {
        assert!(native(&data[..size], "Native", &COLUMNS, json!({})).is_err(), "{size}");
    }
}

#[test]
fn other_columns_are_declined() {
    let one = |name, kind, data: &[u8]| block(1, &[(name, kind, data.to_vec())]);
    for data in
        [one("n", "UInt32", b"1234"), one("m", "Int32", b"1234"), one("n", "Int64", b"12345678")]
    {
        let found = native(&data, "Native", &[("n", "Int32")], json!({}));
        assert_eq!(found.expect_err("another column")["error"], "value");
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let mut data = vec![1, 0xff, 0xff, 0xff, 0x7f];
    string(&mut data, b"n");
    string(&mut data, b"Int32");
    assert!(native(&data, "Native", &[("n", "Int32")], json!({})).is_err());
}

const MADE: [(&str, &str); 2] = [("document_id", "UInt64"), ("payload", "String")];

/// The block of so many rows of `generate://random`, of 16 bytes each.
fn made(name: &str, columns: &[(&str, &str)], rows: (u64, u64)) -> Result<Vec<u8>, Value> {
    let input = json!({"path": name, "start": rows.0, "stop": rows.1});
    native(b"", "Random", columns, json!({"inputs": [input]}))
}

#[test]
fn made_rows_are_those_of_the_engine() {
    let name = "generate://random?seed=1&bytes=16";
    let mut texts = Vec::new();
    string(&mut texts, b"3A7YXflhGrtySc3R");
    let numbers = 0_u64.to_le_bytes().to_vec();
    let wanted = block(1, &[("document_id", "UInt64", numbers), ("payload", "String", texts)]);
    assert_eq!(made(name, &MADE, (0, 1)), Ok(wanted));
    assert_eq!(made(name, &MADE, (7, 7)), Ok(Vec::new()));
    // In another order, and where NULL may be.
    let nullable = [("payload", "Nullable(String)"), ("document_id", "Nullable(UInt64)")];
    let found = made(name, &nullable, (0, 1)).expect("a block");
    assert!(found.windows(18).any(|part| part == b"\0\x103A7YXflhGrtySc3R"));
}

#[test]
fn made_lines_are_the_rows_of_columns() {
    // Steps of the encoder that are whole and that are not, more than one block of the cipher, and
    // more rows than are encrypted together or are in a batch.
    for (size, start, stop) in [
        (1, 0, 70_000),
        (16, 9_995, 10_505),
        (21, 0, 300),
        (22, 99, 101),
        (32, 7, 8),
        (33, 0, 3),
        (512, 95, 1_000),
        (513, 999_990, 1_000_020),
        (70_000, 1, 4),
    ] {
        let name = format!("generate://random?seed=3&bytes={size}");
        let inputs = json!([{"path": name, "start": start, "stop": stop}]);
        let text = |format: &str, simd: &str| {
            let more = json!({"inputs": inputs, "output_format": format, "simd": simd});
            let text = native(b"", "Random", &MADE, more).expect("rows");
            String::from_utf8(text).expect("text")
        };
        // Lines of CSV are written from columns; no field has a quote, a comma or a tab.
        let wanted = text("CSV", "scalar").replace(",\"", "\t").replace("\"\n", "\n");
        assert_eq!(wanted.lines().count(), stop - start);
        assert!(wanted.starts_with(&format!("{start}\t")), "{size}");
        for (format, simd) in [("MySQL", "auto"), ("TSV", "scalar"), ("PostgreSQL", "auto")] {
            assert!(text(format, simd) == wanted, "{format} {simd} {size}");
        }
    }
}

#[test]
fn other_rows_are_not_made() {
    let name = "generate://random?seed=1&bytes=16";
    for columns in [[("document_id", "Int32")], [("payload", "UInt64")], [("other", "String")]] {
        let found = made(name, &columns, (0, 1));
        assert_eq!(found.expect_err("another column")["error"], "value", "{columns:?}");
    }
    for name in [
        "generate://random?seed=1&bytes=0",
        "generate://random?seed=-1&bytes=16",
        "generate://random?seed=1&bytes=1048577",
        "generate://trips?seed=1",
        "rows",
    ] {
        let found = made(name, &MADE, (0, 1));
        assert_eq!(found.expect_err("no such rows")["error"], "value", "{name}");
    }
}

const NESTED: [(&str, &str); 2] =
    [("a", "Array(Nullable(UInt8))"), ("m", "Map(String, Tuple(n UInt16, l Array(String)))")];

/// An array, and the entries of a map: key, number, strings.
type NestedRow = (Vec<Option<u8>>, Vec<(Vec<u8>, u16, Vec<Vec<u8>>)>);

fn nested_rows() -> impl Strategy<Value = Vec<NestedRow>> {
    use proptest::collection::vec;
    let text = || vec(any::<u8>(), 0..200);
    let entry = (text(), any::<u16>(), vec(text(), 0..3));
    vec((vec(any::<Option<u8>>(), 0..5), vec(entry, 0..4)), 0..30)
}

/// Where lists of these lengths end.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut end = 0;
    lengths
        .flat_map(|length| {
            end += length as u64;
            end.to_le_bytes()
        })
        .collect()
}

fn encoded_nested(rows: &[NestedRow]) -> Vec<u8> {
    let values: Vec<Option<u8>> = rows.iter().flat_map(|row| row.0.clone()).collect();
    let mut array = ends(rows.iter().map(|row| row.0.len()));
    array.extend(values.iter().map(|value| u8::from(value.is_none())));
    array.extend(values.iter().map(|value| value.unwrap_or(0)));
    let entries: Vec<_> = rows.iter().flat_map(|row| &row.1).collect();
    let mut map = ends(rows.iter().map(|row| row.1.len()));
    entries.iter().for_each(|entry| string(&mut map, &entry.0));
    map.extend(entries.iter().flat_map(|entry| entry.1.to_le_bytes()));
    map.extend(ends(entries.iter().map(|entry| entry.2.len())));
    entries.iter().flat_map(|entry| &entry.2).for_each(|text| string(&mut map, text));
    let named = NESTED.iter().zip([array, map]).map(|((name, kind), data)| (*name, *kind, data));
    block(rows.len(), &named.collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn nested_blocks_are_joined(first in nested_rows(), second in nested_rows()) {
        let data = [encoded_nested(&first), encoded_nested(&second)].concat();
        let wanted = encoded_nested(&[first, second].concat());
        prop_assert_eq!(native(&data, "Native", &NESTED, json!({})), Ok(wanted));
    }

    #[test]
    fn nested_blocks_are_cut(all in nested_rows(), size in 1..9usize) {
        let wanted = all.chunks(size).flat_map(encoded_nested).collect();
        let more = json!({"block_rows": size});
        prop_assert_eq!(native(&encoded_nested(&all), "Native", &NESTED, more), Ok(wanted));
    }

    #[test]
    fn damaged_nested_blocks_end_in_an_error_or_in_rows(
        all in nested_rows(), at in any::<prop::sample::Index>(), bits in 1..=255u8,
    ) {
        let mut data = encoded_nested(&all);
        if !data.is_empty() {
            let at = at.index(data.len());
            data[at] ^= bits;
            let _ = native(&data, "Native", &NESTED, json!({}));
            let _ = native(&data[..at], "Native", &NESTED, json!({}));
        }
    }
}

#[test]
fn arrays_whose_ends_lie_take_no_memory() {
    for ends in [[1u64 << 60, 1 << 60], [5, 4], [u64::MAX, u64::MAX], [3 << 30, 4 << 30]] {
        let data = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let data = block(2, &[("a", "Array(UInt64)", data)]);
        assert!(native(&data, "Native", &[("a", "Array(UInt64)")], json!({})).is_err());
    }
}
