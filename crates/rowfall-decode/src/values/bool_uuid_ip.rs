//! Parses Bool, UUID, IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::values::fixed_width::FixedWidth;

/// Parses Bool.
pub struct Bool {
    /// Accept 1 and 0, too.
    pub digits: bool,
    /// Accept `TRUE` and `True`, too.
    pub capitals: bool,
}

impl FixedWidth for Bool {
    type Out = u8;
    const ZERO: u8 = 0;
    const UNQUOTED: bool = true;
    const QUOTED_ELEMENT: bool = false;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<u8> {
        match text.get(start..end)? {
            b"true" => Some(1),
            b"false" => Some(0),
            b"1" if self.digits => Some(1),
            b"0" if self.digits => Some(0),
            b"TRUE" | b"True" if self.capitals => Some(1),
            b"FALSE" | b"False" if self.capitals => Some(0),
            _ => None,
        }
    }
}

/// Parses UUID.
pub struct Uuid;

impl FixedWidth for Uuid {
    /// Two numbers, the upper one first.
    type Out = [u64; 2];
    const ZERO: [u64; 2] = [0; 2];

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<[u64; 2]> {
        if end.wrapping_sub(start) != 36 {
            return None;
        }
        let text = &text[start..end];
        if [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
            return None;
        }
        let mut halves = [0u64; 2];
        let mut wrong = 0;
        for (half, parts) in halves.iter_mut().zip([[0..8, 9..13, 14..18], [19..23, 24..36, 0..0]])
        {
            for &byte in parts.into_iter().flat_map(|part| &text[part]) {
                let digit = HEX[usize::from(byte)];
                wrong |= digit;
                *half = *half << 4 | u64::from(digit & 15);
            }
        }
        (wrong < 16).then_some(halves)
    }
}

/// Values of hexadecimal digits, 255 for all other bytes.
const HEX: [u8; 256] = {
    let mut table = [255u8; 256];
    let mut i = 0u8;
    while i < 10 {
        table[(b'0' + i) as usize] = i;
        i += 1;
    }
    i = 0;
    while i < 6 {
        table[(b'a' + i) as usize] = 10 + i;
        table[(b'A' + i) as usize] = 10 + i;
        i += 1;
    }
    table
};

fn utf8(text: &[u8], start: usize, end: usize) -> Option<&str> {
    std::str::from_utf8(text.get(start..end)?).ok()
}

/// Parses IPv4.
pub struct Ipv4;

impl FixedWidth for Ipv4 {
    type Out = u32;
    const ZERO: u32 = 0;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        utf8(text, start, end)?.parse::<Ipv4Addr>().ok().map(u32::from)
    }
}

/// Parses IPv6.
pub struct Ipv6;

impl FixedWidth for Ipv6 {
    type Out = [u8; 16];
    const ZERO: [u8; 16] = [0; 16];

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<[u8; 16]> {
        utf8(text, start, end)?.parse::<Ipv6Addr>().ok().map(|address| address.octets())
    }
}
