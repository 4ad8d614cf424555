//! Opens an input as plain text in lines, whatever it is stored as.

use std::io;

use crate::input::json_array;
use crate::input::queue::InputReader;
use crate::input::rewrite::rewrite;
use crate::input::source::TextSource;
use crate::simd::Simd;
use crate::spec::{Format, Input, Spec};

/// Open the text of an input: decompressed, by so many threads if that is possible; of a dialect
/// rewritten; an array of JSON as lines.
pub fn open(
    spec: &Spec,
    input: &Input,
    raw: io::Result<InputReader>,
    simd: Simd,
    threads: usize,
) -> io::Result<TextSource> {
    let opened = raw.and_then(|raw| TextSource::new(raw, spec.compression, simd, threads))?;
    let text = match &spec.dialect {
        None => opened,
        Some(dialect) => rewrite(opened, dialect, spec.format.is_csv(), spec.format.has_names())?,
    };
    // A range knows nothing of what is before it; that of an array is declined.
    let whole = input.start == 0 && input.stop.is_none();
    if spec.format == Format::Json && whole { json_array::as_lines(text) } else { Ok(text) }
}
