//! Whole gzip files through the decoder's windows.

use rowfall_decode::input::inflate::{Gzip, HISTORY, SLACK};
use rowfall_decode::simd::Simd;

/// Decompress with windows of `step` bytes: portably and with the best instructions, which agree.
pub fn gunzip(packed: &[u8], step: usize) -> std::io::Result<Vec<u8>> {
    let all = |simd| unpack(packed, step, Simd::choose(simd).expect("one that all have"));
    let (one, other) = (all("auto"), all("scalar"));
    match (&one, &other) {
        (Ok(one), Ok(other)) => assert!(one == other, "instructions differ"),
        (one, other) => assert_eq!(one.is_ok(), other.is_ok(), "instructions differ"),
    }
    one
}

fn unpack(packed: &[u8], step: usize, simd: Simd) -> std::io::Result<Vec<u8>> {
    let mut gzip = Gzip::new(packed, simd);
    let mut buffer = vec![0; HISTORY + step + SLACK + 400];
    let (mut all, mut end) = (Vec::new(), 0);
    loop {
        let keep = end - end.min(HISTORY);
        buffer.copy_within(keep..end, 0);
        let from = end - keep;
        end = gzip.fill(&mut buffer, from, from + step)?;
        if end == from {
            return Ok(all);
        }
        all.extend_from_slice(&buffer[from..end]);
    }
}
