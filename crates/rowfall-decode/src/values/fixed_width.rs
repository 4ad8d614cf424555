//! The trait of all types whose values have a fixed width.

/// One value of fixed width; `parse` gives None for whatever is not certainly right.
pub trait FixedWidth {
    type Out: Copy;
    const ZERO: Self::Out;
    /// NULL may also be written as nothing or `\N` whatever the spec's `null` is.
    const OTHER_NULL_SPELLING: bool = true;
    /// JSON may hold it without quotes.
    const UNQUOTED: bool = false;
    /// JSON may hold it in quotes as an element of something else.
    const QUOTED_ELEMENT: bool = true;
    /// The greatest whole number that is a value, where digits are read like those of an integer.
    const MAX_SHORT: Option<u32> = None;

    /// The value of a number that is not greater than `MOST`.
    fn from_short(_: u32) -> Self::Out {
        Self::ZERO
    }

    /// Parse `text[start..end]`; 64 bytes are readable from any position up to `end`, and 16
    /// before `start`.
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<Self::Out>;
}
