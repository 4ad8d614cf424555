//! Reads files, stdin and HTTP objects, and decompresses them into a buffer of text.

pub(crate) mod buffer;
mod bz2;
mod data_node;
mod decompress;
mod handed;
pub(crate) mod http;
pub(crate) mod http_request;
pub mod inflate;
mod json_array;
pub(crate) mod queue;
pub(crate) mod read_ahead;
pub mod rewrite;
pub(crate) mod source;
pub(crate) mod text;
