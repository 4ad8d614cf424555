//! Declares the parser of a type whose values have a fixed width.

/// A parser of values of fixed width. It declines whatever is not certainly right.
pub trait FixedWidth {
    type Out: Copy;
    /// The value that is stored for NULL.
    const ZERO: Self::Out;
    /// NULL may also be written as nothing or `\N` whatever the spec's `null` is.
    const OTHER_NULL_SPELLING: bool = true;
    /// JSON may have the value without quotes.
    const UNQUOTED: bool = false;
    /// Nested values in JSON may have the value in quotes.
    const QUOTED_ELEMENT: bool = true;
    /// The greatest value that may be read in a group of short integers; None for types whose text
    /// is not just digits.
    const MAX_SHORT: Option<u32> = None;

    /// True where zeros may lead a number, which it does not keep: `007`.
    fn takes_leading_zeros(&self) -> bool {
        true
    }

    /// The value of a number that is not greater than `MAX_SHORT`.
    fn from_short(_: u32) -> Self::Out {
        Self::ZERO
    }

    /// Parse `text[start..end]`; None where it is declined. 64 bytes are readable from any position
    /// up to `end`, and 16 before `start`.
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<Self::Out>;
}
