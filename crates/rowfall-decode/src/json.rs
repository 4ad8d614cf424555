//! JSONEachRow.

pub fn unescape(_content: &[u8], _out: &mut Vec<u8>) -> Option<()> {
    None
}
