//! Compressed inputs: what was packed comes out again, what was cut or damaged is an error.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/gunzip.rs"]
mod gunzip;

use std::io::{Read, Write};

use blocks::{block, string};
use common::native;
use gunzip::gunzip;
use proptest::prelude::*;
use serde_json::json;

fn gzip(data: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(prop::sample::select(b"0123456789,\n".to_vec()), 0..3000),
        proptest::collection::vec(any::<u8>(), 0..3000),
        (0usize..200_000, any::<u8>(), 1usize..300).prop_map(|(n, seed, period)| {
            (0..n).map(|i| seed.wrapping_add((i % period) as u8).wrapping_mul(17)).collect()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gzip_comes_out_again(data in text(), level in 0u32..10, step in 1usize..70_000) {
        prop_assert_eq!(gunzip(&gzip(&data, level), step).expect("sound"), data);
    }

    #[test]
    fn members_follow_each_other(parts in proptest::collection::vec(text(), 1..4), level in 0u32..10) {
        let packed: Vec<u8> = parts.iter().flat_map(|p| gzip(p, level)).collect();
        prop_assert_eq!(gunzip(&packed, 65536).expect("sound"), parts.concat());
        let mut more = packed;
        // As tapes and disks fill their last block.
        more.extend([0; 512]);
        prop_assert_eq!(gunzip(&more, 65536).expect("sound"), parts.concat());
        more.push(b'x');
        prop_assert!(gunzip(&more, 65536).is_err());
    }

    #[test]
    fn cut_gzip_is_an_error(data in text(), level in 0u32..10, cut in any::<prop::sample::Index>()) {
        let packed = gzip(&data, level);
        prop_assert!(gunzip(&packed[..cut.index(packed.len())], 65536).is_err());
    }

    #[test]
    fn damaged_gzip_is_what_others_say(data in text(), level in 0u32..10, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut packed = gzip(&data, level);
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        if let Ok(found) = gunzip(&packed, 4096) {
            let mut other = Vec::new();
            flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut other).expect("accepted");
            prop_assert_eq!(found, other);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        packed.extend(data);
        let _ = gunzip(&packed, 1000);
    }
}

fn packed(kind: &str, data: &[u8]) -> Vec<u8> {
    match kind {
        "gzip" => gzip(data, 6),
        "zstd" => zstd::encode_all(data, 3).expect("memory"),
        "lz4" => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(data).expect("memory");
            encoder.finish().expect("memory")
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 3);
            encoder.write_all(data).expect("memory");
            encoder.finish().expect("memory")
        }
        _ => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(data).expect("memory");
            encoder.finish().expect("memory")
        }
    }
}

#[test]
fn every_compression() {
    // More than one message of what is unpacked ahead.
    let lines: String = (0..20_000).map(|n| format!("line {n:020}\n")).collect();
    let mut wanted = Vec::new();
    lines.lines().for_each(|l| string(&mut wanted, l.as_bytes()));
    let mut twice = wanted.clone();
    twice.extend_from_slice(&wanted);
    let kinds = ["gzip", "zstd", "lz4", "xz", "bz2"];
    for (kind, ahead) in kinds.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
        let data = packed(kind, lines.as_bytes());
        let more = json!({"compression": kind, "read_ahead": ahead});
        let read = |data: &[u8]| native(data, "CSV", &[("a", "String")], more.clone());
        assert_eq!(read(&data), Ok(block(20_000, &[("a", "String", wanted.clone())])), "{kind}");
        let both = [&data[..], &data[..]].concat();
        assert_eq!(
            read(&both),
            Ok(block(40_000, &[("a", "String", twice.clone())])),
            "{kind} twice"
        );
        for cut in
            (1..data.len()).step_by(data.len() / 97 + 1).chain([data.len() - 1, data.len() - 4])
        {
            let wrong =
                read(&data[..cut]).expect_err(&format!("{kind} cut at {cut} of {}", data.len()));
            assert_eq!(wrong["error"], "io", "{kind} cut at {cut}");
        }
        let junk = [&data[..], b"junk"].concat();
        assert!(read(&junk).is_err(), "{kind} with junk behind it");
    }
}

#[test]
fn header_checksums_count() {
    let plain = gzip(b"1\n", 6);
    let mut head = plain[..10].to_vec();
    head[3] = 2;
    let sum = crc32fast::hash(&head) as u16;
    let with = |sum: u16| [&head[..], &sum.to_le_bytes(), &plain[10..]].concat();
    assert_eq!(gunzip(&with(sum), 100).expect("sound"), b"1\n");
    assert!(gunzip(&with(sum ^ 1), 100).is_err());
}

#[test]
fn xz_takes_no_more_memory_than_its_highest_level() {
    // The header of the first block: its size in fours of bytes, flags, filter LZMA2, one byte about
    // it: the size of its dictionary, 2^(n/2 + 12) bytes. Then zeros and a checksum.
    let with_dictionary = |n: u8| {
        let mut packed = packed("xz", b"1\n");
        assert_eq!(packed[12..16], [2, 0, 0x21, 1]);
        packed[16] = n;
        let sum = crc32fast::hash(&packed[12..20]);
        packed[20..24].copy_from_slice(&sum.to_le_bytes());
        packed
    };
    let read = |data: &[u8]| native(data, "CSV", &[("a", "UInt8")], json!({"compression": "xz"}));
    assert!(read(&with_dictionary(28)).is_ok(), "64 MiB, as of xz -9");
    let wrong = read(&with_dictionary(36)).expect_err("1 GiB");
    assert_eq!(wrong["error"], "io");
}
