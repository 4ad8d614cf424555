//! Parses the fields of a column into values: [`decode`] appends them to the column.

mod binary;
mod bool_uuid_ip;
mod decimal;
mod fixed_width;
mod flat;
mod float;
mod integer;
mod nested;
mod short_integers;
mod string;
pub mod time;
mod wide_integer;

pub use crate::values::binary::PacketFields;
pub use crate::values::nested::decode;
