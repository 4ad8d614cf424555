//! Reads one string out of a Native block: a server's `executable()` passes the spec like that on
//! stdin.

/// The one string of a Native block of one column and one row; None where it is something else.
pub fn read(block: &[u8]) -> Option<&str> {
    let mut rest = block;
    if (read_varint(&mut rest)?, read_varint(&mut rest)?) != (1, 1) {
        return None;
    }
    let _name = read_string(&mut rest)?;
    if read_string(&mut rest)? != b"String" {
        return None;
    }
    let text = read_string(&mut rest)?;
    if rest.is_empty() { std::str::from_utf8(text).ok() } else { None }
}

/// A number in groups of seven bits, the least ones first.
fn read_varint(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0usize;
    for shift in (0..63).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn read_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_varint(rest)?;
    let (text, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::read;

    fn block(value: &str) -> Vec<u8> {
        let mut block = b"\x01\x01\x04text\x06String".to_vec();
        let mut length = value.len();
        while length >= 0x80 {
            block.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        block.push(length as u8);
        block.extend(value.as_bytes());
        block
    }

    #[test]
    fn a_block_of_one_string() {
        for value in ["", "{}", &"x".repeat(127), &"y".repeat(128), &"z".repeat(100_000)] {
            assert_eq!(read(&block(value)), Some(value));
        }
    }

    #[test]
    fn everything_else_is_none() {
        let whole = block("{}");
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), None);
        }
        assert_eq!(read(b"\x02\x01\x04text\x06String\x00"), None);
        assert_eq!(read(b"\x01\x02\x04text\x06String\x00\x00"), None);
        assert_eq!(read(b"\x01\x01\x04text\x05UInt8\x00"), None);
        assert_eq!(read(b"\x01\x01\x04text\x06String\x00more"), None);
        assert_eq!(
            read(b"\x01\x01\x04text\x06String\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            None
        );
        assert_eq!(read(b"\x01\x01\x04text\x06String\x02\xff\xff"), None);
    }
}
