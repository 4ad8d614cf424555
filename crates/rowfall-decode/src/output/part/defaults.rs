//! Counts the default values of columns for `serialization.json`, and decides by these counts which
//! columns are sparse: of them only the values that are no defaults are written.

use serde_json::{Value, json};

use crate::column::strings::strings_of;
use crate::column::{Column, filled};
use crate::types::{BaseType, Type};

/// Rows of which the engine looks at each; of more tuples it looks at a tenth.
const ALL_ROWS: usize = 1000;

/// How many values of a column are defaults, of a tuple those of its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    defaults: usize,
    elements: Vec<Counts>,
}

impl Counts {
    /// Count the values of a column, as far as it may be sparse.
    pub fn of(column: &Column, rows: usize) -> Counts {
        let Type { nullable, low_cardinality, .. } = column.data_type;
        let defaults = match column.data_type.width() {
            _ if matches!(column.data_type.base, BaseType::Tuple(..)) => {
                return counted(column, rows).0;
            }
            _ if nullable || low_cardinality || !column.children.is_empty() => 0,
            0 if column.keeps_sizes => column.sizes.iter().filter(|size| **size == 1).count(),
            0 => strings_of(&column.data).filter(|text| text.is_empty()).count(),
            width => rows - filled::count(&filled::filled(&column.data, width)),
        };
        Counts { defaults, elements: Vec::new() }
    }

    /// Add those of more rows.
    pub fn add(&mut self, more: &Counts) {
        self.defaults += more.defaults;
        self.elements.iter_mut().zip(&more.elements).for_each(|(own, more)| own.add(more));
    }

    /// How many defaults there are.
    pub fn defaults(&self) -> usize {
        self.defaults
    }

    /// Those of an element of a tuple; None of other types.
    pub fn element(&self, number: usize) -> Option<&Counts> {
        self.elements.get(number)
    }

    /// What is said of a column of so many rows; None of types that are never sparse.
    pub fn kind(&self, data_type: &Type, rows: usize, above: f32) -> Option<Value> {
        match data_type.base {
            BaseType::Tuple(..) => Some(self.of_element(rows, above)),
            BaseType::Array(_) | BaseType::Map(_) => None,
            _ if data_type.nullable || data_type.low_cardinality => None,
            _ => Some(exact(self.defaults, rows, above)),
        }
    }

    /// What is said of an element of a tuple, of whatever type.
    fn of_element(&self, rows: usize, above: f32) -> Value {
        if self.elements.is_empty() {
            return exact(self.defaults, rows, above);
        }
        let kinds: Vec<Value> = self.elements.iter().map(|e| e.of_element(rows, above)).collect();
        json!({"kind": "Default", "num_defaults": self.defaults, "num_rows": rows,
               "subcolumns": kinds})
    }
}

/// What is said of a column: of a flat one it has been `counted`, and of tuples their elements count.
/// None of columns that are never sparse. `above` is the share of defaults of a dense column at most.
pub fn kind(column: &Column, rows: usize, counted: Option<usize>, above: f32) -> Option<Value> {
    match column.data_type.base {
        BaseType::Tuple(..) => Some(Counts::of(column, rows).of_element(rows, above)),
        _ => counted.map(|defaults| exact(defaults, rows, above)),
    }
}

/// True where a column, or an element of a tuple, is sparse.
pub fn is_sparse(data_type: &Type, defaults: usize, rows: usize, above: f32) -> bool {
    let dense = data_type.nullable || data_type.low_cardinality || !data_type.children().is_empty();
    !dense && are_most(defaults, rows, above)
}

fn are_most(defaults: usize, rows: usize, above: f32) -> bool {
    defaults as f64 / rows as f64 > f64::from(above)
}

/// What is said of a flat column. The engine says the same of an element of a tuple that has a type
/// which is never sparse, and it means nothing then.
fn exact(defaults: usize, rows: usize, above: f32) -> Value {
    let kind = if are_most(defaults, rows, above) { "Sparse" } else { "Default" };
    json!({"kind": kind, "num_defaults": defaults, "num_rows": rows, "exact_num_defaults": true})
}

/// Count the values of a column or of an element of a tuple, of whatever type, and for each row whether
/// it is the default.
fn counted(column: &Column, rows: usize) -> (Counts, Vec<bool>) {
    if !matches!(column.data_type.base, BaseType::Tuple(..)) {
        let found = defaults(column, rows);
        let defaults = found.iter().filter(|is| **is).count();
        return (Counts { defaults, elements: Vec::new() }, found);
    }
    let (mut all, mut elements) = (vec![true; rows], Vec::new());
    for child in &column.children {
        let (counts, found) = counted(child, rows);
        all.iter_mut().zip(found).for_each(|(all, is)| *all &= is);
        elements.push(counts);
    }
    (Counts { defaults: sampled(&all), elements }, all)
}

/// For each value of a column that is not a tuple whether it is the default.
fn defaults(column: &Column, rows: usize) -> Vec<bool> {
    if column.data_type.nullable {
        return column.nulls.iter().map(|null| *null == 1).collect();
    }
    match column.data_type.base {
        BaseType::String => strings_of(&column.data).map(<[u8]>::is_empty).collect(),
        BaseType::Array(_) | BaseType::Map(_) => {
            let mut before = [0; 8];
            let offsets = column.data.as_chunks::<8>().0.iter();
            offsets.map(|end| std::mem::replace(&mut before, *end) == *end).collect()
        }
        _ => {
            let values = column.data.chunks_exact(column.data_type.width());
            let found: Vec<bool> = values.map(|v| v.iter().all(|byte| *byte == 0)).collect();
            debug_assert_eq!(found.len(), rows);
            found
        }
    }
}

/// How many there are, as far as the engine knows.
fn sampled(defaults: &[bool]) -> usize {
    let rows = defaults.len();
    let most = if rows <= ALL_ROWS { rows } else { (rows as f64 * 0.1) as usize };
    let (mut seen, mut found) = (0, 0);
    for (row, is) in defaults.iter().enumerate() {
        if seen * rows <= row * most {
            seen += 1;
            found += usize::from(*is);
        }
    }
    (found as f64 / seen.max(1) as f64 * rows as f64) as usize
}
