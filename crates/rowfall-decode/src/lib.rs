//! Reads CSV, TSV and JSON text, decodes it into columns, or copies the columns of Native, Arrow and
//! Parquet, and writes ClickHouse Native blocks or finished MergeTree parts. README.md says how the program is used and follows a byte through it.
//!
//! The modules are layers. Each imports only modules below it, and no modules import each other in
//! a circle; `tests/layers.rs` reads the imports and fails otherwise. From the top:
//!
//! | module | what it does |
//! | --- | --- |
//! | `run` | starts one worker for each output, reports progress, sums up |
//! | `abilities` | tells what the program can do |
//! | `worker` | reads inputs one after the other and writes their rows as blocks |
//! | `whole_columns` | writes parts column by column, where inputs have whole columns |
//! | `sample` | counts how the values of some rows are written, for a plan |
//! | `block` | decodes batches of rows into the columns of a block, sorts the block |
//! | `computed` | asks for the values of a key that are no columns |
//! | `partition` | finds the partitions of rows, and holds blocks until a part is whole |
//! | `merge` | holds sorted blocks until all of them become one part |
//! | `output` | writes blocks: Native to pipes and files, or as parts of a table |
//! | `sort` | puts the rows of a block into the order of the table's key |
//! | `values` | turns the fields of a column into its values, one loop for each type |
//! | `packets` | takes rows of a database's protocol apart: where their fields are |
//! | `text` | finds the fields: delimiters, headers, JSON keys, escapes |
//! | `columnar` | reads what holds columns already: Native, Arrow, Parquet; or makes them |
//! | `input` | opens files and HTTP objects, decompresses them into a buffer of text |
//! | `column` | holds the values of a column as the Native format has them |
//! | `spec` | is the JSON document that says what to do |
//! | `dialect` | says how foreign text is written |
//! | `line_forms` | takes lines apart that no delimiter divides: fixed widths, logs |
//! | `codec` | encodes the values of a column as its codecs say |
//! | `types` | parses the names of ClickHouse types |
//! | `questions` | asks whoever started the program |
//! | `native_string` | reads a spec that a server passes as a Native block |
//! | `progress` | counts what all workers have done |
//! | `calendar` | turns days into dates and back |
//! | `cpu_time` | asks the system for CPU time |
//! | `simd` | chooses AVX-512, AVX2 or portable code |
//! | `error` | says why a run failed, as a JSON line and an exit status |

// Without Arrow some of what files of columns need has no caller.
#![cfg_attr(not(feature = "arrow"), allow(dead_code))]
#![warn(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod abilities;
mod block;
mod calendar;
mod codec;
mod column;
mod columnar;
mod computed;
mod cpu_time;
pub mod dialect;
pub mod error;
pub mod input;
pub mod line_forms;
mod merge;
pub mod native_string;
mod output;
mod packets;
mod partition;
mod progress;
pub mod questions;
pub mod run;
pub mod sample;
pub mod simd;
mod sort;
pub mod spec;
mod text;
pub mod types;
mod values;
mod whole_columns;
mod worker;
