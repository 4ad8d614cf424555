//! Reads an input of a sample a piece at a time.

use crate::error::Fail;
use crate::input::buffer::TextBuffer;
use crate::input::source::TextSource;
use crate::spec::{Input, Spec};

/// Read a source piece by piece. `take` moves the start of the buffer behind the records that it took,
/// and returns false where it has enough.
pub(super) fn read_pieces(
    spec: &Spec,
    input: &Input,
    source: &mut TextSource,
    mut take: impl FnMut(&mut TextBuffer) -> Result<bool, Fail>,
) -> Result<(), Fail> {
    let mut buffer = TextBuffer::default();
    let (mut chunk, most) = (spec.chunk_bytes, spec.record_bytes);
    loop {
        buffer.advance(source, chunk).map_err(|e| Fail::io(input.name(), &e))?;
        let before = buffer.start;
        if buffer.ended {
            let open = before < buffer.end && buffer.text()[buffer.end - 1] != b'\n';
            buffer.end_last_line(open);
        }
        if !take(&mut buffer)? || buffer.ended {
            return Ok(());
        }
        // A record longer than the chunk: look at more of it.
        if buffer.end - buffer.start > most {
            return Err(Fail::too_long(input.name(), 0, 0));
        }
        let found = buffer.start > before;
        chunk = if found { spec.chunk_bytes } else { buffer.longer(chunk, most) };
    }
}

/// True at the start of an input with a byte order mark.
pub(super) fn begins_with_mark(buffer: &TextBuffer) -> bool {
    let start = buffer.start;
    buffer.offset(start) == 0 && buffer.text()[start..].starts_with(b"\xef\xbb\xbf")
}
