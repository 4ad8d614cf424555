//! Runs a spec over bytes and gives back the Native blocks as rows of bytes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rowfall_decode::error::Fail;
use rowfall_decode::run::run;
use rowfall_decode::spec::Spec;
use serde_json::{Value, json};

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A file name that no other test uses, removed in the end.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(data: &[u8]) -> Temporary {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rowfall-decode-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, data).expect("a file in the temporary folder");
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The spec of one file of `columns` ((name, type) each), with `more` laid over it.
pub fn spec(
    path: &Temporary,
    out: &Temporary,
    format: &str,
    columns: &[(&str, &str)],
    more: &Value,
) -> Value {
    let columns: Vec<Value> = columns
        .iter()
        .enumerate()
        .map(|(n, (name, kind))| json!({"name": name, "position": n, "type": kind}))
        .collect();
    let mut spec = json!({
        "version": 2, "inputs": [{"path": path.0}], "format": format, "columns": columns,
        "timezone": "UTC", "trim_strings": false, "outputs": [out.0],
    });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

/// The Native bytes, or the failure's JSON.
pub fn native(
    data: &[u8],
    format: &str,
    columns: &[(&str, &str)],
    more: Value,
) -> Result<Vec<u8>, Value> {
    let (input, output) = (Temporary::new(data), Temporary::new(b""));
    let text = spec(&input, &output, format, columns, &more).to_string();
    let done = Spec::parse(&text).and_then(|spec| run(&spec));
    match done {
        Ok(_) => Ok(std::fs::read(&output.0).expect("the output")),
        Err(fail) => Err(without_path(fail)),
    }
}

fn without_path(fail: Fail) -> Value {
    let mut line = fail.json().expect("a line");
    line.as_object_mut().expect("an object").remove("uri");
    line
}
