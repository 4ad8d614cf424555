//! Bytes in: files, stdin and HTTP objects, decompressed into a buffer of text.

pub mod buffer;
mod decompress;
mod http;
mod http_request;
pub mod inflate;
pub mod queue;
pub mod read_ahead;
pub mod source;
