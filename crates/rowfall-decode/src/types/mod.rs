//! Describes the types of columns: ClickHouse's names for them, and the width of their values.
//! Parsing values is left to `values`.

pub mod parse;
pub mod postgresql;
pub mod streams;
pub mod zone;

use serde::{Deserialize, Serialize};

/// A type without Nullable and LowCardinality.
#[derive(Debug, Clone, PartialEq)]
pub enum BaseType {
    /// Integer: bytes, and true where it is signed.
    Int(u8, bool),
    /// 4 bytes.
    Float32,
    /// 8 bytes.
    Float64,
    /// Decimal: bytes, digits, digits behind the point.
    Decimal(u8, u8, u8),
    /// 1 byte, 0 or 1.
    Bool,
    /// Any number of bytes.
    String,
    /// So many bytes.
    FixedString(usize),
    /// Days since 1970 in 2 bytes.
    Date,
    /// Days since 1970 in 4 bytes, signed.
    Date32,
    /// Its time zone, None for UTC.
    DateTime(Option<String>),
    /// Digits of its fractions of seconds, and its time zone, None for UTC.
    DateTime64(u8, Option<String>),
    /// 16 bytes.
    Uuid,
    /// 4 bytes.
    Ipv4,
    /// 16 bytes.
    Ipv6,
    /// Enum: bytes (1 or 2), and the elements with their numbers.
    Enum(u8, Vec<(Vec<u8>, i16)>),
    /// Array: type of its elements.
    Array(Box<Type>),
    /// Map: types of its keys and values.
    Map(Box<[Type; 2]>),
    /// Tuple: types of its elements, and their names if they have any.
    Tuple(Vec<Type>, Vec<Vec<u8>>),
}

/// The notation of points in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum TimeNotation {
    /// `2020-01-31 23:59:59`
    #[default]
    #[serde(rename = "")]
    Plain,
    /// `2020-01-31T23:59:59`
    T,
    /// `2020-01-31T23:59:59Z`
    Z,
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// The name as it was given: the header of a Native column repeats it.
    pub name: String,
    /// The type inside of Nullable and LowCardinality.
    pub base: BaseType,
    /// Values may be NULL.
    pub nullable: bool,
    /// The column is LowCardinality: values are written as a dictionary and indexes.
    pub low_cardinality: bool,
    /// How points in time are written in the text; `Plain` for all other types.
    pub time_notation: TimeNotation,
    /// Numbers and Bools are written as they are kept: without zeros before them, `true` or `false`.
    pub canonical: bool,
    /// An empty field is NULL, in quotes or not, where the type is Nullable and no text.
    pub blank: bool,
    /// Blanks and tabs around values are left out, where the type is no text.
    pub padded: bool,
}

impl Type {
    /// Whether values are written as Arrow: flat ones whose unit of time Arrow has.
    pub fn is_written_as_arrow(&self) -> bool {
        match self.base {
            BaseType::DateTime64(digits, _) => digits <= 6 || digits == 9,
            BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..) => false,
            _ => true,
        }
    }

    /// Bytes of a value; 0 where they vary.
    pub fn width(&self) -> usize {
        match self.base {
            BaseType::Int(n, _) | BaseType::Decimal(n, ..) | BaseType::Enum(n, _) => usize::from(n),
            BaseType::Bool => 1,
            BaseType::Date => 2,
            BaseType::Float32 | BaseType::Date32 | BaseType::DateTime(_) | BaseType::Ipv4 => 4,
            BaseType::Float64 | BaseType::DateTime64(..) => 8,
            BaseType::Uuid | BaseType::Ipv6 => 16,
            BaseType::FixedString(n) => n,
            BaseType::String | BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..) => 0,
        }
    }

    /// True for types whose values the binary protocol of MySQL knows.
    pub fn has_binary(&self) -> bool {
        match self.base {
            BaseType::Int(bytes, _) => bytes <= 8,
            BaseType::Float32
            | BaseType::Float64
            | BaseType::Bool
            | BaseType::Date
            | BaseType::Date32
            | BaseType::DateTime(_)
            | BaseType::DateTime64(..) => true,
            _ => false,
        }
    }

    /// Bytes that a value takes at least, with its NULL mark and the offset of what varies.
    pub fn row_bytes(&self) -> usize {
        let own = match &self.base {
            BaseType::Tuple(elements, _) => elements.iter().map(Type::row_bytes).sum(),
            BaseType::String | BaseType::Array(_) | BaseType::Map(_) => 8,
            _ => self.width(),
        };
        own + usize::from(self.nullable)
    }

    /// How many fields of CSV a value takes where the elements of tuples have fields of their own.
    pub fn fields(&self) -> usize {
        match &self.base {
            BaseType::Tuple(elements, _) => elements.iter().map(Type::fields).sum(),
            _ => 1,
        }
    }

    /// The types of the elements of a nested type; none for others.
    pub fn children(&self) -> &[Type] {
        match &self.base {
            BaseType::Array(element) => std::slice::from_ref(element),
            BaseType::Map(pair) => &pair[..],
            BaseType::Tuple(elements, _) => elements,
            _ => &[],
        }
    }
}
