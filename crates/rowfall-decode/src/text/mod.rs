//! Text to fields: where values stand, without what they are.

pub mod delimited;
pub mod escapes;
pub mod fields;
pub mod json;
pub mod layout;
pub mod number;
pub mod scan;
