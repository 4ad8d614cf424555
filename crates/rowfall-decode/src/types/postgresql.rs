//! Columns of PostgreSQL that take values in binary.

use crate::types::{BaseType, Type};

/// The digits of a second that the server keeps.
pub const MOST_DIGITS: u8 = 6;

/// How a field looks, by the type of the server's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// 1 byte, 0 or 1.
    Bool,
    /// 2 bytes, signed, as all integers.
    Int2,
    /// 4 bytes.
    Int4,
    /// 8 bytes.
    Int8,
    /// 4 bytes.
    Float4,
    /// 8 bytes.
    Float8,
    /// Digits of base 10,000.
    Numeric,
    /// Days since 2000 in 4 bytes.
    Date,
    /// Microseconds since 2000 in 8 bytes.
    Timestamp,
    /// 16 bytes.
    Uuid,
    /// An address behind four bytes that describe it.
    Inet,
    /// Any text that has no zero byte.
    Text,
    /// Text behind the version of the format.
    Jsonb,
}

impl Field {
    /// The field of a value in a column of the server; None where it takes other ones or only text.
    pub fn of(data_type: &Type, name: &str) -> Option<Field> {
        let integer = |most: u8| match &data_type.base {
            BaseType::Int(bytes, signed) => *bytes + u8::from(!*signed) <= most,
            _ => false,
        };
        let (field, fits) = match name {
            "bool" => (Field::Bool, matches!(data_type.base, BaseType::Bool)),
            "int2" => (Field::Int2, integer(2)),
            "int4" => (Field::Int4, integer(4)),
            "int8" => (Field::Int8, integer(8)),
            "float4" => (Field::Float4, matches!(data_type.base, BaseType::Float32)),
            "float8" => (Field::Float8, matches!(data_type.base, BaseType::Float64)),
            "numeric" => (
                Field::Numeric,
                matches!(data_type.base, BaseType::Int(..) | BaseType::Decimal(..)),
            ),
            "date" => (Field::Date, matches!(data_type.base, BaseType::Date | BaseType::Date32)),
            "timestamp" | "timestamptz" => (
                Field::Timestamp,
                match data_type.base {
                    BaseType::DateTime(_) => true,
                    BaseType::DateTime64(digits, _) => digits <= MOST_DIGITS,
                    _ => false,
                },
            ),
            "uuid" => (Field::Uuid, matches!(data_type.base, BaseType::Uuid)),
            "inet" => (Field::Inet, matches!(data_type.base, BaseType::Ipv4 | BaseType::Ipv6)),
            "text" | "varchar" | "bpchar" | "json" | "jsonb" => (
                if name == "jsonb" { Field::Jsonb } else { Field::Text },
                matches!(
                    data_type.base,
                    BaseType::String | BaseType::FixedString(_) | BaseType::Enum(..)
                ),
            ),
            _ => return None,
        };
        fits.then_some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_goes_into_columns_that_hold_all_of_it() {
        let field = |type_name: &str, name| {
            Field::of(&Type::parse(type_name, Some("UTC")).expect("a known type"), name)
        };
        assert_eq!(field("UInt8", "int2"), Some(Field::Int2));
        assert_eq!(field("UInt16", "int2"), None);
        assert_eq!(field("UInt32", "int4"), None);
        assert_eq!(field("UInt32", "int8"), Some(Field::Int8));
        assert_eq!(field("UInt64", "int8"), None);
        assert_eq!(field("UInt64", "numeric"), Some(Field::Numeric));
        assert_eq!(field("Float32", "float8"), None);
        assert_eq!(field("DateTime64(7)", "timestamp"), None);
        assert_eq!(field("String", "bytea"), None);
    }
}
