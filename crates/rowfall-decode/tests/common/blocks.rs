//! Native blocks written the plain way.

pub fn number(out: &mut Vec<u8>, mut value: usize) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn string(out: &mut Vec<u8>, value: &[u8]) {
    number(out, value.len());
    out.extend_from_slice(value);
}

/// A block: (name, type, data) a column.
pub fn block(rows: usize, columns: &[(&str, &str, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    if rows == 0 {
        return out;
    }
    number(&mut out, columns.len());
    number(&mut out, rows);
    for (name, kind, data) in columns {
        string(&mut out, name.as_bytes());
        string(&mut out, kind.as_bytes());
        out.extend_from_slice(data);
    }
    out
}
