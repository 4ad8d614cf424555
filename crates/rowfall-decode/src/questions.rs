//! Asks whoever started the program: a question is a JSON line on stderr, its answer the next line
//! of stdin.

use std::io::{self, BufRead};
use std::process::exit;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

/// The lines of stdin behind the spec; None where nobody answers.
static ANSWERS: Mutex<Option<Receiver<String>>> = Mutex::new(None);

/// Take the lines of stdin as answers, and end with whoever holds stdin open: a killed rowfall
/// leaves nobody at the other end of a pipe, and opening one waits for ever.
pub fn listen() {
    let (lines, answers) = channel();
    *ANSWERS.lock().expect("nobody panics with it") = Some(answers);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
        exit(5);
    });
}

/// Ask for `what`, and wait for the answer.
pub fn ask(what: &str, question: &Value) -> Result<Value, String> {
    // Held until the answer is there: answers come in the order of the questions.
    let answers = ANSWERS.lock().expect("nobody panics with it");
    let answers = answers.as_ref().ok_or("there is nobody to ask")?;
    eprintln!("{}", json!({"question": what, "about": question}));
    let line = answers.recv().map_err(|_| "nobody answers")?;
    let answer: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    match answer["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(answer),
    }
}
