//! Says what the footers of Parquet files hold, in the words of the engine's format `ParquetMetadata`:
//! the columns and their types, and what row groups say of their values.

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::Type;
use serde_json::{Value, json};

/// Integers beyond it have no Float64 of their own.
const EXACT: u64 = 1 << 53;

/// The columns of a file as a tree, and its leaves with what the row groups say of each.
pub(super) fn footer(uri: &str, metadata: &ParquetMetaData) -> Value {
    let schema = metadata.file_metadata().schema_descr();
    let fields: Vec<Value> =
        schema.root_schema().get_fields().iter().map(|field| described(field)).collect();
    let leaves: Vec<Value> = (0..schema.num_columns())
        .map(|number| {
            let leaf = schema.column(number);
            let chunks: Vec<_> =
                metadata.row_groups().iter().map(|g| (g.column(number), g.num_rows())).collect();
            let with_nulls =
                chunks.iter().enumerate().filter(|(_, (chunk, _))| may_hold_nulls(chunk));
            let unsigned = logical(leaf.self_type()).ends_with("isSigned=false)");
            json!({
                "path": leaf.path().string(),
                "physical": leaf.physical_type().to_string(),
                "logical": logical(leaf.self_type()),
                "with_nulls": with_nulls.map(|(group, _)| group).collect::<Vec<_>>(),
                "exact": leaf.physical_type() != PhysicalType::INT64
                    || chunks.iter().all(|(chunk, rows)| is_exact(chunk, *rows, unsigned)),
            })
        })
        .collect();
    json!({
        "uri": uri, "rows": metadata.file_metadata().num_rows(),
        "row_groups": metadata.num_row_groups(), "fields": fields, "leaves": leaves,
    })
}

fn described(field: &Type) -> Value {
    let info = field.get_basic_info();
    let repetition = if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
    let mut found = json!({
        "name": field.name(), "logical": logical(field), "repetition": repetition.to_string(),
    });
    match field {
        Type::PrimitiveType { physical_type, type_length, .. } => {
            found["physical"] = json!(physical_type.to_string());
            found["length"] = json!(type_length);
        }
        Type::GroupType { fields, .. } => {
            let fields: Vec<Value> = fields.iter().map(|field| described(field)).collect();
            found["fields"] = json!(fields);
        }
    }
    found
}

/// True where a chunk says that it holds a NULL, or does not say that it holds none.
pub(super) fn may_hold_nulls(chunk: &ColumnChunkMetaData) -> bool {
    chunk.statistics().and_then(Statistics::null_count_opt) != Some(0)
}

/// True where all integers of a chunk of 64 bits have a Float64 of their own, by its statistics.
fn is_exact(chunk: &ColumnChunkMetaData, rows: i64, unsigned: bool) -> bool {
    let Some(found) = chunk.statistics() else { return false };
    if found.null_count_opt().is_some_and(|nulls| i64::try_from(nulls) == Ok(rows)) {
        return true;
    }
    let within =
        |value: &i64| (if unsigned { *value as u64 } else { value.unsigned_abs() }) <= EXACT;
    match found {
        Statistics::Int64(values) => {
            values.min_opt().is_some_and(within) && values.max_opt().is_some_and(within)
        }
        _ => false,
    }
}

/// The logical type of a column as Arrow's C++ library writes it, `None` where it has none.
fn logical(field: &Type) -> String {
    let info = field.get_basic_info();
    if let Some(known) = info.logical_type_ref() {
        return of_logical(known);
    }
    let time = |unit: &str| format!("Time(isAdjustedToUTC=true, timeUnit={unit})");
    let timestamp = |unit: &str| {
        format!(
            "Timestamp(isAdjustedToUTC=true, timeUnit={unit}, is_from_converted_type=true, \
             force_set_converted_type=false)"
        )
    };
    match info.converted_type() {
        ConvertedType::NONE => "None".into(),
        ConvertedType::UTF8 => "String".into(),
        ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => "Map".into(),
        ConvertedType::LIST => "List".into(),
        ConvertedType::ENUM => "Enum".into(),
        ConvertedType::DECIMAL if field.is_primitive() => {
            format!("Decimal(precision={}, scale={})", field.get_precision(), field.get_scale())
        }
        ConvertedType::DECIMAL => "None".into(),
        ConvertedType::DATE => "Date".into(),
        ConvertedType::TIME_MILLIS => time("milliseconds"),
        ConvertedType::TIME_MICROS => time("microseconds"),
        ConvertedType::TIMESTAMP_MILLIS => timestamp("milliseconds"),
        ConvertedType::TIMESTAMP_MICROS => timestamp("microseconds"),
        ConvertedType::UINT_8 => integer(8, false),
        ConvertedType::UINT_16 => integer(16, false),
        ConvertedType::UINT_32 => integer(32, false),
        ConvertedType::UINT_64 => integer(64, false),
        ConvertedType::INT_8 => integer(8, true),
        ConvertedType::INT_16 => integer(16, true),
        ConvertedType::INT_32 => integer(32, true),
        ConvertedType::INT_64 => integer(64, true),
        ConvertedType::JSON => "JSON".into(),
        ConvertedType::BSON => "BSON".into(),
        ConvertedType::INTERVAL => "Interval".into(),
    }
}

fn of_logical(known: &LogicalType) -> String {
    match known {
        LogicalType::String => "String".into(),
        LogicalType::Map => "Map".into(),
        LogicalType::List => "List".into(),
        LogicalType::Enum => "Enum".into(),
        LogicalType::Decimal(of) => {
            format!("Decimal(precision={}, scale={})", of.precision, of.scale)
        }
        LogicalType::Date => "Date".into(),
        LogicalType::Time(of) => format!(
            "Time(isAdjustedToUTC={}, timeUnit={})",
            of.is_adjusted_to_u_t_c,
            unit(&of.unit)
        ),
        LogicalType::Timestamp(of) => format!(
            "Timestamp(isAdjustedToUTC={}, timeUnit={}, is_from_converted_type=false, \
             force_set_converted_type=false)",
            of.is_adjusted_to_u_t_c,
            unit(&of.unit)
        ),
        LogicalType::Integer(of) => integer(of.bit_width, of.is_signed),
        LogicalType::Unknown => "Null".into(),
        LogicalType::Json => "JSON".into(),
        LogicalType::Bson => "BSON".into(),
        LogicalType::Uuid => "UUID".into(),
        LogicalType::Float16 => "Float16".into(),
        other => format!("{other:?}"),
    }
}

fn unit(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::MILLIS => "milliseconds",
        TimeUnit::MICROS => "microseconds",
        TimeUnit::NANOS => "nanoseconds",
    }
}

fn integer(bits: i8, signed: bool) -> String {
    format!("Int(bitWidth={bits}, isSigned={signed})")
}
