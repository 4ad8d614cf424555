//! Copies batches of Arrow into columns: lists, maps and structs into arrays, maps and tuples.
//!
//! As in the engine's readers, a list or a map that is NULL is empty, whatever elements lie behind it.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Fields};

use crate::column::Column;
use crate::columnar::{Batch, arrow};
use crate::types::{BaseType, Type};

/// What a struct is that is NULL, in a Tuple, which cannot be NULL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NullStructs {
    /// An error, in the engine's reader of Arrow.
    Declined,
    /// A tuple of NULLs, of arrays and maps that are empty, and of such tuples, in its reader of
    /// Parquet.
    OfNulls,
}

/// The arrays of a batch, one for each column.
pub struct ArrowBatch {
    /// In the order of the columns.
    pub arrays: Vec<ArrayRef>,
    /// Their rows.
    pub rows: usize,
    pub null_structs: NullStructs,
}

impl Batch for ArrowBatch {
    fn rows(&self) -> usize {
        self.rows
    }

    fn append(
        &mut self,
        number: usize,
        (from, to): (usize, usize),
        column: &mut Column,
    ) -> Result<(), String> {
        append(column, &*self.arrays[number].slice(from, to - from), None, self.null_structs)
    }

    fn append_in_order(
        &mut self,
        number: usize,
        first: usize,
        order: &[u32],
        column: &mut Column,
    ) -> Option<Result<(), String>> {
        let array = self.arrays[number].slice(first, order.len());
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        arrow::append_in_order(column, &array, nulls, order)
    }
}

/// True where values of an Arrow type can become those of a column.
pub fn takes(found: &DataType, wanted: &Type) -> bool {
    if wanted.children().is_empty() {
        return arrow::takes(found, wanted);
    }
    let all = |fields: Vec<&DataType>| {
        fields.into_iter().zip(wanted.children()).all(|(found, wanted)| takes(found, wanted))
    };
    match (&wanted.base, found) {
        (
            BaseType::Array(_),
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _),
        ) => all(vec![element.data_type()]),
        (BaseType::Map(_), DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                all(pair.iter().map(|field| field.data_type()).collect())
            }
            _ => false,
        },
        (BaseType::Tuple(elements, names), DataType::Struct(fields)) => {
            find_fields(fields, elements.len(), names).is_some_and(|places| {
                all(places.into_iter().map(|place| fields[place].data_type()).collect())
            })
        }
        _ => false,
    }
}

/// The fields of a struct that are the elements of a tuple: those of their names, or all of them
/// where the elements have none. None where one is not there, or there twice.
fn find_fields(fields: &Fields, count: usize, names: &[Vec<u8>]) -> Option<Vec<usize>> {
    if names.is_empty() {
        return (fields.len() == count).then(|| (0..count).collect());
    }
    let find = |name: &Vec<u8>| {
        let mut found = (0..fields.len()).filter(|&n| fields[n].name().as_bytes() == name);
        found.next().filter(|_| found.next().is_none())
    };
    names.iter().map(find).collect()
}

/// Append all values of an array that [`takes`] accepts; those are NULL, too, that stand in a struct
/// which is NULL by `outer`.
pub fn append(
    column: &mut Column,
    array: &dyn Array,
    outer: Option<&NullBuffer>,
    null_structs: NullStructs,
) -> Result<(), String> {
    let nulls = NullBuffer::union(outer, array.nulls()).filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.as_ref();
    if column.children.is_empty() {
        return arrow::append(column, array, nulls);
    }
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let runs = append_ends(column, offset_of(lists.offsets()), array.len(), nulls);
            append_runs(column, &[lists.values()], &runs, null_structs)
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let runs = append_ends(column, offset_of(lists.offsets()), array.len(), nulls);
            append_runs(column, &[lists.values()], &runs, null_structs)
        }
        DataType::FixedSizeList(_, size) => {
            let lists = array.as_fixed_size_list();
            let size = usize::try_from(*size).map_err(|_| "lists of a negative length")?;
            let runs = append_ends(column, |row| row * size, array.len(), nulls);
            append_runs(column, &[lists.values()], &runs, null_structs)
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            if maps.entries().null_count() > 0 {
                return Err("an entry of a map that is NULL".to_owned());
            }
            let runs = append_ends(column, offset_of(maps.offsets()), array.len(), nulls);
            append_runs(column, &[maps.keys(), maps.values()], &runs, null_structs)
        }
        DataType::Struct(fields) => {
            if nulls.is_some() && null_structs == NullStructs::Declined {
                return Err("a NULL in a column that takes none".to_owned());
            }
            let Column { data_type, children, .. } = column;
            let BaseType::Tuple(elements, names) = &data_type.base else {
                return Err("values of another type".to_owned());
            };
            let places = find_fields(fields, elements.len(), names);
            let places = places.ok_or("a struct with other fields")?;
            for (child, place) in children.iter_mut().zip(places) {
                append(child, array.as_struct().column(place), nulls, null_structs)?;
            }
            Ok(())
        }
        _ => Err("values of another type".to_owned()),
    }
}

/// The first element of each row, and where the last one ends.
fn offset_of<O: OffsetSizeTrait>(offsets: &[O]) -> impl Fn(usize) -> usize {
    |row| offsets[row].as_usize()
}

/// Append where the elements of each row end, and return which of all elements are theirs: those
/// between the starts and the ends of some runs.
fn append_ends(
    column: &mut Column,
    start: impl Fn(usize) -> usize,
    rows: usize,
    nulls: Option<&NullBuffer>,
) -> Vec<(usize, usize)> {
    let mut end = column.elements(0);
    let mut runs: Vec<(usize, usize)> = Vec::new();
    column.data.reserve(rows * size_of::<u64>());
    for row in 0..rows {
        let (from, to) = (start(row), start(row + 1));
        if from < to && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            end += to - from;
            match runs.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => runs.push((from, to)),
            }
        }
        column.data.extend_from_slice(&(end as u64).to_le_bytes());
    }
    runs
}

/// Append some of the elements of arrays or maps, of which each child has one array.
fn append_runs(
    column: &mut Column,
    arrays: &[&ArrayRef],
    runs: &[(usize, usize)],
    null_structs: NullStructs,
) -> Result<(), String> {
    for (child, array) in column.children.iter_mut().zip(arrays) {
        for (from, to) in runs {
            append(child, &*array.slice(*from, to - from), None, null_structs)?;
        }
    }
    Ok(())
}

/// The arrays of the flat values in an array, in the order of its type.
pub fn leaves(array: &ArrayRef) -> Vec<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => leaves(array.as_list::<i32>().values()),
        DataType::LargeList(_) => leaves(array.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => leaves(array.as_fixed_size_list().values()),
        DataType::Map(..) => {
            let maps = array.as_map();
            [maps.keys(), maps.values()].into_iter().flat_map(leaves).collect()
        }
        DataType::Struct(_) => array.as_struct().columns().iter().flat_map(leaves).collect(),
        _ => vec![ArrayRef::clone(array)],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{
        FixedSizeListBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder,
    };
    use arrow_array::{Int32Array, LargeListArray, ListArray, StringArray, StructArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    /// What a column holds: the ends of arrays, NULL marks, values and lengths of strings as they
    /// are in memory, one line for each column in it.
    fn lines(column: &Column) -> Vec<String> {
        let mut found = Vec::new();
        let words = |data: &[u8], width: usize| -> Vec<u64> {
            let value = |word: &[u8]| word.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b));
            data.chunks(width).map(value).collect()
        };
        let name = &column.data_type.name;
        match &column.data_type.base {
            BaseType::Tuple(..) => {}
            BaseType::String => {
                found.push(format!("{:?}", String::from_utf8_lossy(&column.data)));
            }
            BaseType::Array(_) | BaseType::Map(_) => {
                found.push(format!("{:?}", words(&column.data, 8)));
            }
            _ => found.push(format!("{name} {:?}", words(&column.data, column.width()))),
        }
        if column.data_type.nullable {
            found.push(format!("{:?}", column.nulls));
        }
        found.extend(column.children.iter().flat_map(lines));
        found
    }

    fn copied(
        kind: &str,
        arrays: &[&dyn Array],
        null_structs: NullStructs,
    ) -> Result<Vec<String>, String> {
        let wanted = Type::parse(kind, None).expect("a type");
        let mut column = Column::new(wanted);
        for array in arrays {
            assert!(takes(array.data_type(), &column.data_type), "{:?}", array.data_type());
            append(&mut column, *array, None, null_structs)?;
        }
        Ok(lines(&column))
    }

    fn check(kind: &str, arrays: &[&dyn Array], wanted: &[&str]) {
        let found = copied(kind, arrays, NullStructs::OfNulls).expect("it is copied");
        assert_eq!(found, wanted, "{kind}");
    }

    /// [1, NULL], NULL with elements, [], [4], [5, 6, 7]
    fn lists() -> ListArray {
        let values = [Some(1), None, Some(2), Some(3), Some(4), Some(5), Some(6), Some(7)];
        let values = Int32Array::from_iter(values);
        let nulls = NullBuffer::from(vec![true, false, true, true, true]);
        let ends = OffsetBuffer::new(vec![0, 2, 4, 4, 5, 8].into());
        let field = Arc::new(Field::new("item", DataType::Int32, true));
        ListArray::new(field, ends, Arc::new(values), Some(nulls))
    }

    #[test]
    fn lists_that_are_null_are_empty() {
        let lists = lists();
        check(
            "Array(Nullable(Int32))",
            &[&lists],
            &["[2, 2, 2, 3, 6]", "Nullable(Int32) [1, 0, 4, 5, 6, 7]", "[0, 1, 0, 0, 0, 0]"],
        );
        let found = copied("Array(Int32)", &[&lists], NullStructs::OfNulls);
        assert!(found.expect_err("a NULL").contains("NULL"));
    }

    #[test]
    fn slices_begin_anywhere() {
        let lists = lists();
        // Of a slice the elements before it are not there.
        check(
            "Array(Int64)",
            &[&lists.slice(1, 3), &lists.slice(3, 0), &lists.slice(3, 2)],
            &["[0, 0, 1, 2, 5]", "Int64 [4, 4, 5, 6, 7]"],
        );
        let field = Arc::new(Field::new("item", lists.data_type().clone(), true));
        let of_lists = LargeListArray::new(
            field,
            OffsetBuffer::new(vec![1i64, 2, 2, 5].into()),
            Arc::new(lists.clone()),
            None,
        );
        check(
            "Array(Array(Int32))",
            &[&of_lists.slice(1, 2), &of_lists],
            &["[0, 3, 4, 4, 7]", "[0, 1, 4, 4, 4, 5, 8]", "Int32 [4, 5, 6, 7, 4, 5, 6, 7]"],
        );
    }

    #[test]
    fn lists_of_a_fixed_size() {
        let mut builder = FixedSizeListBuilder::new(Int32Builder::new(), 2);
        for (n, valid) in [(1, true), (3, false), (5, true)] {
            builder.values().append_value(n);
            builder.values().append_value(n + 1);
            builder.append(valid);
        }
        let found = builder.finish();
        check("Array(Int32)", &[&found], &["[2, 2, 4]", "Int32 [1, 2, 5, 6]"]);
        check("Array(Int32)", &[&found.slice(1, 2)], &["[0, 2]", "Int32 [5, 6]"]);
    }

    #[test]
    fn maps_keep_keys_that_are_there_twice() {
        let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        for rows in [&[("a", Some(1)), ("b", None)][..], &[], &[("c", Some(2)), ("c", Some(3))]] {
            for (key, value) in rows {
                builder.keys().append_value(key);
                builder.values().append_option(*value);
            }
            builder.append(true).expect("as many keys as values");
        }
        builder.append(false).expect("as many keys as values");
        let found = builder.finish();
        let kind = "Map(LowCardinality(String), Nullable(Int32))";
        let keys = r#""\u{1}a\u{1}b\u{1}c\u{1}c""#;
        let values = "Nullable(Int32) [1, 0, 2, 3]";
        check(kind, &[&found], &["[2, 2, 4, 4]", keys, values, "[0, 1, 0, 0]"]);
        let keys = r#""\u{1}c\u{1}c""#;
        check("Map(String, Int32)", &[&found.slice(1, 3)], &["[0, 2, 2]", keys, "Int32 [2, 3]"]);
    }

    #[test]
    fn elements_of_tuples_are_found_by_their_names() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
        let mut ends = ListBuilder::new(Int32Builder::new());
        (0..3).for_each(|n| ends.append_value((0..n).map(Some)));
        let field =
            |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let lists: ArrayRef = Arc::new(ends.finish());
        let found = StructArray::new(
            Fields::from(vec![field("n", &numbers), field("s", &texts), field("l", &lists)]),
            vec![numbers, texts, lists],
            Some(NullBuffer::from(vec![true, true, false])),
        );
        let kind = "Tuple(s Nullable(String), l Array(Int32), n Nullable(Int32))";
        let texts = r#""\u{1}a\0\0""#;
        let wanted = [
            texts,
            "[0, 1, 1]",
            "[0, 1, 1]",
            "Int32 [0]",
            "Nullable(Int32) [1, 2, 0]",
            "[0, 0, 1]",
        ];
        check(kind, &[&found], &wanted);
        // In Arrow a struct that is NULL is an error, whatever is in it.
        assert!(copied(kind, &[&found], NullStructs::Declined).is_err());
        assert!(copied(kind, &[&found.slice(0, 2)], NullStructs::Declined).is_ok());
        // Of the first two structs none is NULL.
        check("Tuple(n Int32)", &[&found.slice(0, 2)], &["Int32 [1, 2]"]);
        assert!(copied("Tuple(n Int32)", &[&found], NullStructs::OfNulls).is_err());
        for other in [
            "Tuple(n Int32, s String, l Array(Int32), more Int32)",
            "Tuple(N Int32)",
            "Tuple(Int32, String)",
            "Tuple(n Date)",
            "Tuple(l Array(String))",
            "Array(Int32)",
            "Map(String, Int32)",
            "String",
        ] {
            let wanted = Type::parse(other, None).expect("a type");
            assert!(!takes(found.data_type(), &wanted), "{other}");
        }
    }

    #[test]
    fn values_are_found_in_their_order() {
        let lists: ArrayRef = Arc::new(lists());
        let field = Arc::new(Field::new("l", lists.data_type().clone(), true));
        let found: ArrayRef = Arc::new(StructArray::new(
            Fields::from(vec![Arc::clone(&field), field]),
            vec![Arc::clone(&lists), lists],
            None,
        ));
        assert_eq!(leaves(&found).iter().map(|leaf| leaf.len()).collect::<Vec<_>>(), [8, 8]);
    }
}
