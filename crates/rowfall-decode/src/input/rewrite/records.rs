//! Takes the records of foreign text apart and writes them as plain CSV.

use std::borrow::Cow;
use std::collections::VecDeque;

use memchr::{memchr2, memchr3};

use crate::dialect::{DateOrder, Dialect};
use crate::input::rewrite::values::{Marks, amount, date, number};
use crate::line_forms::LineForm;

/// What was done with the text from a position on.
pub enum Step {
    /// A record or a line without data was taken; it ends before this position.
    Record(usize),
    /// The record goes on behind the text.
    More,
    /// There are no more records.
    End,
    /// It is no record; a line and what is wrong.
    Wrong(String),
}

/// What is done with the values of a field.
#[derive(Clone, Default)]
struct Changes {
    written: Option<Written>,
    /// Words for NULL in this field alone.
    missing: Vec<Vec<u8>>,
}

/// How the values of a field are written.
#[derive(Clone)]
enum Written {
    Number,
    /// A number with this beside it.
    Amount(Vec<u8>),
    Date(DateOrder),
}

/// The rules, and the position in one input.
pub struct Records {
    delimiter: Vec<u8>,
    quote: Option<u8>,
    escape: Option<u8>,
    /// Bytes that end an unquoted field, or need a look.
    special: [bool; 256],
    comment: Vec<u8>,
    comment_found: bool,
    skip_lines: u64,
    trailing: bool,
    trim: bool,
    /// Fields stand between runs of blanks and tabs, which may also begin and end a line.
    runs: bool,
    columns: usize,
    fill: bool,
    skip_blank: bool,
    ruled: bool,
    /// Of lines that no delimiter divides.
    form: Option<LineForm>,
    /// Words for NULL, which is written as nothing. Without any, `\N` stays as it is: whoever reads
    /// plain CSV knows it, and tells it from an empty text.
    nulls: Vec<Vec<u8>>,
    longest_null: usize,
    marks: Marks,
    /// By field; empty where nothing is changed.
    changes: Vec<Changes>,
    header: Vec<String>,
    /// The next record names the columns.
    header_comes: bool,
    /// The line of the source at which the next record starts.
    line: u64,
    /// The line of the rewritten text at which the next record starts.
    out_line: u64,
    /// Fields of the first record; 0 before it.
    width: usize,
    /// Fields of the last record.
    fields: usize,
    wanted: VecDeque<u64>,
    found: Vec<u64>,
}

impl Records {
    pub fn new(dialect: &Dialect, header: bool) -> Records {
        let byte = |text: &str| text.bytes().next();
        let delimiter = dialect.delimiter.clone().into_bytes();
        let quote = byte(&dialect.quote);
        let escape = byte(&dialect.escape).filter(|c| Some(*c) != quote);
        let mut special = [false; 256];
        // A blank beside a blank is no part of a field, so no field is empty.
        let runs = dialect.trim && dialect.delimiter == " ";
        let tab = runs.then_some(b'\t');
        for c in [b'\r', b'\n', delimiter[0]].into_iter().chain(escape).chain(tab) {
            special[usize::from(c)] = true;
        }
        let mut changes: Vec<Changes> = Vec::new();
        for (field, written) in dialect
            .numbers
            .iter()
            .map(|n| (*n, Written::Number))
            .chain(dialect.units.iter().map(|(n, unit)| (*n, Written::Amount(unit.clone().into()))))
            .chain(dialect.dates.iter().map(|(n, order)| (*n, Written::Date(*order))))
        {
            changes_of(&mut changes, field).written = Some(written);
        }
        for (field, words) in &dialect.missing {
            changes_of(&mut changes, *field).missing =
                words.iter().map(|word| word.clone().into_bytes()).collect();
        }
        let mut nulls: Vec<Vec<u8>> =
            dialect.nulls.iter().map(|n| n.clone().into_bytes()).collect();
        if !nulls.is_empty() {
            nulls.push(b"\\N".to_vec());
        }
        Records {
            delimiter,
            quote,
            escape,
            special,
            comment: dialect.comment.clone().into_bytes(),
            comment_found: dialect.comment_found,
            skip_lines: dialect.skip_lines,
            trailing: dialect.trailing,
            trim: dialect.trim,
            runs,
            columns: dialect.columns,
            fill: dialect.fill,
            skip_blank: dialect.skip_blank || !dialect.lines.is_empty(),
            ruled: dialect.ruled,
            form: LineForm::of(&dialect.lines).expect("checked with the dialect"),
            longest_null: (nulls.iter())
                .chain(changes.iter().flat_map(|field| &field.missing))
                .map(Vec::len)
                .max()
                .unwrap_or(0),
            nulls,
            marks: Marks {
                decimal: byte(&dialect.decimal).unwrap_or(b'.'),
                thousands: dialect.thousands.clone().into_bytes(),
            },
            changes,
            header: dialect.header.clone(),
            header_comes: header,
            line: 1,
            out_line: 1,
            width: 0,
            fields: 0,
            wanted: VecDeque::new(),
            found: Vec::new(),
        }
    }

    /// The line of the source at which the next record starts.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Ask for the lines of the source in which these lines of the rewritten text stand.
    pub fn locate(&mut self, lines: Vec<u64>) {
        self.wanted = lines.into();
    }

    /// The lines that were asked for and found.
    pub fn located(&self) -> &[u64] {
        &self.found
    }

    /// Take the record at `at` and append it to `out`. `last`: there is no text behind `text`.
    pub fn next(&mut self, text: &[u8], at: usize, last: bool, out: &mut Vec<u8>) -> Step {
        if at >= text.len() {
            return if last { Step::End } else { Step::More };
        }
        let rest = &text[at..];
        // A line end of two bytes, or what a comment begins with, may be cut.
        if !last && rest.len() <= self.comment.len() + 1 {
            return Step::More;
        }
        let comment = !self.comment.is_empty() && rest.starts_with(&self.comment);
        if self.skip_lines > 0 || comment {
            let Some(next) = line_end(text, at, last) else { return Step::More };
            if self.skip_lines == 0 && self.is_row(&text[at..next]) {
                let start = out.len();
                let line = &text[at..next];
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                write_field(line.strip_suffix(b"\r").unwrap_or(line), true, out);
                out.push(b'\n');
                self.count(&text[at..next], &out[start..]);
                return Step::Record(next);
            }
            self.skip_lines = self.skip_lines.saturating_sub(1);
            self.line += 1;
            return Step::Record(next);
        }
        if self.ruled {
            let Some(next) = line_end(text, at, last) else { return Step::More };
            return self.drawn(&text[at..next], next, out);
        }
        if self.width != 1 || self.skip_blank {
            let begin = self.skip_blanks(text, at);
            if begin == text.len() && begin > at && !last {
                return Step::More;
            }
            if matches!(text.get(begin), None | Some(b'\r' | b'\n')) {
                let Some(next) = line_end(text, begin, last) else { return Step::More };
                self.line += 1;
                return Step::Record(next);
            }
        }
        let start = out.len();
        let step = match self.form.is_some() {
            true => self.line_of_form(text, at, last, out),
            false => self.record(text, at, last, out),
        };
        match step {
            Step::Record(next) => self.count(&text[at..next], &out[start..]),
            _ => out.truncate(start),
        }
        step
    }

    /// Take a line of a table as it is drawn. What goes on in the next line is written as one field,
    /// so that whoever reads the rows refuses it.
    fn drawn(&mut self, line: &[u8], next: usize, out: &mut Vec<u8>) -> Step {
        let bare = line.trim_ascii_end();
        if bare.is_empty() || is_ruler(bare) || is_row_count(bare) {
            self.line += 1;
            return Step::Record(next);
        }
        let start = out.len();
        let mark = self.delimiter.as_slice();
        let inner = bare.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
        if goes_on(bare) {
            write_field(bare, true, out);
            out.push(b'\n');
        } else if let Step::Wrong(message) = self.record(inner.unwrap_or(bare), 0, true, out) {
            out.truncate(start);
            return Step::Wrong(message);
        }
        self.count(line, &out[start..]);
        Step::Record(next)
    }

    /// Tell whether a line that begins as comments do has as many fields as the first record.
    fn is_row(&mut self, line: &[u8]) -> bool {
        if !self.comment_found || self.width < 2 || self.header_comes || self.form.is_some() {
            return false;
        }
        let mut fields = Vec::new();
        let is_record = matches!(self.record(line, 0, true, &mut fields), Step::Record(_));
        is_record && self.fields == self.width
    }

    fn count(&mut self, read: &[u8], written: &[u8]) {
        let lines = memchr::memchr_iter(b'\n', written).count() as u64;
        while let Some(&wanted) = self.wanted.front() {
            if wanted >= self.out_line + lines {
                break;
            }
            self.found.push(self.line + wanted.saturating_sub(self.out_line));
            self.wanted.pop_front();
        }
        self.out_line += lines;
        self.line += count_lines(read);
    }

    /// Take a line that no delimiter divides. One that is not of its form is written as one field,
    /// so that whoever reads the rows finds too few of them.
    fn line_of_form(&mut self, text: &[u8], at: usize, last: bool, out: &mut Vec<u8>) -> Step {
        let Some(next) = line_end(text, at, last) else { return Step::More };
        let line = &text[at..next];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let form = self.form.as_ref().expect("seen by the caller");
        let mut names = Vec::new();
        match form.split(line, self.fill) {
            Some(fields) => {
                for (number, (value, text)) in fields.into_iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    if self.header_comes {
                        names.push(String::from_utf8_lossy(&value).into_owned());
                    }
                    let null = !text && self.nulls.iter().any(|n| n.as_slice() == value.as_ref());
                    let value = if null { &[] } else { value.as_ref() };
                    self.write(value, number, text && value.is_empty(), out);
                }
            }
            None => {
                write_field(line, true, out);
                if form.width() == 1 {
                    out.extend_from_slice(b",");
                }
            }
        }
        out.push(b'\n');
        self.width = form.width();
        if self.header_comes {
            self.header_comes = false;
            if let Err(message) = self.follow_header(&names) {
                return Step::Wrong(message);
            }
        }
        Step::Record(next)
    }

    fn record(&mut self, text: &[u8], mut at: usize, last: bool, out: &mut Vec<u8>) -> Step {
        let mut fields = 0;
        let mut names = Vec::new();
        let start = out.len();
        loop {
            if fields > 0 {
                out.push(b',');
            }
            let from = out.len();
            if self.trim {
                at = self.skip_blanks(text, at);
                if at == text.len() && !last {
                    return Step::More;
                }
            }
            let quoted = self.quote.is_some() && text.get(at) == self.quote.as_ref();
            let found = match quoted {
                true => self.quoted(text, at, last, fields, out),
                false => self.unquoted(text, at, last, fields, out),
            };
            let mut end = match found {
                Ok(Some(end)) => end,
                Ok(None) => return Step::More,
                Err(message) => return Step::Wrong(message),
            };
            if self.header_comes && !self.header.is_empty() {
                names.push(unquote(&out[from..]));
            }
            let empty = !quoted && out.len() == from;
            fields += 1;
            if self.runs {
                let begin = self.skip_blanks(text, end);
                if begin == text.len() && !last {
                    return Step::More;
                }
                if begin > end && !matches!(text.get(begin), None | Some(b'\r' | b'\n')) {
                    at = begin;
                    continue;
                }
                end = begin;
            } else if text[end..].starts_with(&self.delimiter) && end < text.len() {
                at = end + self.delimiter.len();
                continue;
            }
            // A delimiter of several characters, and the line end of two, may be cut.
            if !last && text.len() - end < self.delimiter.len().max(2) {
                return Step::More;
            }
            let next = match text.get(end) {
                None => end,
                Some(b'\r') if text.get(end + 1) == Some(&b'\n') => end + 2,
                Some(_) => end + 1,
            };
            let mut behind = self.trailing && empty && fields > 1.max(self.columns);
            while behind {
                out.pop();
                fields -= 1;
                names.pop();
                // Where it is not known how many fields there are, one delimiter ends the line.
                behind = self.columns > 0 && fields > self.columns && out.ends_with(b",");
            }
            if out.len() == start && self.header_comes {
                return Step::Record(next);
            }
            self.fields = fields;
            if self.fill && !self.header_comes {
                while fields < self.columns {
                    out.push(b',');
                    fields += 1;
                }
            }
            out.push(b'\n');
            self.width = if self.width == 0 { fields } else { self.width };
            if self.header_comes {
                self.header_comes = false;
                return match self.follow_header(&names) {
                    Ok(()) => Step::Record(next),
                    Err(message) => Step::Wrong(message),
                };
            }
            return Step::Record(next);
        }
    }

    /// Put the changes where the header of this file has their columns.
    fn follow_header(&mut self, names: &[String]) -> Result<(), String> {
        if self.header.is_empty() || self.header == names || self.changes.is_empty() {
            return Ok(());
        }
        let mut changes = vec![Changes::default(); names.len()];
        for (field, change) in self.changes.iter().enumerate() {
            let Some(name) = self.header.get(field) else { continue };
            if change.written.is_none() && change.missing.is_empty() {
                continue;
            }
            let place = names.iter().position(|n| n == name);
            let place = place
                .ok_or_else(|| format!("line {}: the header lacks the column {name}", self.line))?;
            changes[place] = change.clone();
        }
        self.changes = changes;
        Ok(())
    }

    /// Write a field without quotes; the position of what ends it, None where it may go on.
    fn unquoted(
        &self,
        text: &[u8],
        at: usize,
        last: bool,
        field: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, String> {
        let mut end = at;
        let mut escapes = false;
        loop {
            // Most fields are short: a table is faster than a search.
            while end < text.len() && !self.special[usize::from(text[end])] {
                end += 1;
            }
            if end < text.len() && Some(text[end]) == self.escape {
                // What is escaped is no delimiter and no line end.
                if end + 1 == text.len() && !last {
                    return Ok(None);
                }
                escapes = true;
                let two = text[end..].starts_with(b"\\\r\n");
                end = (end + if two { 3 } else { 2 }).min(text.len());
                continue;
            }
            match self.ends_at(text, end, last) {
                None => return Ok(None),
                Some(true) => break,
                Some(false) => end += 1,
            }
        }
        let bare = if self.trim { self.without_blanks(&text[at..end]) } else { &text[at..end] };
        if bare.is_empty() || self.is_null(bare, field) {
            return Ok(Some(end));
        }
        let value = if escapes { self.unescaped(bare) } else { Cow::Borrowed(bare) };
        self.write(&value, field, false, out);
        Ok(Some(end))
    }

    /// The position behind blanks and tabs that are no delimiter, or a run of them that is one.
    fn skip_blanks(&self, text: &[u8], mut at: usize) -> usize {
        while self.is_blank(text.get(at)) {
            at += 1;
        }
        at
    }

    fn is_blank(&self, byte: Option<&u8>) -> bool {
        byte.is_some_and(|b| matches!(b, b' ' | b'\t') && (self.runs || *b != self.delimiter[0]))
    }

    fn without_blanks<'t>(&self, mut field: &'t [u8]) -> &'t [u8] {
        while self.is_blank(field.last()) {
            field = &field[..field.len() - 1];
        }
        &field[self.skip_blanks(field, 0)..]
    }

    /// Tell whether a field ends at a position, which is not inside of quotes; None where that is
    /// to be seen behind the text.
    fn ends_at(&self, text: &[u8], at: usize, last: bool) -> Option<bool> {
        let rest = &text[at..];
        if rest.is_empty() {
            return last.then_some(true);
        }
        let run = self.runs && rest[0] == b'\t';
        if run || matches!(rest[0], b'\r' | b'\n') || rest.starts_with(&self.delimiter) {
            return Some(true);
        }
        (last || rest.len() >= self.delimiter.len()).then_some(false)
    }

    fn is_null(&self, bare: &[u8], field: usize) -> bool {
        if self.header_comes || bare.len() > self.longest_null + 32 {
            return false;
        }
        let bare = bare.trim_ascii();
        let missing = self.changes.get(field).map_or(&[][..], |changes| &changes.missing);
        self.nulls.iter().chain(missing).any(|null| null == bare)
    }

    /// Undo escapes outside of quotes, or of a dialect without quotes.
    fn unescaped<'t>(&self, bare: &'t [u8]) -> Cow<'t, [u8]> {
        let mut value = Vec::with_capacity(bare.len());
        let mut at = 0;
        while at < bare.len() {
            let byte = bare[at];
            if Some(byte) != self.escape || at + 1 == bare.len() {
                value.push(byte);
                at += 1;
                continue;
            }
            let after = bare[at + 1];
            let known = match after {
                b'n' => Some(b'\n'),
                b't' => Some(b'\t'),
                b'r' => Some(b'\r'),
                b'0' => Some(0),
                _ => None,
            };
            // Databases that write no quotes write these; where there are quotes `C:\new` is a path.
            match known.filter(|_| self.quote.is_none() && byte == b'\\') {
                Some(meant) => value.push(meant),
                None if self.is_special(after) => value.push(after),
                None => value.extend_from_slice(&[byte, after]),
            }
            at += 2;
        }
        Cow::Owned(value)
    }

    fn is_special(&self, byte: u8) -> bool {
        self.special[usize::from(byte)] || Some(byte) == self.quote
    }

    /// Write a field in quotes; see `unquoted`.
    fn quoted(
        &self,
        text: &[u8],
        at: usize,
        last: bool,
        field: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, String> {
        let quote = self.quote.expect("seen by the caller");
        let mut from = at + 1;
        let mut search = from;
        let mut value: Cow<'_, [u8]> = Cow::Borrowed(&[]);
        let end = loop {
            let found = match self.escape {
                Some(escape) => memchr2(quote, escape, &text[search..]),
                None => memchr::memchr(quote, &text[search..]),
            };
            let Some(here) = found.map(|n| search + n) else {
                if last {
                    return Err(format!("line {}: a quote is opened and never closed", self.line));
                }
                return Ok(None);
            };
            let Some(&after) = text.get(here + 1) else {
                if !last {
                    return Ok(None);
                }
                if text[here] == quote {
                    break here;
                }
                return Err(format!("line {}: a quote is opened and never closed", self.line));
            };
            let doubled = text[here] == quote && after == quote;
            let escaped = text[here] != quote
                && (after == quote || Some(after) == self.escape || self.is_special(after));
            if doubled || escaped {
                value.to_mut().extend_from_slice(&text[from..here]);
                value.to_mut().push(after);
                from = here + 2;
                search = from;
            } else if text[here] == quote {
                break here;
            } else {
                search = here + 1;
            }
        };
        if let Cow::Owned(owned) = &mut value {
            owned.extend_from_slice(&text[from..end]);
        } else {
            value = Cow::Borrowed(&text[from..end]);
        }
        // Blanks may stand between a quote and the delimiter.
        let mut next = end + 1;
        while !self.runs
            && matches!(text.get(next), Some(b' ' | b'\t'))
            && !text[next..].starts_with(&self.delimiter)
        {
            next += 1;
        }
        match self.ends_at(text, next, last) {
            None => Ok(None),
            Some(true) => {
                self.write(&value, field, true, out);
                Ok(Some(next))
            }
            Some(false) => {
                let line = self.line + count_lines(&text[at..end]);
                Err(format!("line {line}: there is text after a closing quote"))
            }
        }
    }

    /// Write a value, changed where its field is, in quotes where it needs them.
    fn write(&self, value: &[u8], field: usize, quoted: bool, out: &mut Vec<u8>) {
        if !self.changes.is_empty() && !self.header_comes {
            let mut changed = Vec::new();
            match self.changes.get(field).and_then(|changes| changes.written.as_ref()) {
                Some(Written::Number) => number(value, &self.marks, &mut changed),
                Some(Written::Amount(unit)) => amount(value, unit, &self.marks, &mut changed),
                Some(Written::Date(order)) => date(value, *order, &mut changed),
                _ => return write_field(value, quoted, out),
            }
            return write_field(&changed, quoted, out);
        }
        write_field(value, quoted, out);
    }
}

/// Tell whether a line of a drawn table is a ruler: `+----+----+`, `----+----`, `|----|:---|`.
fn is_ruler(line: &[u8]) -> bool {
    let three = line.windows(3).any(|found| found == b"---" || found == b"===");
    three && line.iter().all(|c| b"-+|=: \t".contains(c))
}

/// Tell whether a line counts the rows above it: `(3 rows)`, `3 rows in set (0.00 sec)`.
fn is_row_count(line: &[u8]) -> bool {
    let bare = line.trim_ascii();
    let inner = bare.strip_prefix(b"(").unwrap_or(bare);
    let digits = inner.iter().take_while(|c| c.is_ascii_digit()).count();
    let rest = &inner[digits..];
    let closed = if bare.len() > inner.len() {
        rest == b" rows)" || rest == b" row)"
    } else {
        rest.starts_with(b" rows in set") || rest.starts_with(b" row in set")
    };
    digits > 0 && closed
}

/// Tell whether a cell of a drawn line goes on in the next one: `text +| 1`.
fn goes_on(line: &[u8]) -> bool {
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'+', rest) {
        rest = rest[at + 1..].trim_ascii_start();
        if rest.is_empty() || rest[0] == b'|' {
            return true;
        }
    }
    false
}

/// The changes of a field, which are made where there are none so far.
fn changes_of(changes: &mut Vec<Changes>, field: usize) -> &mut Changes {
    if changes.len() <= field {
        changes.resize_with(field + 1, Changes::default);
    }
    &mut changes[field]
}

/// Write a value as a field of plain CSV.
fn write_field(value: &[u8], quoted: bool, out: &mut Vec<u8>) {
    // A CR is none of these three, but would end a line for some readers; it is rare.
    let marked = memchr3(b'"', b',', b'\n', value).is_some() || value.contains(&b'\r');
    if !quoted && !marked {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    let mut rest = value;
    while marked && let Some(n) = memchr::memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=n]);
        out.push(b'"');
        rest = &rest[n + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The value of a field of plain CSV.
fn unquote(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.into_owned(),
    }
}

/// The position behind the line that stands at `at`, None where it may go on.
fn line_end(text: &[u8], at: usize, last: bool) -> Option<usize> {
    let Some(n) = memchr2(b'\r', b'\n', &text[at..]) else {
        return last.then_some(text.len());
    };
    let end = at + n;
    match (text[end], text.get(end + 1)) {
        (b'\r', Some(b'\n')) => Some(end + 2),
        (b'\r', None) if !last => None,
        _ => Some(end + 1),
    }
}

/// Lines that end in a text: CR LF is one line end.
fn count_lines(text: &[u8]) -> u64 {
    let mut count = 0;
    for n in memchr::memchr2_iter(b'\r', b'\n', text) {
        count += u64::from(text[n] == b'\n' || text.get(n + 1) != Some(&b'\n'));
    }
    count
}
