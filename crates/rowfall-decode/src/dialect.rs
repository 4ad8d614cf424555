//! How foreign text is written: the part of the spec that rewriting needs.

use serde::{Deserialize, Serialize};

use crate::line_forms::LineForm;

/// How text is written that is rewritten first. The attributes are those of `Dialect` in
/// `src/rowfall/core/model.py`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dialect {
    /// A label of WHATWG. A byte order mark in the text has the last word.
    pub charset: String,
    /// Between fields; one or more characters.
    pub delimiter: String,
    /// Around fields; one character, or nothing where quotes mean nothing.
    pub quote: String,
    /// In front of a quote inside quotes; one character. The quote itself where it is doubled.
    pub escape: String,
    /// What lines begin with that are not data; nothing for none.
    pub comment: String,
    /// The mark of comments was found and not given: behind the first record, a line with it that
    /// has as many fields as that one may be a row. It is written as one field, so that whoever
    /// reads the rows refuses it.
    pub comment_found: bool,
    /// Lines before the header or the first record.
    pub skip_lines: u64,
    /// Each line ends with a delimiter, behind which there is no field.
    pub trailing: bool,
    /// Blanks and tabs around fields are no part of them, in front of a quote neither. Of the
    /// delimiter blank: fields stand between runs of blanks and tabs.
    pub trim: bool,
    /// Fields of a record; 0: not known. `trailing` takes away only what is behind them.
    pub columns: usize,
    /// Records of fewer fields are filled up with empty ones.
    pub fill: bool,
    /// Blank lines are left out also where there is one column; among several they always are.
    pub skip_blank: bool,
    /// A table as it is drawn: rulers and the count of rows below it are left out, and a delimiter
    /// may begin a line as well as end it.
    pub ruled: bool,
    /// Unquoted fields that mean NULL, beside the empty one and `\N`.
    pub nulls: Vec<String>,
    /// Fields in which other words mean NULL where they are not quoted, and those words.
    pub missing: Vec<(usize, Vec<String>)>,
    /// The mark before decimals.
    pub decimal: String,
    /// The mark between thousands; nothing for none.
    pub thousands: String,
    /// Fields whose numbers have those marks, from 0 on.
    pub numbers: Vec<usize>,
    /// Of these fields those with something beside the digits, a currency or `%`, or with negative
    /// numbers as bookkeepers write them: nothing beside the digits then.
    pub units: Vec<(usize, String)>,
    /// Fields with dates, and how they are written.
    pub dates: Vec<(usize, DateOrder)>,
    /// Names in the header by which `missing`, `numbers`, `units` and `dates` count; a file whose
    /// header has another order is read by its names.
    pub header: Vec<String>,
    /// The form of lines that no delimiter divides, and its words: `widths 10 5`, `common`,
    /// `combined`, `logfmt level msg`; nothing for delimiters.
    pub lines: Vec<String>,
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect {
            charset: "utf-8".into(),
            delimiter: ",".into(),
            quote: "\"".into(),
            escape: "\"".into(),
            comment: String::new(),
            comment_found: false,
            skip_lines: 0,
            trailing: false,
            trim: false,
            columns: 0,
            fill: false,
            skip_blank: false,
            ruled: false,
            nulls: Vec::new(),
            missing: Vec::new(),
            decimal: ".".into(),
            thousands: String::new(),
            numbers: Vec::new(),
            units: Vec::new(),
            dates: Vec::new(),
            header: Vec::new(),
            lines: Vec::new(),
        }
    }
}

/// The order of day, month and year, and how a date is written besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DateOrder {
    /// 31/12/2023.
    Dmy,
    /// 12/31/2023.
    Mdy,
    /// 2023/12/31.
    Ymd,
    /// 2023-12-31 with a time of day and no offset from UTC: `10:30:00+00:00`, `10:30 UTC`.
    Utc,
    /// 31/12/23: of this century up to 29, of the last one from 70 on, no date otherwise.
    Dmy2,
    /// 12/31/23.
    Mdy2,
    /// With the name of the month: 31-Dec-2023, 31DEC2023:10:30:00, Dec 31, 2023, 31/Dec/23.
    Named,
}

impl Dialect {
    /// Why text cannot be rewritten by this.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut need = |fine: bool, reason: &str| {
            if !fine {
                reasons.push(reason.to_owned());
            }
        };
        let ends = |text: &str| text.contains(['\r', '\n']);
        need(
            encoding_rs::Encoding::for_label(self.charset.as_bytes()).is_some(),
            "the charset is not known",
        );
        need(
            !self.delimiter.is_empty() && !ends(&self.delimiter),
            "the delimiter of a dialect is one or more characters, and no line end",
        );
        let one = |text: &str| text.len() == 1 && text.is_ascii() && !ends(text);
        need(self.quote.is_empty() || one(&self.quote), "a quote is one ASCII character");
        need(self.escape.is_empty() || one(&self.escape), "an escape is one ASCII character");
        need(
            self.quote.is_empty() || !self.delimiter.starts_with(&self.quote),
            "quote and delimiter are not the same",
        );
        need(!ends(&self.comment), "comments begin with no line end");
        need(one(&self.decimal), "the decimal mark is one ASCII character");
        need(self.thousands.len() <= 4 && !ends(&self.thousands), "thousands have a short mark");
        need(!self.fill || self.columns > 0, "records are filled up to a number of fields");
        need(LineForm::of(&self.lines).is_ok(), "the form of lines is not known");
        need(self.thousands != self.decimal, "decimals and thousands have marks of their own");
        reasons
    }
}
