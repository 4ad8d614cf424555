//! The command: `rowfall-decode run|sample|check --spec FILE` and `rowfall-decode --abilities`.

use std::io::Read;
use std::process::exit;

use rowfall_decode::abilities::abilities;
use rowfall_decode::error::Fail;
use rowfall_decode::input::rewrite;
use rowfall_decode::native_string;
use rowfall_decode::questions;
use rowfall_decode::run::run;
use rowfall_decode::sample;
use rowfall_decode::spec::Spec;
use serde_json::json;

const USAGE: &str = "usage: rowfall-decode run --spec FILE|-    decode the inputs of a spec
       rowfall-decode run --spec stdin-line   a line of stdin; the run ends when stdin does
       rowfall-decode run --spec native-block a block of one string on stdin, as a server gives it
       rowfall-decode rewrite --spec JSON  write one input to stdout as plain CSV in UTF-8
       rowfall-decode sample --spec FILE|- say as JSON how the values of the first rows are written
       rowfall-decode check --spec FILE|-  only say whether the spec can be followed
       rowfall-decode --abilities          what the program can do, as JSON
       rowfall-decode --version";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["run", "--spec", path] => {
            end(read(path).and_then(|text| Spec::parse(&text)).and_then(|spec| run(&spec)))
        }
        ["rewrite", "--spec", text] => match rewrite::run(text) {
            Ok(None) => {}
            Ok(Some(found)) => println!("{found}"),
            Err(fail) => end(Err(fail)),
        },
        ["sample", "--spec", path] => match read(path).and_then(|text| sample::measure(&text)) {
            Ok(facts) => println!("{facts}"),
            Err(fail) => end(Err(fail)),
        },
        ["check", "--spec", path] => check(path),
        ["--abilities"] => println!("{}", abilities()),
        ["--version"] => println!("rowfall-decode {}", env!("CARGO_PKG_VERSION")),
        ["--help" | "-h"] => println!("{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            exit(2);
        }
    }
}

fn read(path: &str) -> Result<String, Fail> {
    let mut text = String::new();
    let done = match path {
        "stdin-line" => std::io::stdin().read_line(&mut text).map(|_| questions::listen()),
        "native-block" => {
            let mut block = Vec::new();
            std::io::stdin().read_to_end(&mut block).and_then(|_| {
                text =
                    native_string::read(&block).ok_or(std::io::ErrorKind::InvalidData)?.to_owned();
                Ok(())
            })
        }
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        _ => std::fs::read_to_string(path).map(|found| text = found),
    };
    done.map(|()| text).map_err(|error| Fail::spec(format!("the spec {path}: {error}")))
}

/// Say on stdout whether the spec can be followed, and all that it says, defaults too.
fn check(path: &str) {
    let parsed = |text: String| {
        Spec::parse(&text)?;
        Spec::read(&text)
    };
    match read(path).and_then(parsed) {
        Ok(spec) => println!("{}", json!({"ok": true, "reasons": [], "spec": spec})),
        Err(fail) => {
            let reasons = match &fail {
                Fail::Spec(reasons) => reasons.clone(),
                _ => Vec::new(),
            };
            println!("{}", json!({"ok": false, "reasons": reasons}));
            exit(fail.status());
        }
    }
}

/// Print how the run ended and leave with its status.
fn end(result: Result<serde_json::Value, Fail>) {
    match result {
        Ok(summary) => eprintln!("{summary}"),
        Err(fail) => {
            if let Some(line) = fail.json() {
                eprintln!("{line}");
            }
            exit(fail.status());
        }
    }
}
