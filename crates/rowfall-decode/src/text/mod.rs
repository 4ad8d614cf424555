//! Finds the fields of CSV, TSV and JSON text. What their values are is left to `values`.

pub mod delimited;
pub mod escapes;
pub mod fields;
pub mod json;
pub mod layout;
pub mod number;
pub mod scan;
