//! Text files in, ClickHouse Native blocks out. See README.md for how it is used and what it costs.

#![warn(clippy::undocumented_unsafe_blocks)]

pub mod ahead;
pub mod block;
pub mod cells;
mod costs;
pub mod delimited;
pub mod error;
pub mod escapes;
pub mod few;
pub mod frames;
pub mod gather;
pub mod handed;
pub mod header;
pub mod inflate;
pub mod inputs;
pub mod json;
mod look;
pub mod low;
pub mod native;
pub mod nested;
pub mod output;
pub mod part;
pub mod remote;
pub mod request;
pub mod run;
pub mod scan;
pub mod sort;
pub mod spec;
pub mod texts;
pub mod types;
pub mod unpack;
pub mod window;
pub mod worker;
