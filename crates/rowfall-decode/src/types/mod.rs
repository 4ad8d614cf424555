//! Types of columns: what ClickHouse calls them and how wide their values are. How values are read
//! is in [`crate::values`].

pub mod parse;
pub mod zone;

#[derive(Debug, Clone, PartialEq)]
pub enum BaseType {
    /// Bytes and whether it is signed.
    Int(u8, bool),
    Float32,
    Float64,
    /// Bytes, digits, digits behind the point.
    Decimal(u8, u8, u8),
    Bool,
    String,
    FixedString(usize),
    Date,
    Date32,
    /// Its zone, None for UTC.
    DateTime(Option<String>),
    DateTime64(u8, Option<String>),
    Uuid,
    Ipv4,
    Ipv6,
    /// Bytes (1 or 2), and the elements.
    Enum(u8, Vec<(Vec<u8>, i16)>),
    Array(Box<Type>),
    /// Types of keys and of values.
    Map(Box<[Type; 2]>),
    /// Types, and their names if they have any.
    Tuple(Vec<Type>, Vec<Vec<u8>>),
}

/// How points in time are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeShape {
    Plain,
    T,
    Z,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// As given: what the header of a Native column says.
    pub name: String,
    pub base: BaseType,
    pub nullable: bool,
    pub low_cardinality: bool,
    pub shape: TimeShape,
}

impl Type {
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

    /// Fields of CSV that its values take where the elements of tuples have their own.
    pub fn fields(&self) -> usize {
        match &self.base {
            BaseType::Tuple(elements, _) => elements.iter().map(Type::fields).sum(),
            _ => 1,
        }
    }

    /// The types of what its values are made of; none for a type that is not nested.
    pub fn children(&self) -> &[Type] {
        match &self.base {
            BaseType::Array(element) => std::slice::from_ref(element),
            BaseType::Map(pair) => &pair[..],
            BaseType::Tuple(elements, _) => elements,
            _ => &[],
        }
    }
}
