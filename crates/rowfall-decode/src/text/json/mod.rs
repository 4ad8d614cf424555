//! JSONEachRow: finds the values of objects, one object a line.

mod byte_search;
pub mod fields;
pub mod objects;
pub mod value;
