//! Whole gzip files through the decoder's windows.

use rowfall_decode::input::inflate::{Gzip, HISTORY, SLACK};

/// Decompress with windows of `step` bytes.
pub fn gunzip(packed: &[u8], step: usize) -> std::io::Result<Vec<u8>> {
    let mut gzip = Gzip::new(packed);
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
