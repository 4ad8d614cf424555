//! Rows that go into the connection of a database: every byte in packets, and the number behind them.

mod common;

use std::io::Read;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

use common::{Temporary, native, spec};
use rowfall_decode::error::Fail;
use rowfall_decode::run::run;
use rowfall_decode::spec::Spec;
use serde_json::{Value, json};

const COLUMNS: [(&str, &str); 2] = [("n", "UInt32"), ("text", "String")];

fn lines(rows: usize) -> Vec<u8> {
    (0..rows).flat_map(|n| format!("{n},{}\n", "x".repeat(n % 300)).into_bytes()).collect()
}

/// What a run writes into a connection and hands back, and how it ends.
fn sent(data: &[u8], asked: Value, taken: usize) -> (Result<Value, Fail>, Vec<u8>, Vec<u8>) {
    let (ours, mut theirs) = UnixStream::pair().expect("a connection");
    let (input, back) = (Temporary::new(data), Temporary::new(b""));
    let mut connection = json!({"descriptor": ours.as_raw_fd(), "number": 2, "packet_bytes": 1000});
    for (key, value) in asked.as_object().expect("an object") {
        connection[key] = value.clone();
    }
    let more = json!({"output_format": "MySQL", "output_connection": connection});
    let text = spec(&input, &back, "CSV", &COLUMNS, &more).to_string();
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        theirs.by_ref().take(taken as u64).read_to_end(&mut got).expect("packets");
        got
    });
    let done = Spec::parse(&text).and_then(|spec| run(&spec));
    ours.shutdown(Shutdown::Both).ok();
    let got = reader.join().expect("a reader");
    (done, got, std::fs::read(&back.0).expect("what is handed back"))
}

/// The rows in packets of 1,000 bytes at most, and the number of the next one.
fn unpacked(mut packets: &[u8], mut number: u8) -> (Vec<u8>, u8) {
    let mut rows = Vec::new();
    while let [a, b, c, given, rest @ ..] = packets {
        let size = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        assert_eq!(*given, number);
        assert!((1..=1000).contains(&size));
        rows.extend_from_slice(&rest[..size]);
        packets = &rest[size..];
        number = number.wrapping_add(1);
    }
    assert!(packets.is_empty());
    (rows, number)
}

#[test]
fn packets_carry_every_byte_and_the_next_number_is_handed_back() {
    let data = lines(4000);
    let wanted = native(&data, "CSV", &COLUMNS, json!({"output_format": "MySQL"}));
    let (done, packets, back) = sent(&data, json!({"number": 250}), usize::MAX);
    assert_eq!(done.expect("a summary")["rows"], 4000);
    let (rows, number) = unpacked(&packets, 250);
    assert!(rows == wanted.expect("rows"));
    assert!(rows.len() > 256 * 1000, "numbers begin again");
    assert_eq!(back, [number]);
    // The same where packets are held first: some of them, or all.
    for bytes in [1, 100_000, 1 << 30] {
        let asked = json!({"number": 250, "prefill_bytes": bytes});
        let (done, same, back) = sent(&data, asked, usize::MAX);
        assert_eq!(done.expect("a summary")["rows"], 4000);
        assert!(same == packets, "{bytes}");
        assert_eq!(back, [number]);
    }
}

#[test]
fn what_is_declined_ends_with_a_whole_packet() {
    let mut data = lines(4000);
    data.extend_from_slice(b"none,x\n");
    let (done, packets, back) = sent(&data, json!({}), usize::MAX);
    assert!(matches!(done, Err(Fail::Value(_))));
    assert_eq!(back, [unpacked(&packets, 2).1]);
}

#[test]
fn nothing_is_handed_back_where_the_connection_is_lost() {
    for bytes in [0, 3_000_000] {
        let asked = json!({"prefill_bytes": bytes});
        let (done, packets, back) = sent(&lines(40_000), asked, 10_000);
        assert!(matches!(done, Err(Fail::Pipe)));
        assert_eq!((packets.len(), back.len()), (10_000, 0));
    }
}

#[test]
fn a_connection_has_one_writer_and_packets_of_some_bytes() {
    let refused = |asked| matches!(sent(b"", asked, 0).0, Err(Fail::Spec(_)));
    assert!(refused(json!({"packet_bytes": 0})));
    assert!(refused(json!({"packet_bytes": 1 << 24})));
    let two = json!({
        "output_format": "MySQL", "outputs": ["a", "b"],
        "output_connection": {"descriptor": 9, "number": 2, "packet_bytes": 1000},
    });
    assert_eq!(native(b"", "CSV", &COLUMNS, two).expect_err("refused")["error"], "spec");
}
