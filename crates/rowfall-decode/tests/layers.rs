//! The modules form layers: imports go down only, and never in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What stands directly in `src`, from the bottom to the top: each layer may import those before
/// it. The same list, with what each layer does, is in the doc comment of `src/lib.rs`.
const LAYERS: &[&str] = &[
    "error",
    "simd",
    "cpu_time",
    "calendar",
    "progress",
    "native_string",
    "questions",
    "types",
    "codec",
    "line_forms",
    "dialect",
    "spec",
    "column",
    "input",
    "columnar",
    "text",
    "packets",
    "values",
    "sort",
    "output",
    "merge",
    "partition",
    "computed",
    "block",
    "sample",
    "whole_columns",
    "worker",
    "abilities",
    "run",
];

/// Module names (`text::json`) and their source files.
fn modules(folder: &Path, prefix: &str, found: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_str().expect("ASCII").to_owned();
        if path.is_dir() {
            let name = format!("{prefix}{stem}");
            found.insert(name.clone(), path.join("mod.rs"));
            modules(&path, &format!("{name}::"), found);
        } else if !matches!(&stem[..], "lib" | "main" | "mod") {
            found.insert(format!("{prefix}{stem}"), path);
        }
    }
}

/// The paths that a source names, from `crate::` on, each list in braces taken apart.
fn imports(source: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for part in source.split("crate::").skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
        let (path, rest) = part.split_at(end.unwrap_or(part.len()));
        match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((list, _)) => {
                let names = list.split(',').map(|name| name.trim().trim_start_matches("self"));
                paths.extend(names.map(|name| format!("{path}{name}")));
            }
            None => paths.push(path.to_owned()),
        }
    }
    paths
}

/// The modules that each module imports; those that only hold its children are no import.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = BTreeMap::new();
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    let known = |path: &str| {
        let mut path = path.trim_end_matches(':');
        loop {
            if files.contains_key(path) {
                return Some(path.to_owned());
            }
            path = path.rsplit_once("::")?.0;
        }
    };
    files
        .iter()
        .map(|(name, file)| {
            let source = fs::read_to_string(file).expect("a source");
            let code: String = source
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .flat_map(|line| [line, "\n"])
                .collect();
            let code = code.split("#[cfg(test)]\nmod tests").next().expect("a start").to_owned();
            for line in code.lines() {
                let used = line.trim_start_matches("pub ").strip_prefix("use ").unwrap_or("");
                let first = used.split("::").next().unwrap_or("");
                let relative = first == "super" || files.contains_key(&format!("{name}::{first}"));
                assert!(!relative, "{name}: `{line}` has to start with crate::");
            }
            let found = imports(&code).iter().filter_map(|path| known(path)).collect();
            (name.clone(), found)
        })
        .collect()
}

#[test]
fn imports_go_down() {
    let layer = |module: &str| {
        let top = module.split("::").next().expect("a name");
        LAYERS.iter().position(|name| *name == top)
    };
    for (module, imported) in graph() {
        let own = layer(&module).unwrap_or_else(|| panic!("{module} is in no layer"));
        for other in imported {
            assert!(layer(&other) <= Some(own), "{module} imports {other}, which is above it");
        }
    }
}

#[test]
fn no_modules_import_each_other() {
    let mut left = graph();
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(name, imported)| imported.iter().all(|i| i == *name || !left.contains_key(i)))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|name| drop(left.remove(name)));
    }
    assert!(left.is_empty(), "a circle among {:?}", left.keys());
}

#[test]
fn the_doc_comment_of_the_crate_names_the_layers() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let lib = lib.expect("a source");
    let mut rest = &lib[..];
    for layer in LAYERS.iter().rev() {
        let place = rest.find(&format!("`{layer}`"));
        rest =
            &rest[place.unwrap_or_else(|| panic!("{layer} is not there, or not in its place"))..];
    }
}
