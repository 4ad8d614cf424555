//! Checks that a text is a number in the notation that all readers agree on.

/// True for digits with at most one point, digits on both sides of it, and an exponent: what
/// fast-float2 and the engine read alike.
pub fn is_plain_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|c| c.is_ascii_digit()).count();
    let mut at = usize::from(text.first() == Some(&b'-'));
    for part in [&b""[..], b".", b"eE"] {
        match text.get(at) {
            Some(mark) if part.contains(mark) => at += 1,
            _ if part.is_empty() => {}
            _ => continue,
        }
        if part == b"eE" && matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        match digits(&text[at..]) {
            0 => return false,
            count => at += count,
        }
    }
    at == text.len()
}
