//! Answers of MySQL to prepared statements and of PostgreSQL to COPY in binary: their rows come out,
//! and damaged ones end in an error.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use blocks::{block, string};
use common::native;
use proptest::prelude::*;
use serde_json::json;

const LONGEST: usize = (1 << 24) - 1;
const END: &[u8] = &[0xfe, 0, 0, 2, 0];
const COLUMNS: [(&str, &str); 5] = [
    ("n", "Int16"),
    ("s", "Nullable(String)"),
    ("f", "Float32"),
    ("d", "Nullable(DateTime64(6, 'UTC'))"),
    ("m", "Decimal(9, 2)"),
];
/// Types and flags of these columns in the protocol.
const WIRES: [(u8, u16, u8); 5] = [(2, 1, 0), (253, 0, 0), (4, 1, 31), (12, 0, 6), (246, 1, 2)];

type Row = (i16, Option<Vec<u8>>, f32, Option<(u8, u32)>, i32);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let text = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..600));
    let moment = proptest::option::of((1..28u8, 0..1_000_000u32));
    let row = (any::<i16>(), text, -1e9..1e9f32, moment, -99_999_999..99_999_999i32);
    proptest::collection::vec(row, 0..40)
}

/// Put bodies into packets.
fn packets(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for body in bodies {
        let mut rest = &body[..];
        loop {
            let (part, more) = rest.split_at(rest.len().min(LONGEST));
            out.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
            out.push(7);
            out.extend_from_slice(part);
            rest = more;
            if part.len() < LONGEST {
                break;
            }
        }
    }
    out
}

fn text(out: &mut Vec<u8>, value: &[u8]) {
    match value.len() {
        size @ 0..=250 => out.push(size as u8),
        size @ 251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(size as u16).to_le_bytes());
        }
        size => {
            out.push(0xfd);
            out.extend_from_slice(&(size as u32).to_le_bytes()[..3]);
        }
    }
    out.extend_from_slice(value);
}

fn column(name: &str, (kind, flags, digits): (u8, u16, u8)) -> Vec<u8> {
    let mut body = Vec::new();
    for part in ["def", "", "t", "t", name, name] {
        text(&mut body, part.as_bytes());
    }
    body.extend_from_slice(&[12, 45, 0, 0, 4, 0, 0, kind]);
    body.extend_from_slice(&flags.to_le_bytes());
    body.extend_from_slice(&[digits, 0, 0]);
    body
}

fn head(columns: &[(&str, (u8, u16, u8))]) -> Vec<Vec<u8>> {
    let mut bodies = vec![vec![columns.len() as u8]];
    bodies.extend(columns.iter().map(|(name, wire)| column(name, *wire)));
    bodies.push(END.to_vec());
    bodies
}

fn row((n, s, f, d, m): &Row) -> Vec<u8> {
    let nulls = u8::from(s.is_none()) << 3 | u8::from(d.is_none()) << 5;
    let mut body = vec![0, nulls];
    body.extend_from_slice(&n.to_le_bytes());
    s.iter().for_each(|s| text(&mut body, s));
    body.extend_from_slice(&f.to_le_bytes());
    if let Some((day, micros)) = d {
        let date = [0xe4, 7, 2, *day];
        if *micros == 0 {
            body.push(4);
            body.extend_from_slice(&date);
        } else {
            body.push(11);
            body.extend_from_slice(&date);
            body.extend_from_slice(&[1, 2, 3]);
            body.extend_from_slice(&micros.to_le_bytes());
        }
    }
    let sign = if *m < 0 { "-" } else { "" };
    text(&mut body, format!("{sign}{}.{:02}", m.abs() / 100, m.abs() % 100).as_bytes());
    body
}

fn answer(rows: &[Row]) -> Vec<u8> {
    let columns: Vec<_> =
        COLUMNS.iter().zip(WIRES).map(|((name, _), wire)| (*name, wire)).collect();
    let mut bodies = head(&columns);
    bodies.extend(rows.iter().map(row));
    bodies.push(END.to_vec());
    packets(&bodies)
}

fn wanted(rows: &[Row]) -> Vec<u8> {
    let mut s: Vec<u8> = rows.iter().map(|r| u8::from(r.1.is_none())).collect();
    rows.iter().for_each(|r| string(&mut s, r.1.as_deref().unwrap_or(b"")));
    let mut d: Vec<u8> = rows.iter().map(|r| u8::from(r.3.is_none())).collect();
    for row in rows {
        let value = row.3.map_or(0, |(day, micros)| {
            // 2020-02-01 is 18,293 days behind 1970-01-01.
            let clock = if micros == 0 { 0 } else { 3723 };
            ((18_292 + i64::from(day)) * 86_400 + clock) * 1_000_000 + i64::from(micros)
        });
        d.extend_from_slice(&value.to_le_bytes());
    }
    let datas = [
        rows.iter().flat_map(|r| r.0.to_le_bytes()).collect(),
        s,
        rows.iter().flat_map(|r| r.2.to_le_bytes()).collect(),
        d,
        rows.iter().flat_map(|r| r.4.to_le_bytes()).collect(),
    ];
    let columns: Vec<_> =
        COLUMNS.iter().zip(datas).map(|((name, kind), data)| (*name, *kind, data)).collect();
    block(rows.len(), &columns)
}

proptest! {
    #[test]
    fn rows_come_out_wherever_reads_end(all in rows(), chunk in 1..700usize) {
        let found = native(&answer(&all), "MySQL", &COLUMNS, json!({"chunk_bytes": chunk}));
        prop_assert_eq!(found, Ok(wanted(&all)));
    }

    #[test]
    fn blocks_are_cut_and_sorted(all in rows(), size in 1..9usize) {
        let mut blocks = Vec::new();
        for some in all.chunks(size) {
            let mut some = some.to_vec();
            some.sort_by_key(|row| row.0);
            blocks.extend(wanted(&some));
        }
        let more = json!({"block_rows": size, "sort_by": [0]});
        prop_assert_eq!(native(&answer(&all), "MySQL", &COLUMNS, more), Ok(blocks));
    }

    #[test]
    fn damaged_answers_end_in_an_error_or_in_rows(
        all in rows(),
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut data = answer(&all);
        let cut = native(&data[..cut.index(data.len())], "MySQL", &COLUMNS, json!({}));
        prop_assert!(cut.is_err());
        for (at, byte) in damages {
            let at = at.index(data.len());
            data[at] = byte;
        }
        let _ = native(&data, "MySQL", &COLUMNS, json!({}));
    }

    #[test]
    fn noise_is_no_answer(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        let found = native(&data, "MySQL", &COLUMNS, json!({}));
        prop_assert!(found.is_err());
    }
}

fn one_column(kind: &str, wire: (u8, u16, u8), rows: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut bodies = head(&[("v", wire)]);
    bodies.extend(rows.iter().cloned());
    bodies.push(END.to_vec());
    let found = native(&packets(&bodies), "MySQL", &[("v", kind)], json!({}));
    found.map_err(|fail| fail["message"].as_str().unwrap_or("").to_owned())
}

fn texts(kind: &str, values: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    values.iter().for_each(|value| string(&mut data, value.as_bytes()));
    block(values.len(), &[("v", kind, data)])
}

#[test]
fn numbers_and_times_become_text_where_that_is_wanted() {
    let number = [&[0, 0][..], &(-5i32).to_le_bytes()].concat();
    assert_eq!(
        one_column("String", (3, 0, 0), std::slice::from_ref(&number)),
        Ok(texts("String", &["-5"]))
    );
    let unsigned = one_column("String", (3, 32, 0), std::slice::from_ref(&number));
    assert_eq!(unsigned, Ok(texts("String", &["4294967291"])));
    let decimal = block(1, &[("v", "Decimal(9, 2)", (-500i32).to_le_bytes().to_vec())]);
    assert_eq!(one_column("Decimal(9, 2)", (3, 0, 0), std::slice::from_ref(&number)), Ok(decimal));
    assert!(one_column("Int8", (3, 32, 0), &[number]).is_err());
    let moment = vec![0, 0, 11, 0xe4, 7, 2, 29, 1, 2, 3, 0x40, 0xe2, 1, 0];
    let found = one_column("String", (12, 0, 3), std::slice::from_ref(&moment));
    assert_eq!(found, Ok(texts("String", &["2020-02-29 01:02:03.123"])));
    // It has more digits than the type.
    assert!(one_column("DateTime64(3, 'UTC')", (12, 0, 6), &[moment]).is_err());
    // A column without NULLs has dates of zeros.
    let found = one_column("String", (12, 1, 2), &[vec![0, 0, 0]]);
    assert_eq!(found, Ok(texts("String", &["0000-00-00 00:00:00.00"])));
    let day = vec![0, 0, 4, 0xe4, 7, 2, 29];
    assert_eq!(one_column("String", (10, 0, 0), &[day]), Ok(texts("String", &["2020-02-29"])));
    assert!(one_column("Float32", (5, 0, 31), &[[0; 10].to_vec()]).is_err());
}

#[test]
fn dates_of_zeros_are_null_where_the_column_has_nulls() {
    let zeros = [vec![0, 0, 0], vec![0, 0, 4, 0xe4, 7, 0, 1], vec![0, 4]];
    let null = block(3, &[("v", "Nullable(Date32)", [vec![1; 3], vec![0; 12]].concat())]);
    assert_eq!(one_column("Nullable(Date32)", (10, 0, 0), &zeros), Ok(null));
    for zero in &zeros {
        assert!(one_column("Date32", (10, 1, 0), std::slice::from_ref(zero)).is_err());
    }
    assert!(one_column("Nullable(Date32)", (10, 1, 0), &zeros[..1]).is_err());
    assert!(one_column("Date32", (10, 1, 0), &[vec![0, 0, 4, 0xe5, 7, 2, 29]]).is_err());
}

#[test]
fn columns_without_rows_for_them_take_no_memory() {
    let columns = vec![("v", (253, 0, 0)); 60_000];
    let mut bodies = head(&columns);
    bodies[0] = vec![0xfc, 0x60, 0xea];
    bodies.extend(vec![vec![0]; 50_000]); // 24 GB of positions, were they believed
    let fail = native(&packets(&bodies), "MySQL", &[("v", "Nullable(String)")], json!({}));
    assert_eq!(fail.expect_err("short rows")["error"], "io");
}

#[test]
fn rows_of_many_packets() {
    for size in [LONGEST - 6, LONGEST - 5, LONGEST - 4, 2 * LONGEST + 7] {
        let value = vec![b'x'; size];
        let mut row = vec![0, 0, 0xfe];
        row.extend_from_slice(&(size as u64).to_le_bytes());
        row.extend_from_slice(&value);
        let mut short = vec![0, 0];
        text(&mut short, b"short");
        let mut data = Vec::new();
        string(&mut data, &value);
        string(&mut data, b"short");
        let found = one_column("String", (252, 0, 0), &[row, short]);
        assert!(found == Ok(block(2, &[("v", "String", data)])), "{size}");
    }
}

#[test]
fn what_the_server_says_is_told() {
    let mut bodies = head(&[("v", (3, 0, 0))]);
    bodies.push([&[0, 0][..], &7i32.to_le_bytes()].concat());
    bodies.push([&[0xff, 0x25, 5][..], b"#70100Query execution was interrupted"].concat());
    let found = native(&packets(&bodies), "MySQL", &[("v", "Int32")], json!({}));
    let fail = found.expect_err("the server broke off");
    assert_eq!(fail["error"], "io");
    assert_eq!(fail["message"], "Query execution was interrupted (error 1317)");
}

#[test]
fn other_columns_and_more_behind_the_end_are_refused() {
    let two = packets(&[head(&[("a", (3, 0, 0)), ("b", (3, 0, 0))]), vec![END.to_vec()]].concat());
    assert!(native(&two, "MySQL", &[("a", "Int32")], json!({"file_columns": 1})).is_err());
    assert!(native(&two, "MySQL", &[("a", "Int32")], json!({"file_columns": 2})).is_ok());
    let more = [two, packets(&[END.to_vec()])].concat();
    assert!(native(&more, "MySQL", &[("a", "Int32")], json!({})).is_err());
    assert!(one_column("String", (11, 0, 0), &[]).is_err());
}

// --- PostgreSQL -----------------------------------------------------------------------------------

const COPIED: [(&str, &str); 4] = [
    ("n", "Int32"),
    ("s", "Nullable(String)"),
    ("f", "Float64"),
    ("t", "Nullable(DateTime64(6, 'UTC'))"),
];
/// Microseconds from 1970 to 2000.
const MICROS: i64 = 946_684_800_000_000;

type Copied = (i32, Option<String>, f64, Option<i64>);

/// A message of PostgreSQL.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A row in binary.
fn tuple(fields: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = (fields.len() as u16).to_be_bytes().to_vec();
    for field in fields {
        out.extend(field.map_or(-1, |value| value.len() as i32).to_be_bytes());
        out.extend(field.unwrap_or_default());
    }
    out
}

/// The answer to a COPY of some rows: the head stands before the first one, in its message.
fn answered(rows: &[Vec<u8>]) -> Vec<u8> {
    let mut data = message(b'H', &[1, 0, 2, 0, 1, 0, 1]);
    let mut body = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for row in rows {
        body.extend(row);
        data.extend(message(b'd', &body));
        body.clear();
    }
    body.extend([0xff, 0xff]);
    data.extend(message(b'd', &body));
    data.extend(message(b'N', b"SNOTICE\0Ma notice\0\0"));
    data.extend(message(b'c', b""));
    data.extend(message(b'C', format!("COPY {}\0", rows.len()).as_bytes()));
    data.extend(message(b'Z', b"T"));
    data
}

/// The answer to a COPY of some rows, and what comes out of them.
fn copied(rows: &[Copied]) -> (Vec<u8>, Vec<u8>) {
    let mut texts: Vec<u8> = rows.iter().map(|row| u8::from(row.1.is_none())).collect();
    let mut times: Vec<u8> = rows.iter().map(|row| u8::from(row.3.is_none())).collect();
    let mut tuples = Vec::new();
    for (n, s, f, t) in rows {
        let (n, f) = (n.to_be_bytes(), f.to_be_bytes());
        let since = t.map(|t| (t - MICROS).to_be_bytes());
        tuples.push(tuple(&[
            Some(&n),
            s.as_deref().map(str::as_bytes),
            Some(&f),
            since.as_ref().map(|since| &since[..]),
        ]));
        string(&mut texts, s.as_deref().unwrap_or("").as_bytes());
        times.extend(t.unwrap_or(0).to_le_bytes());
    }
    let numbers = rows.iter().flat_map(|row| row.0.to_le_bytes()).collect();
    let floats = rows.iter().flat_map(|row| row.2.to_le_bytes()).collect();
    let datas = [numbers, texts, floats, times];
    let columns: Vec<_> = COPIED.iter().zip(datas).map(|((n, kind), d)| (*n, *kind, d)).collect();
    (answered(&tuples), block(rows.len(), &columns))
}

fn copied_rows() -> impl Strategy<Value = Vec<Copied>> {
    let text = proptest::option::of("[a-zé€\\\\ \t\n]{0,300}");
    let moment = proptest::option::of(0..5_000_000_000_000_000i64);
    proptest::collection::vec((any::<i32>(), text, -1e300..1e300f64, moment), 0..30)
}

fn types(names: &[&str]) -> serde_json::Value {
    json!({"input_types": names})
}

fn copy_native(data: &[u8], chunk: usize) -> Result<Vec<u8>, serde_json::Value> {
    let mut more = types(&["int4", "text", "float8", "timestamp"]);
    more["chunk_bytes"] = chunk.into();
    native(data, "PostgreSQL", &COPIED, more)
}

proptest! {
    #[test]
    fn rows_come_out_of_messages(all in copied_rows(), chunk in 1..700usize) {
        let (data, wanted) = copied(&all);
        prop_assert_eq!(copy_native(&data, chunk), Ok(wanted));
    }

    #[test]
    fn damaged_messages_end_in_an_error_or_in_rows(
        all in copied_rows(),
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut data, _) = copied(&all);
        prop_assert!(copy_native(&data[..cut.index(data.len())], 256).is_err());
        for (at, byte) in damages {
            let at = at.index(data.len());
            data[at] = byte;
        }
        let _ = copy_native(&data, 256);
    }

    #[test]
    fn noise_is_no_copy(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(copy_native(&data, 256).is_err());
    }
}

/// What becomes of one value that PostgreSQL calls `name`.
fn one_value(name: &str, kind: &str, value: &[u8]) -> Result<Vec<u8>, String> {
    let data = answered(&[tuple(&[Some(value)])]);
    let found = native(&data, "PostgreSQL", &[("v", kind)], types(&[name]));
    found.map_err(|fail| fail["message"].as_str().unwrap_or("").to_owned())
}

/// A number of digits of 10,000.
fn numeric(weight: i16, minus: bool, scale: u16, digits: &[u16]) -> Vec<u8> {
    let sign = if minus { 0x4000 } else { 0 };
    let head = [digits.len() as u16, weight as u16, sign, scale];
    head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn values_of_postgresql_are_what_their_text_is() {
    let day = |day: i32| one_value("date", "String", &(day - 10_957).to_be_bytes());
    assert_eq!(day(0), Ok(texts("String", &["1970-01-01"])));
    let time = |micros: i64| one_value("timestamp", "String", &(micros - MICROS).to_be_bytes());
    assert_eq!(time(951_782_400_500_000), Ok(texts("String", &["2000-02-29 00:00:00.5"])));
    assert_eq!(time(-1_000_000), Ok(texts("String", &["1969-12-31 23:59:59"])));
    let date32 = |day: i32| one_value("date", "Date32", &day.to_be_bytes());
    assert_eq!(date32(0), Ok(block(1, &[("v", "Date32", 10_957i32.to_le_bytes().to_vec())])));
    // Infinity, and what is before 1900.
    assert!(date32(i32::MAX).is_err() && date32(-40_000).is_err());
    for micros in [i64::MAX, i64::MIN, -MICROS - 1] {
        let kind = "DateTime64(6, 'UTC')";
        assert!(one_value("timestamp", kind, &micros.to_be_bytes()).is_err(), "{micros}");
    }
    // It has more digits than the type.
    assert!(one_value("timestamp", "DateTime64(3, 'UTC')", &1i64.to_be_bytes()).is_err());
    let text = "00112233-4455-6677-8899-aabbccddeeff";
    let id: Vec<u8> = (0..16).map(|n| n * 0x11).collect();
    assert_eq!(one_value("uuid", "String", &id), Ok(texts("String", &[text])));
    let halves = [0x0011_2233_4455_6677u64.to_le_bytes(), 0x8899_aabb_ccdd_eeffu64.to_le_bytes()];
    assert_eq!(one_value("uuid", "UUID", &id), Ok(block(1, &[("v", "UUID", halves.concat())])));
    assert_eq!(one_value("bool", "Bool", &[1]), Ok(block(1, &[("v", "Bool", vec![1])])));
    assert!(one_value("bool", "Bool", &[2]).is_err());
    assert_eq!(one_value("oid", "String", &[255; 4]), Ok(texts("String", &["4294967295"])));
    let array = [&[2, 0, 0, 0, 0, 0, 0, 0][..], &[0, 0], b"\x01a\x03b\\'"].concat();
    let found = one_value("text", "Array(Nullable(String))", br"['a','b\\\'']");
    assert_eq!(found, Ok(block(1, &[("v", "Array(Nullable(String))", array)])));
    assert!(one_value("int4", "Int32", &[0; 8]).is_err());
    let float = |value: f64| one_value("float8", "Float64", &value.to_be_bytes());
    assert!(float(f64::INFINITY).is_err());
    let nan = f64::NAN.to_le_bytes().to_vec();
    assert_eq!(float(f64::NAN), Ok(block(1, &[("v", "Float64", nan)])));
}

#[test]
fn numbers_of_postgresql_have_all_their_digits() {
    for (value, text) in [
        (numeric(0, false, 0, &[]), "0"),
        (numeric(0, true, 2, &[1, 2500]), "-1.25"),
        (numeric(1, false, 0, &[12]), "120000"),
        (numeric(1, false, 5, &[1, 2345, 6789, 1000]), "12345.67891"),
        (numeric(-1, false, 4, &[5]), "0.0005"),
        (numeric(-2, true, 9, &[1, 2000]), "-0.000000012"),
    ] {
        assert_eq!(one_value("numeric", "String", &value), Ok(texts("String", &[text])), "{text}");
    }
    let decimal = block(1, &[("v", "Decimal(9, 2)", (-125i32).to_le_bytes().to_vec())]);
    assert_eq!(
        one_value("numeric", "Decimal(9, 2)", &numeric(0, true, 2, &[1, 2500])),
        Ok(decimal)
    );
    let nan = [0, 0, 0, 0, 0xc0, 0, 0, 0];
    assert!(one_value("numeric", "String", &nan).is_err());
    assert!(one_value("numeric", "String", &numeric(0, false, 0, &[10_000])).is_err());
    assert!(one_value("numeric", "String", &[0, 0, 0]).is_err());
}

#[test]
fn a_copy_that_breaks_off_is_an_error() {
    let said = |data: &[u8]| {
        let fail = copy_native(data, 256).expect_err("no whole answer");
        fail["message"].as_str().expect("a text").to_owned()
    };
    let (whole, _) = copied(&[(1, None, 0.5, None), (2, Some("two".to_owned()), 1.5, Some(7))]);
    let (none, _) = copied(&[]);
    let end = |sent: &str| [message(b'C', sent.as_bytes()), message(b'Z', b"T")].concat();
    let behind = b"N".len() + 4 + b"SNOTICE\0Ma notice\0\0".len() + 5 + 5 + b"COPY 2\0".len() + 6;
    let rows = &whole[..whole.len() - behind];
    let error = message(b'E', b"SERROR\0C57014\0Mcanceling statement\0\0");
    assert_eq!(said(&[rows, &error].concat()), "canceling statement");
    assert_eq!(said(&[rows, &end("COPY 3\0")].concat()), "the server sent 3 rows, of which 2 came");
    assert_eq!(said(&message(b'Z', b"T")), "the server sent no rows, of which 0 came");
    // What ends the rows has not come.
    let cut = &rows[..rows.len() - 7];
    assert_eq!(said(&[cut, &end("COPY 2\0")].concat()), "the server sent 2 rows, of which 2 came");
    let more = [&whole[..], &message(b'Z', b"T")].concat();
    assert_eq!(said(&more), "there is more behind the end of the rows");
    assert_eq!(said(b"d\0\0\0\x03"), "a message without a length");
    assert_eq!(said(b"N\x7f\0\0\0"), "the server sent something that is not a row");
    assert!(copy_native(&none, 256).is_ok());
    let lines = message(b'd', b"1\tx\t1.5\t2000-01-01\n");
    assert_eq!(said(&lines), "the server sent something that is not a row");
    let other = native(&whole, "PostgreSQL", &COPIED, types(&["int4", "text", "float8", "point"]));
    assert_eq!(other.expect_err("a point")["message"], "columns of other types");
}
