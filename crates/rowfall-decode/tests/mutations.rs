//! Damaged files: sound ones with seeded mutations. `ROWFALL_MUTATIONS` says how many of each kind.

mod common;
#[path = "common/trial.rs"]
mod trial;

use std::io::Write;

/// Rows of every type, in the order in which `trial` chooses types by the first byte.
const ROWS: &[(u8, &[&str])] = &[
    (0, &["-128", "127", "0", "x"]),
    (1, &["-9223372036854775808", "9223372036854775807", "", "\\N"]),
    (2, &["18446744073709551615", "18446744073709551616", "007"]),
    (3, &["-170141183460469231731687303715884105728", "1"]),
    (4, &["115792089237316195423570985008687907853269984665640564039457584007913129639935"]),
    (5, &["1.5", "-0.1", "3.4e38", "16777217", "1e-45"]),
    (6, &["40.718556375", "-73.9551335", "", "1e400", "0.30000000000000004"]),
    (7, &["1234567.89", "-1", "0.10"]),
    (8, &["99999999999999.9999", ""]),
    (9, &["1234567890123456789012345678.0123456789"]),
    (10, &["-1.5", "9999999999999999999999999999999999999999999999.1"]),
    (11, &["true", "false", "1", "0"]),
    (12, &["", "a b", "\u{e4}\u{20ac}", "\\N", " x "]),
    (
        13,
        &["", "\\N", "long enough for more than one copy of sixteen bytes, and sixty-four of them"],
    ),
    (14, &["abc", "a", "abcd"]),
    (15, &["N", "", "Y"]),
    (16, &["yellow", "green", "yellow"]),
    (17, &["yellow", "\\N", ""]),
    (18, &["1970-01-01", "2149-06-06", "2024-02-29"]),
    (19, &["1900-01-01", "2299-12-31", ""]),
    (20, &["2009-01-01 03:36:07", "2106-02-07 06:28:15"]),
    (21, &["2020-03-29 01:59:59", "2020-03-29 02:30:00", "2020-10-25 02:30:00"]),
    (22, &["2020-01-01 00:00:00.123", "1969-12-31 23:59:59", ""]),
    (23, &["2020-01-01 00:00:00.123456789"]),
    (24, &["61f0c404-5cb3-11e7-907b-a6006ad3dba0"]),
    (25, &["127.0.0.1", "255.255.255.255", ""]),
    (26, &["2001:db8::1", "::ffff:1.2.3.4", "::"]),
    (27, &["a", "it's", ""]),
    (28, &["[]", "['a','it\\'s', NULL]", "[\"a\", null,\"\"]", "['x\\ty']", "['']"]),
    (29, &["{'a':[1,2], 'b' : []}", "{}", "{\"a\":[],\"a\":[255]}"]),
    (
        30,
        &["[(1.5,'2024-02-29'), (-1,'1970-01-01')]", "[{\"b c\":\"2024-02-29\",\"a\":0.1}]", "[]"],
    ),
    (31, &["[['a',NULL],[]]", "[[\"a\",null,\"b\"],[],[\"a\"]]", "[]", "[[]]"]),
    (
        32,
        &[
            "(1,['a','b'],NULL)",
            "{\"a\":1,\"b\":[\"\"],\"c\":null}",
            "(-128,[],18446744073709551615)",
        ],
    ),
    (33, &["{1:(0.5,'abc')}", "{\"1\":[0.5,\"a\"],\"2\":[-1,\"b\"]}", "{}"]),
];

/// Numbers out of a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }

    fn mutate(&mut self, data: &mut Vec<u8>, from: usize) {
        const BYTES: &[u8] = b"\",\n\r\t\\{}: 0129.-+eTZN\0\x7f\xff\xef";
        let at = from + self.below(data.len() + 1 - from);
        let end = (at + self.below(40)).min(data.len());
        match self.below(6) {
            0 if at < data.len() => data[at] ^= 1 << self.below(8),
            1 if at < data.len() => data[at] = BYTES[self.below(BYTES.len())],
            2 => data.insert(at, BYTES[self.below(BYTES.len())]),
            3 => drop(data.drain(at..end)),
            4 => {
                let part = data[at..end].to_vec();
                let to = from + self.below(data.len() + 1 - from);
                data.splice(to..to, part);
            }
            _ => data.truncate(at),
        }
    }
}

fn count() -> usize {
    let given = std::env::var("ROWFALL_MUTATIONS").ok();
    given.map_or(600, |n| n.parse().expect("a number"))
}

/// A sound file of up to 40 rows, now and then 160, of one type, its first two bytes those that
/// `trial` looks at.
fn sound(random: &mut Random, line: impl Fn(&str, &str) -> String) -> Vec<u8> {
    let (kind, values) = ROWS[random.below(ROWS.len())];
    let mut data = vec![kind, random.below(32) as u8];
    // From 64 rows on numbers are read in batches.
    let most = [40, 40, 40, 160][random.below(4)];
    for _ in 0..random.below(most) {
        let value = values[random.below(values.len())];
        let other = ["", "k", "two words", "\u{20ac}"][random.below(4)];
        data.extend_from_slice(line(value, other).as_bytes());
    }
    data
}

fn damaged(seed: u64, format: &str, line: impl Fn(&str, &str) -> String) {
    let mut random = Random(seed);
    for _ in 0..count() {
        let mut data = sound(&mut random, &line);
        for _ in 0..random.below(4) {
            random.mutate(&mut data, 2);
        }
        trial::text(format, &data);
    }
}

#[test]
fn damaged_csv() {
    damaged(1, "CSV", |value, other| format!("{value},\"{other}\"\n"));
    damaged(2, "CSV", |value, other| format!("\"{value}\",{other}\r\n"));
}

#[test]
fn damaged_tsv() {
    damaged(3, "TSV", |value, other| format!("{value}\t{other}\n"));
}

#[test]
fn damaged_json() {
    damaged(4, "JSONEachRow", |v, k| {
        format!("{{\"v\": \"{}\", \"k\": \"{k}\"}}\n", v.replace('\\', "\\\\"))
    });
    damaged(5, "JSONEachRow", |v, k| format!("{{\"k\":\"{k}\",\"v\":{v}}}\n"));
}

#[test]
fn damaged_gzip() {
    let mut random = Random(6);
    for _ in 0..count() * 10 {
        let text = sound(&mut random, |value, other| format!("{value},{other}\n")).repeat(3);
        let level = flate2::Compression::new(random.below(10) as u32);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(&text).expect("memory");
        let mut data = encoder.finish().expect("memory");
        for _ in 0..random.below(4) {
            random.mutate(&mut data, 0);
        }
        trial::gzip(&data);
    }
}

#[test]
fn damaged_parts() {
    let mut random = Random(7);
    // Files in folders: they take twenty times as long as text.
    for _ in 0..count() / 20 {
        let mut data = sound(&mut random, |value, other| format!("{value}\t{other}\n"));
        for _ in 0..random.below(3) {
            random.mutate(&mut data, 2);
        }
        trial::part("TSV", &data);
    }
}

#[test]
fn damaged_streams() {
    let mut random = Random(8);
    let text = "some text,7\n".repeat(2000);
    let mut zstd = zstd::bulk::compress(text.as_bytes(), 3).expect("memory");
    zstd.extend(zstd.clone());
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(text.as_bytes()).expect("memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(text.as_bytes()).expect("memory");
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz2.write_all(text.as_bytes()).expect("memory");
    let sound = [
        ("zstd", zstd),
        ("lz4", lz4.finish().expect("memory")),
        ("xz", xz.finish().expect("memory")),
        ("bz2", bz2.finish().expect("memory")),
    ];
    for (kind, packed) in sound {
        for _ in 0..count() / 4 {
            let mut data = packed.clone();
            for _ in 0..=random.below(3) {
                random.mutate(&mut data, 0);
            }
            // Any rows or a failure that is told; never a crash.
            let columns = [("a", "String"), ("b", "UInt8")];
            let more = serde_json::json!({"compression": kind, "binary": true});
            if let Err(said) = common::native(&data, "CSV", &columns, more) {
                assert!(said["error"] == "io" || said["error"] == "value", "{kind}: {said}");
            }
        }
    }
}
