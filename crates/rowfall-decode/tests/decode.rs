//! Whole runs: random rows against a plain reference, torn into chunks of every size.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use blocks::{block, string};
use common::{Temporary, native, spec};
use proptest::prelude::*;
use rowfall_decode::run::run;
use rowfall_decode::spec::Spec;
use serde_json::{Value, json};

const COLUMNS: [(&str, &str); 3] = [("n", "Int32"), ("s", "String"), ("m", "Nullable(UInt64)")];

type Row = (i32, Vec<u8>, Option<u64>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let text = prop_oneof![
        proptest::collection::vec(prop::sample::select(b"ab,\"\n\r\t \\x\xe4".to_vec()), 0..12),
        proptest::collection::vec(any::<u8>(), 0..90),
        Just(b"plain".to_vec()),
    ];
    let text = text.prop_filter("means NULL", |t| t != b"\\N");
    proptest::collection::vec((any::<i32>(), text, any::<Option<u64>>()), 0..40)
}

/// The block that the rows have to become.
fn wanted(rows: &[Row]) -> Vec<u8> {
    repeated(rows, 1)
}

/// The same with each column several times.
fn repeated(rows: &[Row], times: usize) -> Vec<u8> {
    let numbers = rows.iter().flat_map(|r| r.0.to_le_bytes()).collect();
    let mut texts = Vec::new();
    rows.iter().for_each(|r| string(&mut texts, &r.1));
    let mut most: Vec<u8> = rows.iter().map(|r| u8::from(r.2.is_none())).collect();
    most.extend(rows.iter().flat_map(|r| r.2.unwrap_or(0).to_le_bytes()));
    let datas: [Vec<u8>; 3] = [numbers, texts, most];
    let columns: Vec<_> = (0..3 * times)
        .map(|n| (COLUMNS[n % 3].0, COLUMNS[n % 3].1, datas[n % 3].clone()))
        .collect();
    block(rows.len(), &columns)
}

fn csv(rows: &[Row], end: &str, last: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        out.extend_from_slice(format!("{},\"", row.0).as_bytes());
        row.1.iter().for_each(|b| {
            out.extend_from_slice(if *b == b'"' { b"\"\"" } else { std::slice::from_ref(b) })
        });
        out.extend_from_slice(b"\",");
        out.extend_from_slice(row.2.map_or(String::new(), |v| v.to_string()).as_bytes());
        if last || n + 1 < rows.len() {
            out.extend_from_slice(end.as_bytes());
        }
    }
    out
}

/// Each of the columns four times.
fn wide_native(data: &[u8], mut more: Value) -> Result<Vec<u8>, Value> {
    let columns = COLUMNS.repeat(4).into_iter().enumerate();
    more["columns"] = columns
        .map(|(n, (name, kind))| json!({"name": name, "position": n % 3, "type": kind}))
        .collect();
    native(data, "CSV", &COLUMNS, more)
}

fn tsv(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        out.extend_from_slice(format!("{}\t", row.0).as_bytes());
        for byte in &row.1 {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                other => out.push(*other),
            }
        }
        let number = row.2.map_or("\\N".to_owned(), |v| v.to_string());
        out.extend_from_slice(format!("\t{number}\n").as_bytes());
    }
    out
}

fn simds() -> Vec<&'static str> {
    let all = ["scalar", "avx2", "avx512"];
    all.into_iter().filter(|name| rowfall_decode::simd::Simd::choose(name).is_some()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn csv_in_chunks_of_any_size(rows in rows(), chunk in 1usize..80, crlf in any::<bool>(), last in any::<bool>()) {
        let data = csv(&rows, if crlf { "\r\n" } else { "\n" }, last);
        for simd in simds() {
            for chunk in [chunk, 256 << 10] {
                let more = json!({"chunk_bytes": chunk, "simd": simd, "allow_line_breaks": true, "binary": true});
                prop_assert_eq!(native(&data, "CSV", &COLUMNS, more), Ok(wanted(&rows)));
            }
        }
    }

    #[test]
    fn integers_of_all_lengths_in_batches(
        rows in proptest::collection::vec((any::<u8>(), any::<Option<i8>>(), any::<u32>(), any::<i64>(), 0..64), 0..300),
        quoted in any::<bool>(),
        crlf in any::<bool>(),
        sorted in any::<bool>(),
    ) {
        let mut rows: Vec<_> = rows.into_iter().map(|(a, b, c, d, n)| (a, b, c >> (n / 2), d >> n)).collect();
        let cells = |r: &(u8, Option<i8>, u32, i64), null: &str| {
            [r.0.to_string(), r.1.map_or(null.to_owned(), |b| b.to_string()), r.2.to_string(), r.3.to_string()]
        };
        let names = ["a", "b", "c", "d"];
        let kinds = ["UInt8", "Nullable(Int8)", "UInt32", "Int64"];
        let columns: Vec<_> = names.into_iter().zip(kinds).collect();
        let (mut csv, mut tsv, mut objects) = (String::new(), String::new(), String::new());
        let end = if crlf { "\r\n" } else { "\n" };
        for row in &rows {
            let quote = if quoted && row.0 > 99 { "\"" } else { "" };
            let fields = cells(row, "").map(|c| if c.is_empty() { c } else { format!("{quote}{c}{quote}") });
            csv += &(fields.join(",") + end);
            tsv += &(cells(row, "\\N").join("\t") + end);
            let pairs: Vec<_> = names.iter().zip(cells(row, "null")).map(|(k, v)| format!("\"{k}\":{v}")).collect();
            objects += &format!("{{{}}}{end}", pairs.join(","));
        }
        if sorted {
            rows.sort_by_key(|row| row.2);
        }
        let mut b: Vec<u8> = rows.iter().map(|r| u8::from(r.1.is_none())).collect();
        b.extend(rows.iter().map(|r| r.1.unwrap_or(0) as u8));
        let datas = [
            rows.iter().map(|r| r.0).collect(), b, rows.iter().flat_map(|r| r.2.to_le_bytes()).collect(),
            rows.iter().flat_map(|r| r.3.to_le_bytes()).collect(),
        ];
        let datas: Vec<_> = columns.iter().zip(datas).map(|((name, kind), data)| (*name, *kind, data)).collect();
        let wanted = block(rows.len(), &datas);
        for simd in simds() {
            for (format, text) in [("CSV", &csv), ("TSV", &tsv), ("JSONEachRow", &objects)] {
                let more = json!({"simd": simd, "sort_by": sorted.then_some([2])});
                prop_assert_eq!(native(text.as_bytes(), format, &columns, more), Ok(wanted.clone()));
            }
        }
    }

    #[test]
    fn tsv_in_chunks_of_any_size(rows in rows(), chunk in 1usize..80) {
        let data = tsv(&rows);
        for simd in simds() {
            let more = json!({"chunk_bytes": chunk, "simd": simd, "binary": true});
            prop_assert_eq!(native(&data, "TSV", &COLUMNS, more), Ok(wanted(&rows)));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_declined(rows in rows(), chunk in 1usize..80) {
        let text = rows.iter().all(|r| std::str::from_utf8(&r.1).is_ok());
        for (format, data) in [("CSV", csv(&rows, "\n", true)), ("TSV", tsv(&rows))] {
            for chunk in [chunk, 256 << 10] {
                let more = json!({"chunk_bytes": chunk, "allow_line_breaks": true});
                match native(&data, format, &COLUMNS, more) {
                    Ok(blocks) => prop_assert!(text && blocks == wanted(&rows)),
                    Err(said) => {
                        prop_assert!(!text);
                        prop_assert_eq!(&said["message"], "a byte that is not UTF-8");
                        let wrong = std::str::from_utf8(&data).expect_err("seen above").valid_up_to();
                        prop_assert_eq!(&said["offset"], &json!(wrong));
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_wrong_byte_or_value_is_told(rows in rows(), at in any::<prop::sample::Index>(), chunk in 1usize..80) {
        let mut lines: Vec<Vec<u8>> = rows.iter().map(|r| csv(std::slice::from_ref(r), "\n", true)).collect();
        lines.insert(at.index(lines.len() + 1), b"no number,,\n".to_vec());
        let data = lines.concat();
        let [torn, whole] = [chunk, 256 << 10].map(|chunk| {
            let more = json!({"chunk_bytes": chunk, "allow_line_breaks": true});
            let said = native(&data, "CSV", &COLUMNS, more).expect_err("a value is not a number");
            (said["line"].clone(), said["offset"].clone(), said["message"].clone())
        });
        prop_assert_eq!(torn, whole);
    }

    #[test]
    fn json_in_chunks_of_any_size(rows in rows(), chunk in 1usize..80, turn in any::<bool>()) {
        let mut rows = rows;
        rows.iter_mut().for_each(|r| r.1.retain(u8::is_ascii));
        let lines = rows.iter().map(|r| {
            let text = serde_json::to_string(std::str::from_utf8(&r.1).expect("ASCII")).expect("JSON");
            match (turn, r.2) {
                (true, None) => format!("{{\"s\": {text}, \"n\": {}}}\n", r.0),
                (true, Some(m)) => format!("{{ \"m\":{m} , \"n\":{},\"s\":{text}}}\r\n", r.0),
                (false, m) => format!("{{\"n\":{},\"s\":{text},\"m\":{}}}\n", r.0, json!(m)),
            }
        });
        let data: String = lines.collect();
        // What has escapes of control characters is read as well: serde_json writes them so.
        let more = json!({"chunk_bytes": chunk});
        prop_assert_eq!(native(data.as_bytes(), "JSONEachRow", &COLUMNS, more), Ok(wanted(&rows)));
    }

    #[test]
    fn garbage_is_the_same_to_all(data in proptest::collection::vec(prop::sample::select(b"1,\"\n\r\\\t ab{}:".to_vec()), 0..300), chunk in 1usize..70) {
        for format in ["CSV", "TSV", "JSONEachRow"] {
            let columns = [("a", "String"), ("b", "Nullable(String)")];
            let whole = native(&data, format, &columns, json!({"simd": "scalar"}));
            for simd in simds() {
                let more = json!({"chunk_bytes": chunk, "simd": simd});
                let torn = native(&data, format, &columns, more);
                prop_assert_eq!(torn.is_ok(), whole.is_ok());
                if let (Err(a), Err(b)) = (&torn, &whole) {
                    prop_assert_eq!((&a["line"], &a["error"]), (&b["line"], &b["error"]));
                } else {
                    prop_assert_eq!(torn, whole.clone());
                }
            }
        }
    }

    #[test]
    fn blocks_are_sorted(mut rows in rows(), by in prop::sample::select(vec![vec![0], vec![1], vec![2, 0], vec![2, 1, 0]])) {
        rows.iter_mut().for_each(|r| (r.0, r.2) = (r.0 % 3, r.2.map(|m| m % 3)));
        let data = csv(&rows, "\n", true);
        let more = json!({"sort_by": by, "allow_line_breaks": true, "binary": true});
        rows.sort_by(|a, b| {
            let null = |r: &Row| (r.2.is_none(), r.2);
            by.iter().fold(std::cmp::Ordering::Equal, |found, column| found.then_with(|| match column {
                0 => a.0.cmp(&b.0),
                1 => a.1.cmp(&b.1),
                _ => null(a).cmp(&null(b)),
            }))
        });
        prop_assert_eq!(native(&data, "CSV", &COLUMNS, more), Ok(wanted(&rows)));
    }

    // From some columns on the rows of each window are sorted, too.
    #[test]
    fn wide_blocks_are_sorted(mut rows in rows(), chunk in 1usize..200, block in 1usize..60, by in prop::sample::select(vec![vec![0], vec![1], vec![2, 1, 0]])) {
        let data = csv(&rows, "\n", true);
        let more = json!({
            "sort_by": by, "allow_line_breaks": true, "binary": true, "chunk_bytes": chunk, "block_rows": block,
        });
        let mut blocks = Vec::new();
        for rows in rows.chunks_mut(block) {
            rows.sort_by(|a, b| {
                by.iter().map(|key| match key {
                    0 => a.0.cmp(&b.0),
                    1 => a.1.cmp(&b.1),
                    _ => (a.2.is_none(), a.2).cmp(&(b.2.is_none(), b.2)),
                }).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
            });
            blocks.extend(repeated(rows, 4));
        }
        prop_assert_eq!(wide_native(&data, more), Ok(blocks));
    }

    #[test]
    fn blocks_with_keys_of_few_values_are_sorted(rows in few_rows(0..60), block in 1usize..80, by in few_keys()) {
        check_few(&rows, block, &by);
    }

    #[test]
    fn floats_are_the_nearest(text in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,25})?([eE][-+]?[0-9]{1,2})?") {
        let got = native(format!("{text}\n").as_bytes(), "CSV", &[("a", "Float64")], json!({}));
        let value: f64 = text.parse().expect("a float");
        prop_assert_eq!(got, Ok(block(1, &[("a", "Float64", value.to_le_bytes().to_vec())])));
        let value: f32 = text.parse().expect("a float");
        let got = native(format!("{text}\n").as_bytes(), "CSV", &[("a", "Float32")], json!({}));
        if value.is_finite() {
            prop_assert_eq!(got, Ok(block(1, &[("a", "Float32", value.to_le_bytes().to_vec())])));
        } else {
            prop_assert!(got.is_err());
        }
    }

    #[test]
    fn integers_are_exact_or_declined(text in "-?[0-9]{1,22}") {
        let check = |kind: &str, value: Option<Vec<u8>>| {
            let got = native(format!("{text}\n").as_bytes(), "CSV", &[("a", kind)], json!({}));
            assert_eq!(got.ok(), value.map(|v| block(1, &[("a", kind, v)])), "{text} as {kind}");
        };
        macro_rules! all { ($($t:ty, $name:expr);*) => { $(
            let minus_zero = $name.starts_with('U') && text.starts_with('-');
            let value = text.parse::<$t>().ok().filter(|_| !minus_zero && text.trim_start_matches('-').len() <= 20);
            check($name, value.map(|v| v.to_le_bytes().to_vec()));
        )* } }
        all!(i8, "Int8"; i16, "Int16"; i32, "Int32"; i64, "Int64");
        all!(u8, "UInt8"; u16, "UInt16"; u32, "UInt32"; u64, "UInt64");
    }
}

/// Small numbers of either sign, with NULLs, zeros of either sign, and what tells rows apart.
type FewRow = (i8, Option<i16>, bool, u32, u128);

const FEW: [(&str, &str); 5] =
    [("a", "Int8"), ("b", "Nullable(Int16)"), ("z", "Float64"), ("u", "UInt32"), ("id", "UUID")];

fn few_rows(rows: std::ops::Range<usize>) -> impl Strategy<Value = Vec<FewRow>> {
    let far = u32::MAX - 3;
    let row = (-3i8..3, prop::option::of(-2i16..3), any::<bool>(), far..u32::MAX, any::<u128>());
    proptest::collection::vec(row, rows)
}

fn few_keys() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::select(vec![
        vec![0],
        vec![1],
        vec![2, 0],
        vec![3],
        vec![1, 0, 3],
        vec![3, 2, 1, 0],
    ])
}

fn check_few(rows: &[FewRow], block_rows: usize, by: &[usize]) {
    let mut text = String::new();
    let mut blocks = Vec::new();
    for rows in rows.chunks(block_rows) {
        for (a, b, minus, u, id) in rows {
            let b = b.map_or(String::new(), |b| b.to_string());
            let (zero, h) = (if *minus { "-0" } else { "0" }, format!("{id:032x}"));
            let id =
                format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..]);
            text += &format!("{a},{b},{zero},{u},{id}\n");
        }
        let mut rows = rows.to_vec();
        rows.sort_by(|x, y| {
            let compare = |key: &usize| match key {
                0 => x.0.cmp(&y.0),
                1 => (x.1.is_none(), x.1).cmp(&(y.1.is_none(), y.1)),
                2 => std::cmp::Ordering::Equal,
                _ => x.3.cmp(&y.3),
            };
            by.iter().map(compare).find(|found| found.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut b: Vec<u8> = rows.iter().map(|row| u8::from(row.1.is_none())).collect();
        b.extend(rows.iter().flat_map(|row| row.1.unwrap_or(0).to_le_bytes()));
        let zero = |minus: bool| if minus { -0.0f64 } else { 0.0 };
        let half = |id: u128| [(id >> 64) as u64, id as u64].map(u64::to_le_bytes).concat();
        let datas = [
            rows.iter().flat_map(|row| row.0.to_le_bytes()).collect(),
            b,
            rows.iter().flat_map(|row| zero(row.2).to_le_bytes()).collect(),
            rows.iter().flat_map(|row| row.3.to_le_bytes()).collect(),
            rows.iter().flat_map(|row| half(row.4)).collect(),
        ];
        let columns: Vec<_> = FEW.iter().zip(datas).map(|(c, data)| (c.0, c.1, data)).collect();
        blocks.extend(block(rows.len(), &columns));
    }
    let more = json!({"sort_by": by, "block_rows": block_rows});
    assert_eq!(native(text.as_bytes(), "CSV", &FEW, more), Ok(blocks));
}

#[test]
fn a_large_block_with_keys_of_few_values_is_sorted() {
    let row = |n: u32| {
        let mixed = n.wrapping_mul(0x9e37_79b9) >> 16;
        let b = (!mixed.is_multiple_of(5)).then_some((mixed % 7) as i16);
        ((mixed % 11) as i8 - 5, b, n.is_multiple_of(3), u32::MAX - mixed % 13, u128::from(n))
    };
    let rows: Vec<FewRow> = (0..50_000).map(row).collect();
    for by in [vec![0], vec![1, 0], vec![3, 1]] {
        check_few(&rows, 30_000, &by);
    }
}

#[test]
fn errors_name_the_first_bad_value() {
    let data = b"n,s,m\n1,a,2\n\"2\",\"x\ny\",3\n3,b,4\n4,c,x5\n5,d,\nz,e,1\n";
    let more = json!({"allow_line_breaks": true});
    for chunk in [1, 5, 1 << 16] {
        let mut more = more.clone();
        more["chunk_bytes"] = json!(chunk);
        let wrong = native(data, "CSVWithNames", &COLUMNS, more).expect_err("x5 is not a number");
        assert_eq!(wrong["line"], 6);
        assert_eq!(wrong["offset"], 34);
        assert_eq!(wrong["column"], "m");
        assert_eq!(wrong["value"], "x5");
        assert_eq!(wrong["type"], "Nullable(UInt64)");
    }
}

#[test]
fn errors_are_the_same_where_rows_are_sorted() {
    let data = b"5,a,2\n4,b,3\n3,c,x\n2,d,y\n1,e,5\n";
    for by in [json!([0]), json!([2]), json!(null)] {
        let wrong = wide_native(data, json!({"sort_by": by})).expect_err("x is not a number");
        assert_eq!((&wrong["line"], &wrong["value"]), (&json!(3), &json!("x")));
    }
}

#[test]
fn a_quote_never_closed_has_its_line_and_column() {
    for data in [&b"1,a,2\n1,\"a,2\n"[..], b"1,a,2\n1,\"a,2\n3,b,4\n", b"1,a,2\n1,\""] {
        for chunk in [1, 3, 64, 1 << 16] {
            let wrong = native(data, "CSV", &COLUMNS, json!({"chunk_bytes": chunk}));
            let wrong = wrong.expect_err("the quote is open");
            let place = (&wrong["error"], &wrong["line"], &wrong["offset"], &wrong["column"]);
            assert_eq!(place, (&json!("unclosed"), &json!(2), &json!(8), &json!("s")));
        }
    }
}

#[test]
fn structure_errors_have_their_line() {
    let cases: [(&[u8], u64); 7] = [
        (b"1,a,2\n1,a\n", 2),
        (b"1,a,2\n1,a,2,3\n", 2),
        (b"1,a,2\n\n1,a,2\n", 2),
        (b"1,a,2\n1,\"a\"b,2\n", 2),
        (b"1,a,2\n1,a\"b\",2\n", 2),
        (b"1,a,2\n1,a\rb,2\n", 2),
        (b"\xef\xbb\xbf1,a,2\n", 1),
    ];
    for (data, line) in cases {
        for chunk in [1, 3, 64, 1 << 16] {
            let wrong = native(data, "CSV", &COLUMNS, json!({"chunk_bytes": chunk}));
            let wrong = wrong.expect_err(&String::from_utf8_lossy(data));
            assert_eq!((&wrong["error"], &wrong["line"]), (&json!("value"), &json!(line)));
        }
    }
}

#[test]
fn header_finds_columns_in_any_order() {
    let data = b"x,m,\"s\",n\nskip,7,text,-1\n,,\"\",5\n";
    let rows = vec![(-1, b"text".to_vec(), Some(7)), (5, Vec::new(), None)];
    let more = json!({"unknown": "skip"});
    assert_eq!(native(data, "CSVWithNames", &COLUMNS, more), Ok(wanted(&rows)));
    let wrong = native(data, "CSVWithNames", &COLUMNS, json!({})).expect_err("x is unknown");
    assert_eq!((&wrong["column"], &wrong["line"]), (&json!("x"), &json!(1)));
}

#[test]
fn a_header_may_only_be_skipped() {
    let data = b",a , a\n7,text,-1\n";
    let columns = [("n", "Int8"), ("s", "String"), ("m", "Int8")];
    assert!(native(data, "CSVWithNames", &columns, json!({})).is_err());
    let more = json!({"skip_header": true});
    let plain = native(b"7,text,-1\n", "CSV", &columns, json!({}));
    assert_eq!(native(data, "CSVWithNames", &columns, more.clone()), plain);
    let wrong = native(b"a,b\n7,text,-1\n", "CSVWithNames", &columns, more);
    assert_eq!(wrong.expect_err("the header is too short")["line"], json!(1));
}

#[test]
fn blocks_have_the_rows_asked_for() {
    let rows: Vec<Row> = (0..10).map(|n| (n, vec![b'a'; n as usize], None)).collect();
    let data = csv(&rows, "\n", false);
    let mut blocks = wanted(&rows[..4]);
    blocks.extend(wanted(&rows[4..8]));
    blocks.extend(wanted(&rows[8..]));
    for chunk in [1, 10, 1000] {
        let more = json!({"block_rows": 4, "chunk_bytes": chunk});
        assert_eq!(native(&data, "CSV", &COLUMNS, more), Ok(blocks.clone()));
    }
}

#[test]
fn specs_that_cannot_be_followed() {
    let wrong = |columns: &[(&str, &str)], more| {
        native(b"", "CSV", columns, more).expect_err("")["error"].clone()
    };
    for kind in [
        "Array(JSON)",
        "Nullable(Array(Int8))",
        "Map(Nullable(String), Int8)",
        "Tuple()",
        "Tuple(a Int8, a Int8)",
        "Tuple(a Int8, Int8)",
        "Array(Int8",
        "Array(DateTime('Mars'))",
    ] {
        assert_eq!(wrong(&[("a", kind)], json!({})), "spec", "{kind}");
    }
    assert_eq!(wrong(&[("a", "Array(Int8)")], json!({"sort_by": [0]})), "spec");
    let pair = [("a", "Tuple(Int8, Int8)")];
    assert_eq!(wrong(&pair, json!({"delimiter": "\t"})), "spec");
    assert_eq!(wrong(&pair, json!({"file_columns": 2})), "spec");
    assert_eq!(wrong(&pair, json!({"unknown": "skip"})), "spec");
    assert_eq!(wrong(&[("a", "DateTime('Asia/Kathmandu')")], json!({})), "spec");
    assert_eq!(wrong(&[("a", "DateTime")], json!({"timezone": null})), "spec");
    assert_eq!(wrong(&[("a", "Int8")], json!({"delimiter": "\""})), "spec");
    assert_eq!(wrong(&[("a", "Int8")], json!({"sort_by": [1]})), "spec");
    assert_eq!(wrong(&[("a", "Int8")], json!({"inputs": [{"path": "/nowhere"}]})), "io");
}

/// The elements of a tuple of CSV, each in a field of its own, are those of one field.
#[test]
fn tuples_stand_apart_or_whole() {
    let columns = [
        ("a", "Int8"),
        ("t", "Tuple(Int8, Tuple(p String, q Nullable(Int8)), Array(Int8))"),
        ("b", "LowCardinality(String)"),
    ];
    let whole = b"1,\"(2,('x, y',3),[4,5])\",z\n6,\"(7,('',NULL),[])\",\n";
    let wanted = native(whole, "CSV", &columns, json!({"tuples": "value"}));
    assert!(wanted.is_ok());
    let apart = "1,2,\"x, y\",3,\"[4,5]\",z\n6,7,\"\",,[],\n";
    for chunk in [1, 7, 1 << 16] {
        let more = json!({"chunk_bytes": chunk});
        assert_eq!(native(apart.as_bytes(), "CSV", &columns, more.clone()), wanted);
        let crlf = apart.replace('\n', "\r\n");
        assert_eq!(native(crlf.as_bytes(), "CSV", &columns, more.clone()), wanted);
        let named = format!("a,t,b\n{apart}");
        assert_eq!(native(named.as_bytes(), "CSVWithNames", &columns, more.clone()), wanted);
        let turned = "b,a,t\nz,1,2,\"x, y\",3,\"[4,5]\"\n\"\",6,7,\"\",,[]\n";
        assert_eq!(native(turned.as_bytes(), "CSVWithNames", &columns, more), wanted);
    }
}

#[test]
fn elements_that_the_engine_reads_otherwise_are_declined() {
    let columns = [("t", "Tuple(Int8, Nullable(String))")];
    let flag = [("t", "Tuple(Bool, Int8)")];
    assert!(native(b"true,1\n0,2\n", "CSV", &flag, json!({})).is_ok());
    assert!(native(b"true,1\n\"true\",2\n", "CSV", &flag, json!({})).is_err());
    for (data, line) in [
        ("1,x\n2\n", 2),         // too few fields
        ("1,x\n2,y,3\n", 2),     // too many
        ("1,x\n2,\n3,z\n", 2),   // it takes the 3 for the second element
        ("1,x\n2,\r\n3,z\n", 2), // the same
        ("1,x\n2, y\n", 2),      // it skips the blank
        ("1,x\n2,\ty\n", 2),
        ("1,x\n2,\u{b}y\n", 2),
        ("1,x\n 2,y\n", 2),
        ("1,x\n2,\\N\n", 2), // NULL is nothing here
        ("1,x\n\"(2,'y')\"\n", 2),
    ] {
        let found = native(data.as_bytes(), "CSV", &columns, json!({"trim_strings": false}));
        let said = found.expect_err(data);
        assert_eq!((&said["error"], &said["line"]), (&json!("value"), &json!(line)), "{data:?}");
    }
}

/// A range of a file: what is cut has to end with a line.
#[test]
fn ranges_end_with_a_line() {
    let text = b"1\n22\n333\n4";
    let read = |start: u64, stop: u64| {
        let (input, output) = (Temporary::new(text), Temporary::new(b""));
        let inputs = json!([{"path": input.0, "start": start, "stop": stop, "size": text.len()}]);
        let all = spec(&input, &output, "CSV", &[("a", "UInt16")], &json!({"inputs": inputs}));
        let done = Spec::parse(&all.to_string()).and_then(|spec| run(&spec));
        done.map_err(|fail| fail.json().expect("a line")["message"].clone())
            .map(|summary| summary["rows"].as_u64().expect("a number"))
    };
    assert_eq!(read(2, 9), Ok(2));
    assert_eq!(read(5, 10), Ok(2)); // the last line of a file may have no end
    for (start, stop) in [(0, 4), (2, 8), (5, 7)] {
        assert_eq!(read(start, stop).unwrap_err(), "a range that ends in the middle of a line");
    }
}

/// A block takes the last rows of its file, too, if they are few; the next file's are in another
/// one.
#[test]
fn a_block_takes_the_last_rows_of_its_file() {
    // Rows of a file, and those of the blocks that become of two such files in blocks of 80.
    let cases: [(usize, &[usize]); 6] = [
        (80, &[80, 80]),
        (81, &[81, 81]),
        (88, &[88, 88]),
        (100, &[80, 80, 40]),
        (160, &[80, 80, 80, 80]),
        (165, &[80, 85, 80, 85]),
    ];
    for (rows, blocks) in cases {
        let one = "1234567,\"x\",\n".repeat(rows);
        let size = one.len();
        let (first, second, out) =
            (Temporary::new(one.as_bytes()), Temporary::new(one.as_bytes()), Temporary::new(b""));
        let more = json!({"block_rows": 80, "chunk_bytes": 64, "inputs": [
            {"path": first.0, "size": size}, {"path": second.0, "size": size}]});
        let spec = spec(&first, &out, "CSV", &COLUMNS, &more).to_string();
        let done = Spec::parse(&spec).and_then(|spec| run(&spec));
        assert!(done.is_ok(), "{rows}: {done:?}");
        let row: Row = (1_234_567, b"x".to_vec(), None);
        let all: Vec<u8> = blocks.iter().flat_map(|n| wanted(&vec![row.clone(); *n])).collect();
        assert!(std::fs::read(&out.0).expect("the output") == all, "{rows}");
    }
}

#[test]
fn rows_that_end_with_a_delimiter() {
    let columns = [("n", "Int32"), ("s", "String")];
    let more = || json!({"trailing": true, "delimiter": "|"});
    let plain = native(b"1|a\n2|\n", "CSV", &columns, json!({"delimiter": "|"})).unwrap();
    for (text, format) in [
        (&b"1|a|\n2||\n"[..], "CSV"),
        (b"1|a|\r\n2||\r\n", "CSV"),
        (b"1|a|\n2||", "CSV"),
        (b"n|s\n1|a|\n2||\n", "CSVWithNames"),
        (b"n|s|\n1|a|\n2||\n", "CSVWithNames"),
    ] {
        assert_eq!(native(text, format, &columns, more()).unwrap(), plain, "{text:?}");
    }
    for text in [&b"1|a|\n2|\n"[..], b"1|a|\n2|b|c\n", b"1|a|\n2|b||\n", b"1|a|\n2|b|\"\"\n"] {
        let said = native(text, "CSV", &columns, more()).unwrap_err();
        assert_eq!(said["line"], 2, "{said}");
    }
}

#[test]
fn short_text_does_not_take_much_memory() {
    // 100 and 300 MB in all their rows; the program may take less, and is aborted beyond it.
    let empty: Vec<(String, &str)> =
        (0..1000).map(|n| (format!("c{n}"), "Nullable(UInt8)")).collect();
    let columns: Vec<(&str, &str)> = empty.iter().map(|(name, kind)| (&**name, *kind)).collect();
    let cases = [
        ("JSONEachRow", "{}\n".repeat(50_000), columns),
        ("CSV", "a\n".repeat(75_000), vec![("a", "FixedString(4096)")]),
    ];
    for (format, text, columns) in cases {
        let (input, output) =
            (common::Temporary::new(text.as_bytes()), common::Temporary::new(b""));
        let more = json!({"memory_bytes": 64 << 20, "block_bytes": 8 << 20, "compression": "none"});
        let spec = common::spec(&input, &output, format, &columns, &more).to_string();
        let spec = common::Temporary::new(spec.as_bytes());
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_rowfall-decode"))
            .args(["run", "--spec"])
            .arg(&spec.0)
            .output()
            .expect("the program");
        assert!(done.status.success(), "{format}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
