//! Maps columns to fields of a line: by the positions in the spec, or by the file's header.

use crate::error::shorten;
use crate::spec::{Format, Spec, UnknownColumns};
use crate::text::escapes::unescape;
use crate::text::fields::Syntax;
use crate::text::scan::Scan;

/// The fields of a line and the columns that they belong to.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Fields in a line; a Tuple column of CSV may have several.
    pub width: usize,
    /// For each column of the spec, the number of its first field.
    pub field_numbers: Vec<usize>,
    /// The numbers of fields that belong to no column of the spec.
    pub skipped: Vec<usize>,
    /// The last field of each line is the nothing behind a delimiter.
    pub trailing: bool,
}

impl Layout {
    /// The layout of lines of so many columns, of which the spec's columns have `positions`.
    fn new(spec: &Spec, columns: usize, positions: &[usize]) -> Layout {
        let mut widths = vec![1; columns];
        if spec.tuples_are_fields() {
            let types = spec.types().expect("checked before anything is read");
            for (kind, &position) in types.iter().zip(positions) {
                widths[position] = kind.fields();
            }
        }
        let field_numbers: Vec<usize> =
            positions.iter().map(|&position| widths[..position].iter().sum()).collect();
        let width = widths.iter().sum::<usize>() + usize::from(spec.trailing);
        let skipped = (0..width).filter(|n| !field_numbers.contains(n)).collect();
        Layout { width, field_numbers, skipped, trailing: spec.trailing }
    }
}

/// The layout that the spec gives; None for files with a header and for JSON.
pub fn from_positions(spec: &Spec) -> Option<Layout> {
    if spec.format.has_names() || spec.format == Format::Json {
        return None;
    }
    let field_numbers: Vec<usize> = spec.columns.iter().filter_map(|c| c.position).collect();
    let most = field_numbers.iter().max().map_or(0, |n| n + 1);
    Some(Layout::new(spec, spec.file_columns.unwrap_or(most).max(most), &field_numbers))
}

/// The layout that the header at the start of the index gives; the name in question and a message
/// where the header does not fit the spec. With `skip_header` only its width counts: whoever gave
/// the positions has compared it.
pub fn from_header(text: &[u8], scan: &Scan, spec: &Spec) -> Result<Layout, (String, String)> {
    if spec.skip_header {
        let positions: Vec<usize> = spec.columns.iter().filter_map(|c| c.position).collect();
        let ends = scan.index.iter().skip(1);
        let mut count = 1 + ends.take_while(|&&at| text[at as usize] != b'\n').count();
        let wanted = spec.file_columns.unwrap_or(positions.len());
        if spec.trailing && count == wanted + 1 {
            count = wanted; // nothing is behind the last delimiter of a header, either
        }
        if count != wanted || positions.iter().any(|&position| position >= count) {
            let message = format!("a header of {count} names where {wanted} are expected");
            return Err((String::new(), message));
        }
        return Ok(Layout::new(spec, count, &positions));
    }
    let names = header_names(text, scan, spec.format.is_csv(), spec.trailing)
        .ok_or_else(|| (String::new(), "a header that is not plain names".to_owned()))?;
    for (n, name) in names.iter().enumerate() {
        if names[..n].contains(name) {
            return Err((shorten(name), "the header names a column twice".to_owned()));
        }
    }
    let mut field_numbers = Vec::new();
    for column in &spec.columns {
        let source = column.source();
        match names.iter().position(|name| name == source.as_bytes()) {
            Some(place) => field_numbers.push(place),
            None => return Err((source.to_owned(), "the header lacks this column".to_owned())),
        }
    }
    if spec.unknown == UnknownColumns::Error
        && let Some(extra) = (0..names.len()).find(|n| !field_numbers.contains(n))
    {
        let message = "the header has a column that the table lacks".to_owned();
        return Err((shorten(&names[extra]), message));
    }
    Ok(Layout::new(spec, names.len(), &field_numbers))
}

fn header_names(text: &[u8], scan: &Scan, csv: bool, trailing: bool) -> Option<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for pair in scan.index.windows(2) {
        let (start, mut end) = (pair[0] as usize + 1, pair[1] as usize);
        let last = text[end] == b'\n';
        if last && end > start && text[end - 1] == b'\r' {
            end -= 1;
        }
        if trailing && last && start == end && !names.is_empty() {
            return Some(names);
        }
        names.push(plain_name(&text[start..end], csv)?);
        if last {
            return Some(names);
        }
    }
    None
}

/// A name of a header without quotes and escapes; None for one that is empty, begins or ends with a
/// blank, or holds a line break.
fn plain_name(field: &[u8], csv: bool) -> Option<Vec<u8>> {
    let quoted = csv && field.first() == Some(&b'"');
    let content = if quoted { field.get(1..field.len() - 1)? } else { field };
    let blank = |c: Option<&u8>| c.is_some_and(u8::is_ascii_whitespace);
    if content.is_empty() || blank(content.first()) || blank(content.last()) {
        return None;
    }
    let mut name = Vec::new();
    if csv && !quoted {
        name.extend_from_slice(content);
    } else {
        unescape(if csv { Syntax::Csv } else { Syntax::Tsv }, content, &mut name)?;
    }
    (!name.contains(&b'\n')).then_some(name)
}
