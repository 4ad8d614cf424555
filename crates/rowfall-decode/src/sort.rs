//! Blocks sorted by the table's key before they are sent.
