//! Measures the columns of Arrow files and streams: what their schemas say, and facts about the values
//! of the first rows.

use std::io::BufReader;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use serde_json::{Value, json};
use ureq::Agent;

use crate::columnar::BatchError;
use crate::columnar::ipc::{self, Reader};
use crate::columnar::nested::NullStructs;
use crate::columnar::objects::Object;
use crate::error::Fail;
use crate::input::http_request;
use crate::input::queue::InputReader;
use crate::sample::typed::{Column, has_null_list, unreadable};
use crate::spec::{Format, Input, Spec};

/// Measure the first `rows` rows of each input: `{"rows": N, "columns": [{"nulls": 0, ...}, ...],
/// "files": [{"uri": ..., "fields": [...]}, ...]}`. Of no rows only the schemas are read.
pub(super) fn measure(spec: &Spec, rows: usize) -> Result<Value, Fail> {
    let agent = http_request::agent();
    let (mut files, mut count) = (Vec::new(), 0);
    let mut columns: Vec<Column> = spec.columns.iter().map(|_| Column::default()).collect();
    for input in &spec.inputs {
        let reader = open(&agent, spec, input).map_err(|error| unreadable(input, error))?;
        let schema = reader.schema();
        let fields: Vec<Value> = schema.fields().iter().map(|field| described(field)).collect();
        files.push(json!({"uri": input.name(), "fields": fields}));
        if rows > 0 {
            count += read(spec, input, reader, rows, &mut columns)?;
        }
    }
    let columns: Vec<Value> = columns.iter().map(|column| column.json(count)).collect();
    Ok(json!({"rows": count, "columns": columns, "files": files}))
}

fn open(agent: &Agent, spec: &Spec, input: &Input) -> Result<Reader, BatchError> {
    if spec.format == Format::Arrow {
        return ipc::open_file(Object::open(agent, input, Default::default())?);
    }
    ipc::open_stream(BufReader::new(InputReader::file(input)?))
}

/// The numbers of the columns of a spec in a file.
fn places(spec: &Spec, input: &Input, schema: &Schema) -> Result<Vec<usize>, Fail> {
    let place = |name: &str| {
        let mut found = (0..schema.fields().len()).filter(|n| schema.field(*n).name() == name);
        let place = found.next().filter(|_| found.next().is_none());
        place.ok_or_else(|| Fail::declined(input.name(), "a column that is not there, or twice"))
    };
    spec.columns.iter().map(|column| place(column.source())).collect()
}

/// Read the first rows of an input; returns how many there are.
fn read(
    spec: &Spec,
    input: &Input,
    reader: Reader,
    rows: usize,
    columns: &mut [Column],
) -> Result<usize, Fail> {
    let schema = reader.schema();
    let places = places(spec, input, &schema)?;
    let mut left = rows;
    for batch in reader {
        let batch = batch.map_err(|error| unreadable(input, ipc::unreadable(error)))?;
        let batch = batch.slice(0, left.min(batch.num_rows()));
        for (column, place) in columns.iter_mut().zip(&places) {
            let nullable = schema.field(*place).is_nullable();
            column
                .add(batch.column(*place).as_ref(), nullable, NullStructs::Declined)
                .map_err(|what| Fail::declined(input.name(), &what))?;
        }
        left -= batch.num_rows();
        if left == 0 {
            break;
        }
    }
    Ok(rows - left)
}

/// Look for lists and maps that are NULL: `{"null_lists": [names of columns]}`.
pub(super) fn null_lists(spec: &Spec) -> Result<Value, Fail> {
    let agent = http_request::agent();
    let mut found = vec![false; spec.columns.len()];
    for input in &spec.inputs {
        let reader = open(&agent, spec, input).map_err(|error| unreadable(input, error))?;
        let places = places(spec, input, &reader.schema())?;
        for batch in reader {
            let batch = batch.map_err(|error| unreadable(input, ipc::unreadable(error)))?;
            for (found, place) in found.iter_mut().zip(&places) {
                *found = *found || has_null_list(batch.column(*place).as_ref());
            }
        }
    }
    let names = spec.columns.iter().zip(&found).filter(|(_, found)| **found);
    Ok(json!({"null_lists": names.map(|(column, _)| column.source()).collect::<Vec<_>>()}))
}

/// A column with the type that the engine gives its values: of flat ones null where only the engine
/// knows it, of others `Array`, `Map` or `Tuple` with what it holds.
fn described(field: &Field) -> Value {
    let inner = |fields: &[FieldRef]| fields.iter().map(|f| described(f)).collect::<Vec<_>>();
    let mut found = json!({"name": field.name(), "nullable": field.is_nullable()});
    let (type_, fields) = match field.data_type() {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _) => ("Array", inner(std::slice::from_ref(element))),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => ("Map", inner(fields)),
            _ => return found,
        },
        DataType::Struct(fields) => ("Tuple", inner(fields)),
        flat => {
            found["type"] = json!(engine_type(flat));
            found["dictionary"] = json!(matches!(flat, DataType::Dictionary(..)));
            return found;
        }
    };
    (found["type"], found["fields"]) = (json!(type_), json!(fields));
    found
}

/// The type that the engine gives flat values.
fn engine_type(found: &DataType) -> Option<String> {
    Some(match found {
        DataType::Boolean => "Bool".to_owned(),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32 => found.to_string(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            "String".to_owned()
        }
        DataType::FixedSizeBinary(width) => format!("FixedString({width})"),
        DataType::Decimal128(digits, scale) if (0..=*digits as i8).contains(scale) => {
            format!("Decimal({digits}, {scale})")
        }
        DataType::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            match zone.as_deref() {
                None | Some("") => format!("DateTime64({digits})"),
                Some(zone) => format!("DateTime64({digits}, '{zone}')"),
            }
        }
        // A run takes no others.
        DataType::Dictionary(key, values)
            if matches!((&**key, &**values), (DataType::Int32, DataType::Utf8)) =>
        {
            "String".to_owned()
        }
        _ => return None,
    })
}
