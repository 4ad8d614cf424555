//! Names the streams that a part has for the values of a column; a stream is a file of values and
//! one of marks.

use std::fmt::Write;

use crate::types::{BaseType, Type};

/// Bytes of a name at most: the engine takes a hash in place of longer ones
/// (`max_file_name_length`).
pub const LONGEST_NAME: usize = 127;

/// What stands behind a name for the values beside those of the type itself, at most.
const LONGEST_END: usize = ".size".len();

/// The name for an element of a tuple, or for the keys and values of a map, which are a tuple, too.
pub fn element_name(name: &str, element: &[u8]) -> String {
    let mut found = format!("{name}%2E");
    for byte in element {
        match byte {
            b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => found.push(char::from(*byte)),
            byte => write!(found, "%{byte:02X}").expect("memory takes all"),
        }
    }
    found
}

/// The names of the elements of a nested type: of a tuple without names their numbers.
pub fn element_names(data_type: &Type) -> Vec<Vec<u8>> {
    match &data_type.base {
        BaseType::Map(_) => vec![b"keys".to_vec(), b"values".to_vec()],
        BaseType::Tuple(elements, names) if names.is_empty() => {
            (1..=elements.len()).map(|number| number.to_string().into_bytes()).collect()
        }
        BaseType::Tuple(_, names) => names.clone(),
        _ => Vec::new(),
    }
}

/// The name for the sizes of arrays that are in so many others.
pub fn array_sizes(name: &str, arrays: usize) -> String {
    format!("{name}.size{arrays}")
}

/// Bytes of the longest name for a column of a nested type.
pub fn longest_name(data_type: &Type, name: &str, arrays: usize) -> usize {
    let within = match data_type.base {
        BaseType::Array(_) | BaseType::Map(_) => arrays + 1,
        _ => arrays,
    };
    let own = if within > arrays { array_sizes(name, arrays).len() } else { 0 };
    let children: Vec<usize> = match &data_type.base {
        BaseType::Array(element) => vec![longest_name(element, name, within)],
        BaseType::Map(_) | BaseType::Tuple(..) => (element_names(data_type).iter())
            .zip(data_type.children())
            .map(|(element, kind)| longest_name(kind, &element_name(name, element), within))
            .collect(),
        _ => vec![name.len() + LONGEST_END],
    };
    children.into_iter().max().unwrap_or(0).max(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_engine() {
        assert_eq!(element_name("c", "y z.\u{e4}-1".as_bytes()), "c%2Ey%20z%2E%C3%A4%2D1");
        for (name, longest) in [
            ("UInt8", "c.size"),
            ("Array(Array(UInt8))", "c.size1"),
            ("Map(String, Tuple(`a b` UInt8, x Array(String)))", "c%2Evalues%2Ea%20b.size"),
            ("Tuple(UInt8, String)", "c%2E1.size"),
        ] {
            let data_type = Type::parse(name, "", None).expect("a type");
            assert_eq!(longest_name(&data_type, "c", 0), longest.len(), "{name}");
        }
    }
}
