//! Parts of a table, read back the plain way and compared with Native blocks of the same rows.

use std::path::{Path, PathBuf};

use rowfall_decode::run::run;
use rowfall_decode::spec::Spec;
use rowfall_decode::types::{BaseType, Type};
use serde_json::{Value, json};

use crate::common::{Temporary, native, spec};

/// The values of a column, None for NULL.
type Values = Vec<Option<Vec<u8>>>;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Write the rows of a text as Native blocks and as parts of both kinds, which hold the same or are
/// declined alike. Returns how many parts of a kind there are.
///
/// # Panics
/// Where they differ, or a part's files do not agree with each other.
pub fn compare(text: &[u8], format: &str, columns: &[(&str, &str)], more: &Value) -> usize {
    let blocks = native(text, format, columns, more.clone());
    let [wide, compact] = [0, u64::MAX].map(|least| {
        let mut more = more.clone();
        more["layout"]["wide_bytes"] = json!(least);
        compare_parts(text, format, columns, &more, &blocks)
    });
    assert_eq!(wide, compact);
    wide
}

/// Write the rows of a text as parts of a kind, and compare them with Native blocks of the same rows.
/// Returns how many there are.
///
/// # Panics
/// Where they differ, or a part's files do not agree with each other.
pub fn compare_parts(
    text: &[u8],
    format: &str,
    columns: &[(&str, &str)],
    more: &Value,
    blocks: &Result<Vec<u8>, Value>,
) -> usize {
    let (input, name) = (Temporary::new(text), Temporary::new(b""));
    let folder = Folder(name.0.with_extension("parts"));
    let mut spec = spec(&input, &name, format, columns, more);
    (spec["parts"], spec["outputs"]) = (json!(true), json!([folder.0]));
    let done = Spec::parse(&spec.to_string()).and_then(|spec| run(&spec));
    let mut rest = match (blocks, done) {
        (Ok(blocks), Ok(_)) => &blocks[..],
        (Err(said), Err(fail)) => {
            assert_eq!(said["line"], fail.json().expect("a line")["line"]);
            return 0;
        }
        (_, done) => panic!("Native blocks: {:?}, parts: {done:?}", blocks.is_ok()),
    };
    let types: Vec<Type> =
        columns.iter().map(|(_, kind)| Type::parse(kind, Some("UTC")).expect("a type")).collect();
    let mut parts = 0;
    while !rest.is_empty() {
        let part = folder.0.join(parts.to_string());
        parts += 1;
        assert_eq!(number(&mut rest), columns.len());
        let rows = number(&mut rest);
        let count = std::fs::read_to_string(part.join("count.txt")).expect("count.txt");
        assert_eq!(count, rows.to_string());
        assert_eq!(is_compact(&part), more["layout"]["wide_bytes"] != 0);
        for ((name, kind), data_type) in columns.iter().zip(&types) {
            assert_eq!((string(&mut rest), string(&mut rest)), (name.as_bytes(), kind.as_bytes()));
            versions(&mut rest, data_type);
            let wanted = native_columns(&mut rest, data_type, rows);
            assert_eq!(part_columns(&part, name, 0, data_type, rows), wanted, "{name} {kind}");
        }
    }
    assert!(!folder.0.join(parts.to_string()).exists(), "more parts than blocks");
    parts
}

fn is_compact(part: &Path) -> bool {
    part.join("data.bin").exists()
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, more) = rest.split_at(count);
    *rest = more;
    taken
}

fn word(rest: &mut &[u8]) -> usize {
    u64::from_le_bytes(take(rest, 8).try_into().expect("8 bytes")) as usize
}

fn number(rest: &mut &[u8]) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(rest, 1)[0];
        value |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return value;
        }
    }
}

fn string<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let size = number(rest);
    take(rest, size)
}

/// Keys of a dictionary.
fn keys(rest: &mut &[u8]) -> Vec<Vec<u8>> {
    let count = word(rest);
    (0..count).map(|_| string(rest).to_vec()).collect()
}

/// The values that indexes of a dictionary stand for.
fn looked_up(
    rest: &mut &[u8],
    flags: usize,
    rows: usize,
    keys: &[Vec<u8>],
    nullable: bool,
) -> Values {
    let width = 1 << (flags & 0xff);
    let index = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    let found = take(rest, rows * width).chunks(width).map(index);
    found.map(|n| (!nullable || n > 0).then(|| keys[n].clone())).collect()
}

/// The versions of dictionaries, which stand before the data of a column.
fn versions(rest: &mut &[u8], data_type: &Type) {
    if data_type.low_cardinality {
        assert_eq!(word(rest), 1, "version");
    }
    data_type.children().iter().for_each(|child| versions(rest, child));
}

/// What a column consists of: of arrays and maps their sizes, and the values of each flat type.
fn native_columns(rest: &mut &[u8], data_type: &Type, rows: usize) -> Vec<Values> {
    if data_type.children().is_empty() {
        return vec![native_values(rest, data_type, rows)];
    }
    let (mut found, mut rows) = (Vec::new(), rows);
    if !matches!(data_type.base, BaseType::Tuple(..)) {
        let mut before = 0;
        let sizes = (0..rows).map(|_| {
            let end = word(rest);
            Some(((end - std::mem::replace(&mut before, end)) as u64).to_le_bytes().to_vec())
        });
        found.push(sizes.collect());
        rows = before;
    }
    let children = data_type.children().iter();
    found.extend(children.flat_map(|child| native_columns(rest, child, rows)));
    found
}

/// The same of the streams of a part, which are in so many arrays.
fn part_columns(
    part: &Path,
    name: &str,
    arrays: usize,
    data_type: &Type,
    rows: usize,
) -> Vec<Values> {
    if data_type.children().is_empty() {
        return vec![part_values(part, name, data_type, rows)];
    }
    let (mut found, mut rows, mut arrays) = (Vec::new(), rows, arrays);
    if !matches!(data_type.base, BaseType::Tuple(..)) {
        let sizes = stream(part, &format!("{name}.size{arrays}"));
        assert_eq!(sizes.len(), 8 * rows);
        found.push(sizes.chunks(8).map(|size| Some(size.to_vec())).collect());
        let mut rest = &sizes[..];
        rows = (0..rows).map(|_| word(&mut rest)).sum();
        arrays += 1;
    }
    for (number, child) in data_type.children().iter().enumerate() {
        let own = match &data_type.base {
            BaseType::Array(_) => String::new(),
            BaseType::Map(_) => ["%2Ekeys", "%2Evalues"][number].to_owned(),
            BaseType::Tuple(_, names) if !names.is_empty() => {
                format!("%2E{}", String::from_utf8_lossy(&names[number]))
            }
            _ => format!("%2E{}", number + 1),
        };
        found.extend(part_columns(part, &format!("{name}{own}"), arrays, child, rows));
    }
    found
}

fn native_values(rest: &mut &[u8], data_type: &Type, rows: usize) -> Values {
    if data_type.low_cardinality {
        if rows == 0 {
            return Vec::new();
        }
        let flags = word(rest);
        let keys = keys(rest);
        assert_eq!(word(rest), rows);
        return looked_up(rest, flags, rows, &keys, data_type.nullable);
    }
    let nulls = take(rest, if data_type.nullable { rows } else { 0 });
    (0..rows)
        .map(|row| {
            let value = match data_type.base {
                BaseType::String => string(rest),
                _ => take(rest, data_type.width()),
            };
            (nulls.get(row) != Some(&1)).then(|| value.to_vec())
        })
        .collect()
}

fn part_values(part: &Path, name: &str, data_type: &Type, rows: usize) -> Values {
    let data = stream(part, name);
    let mut data = &data[..];
    if data_type.low_cardinality {
        let dictionary = stream(part, &format!("{name}.dict"));
        let mut dictionary = &dictionary[..];
        if is_compact(part) {
            let found = stream(part, &format!("{name}.dict_prefix"));
            let (versions, rest) = found.as_chunks::<8>();
            assert!(versions.iter().all(|v| u64::from_le_bytes(*v) == 1) && rest.is_empty());
        } else {
            assert_eq!(word(&mut dictionary), 1, "version");
        }
        let shared = if dictionary.is_empty() { Vec::new() } else { keys(&mut dictionary) };
        let mut values = Vec::new();
        while !data.is_empty() {
            let flags = word(&mut data);
            let own = if flags & 0x200 == 0 { None } else { Some(keys(&mut data)) };
            let keys = own.as_ref().unwrap_or(&shared);
            let granule = word(&mut data);
            values.extend(looked_up(&mut data, flags, granule, keys, data_type.nullable));
        }
        assert!(dictionary.is_empty());
        assert_eq!(values.len(), rows);
        return values;
    }
    let sparse = format!("{name}.sparse.idx");
    if part.join(format!("{sparse}.bin")).exists() || substreams(part).contains(&sparse) {
        return sparse_values(part, name, data_type, rows);
    }
    let nulls = match data_type.nullable {
        true => stream(part, &format!("{name}.null")),
        false => Vec::new(),
    };
    let sizes = match data_type.base {
        BaseType::String => stream(part, &format!("{name}.size")),
        _ => (data_type.width() as u64).to_le_bytes().repeat(rows),
    };
    let mut sizes = &sizes[..];
    let values = (0..rows).map(|row| {
        let value = take(&mut data, word(&mut sizes)).to_vec();
        (nulls.get(row) != Some(&1)).then_some(value)
    });
    let values = values.collect();
    assert!(data.is_empty() && sizes.is_empty());
    values
}

/// The values of a sparse column: numbers of defaults before each of the others, and of those behind
/// the last one of a granule, which have a bit of their own.
fn sparse_values(part: &Path, name: &str, data_type: &Type, rows: usize) -> Values {
    let (places, data) = (stream(part, &format!("{name}.sparse.idx")), stream(part, name));
    let sizes = match data_type.base {
        BaseType::String => stream(part, &format!("{name}.size")),
        _ => (data_type.width() as u64).to_le_bytes().repeat(rows),
    };
    let (mut places, mut data, mut sizes) = (&places[..], &data[..], &sizes[..]);
    let mut values = Values::new();
    while !places.is_empty() {
        let gap = number(&mut places);
        let default = Some(vec![0; data_type.width()]);
        values.extend(std::iter::repeat_n(default, gap & !(1 << 62)));
        if gap < 1 << 62 {
            let value = take(&mut data, word(&mut sizes));
            assert!(value.iter().any(|byte| *byte != 0), "no default");
            values.push(Some(value.to_vec()));
        }
    }
    assert!(data.is_empty() && values.len() == rows);
    values
}

/// The streams of a compact part, in the order of their marks.
fn substreams(part: &Path) -> Vec<String> {
    if !is_compact(part) {
        return Vec::new();
    }
    let listed = std::fs::read_to_string(part.join("columns_substreams.txt")).expect("a list");
    listed.lines().filter_map(|line| line.strip_prefix('\t').map(str::to_owned)).collect()
}

/// The bytes of a stream of a compact part.
fn compact_stream(part: &Path, name: &str) -> Vec<u8> {
    let read = |name: &str| std::fs::read(part.join(name)).unwrap_or_else(|_| panic!("{name}"));
    let (data, starts) = unpacked(&read("data.bin"));
    let (marks, _) = unpacked(&read("data.cmrk4"));
    let (mut marks, streams, mut rows) = (&marks[..], substreams(part), Vec::new());
    let (mut found, mut open, mut last) = (Vec::new(), None, 0);
    while !marks.is_empty() {
        for stream in &streams {
            let (packed, plain) = (word(&mut marks), word(&mut marks));
            let frame =
                starts.iter().find(|start| start.0 == packed).expect("a frame starts there");
            let at = frame.1 + plain;
            assert!(last <= at && at <= data.len(), "marks rise");
            if let Some(from) = open.take() {
                found.extend_from_slice(&data[from..at]);
            }
            open = (stream == name).then_some(at);
            last = at;
        }
        rows.push(word(&mut marks));
    }
    assert_eq!((rows.pop(), last), (Some(0), data.len()), "the marks behind all granules");
    let count = std::fs::read_to_string(part.join("count.txt")).expect("count.txt");
    assert_eq!(rows.iter().sum::<usize>().to_string(), count);
    assert!(streams.iter().any(|stream| stream == name), "no stream {name}");
    found
}

/// The bytes of a stream, whose marks are those of the part.
fn stream(part: &Path, name: &str) -> Vec<u8> {
    if is_compact(part) {
        return compact_stream(part, name);
    }
    let read = |name: String| std::fs::read(part.join(&name)).unwrap_or_else(|_| panic!("{name}"));
    let (data, starts) = unpacked(&read(format!("{name}.bin")));
    let (marks, _) = unpacked(&read(format!("{name}.cmrk2")));
    let (mut marks, mut granules) = (&marks[..], Vec::new());
    let mut last = 0;
    while !marks.is_empty() {
        let (packed, plain) = (word(&mut marks), word(&mut marks));
        granules.push(word(&mut marks));
        let before = starts.iter().find(|start| start.0 == packed).expect("a frame starts there");
        let at = before.1 + plain;
        assert!(last <= at && at <= data.len(), "marks rise");
        last = at;
    }
    assert_eq!((granules.pop(), last), (Some(0), data.len()), "the mark behind all granules");
    let count = std::fs::read_to_string(part.join("count.txt")).expect("count.txt");
    assert_eq!(granules.iter().sum::<usize>().to_string(), count);
    data
}

/// The bytes of a file of frames, and where each frame starts, packed and unpacked; also the end.
fn unpacked(file: &[u8]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut all, mut starts, mut rest) = (Vec::new(), vec![(0, 0)], file);
    while !rest.is_empty() {
        let sum = take(&mut rest, 16);
        let size = u32::from_le_bytes(rest[1..5].try_into().expect("4 bytes")) as usize;
        let plain = u32::from_le_bytes(rest[5..9].try_into().expect("4 bytes")) as usize;
        let frame = take(&mut rest, size);
        let hash = cityhash_rs::cityhash_102_128(frame).rotate_right(64);
        assert_eq!(sum, hash.to_le_bytes(), "the checksum of a frame");
        let found = match frame[0] {
            0x82 => lz4_flex::block::decompress(&frame[9..], plain).expect("LZ4"),
            0x90 => zstd::bulk::decompress(&frame[9..], plain).expect("zstd"),
            other => panic!("codec {other:#x}"),
        };
        assert_eq!(found.len(), plain);
        all.extend(found);
        starts.push((file.len() - rest.len(), all.len()));
    }
    (all, starts)
}
