//! Reads the content of a field of CSV or TSV.

use std::borrow::Cow;

use crate::text::escapes::unescape;
use crate::text::fields::Syntax;

/// How the fields of a text are read.
pub(super) struct Reader<'a> {
    pub(super) syntax: Syntax,
    /// An unquoted field that is NULL.
    pub(super) null: &'a [u8],
    pub(super) delimiter: u8,
    pub(super) width: usize,
    pub(super) escapes: bool,
}

impl Reader<'_> {
    /// The content of a field; None for NULL. The error is what is unclean about it.
    pub(super) fn value<'t>(&self, field: &'t [u8]) -> Result<Option<Cow<'t, [u8]>>, &'static str> {
        if field == self.null {
            return Ok(None);
        }
        // The scan has made sure that a field which starts with a quote ends with another one.
        let quoted = self.syntax == Syntax::Csv && field.first() == Some(&b'"');
        let content = if quoted { &field[1..field.len() - 1] } else { field };
        if !self.escapes || (self.syntax == Syntax::Csv && !quoted) {
            return Ok(Some(Cow::Borrowed(content)));
        }
        let mut plain = Vec::new();
        unescape(self.syntax, content, &mut plain).ok_or("an escape that is not clear")?;
        Ok(Some(Cow::Owned(plain)))
    }
}
