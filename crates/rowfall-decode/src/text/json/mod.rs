//! Finds the values of JSONEachRow, one object a line.

mod byte_search;
pub mod fields;
pub mod objects;
pub mod value;
