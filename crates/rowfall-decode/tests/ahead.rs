//! One input that several workers read: all rows once, the first failure, its line.

mod common;

use rowfall_decode::run::run;
use rowfall_decode::spec::Spec;
use serde_json::{Value, json};

use crate::common::{Temporary, spec};

/// Run a spec with some outputs, and return the numbers of one UInt32 column, sorted, and what was
/// summed up or failed.
fn numbers(
    text: &str,
    format: &str,
    outputs: usize,
    more: Value,
) -> (Vec<u32>, Result<Value, Value>) {
    let input = Temporary::new(text.as_bytes());
    let files: Vec<Temporary> = (0..outputs).map(|_| Temporary::new(b"")).collect();
    let mut spec = spec(&input, &files[0], format, &[("a", "UInt32"), ("b", "String")], &more);
    spec["outputs"] = files.iter().map(|file| json!(file.0)).collect();
    spec["read_ahead"] = json!(true);
    let done = Spec::parse(&spec.to_string()).and_then(|spec| run(&spec));
    let mut found = Vec::new();
    for file in &files {
        let data = std::fs::read(&file.0).expect("an output");
        let mut rest = &data[..];
        while !rest.is_empty() {
            assert_eq!(rest[0], 2, "columns");
            let (mut rows, mut used) = (0, 1);
            loop {
                rows |= usize::from(rest[used] & 127) << (7 * (used - 1));
                used += 1;
                if rest[used - 1] < 128 {
                    break;
                }
            }
            rest = rest[used..].strip_prefix(b"\x01a\x06UInt32").expect("its head");
            let (values, more) = rest.split_at(rows * 4);
            found.extend(values.chunks(4).map(|v| u32::from_le_bytes(v.try_into().expect("4"))));
            rest = more.strip_prefix(b"\x01b\x06String").expect("its head");
            for _ in 0..rows {
                rest = &rest[usize::from(rest[0]) + 1..]; // shorter than 128 bytes
            }
        }
    }
    found.sort_unstable();
    (found, done.map_err(|fail| fail.json().expect("a line")))
}

/// Lines of numbers, of which each ninth has line breaks and quotes in its string.
fn csv(rows: u32) -> String {
    let text = |n: u32| match n % 9 {
        0 => "\"x\ny\"\"z\n\"".to_owned(),
        _ => format!("\"{}\"", "w".repeat(n as usize % 50)),
    };
    (0..rows).map(|n| format!("{n},{}\n", text(n))).collect()
}

#[test]
fn every_row_comes_once() {
    for outputs in [1, 2, 5] {
        for chunk in [7, 300, 1 << 18] {
            let more = json!({"chunk_bytes": chunk, "allow_line_breaks": true, "block_rows": 1000});
            let (found, done) = numbers(&csv(5000), "CSV", outputs, more.clone());
            assert_eq!(found, (0..5000).collect::<Vec<_>>(), "{outputs} {chunk}");
            let done = done.expect("fine");
            assert_eq!(
                (&done["rows"], &done["bytes_raw"]),
                (&json!(5000), &json!(csv(5000).len()))
            );
            let named = format!("a,b\n{}", csv(5000));
            let (found, done) = numbers(&named, "CSVWithNames", outputs, more);
            assert_eq!(found, (0..5000).collect::<Vec<_>>(), "{outputs} {chunk}");
            assert_eq!(done.expect("fine")["bytes_read"], json!(named.len()));
        }
    }
}

#[test]
fn the_first_failure_is_told() {
    let text = csv(5000);
    let lines: Vec<&str> = text.lines().collect();
    // Some values that are declined, the first one in line 4001 of the file.
    let at = (4000..).find(|&n| lines[n].ends_with('w') || lines[n].ends_with("w\"")).expect("one");
    let mut broken: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
    for n in [at, at + 40, at + 400] {
        broken[n] = format!("x{}", broken[n]);
    }
    let broken = broken.join("\n") + "\n";
    for outputs in [1, 2, 5] {
        for (format, head) in [("CSV", ""), ("CSVWithNames", "a,b\n")] {
            let more = json!({"chunk_bytes": 100, "allow_line_breaks": true});
            let wrong =
                numbers(&format!("{head}{broken}"), format, outputs, more).1.expect_err("x");
            let first = at + 1 + head.lines().count();
            let offset = head.len() + lines[..at].iter().map(|line| line.len() + 1).sum::<usize>();
            assert_eq!((&wrong["line"], &wrong["offset"]), (&json!(first), &json!(offset)));
        }
    }
    let more = json!({"chunk_bytes": 100, "allow_line_breaks": true});
    let wrong = numbers(&format!("{text}1,\"open\n"), "CSV", 3, more.clone()).1.expect_err("open");
    assert_eq!(wrong["line"], json!(lines.len() + 1));
    let wrong = numbers("a,c\n1,2\n", "CSVWithNames", 3, more.clone()).1.expect_err("no b");
    assert_eq!(wrong["column"], "b");
    assert!(numbers("", "CSVWithNames", 3, more.clone()).1.is_err());
    assert!(numbers("", "CSV", 3, more).0.is_empty());
}

/// A run waited for ever: who cuts a piece of many MiB waits until all others are decoded, and one
/// that failed never came back.
#[test]
fn a_large_piece_that_fails_holds_nobody_up() {
    let (send, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let large = format!("{{\"a\":1,\"b\":{}}}\n", "[".repeat(5 << 20));
        let text = large.repeat(3);
        let _ = send.send(numbers(&text, "JSONEachRow", 2, json!({"chunk_bytes": 1 << 18})).1);
    });
    let wrong = done.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends");
    assert_eq!(wrong.expect_err("no list of JSON")["line"], 1);
}

#[test]
fn an_array_on_one_line_is_no_long_record() {
    let text = format!("[{}{{\"a\":1,\"b\":\"x\"}}]", "{\"a\":1,\"b\":\"x\"},".repeat(500));
    for outputs in [1, 2] {
        let more = json!({"chunk_bytes": 100, "record_bytes": 1000});
        let (read, done) = numbers(&text, "JSONEachRow", outputs, more);
        assert_eq!((read.len(), done.is_ok()), (501, true));
    }
}

#[test]
fn one_worker_keeps_the_order() {
    let read = |more: Value| {
        common::native(csv(3000).as_bytes(), "CSV", &[("a", "UInt32"), ("b", "String")], more)
    };
    let plain = read(json!({"allow_line_breaks": true}));
    assert!(plain.is_ok());
    assert_eq!(
        read(json!({"allow_line_breaks": true, "read_ahead": true, "chunk_bytes": 90})),
        plain
    );
}
