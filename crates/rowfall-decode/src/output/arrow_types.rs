//! Columns in types of Arrow for programs that compute with them: time zones, dictionaries and nested
//! values are kept, and all text is UTF-8. docs/reference/arrow.md has the table of types.

use std::io;
use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, ListArray, MapArray, PrimitiveArray,
    StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use crate::column::Column;
use crate::column::keys::Keys;
use crate::column::strings::strings_of;
use crate::output::arrow_plain as plain;
use crate::output::text::Texts;
use crate::types::{BaseType, Type};

/// Bytes of the different strings of a column from which on they are forgotten, and their numbers begin
/// anew: each batch has all of them with it.
const DICTIONARY_BYTES: usize = 1 << 20;

/// Makes arrays of one column, or of what is in it.
pub struct Values {
    kind: DataType,
    texts: Texts,
    children: Vec<Values>,
    words: Words,
}

/// The dictionary of a column of few strings, which is kept from batch to batch.
enum Words {
    None,
    /// Of an Enum: its names, and the place of each number, counted from the least one.
    Fixed {
        least: i16,
        places: Vec<i16>,
        names: ArrayRef,
    },
    /// Strings as they come. The first key is "", which is left out of the dictionary as long as no
    /// value is: `blank` says that one was.
    Grown {
        keys: Keys,
        blank: bool,
        known: Option<ArrayRef>,
    },
}

/// The type of Arrow that a column has; `binary`: its strings may be any bytes.
pub fn kind(data_type: &Type, binary: bool) -> DataType {
    let text = if binary { DataType::Binary } else { DataType::Utf8 };
    let dictionary = |index, words| DataType::Dictionary(Box::new(index), Box::new(words));
    let field = |name: &str, data_type: &Type| field(name, data_type, binary);
    match &data_type.base {
        BaseType::DateTime(_) => DataType::Timestamp(TimeUnit::Second, zone(data_type)),
        BaseType::DateTime64(digits, _) => {
            DataType::Timestamp(plain::unit(*digits), zone(data_type))
        }
        BaseType::Enum(..) => dictionary(DataType::Int16, DataType::Utf8),
        BaseType::String if data_type.low_cardinality => dictionary(DataType::Int32, text),
        BaseType::String => text,
        BaseType::Array(element) => DataType::List(Arc::new(field("item", element))),
        BaseType::Map(pair) => {
            let key = Field::new("key", kind(&pair[0], binary), false);
            let entries = Fields::from(vec![key, field("value", &pair[1])]);
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
        }
        BaseType::Tuple(elements, names) => {
            let name = |at: usize| match names.get(at) {
                Some(name) => String::from_utf8_lossy(name).into_owned(),
                None => (at + 1).to_string(),
            };
            let fields = elements.iter().enumerate().map(|(at, e)| field(&name(at), e));
            DataType::Struct(fields.collect())
        }
        _ => plain::kind(data_type),
    }
}

/// A column of a schema.
pub fn field(name: &str, data_type: &Type, binary: bool) -> Field {
    Field::new(name, kind(data_type, binary), data_type.nullable)
}

/// The time zone that a type names; None where it names none: its values are what a clock shows.
fn zone(data_type: &Type) -> Option<Arc<str>> {
    data_type.name.split('\'').nth(1).map(Arc::from)
}

impl Values {
    /// Those of a column of a type; `binary`: its strings may be any bytes.
    pub fn of(data_type: &Type, binary: bool) -> Values {
        let words = match &data_type.base {
            BaseType::Enum(_, elements) => fixed(elements),
            BaseType::String if data_type.low_cardinality => {
                Words::Grown { keys: Keys::default(), blank: false, known: None }
            }
            _ => Words::None,
        };
        let children: Vec<Values> =
            data_type.children().iter().map(|t| Values::of(t, binary)).collect();
        let flat = if children.is_empty() { data_type.clone() } else { text_type() };
        Values { kind: kind(data_type, binary), texts: Texts::of(&flat), children, words }
    }

    /// The array of so many values.
    ///
    /// `checked`: all text is known to be UTF-8. The error says in which column it is not.
    pub fn array(&mut self, column: &Column, rows: usize, checked: bool) -> io::Result<ArrayRef> {
        let nulls = plain::nulls_of(column, rows);
        match (&column.data_type.base, &self.kind.clone()) {
            (BaseType::Array(_), DataType::List(field)) => {
                let element = self.child(column, 0, rows, checked)?;
                Ok(Arc::new(ListArray::new(field.clone(), offsets(column, rows), element, None)))
            }
            (BaseType::Map(_), DataType::Map(field, _)) => {
                let DataType::Struct(fields) = field.data_type().clone() else { unreachable!() };
                let pair = vec![
                    self.child(column, 0, rows, checked)?,
                    self.child(column, 1, rows, checked)?,
                ];
                let entries = StructArray::new(fields, pair, None);
                let ends = offsets(column, rows);
                Ok(Arc::new(MapArray::new(field.clone(), ends, entries, None, false)))
            }
            (BaseType::Tuple(..), DataType::Struct(fields)) => {
                let elements = (0..fields.len()).map(|at| self.child(column, at, rows, checked));
                let elements = elements.collect::<io::Result<Vec<_>>>()?;
                Ok(Arc::new(StructArray::new(fields.clone(), elements, nulls)))
            }
            (BaseType::DateTime64(digits, _), _) if *digits > 6 => {
                let factor = 10i64.pow(u32::from(9 - digits));
                let null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                let moments = column.data.as_chunks::<8>().0[..rows].iter().enumerate();
                let moments = moments.map(|(row, bytes)| {
                    let moment = i64::from_le_bytes(*bytes).checked_mul(factor);
                    moment.or(null(row).then_some(0)).ok_or_else(|| {
                        refused("a time after 2262, which Arrow has no nanoseconds for")
                    })
                });
                let moments = moments.collect::<io::Result<Vec<_>>>()?;
                let found = PrimitiveArray::<TimestampNanosecondType>::new(moments.into(), nulls);
                Ok(Arc::new(found.with_data_type(self.kind.clone())))
            }
            (BaseType::Enum(bytes, _), _) => self.numbered(column, rows, *bytes),
            (BaseType::String, DataType::Dictionary(..)) => self.dictionary(column, rows, checked),
            (BaseType::String, _) => {
                let (ends, bytes) = plain::string_parts(column, rows);
                if !checked {
                    check_text(&ends, &bytes)?;
                }
                Ok(text_array(ends, bytes, nulls, self.kind == DataType::Binary))
            }
            _ => Ok(plain::array(column, rows, &self.kind, &self.texts)),
        }
    }

    fn child(
        &mut self,
        column: &Column,
        at: usize,
        rows: usize,
        checked: bool,
    ) -> io::Result<ArrayRef> {
        self.children[at].array(&column.children[at], column.elements(rows), checked)
    }

    /// The names of an Enum.
    fn numbered(&self, column: &Column, rows: usize, bytes: u8) -> io::Result<ArrayRef> {
        let Words::Fixed { least, places, names } = &self.words else { unreachable!() };
        let place = |number: i16| {
            let at = i32::from(number) - i32::from(*least);
            usize::try_from(at).ok().and_then(|at| places.get(at)).copied().unwrap_or(0).max(0)
        };
        let indexes: Vec<i16> = match bytes {
            1 => column.data[..rows].iter().map(|byte| place(i16::from(*byte as i8))).collect(),
            _ => {
                let numbers = column.data.as_chunks::<2>().0[..rows].iter();
                numbers.map(|number| place(i16::from_le_bytes(*number))).collect()
            }
        };
        let indexes =
            PrimitiveArray::<Int16Type>::new(indexes.into(), plain::nulls_of(column, rows));
        DictionaryArray::try_new(indexes, names.clone())
            .map(|found| Arc::new(found) as ArrayRef)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Strings by their numbers in a dictionary, which grows.
    fn dictionary(&mut self, column: &Column, rows: usize, checked: bool) -> io::Result<ArrayRef> {
        let nulls = plain::nulls_of(column, rows);
        let binary =
            matches!(&self.kind, DataType::Dictionary(_, words) if **words == DataType::Binary);
        let Words::Grown { keys, blank, known } = &mut self.words else { unreachable!() };
        if keys.bytes() > DICTIONARY_BYTES {
            (*keys, *blank, *known) = (Keys::default(), false, None);
        }
        let null = |row: usize| column.nulls.get(row) == Some(&1);
        let mut number = |(row, value): (usize, &[u8])| {
            if null(row) {
                return 0;
            }
            *blank |= value.is_empty();
            keys.number(value)
        };
        let mut indexes: Vec<u32> = match &column.keys {
            None => strings_of(&column.data).enumerate().map(&mut number).collect(),
            Some(own) => {
                let values = column.values();
                let numbers = values.numbers().enumerate();
                numbers.map(|(row, n)| number((row, own.text(n)))).collect()
            }
        };
        let without = u32::from(!*blank && keys.len() > 1);
        if without > 0 {
            indexes.iter_mut().for_each(|index| *index = index.saturating_sub(without));
        }
        let count = keys.len() - without as usize;
        if known.as_ref().is_none_or(|known| known.len() != count) {
            let (bytes, starts) = keys.texts();
            let starts = starts[without as usize..].iter().map(|start| *start as i32);
            let ends: Vec<i32> = starts.chain([bytes.len() as i32]).collect();
            if !checked {
                check_text(&ends, bytes)?;
            }
            *known = Some(text_array(ends, bytes.to_vec(), None, binary));
        }
        let names = known.clone().expect("it was made");
        let indexes = indexes.into_iter().map(|index| index as i32).collect::<Vec<_>>();
        let indexes = PrimitiveArray::<Int32Type>::new(indexes.into(), nulls);
        Ok(Arc::new(DictionaryArray::new(indexes, names)))
    }
}

fn fixed(elements: &[(Vec<u8>, i16)]) -> Words {
    let least = elements.iter().map(|(_, number)| *number).min().unwrap_or(0);
    let most = elements.iter().map(|(_, number)| *number).max().unwrap_or(0);
    let mut places = vec![0; (i32::from(most) - i32::from(least)) as usize + 1];
    for (place, (_, number)) in elements.iter().enumerate() {
        places[(i32::from(*number) - i32::from(least)) as usize] = place as i16;
    }
    let names = elements.iter().map(|(name, _)| Some(String::from_utf8_lossy(name)));
    Words::Fixed { least, places, names: Arc::new(names.collect::<StringArray>()) }
}

fn text_type() -> Type {
    Type::parse("String", None).expect("there is such a type")
}

fn offsets(column: &Column, rows: usize) -> OffsetBuffer<i32> {
    let ends = column.data.as_chunks::<8>().0[..rows].iter();
    let ends = ends.map(|end| u64::from_le_bytes(*end) as i32);
    OffsetBuffer::new(std::iter::once(0).chain(ends).collect::<Vec<i32>>().into())
}

fn text_array(ends: Vec<i32>, bytes: Vec<u8>, nulls: Option<NullBuffer>, binary: bool) -> ArrayRef {
    if !binary {
        return plain::text_array(ends, bytes, nulls);
    }
    let ends = OffsetBuffer::new(ends.into());
    Arc::new(BinaryArray::new(ends, Buffer::from_vec(bytes), nulls))
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Make sure that strings are UTF-8, each by itself.
fn check_text(ends: &[i32], bytes: &[u8]) -> io::Result<()> {
    // Where one ends no character may be cut.
    let inside = |end: &i32| bytes.get(*end as usize).is_some_and(|byte| byte & 0xc0 == 0x80);
    if simdutf8::basic::from_utf8(bytes).is_err() || ends.iter().any(inside) {
        return Err(refused("a text that is not UTF-8"));
    }
    Ok(())
}
