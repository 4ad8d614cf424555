//! The first line of files with names: which column stands where.

use crate::delimited::Layout;
use crate::scan::Scan;
use crate::spec::{Spec, Unknown};
use crate::types::text_of_name;

/// The layout that the header at the start of the index tells, and the number of its cells; a
/// message and the name in question otherwise.
pub fn layout(text: &[u8], scan: &Scan, spec: &Spec) -> Result<Layout, (String, String)> {
    let names = names(text, scan, spec.format.is_csv())
        .ok_or_else(|| (String::new(), "a header that is not plain names".to_owned()))?;
    for (n, name) in names.iter().enumerate() {
        if names[..n].contains(name) {
            return Err((show(name), "the header names a column twice".to_owned()));
        }
    }
    let mut places = Vec::new();
    for column in &spec.columns {
        let source = column.source();
        match names.iter().position(|name| name == source.as_bytes()) {
            Some(place) => places.push(place),
            None => return Err((source.to_owned(), "the header lacks this column".to_owned())),
        }
    }
    if spec.unknown == Unknown::Error
        && let Some(extra) = (0..names.len()).find(|n| !places.contains(n))
    {
        let message = "the header has a column that the table lacks".to_owned();
        return Err((show(&names[extra]), message));
    }
    Ok(spec.layout(names.len(), &places))
}

fn show(name: &[u8]) -> String {
    crate::error::shorten(name)
}

fn names(text: &[u8], scan: &Scan, csv: bool) -> Option<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for pair in scan.index.windows(2) {
        let (start, mut end) = (pair[0] as usize + 1, pair[1] as usize);
        let last = text[end] == b'\n';
        if last && end > start && text[end - 1] == b'\r' {
            end -= 1;
        }
        names.push(text_of_name(&text[start..end], csv)?);
        if last {
            return Some(names);
        }
    }
    None
}
