//! Writes rows of parameters, as the command COM_STMT_BULK_EXECUTE of MariaDB has them, in frames.
//!
//! A frame is two numbers of four bytes, rows and bytes, and then the rows. A value is a byte, 1 for
//! NULL, and what is not NULL behind it. LOAD DATA looks at each character of a text: on 400,000 taxi
//! rows the server spends a third less CPU this way.

use std::io::{self, Write};

use crate::calendar::civil;
use crate::column::Column;
use crate::output::text::{Cell, Kind, Output};

/// Bytes of a frame, about which it ends: larger ones cost the server as much.
const FRAME_BYTES: usize = 512 << 10;

/// The numbers in front of a frame.
const HEADER_BYTES: usize = 8;

/// Bytes of a length in front of a text that is short.
const SHORT: usize = 251;

/// Append a length as the protocol has it.
#[inline(always)]
fn put_length(out: &mut Vec<u8>, len: usize) {
    if len < SHORT {
        out.push(len as u8);
    } else {
        put_long_length(out, len);
    }
}

#[inline(never)]
fn put_long_length(out: &mut Vec<u8>, len: usize) {
    let (mark, bytes) = match len {
        ..=0xffff => (0xfc, 2),
        0x1_0000..=0xff_ffff => (0xfd, 3),
        _ => (0xfe, 8),
    };
    out.push(mark);
    out.extend_from_slice(&(len as u64).to_le_bytes()[..bytes]);
}

impl Cell<'_> {
    fn put_day(out: &mut Vec<u8>, bytes: u8, day: i32) {
        let (year, month, of_month) = civil(day);
        let [low, high] = (year as u16).to_le_bytes();
        out.extend_from_slice(&[bytes, low, high, month as u8, of_month as u8]);
    }

    fn put_time(out: &mut Vec<u8>, seconds: i64, micros: u32) {
        let bytes = if micros > 0 { 11 } else { 7 };
        Self::put_day(out, bytes, seconds.div_euclid(86_400) as i32);
        let second = seconds.rem_euclid(86_400);
        let clock = [second / 3600, second / 60 % 60, second % 60];
        out.extend_from_slice(&clock.map(|part| part as u8));
        if micros > 0 {
            out.extend_from_slice(&micros.to_le_bytes());
        }
    }

    /// Append the next value, whatever it is worth where it is NULL.
    #[inline(always)]
    fn put_parameter(&mut self, out: &mut Vec<u8>, escapes: &super::Escapes) {
        match (self.as_text, self.kind) {
            (false, Kind::Int8 | Kind::UInt8) => out.extend_from_slice(&self.take::<1>()),
            (false, Kind::Int16 | Kind::UInt16) => out.extend_from_slice(&self.take::<2>()),
            (false, Kind::Int32 | Kind::UInt32 | Kind::Float32) => {
                out.extend_from_slice(&self.take::<4>());
            }
            (false, Kind::Int64 | Kind::UInt64 | Kind::Float64) => {
                out.extend_from_slice(&self.take::<8>());
            }
            (false, Kind::Bool(_)) => out.push(u8::from(self.take::<1>() != [0])),
            (false, Kind::Date) => {
                let day = u16::from_le_bytes(self.take());
                Self::put_day(out, 4, day.into());
            }
            (false, Kind::Date32) => {
                let day = i32::from_le_bytes(self.take());
                Self::put_day(out, 4, day);
            }
            (false, Kind::DateTime) => {
                let seconds = u32::from_le_bytes(self.take());
                Self::put_time(out, seconds.into(), 0);
            }
            (false, Kind::DateTime64(digits, units)) => {
                let count = i64::from_le_bytes(self.take());
                let rest = count.rem_euclid(*units) as u32;
                let micros = rest * 10u32.pow(6u32.saturating_sub(*digits as u32));
                Self::put_time(out, count.div_euclid(*units), micros);
            }
            (_, Kind::String) => {
                let (len, used) = super::read_varint(&self.data[self.at..]);
                let start = self.at + used;
                self.at = start + len;
                put_length(out, len);
                escapes.put(out, self.data, start, len);
            }
            _ => {
                let before = out.len();
                out.push(0);
                self.put(out, escapes);
                let len = out.len() - before - 1;
                if len < SHORT {
                    out[before] = len as u8;
                } else {
                    let text = out.split_off(before + 1);
                    out.truncate(before);
                    put_long_length(out, len);
                    out.extend_from_slice(&text);
                }
            }
        }
    }
}

impl Output {
    /// Write the rows of one block as frames.
    pub(super) fn write_frames(&mut self, columns: &[Column], rows: usize) -> io::Result<()> {
        let kinds = self.kinds.iter().zip(&self.as_text).zip(columns);
        let cells = kinds.map(|((kind, as_text), column)| Cell::of(kind, *as_text, column));
        let mut cells: Vec<Cell<'_>> = cells.collect();
        let out = &mut self.out;
        let mut first = 0;
        out.resize(HEADER_BYTES, 0);
        for row in 0..rows {
            for cell in &mut cells {
                let before = out.len();
                out.push(0);
                cell.put_parameter(out, &self.escapes);
                if cell.nulls.get(row).is_some_and(|null| *null != 0) {
                    out.truncate(before);
                    out.push(1);
                }
            }
            if out.len() >= FRAME_BYTES || row + 1 == rows {
                let size = out.len() - HEADER_BYTES;
                out[..4].copy_from_slice(&((row + 1 - first) as u32).to_le_bytes());
                out[4..HEADER_BYTES].copy_from_slice(&(size as u32).to_le_bytes());
                self.to.write_all(out)?;
                out.truncate(HEADER_BYTES);
                first = row + 1;
            }
        }
        out.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;
    use crate::column::strings::append_string;
    use crate::output::text::Destination;
    use crate::spec::Spec;
    use crate::types::Type;

    fn column(type_name: &str, nulls: &[u8], data: Vec<u8>) -> Column {
        let data_type = Type::parse(type_name, Some("UTC")).expect("a known type");
        Column { nulls: nulls.to_vec(), data, ..Column::new(data_type) }
    }

    fn written(columns: &[Column], rows: usize, texts: &[usize]) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!(
            "rowfall-parameters-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let types: Vec<Type> = columns.iter().map(|c| c.data_type.clone()).collect();
        let file = File::create(&path).expect("a file");
        let spec = serde_json::json!({
            "version": 2, "format": "CSV", "inputs": [], "outputs": [], "columns": [],
            "output_format": "MariaDB", "output_texts": texts,
        });
        let spec: Spec = serde_json::from_value(spec).expect("a spec");
        let mut output = Output::new(Destination::File(file), &types, &spec);
        output.write(columns, rows).expect("written");
        let mut found = Vec::new();
        File::open(&path).expect("the file").read_to_end(&mut found).expect("read");
        std::fs::remove_file(&path).expect("removed");
        found
    }

    #[test]
    fn values_stand_behind_their_marks() {
        let columns = [
            column("Nullable(Int16)", &[0, 1], [(-2i16).to_le_bytes(), [0; 2]].concat()),
            column("Bool", &[], vec![7, 0]),
            column("Date32", &[], [(-1i32).to_le_bytes(), 19_782i32.to_le_bytes()].concat()),
            column(
                "DateTime64(3)",
                &[],
                [(-1i64).to_le_bytes(), 86_399_000i64.to_le_bytes()].concat(),
            ),
            column("Int32", &[], [5i32.to_le_bytes(), (-6i32).to_le_bytes()].concat()),
        ];
        let rows = [
            &[0, 0xfe, 0xff][..],
            &[0, 1],
            &[0, 4, 0xb1, 0x07, 12, 31], // 1969
            &[0, 11, 0xb1, 0x07, 12, 31, 23, 59, 59, 0x58, 0x3e, 0x0f, 0], // 999,000 microseconds
            &[0, 1, b'5'],
            &[1],
            &[0, 0],
            &[0, 4, 0xe8, 0x07, 2, 29],
            &[0, 7, 0xb2, 0x07, 1, 1, 23, 59, 59],
            &[0, 2, b'-', b'6'],
        ]
        .concat();
        let header = [2u32.to_le_bytes(), (rows.len() as u32).to_le_bytes()].concat();
        assert_eq!(written(&columns, 2, &[4]), [header, rows].concat());
    }

    #[test]
    fn lengths_have_the_bytes_that_they_need() {
        for (len, prefix) in [
            (0usize, &[0u8][..]),
            (250, &[250]),
            (251, &[0xfc, 251, 0]),
            (0xffff, &[0xfc, 0xff, 0xff]),
            (0x1_0000, &[0xfd, 0, 0, 1]),
            (0x100_0000, &[0xfe, 0, 0, 0, 1, 0, 0, 0, 0]),
        ] {
            let mut data = Vec::new();
            append_string(&mut data, &vec![b'\\'; len]);
            let found = written(&[column("String", &[], data)], 1, &[0]);
            assert_eq!(found.len(), HEADER_BYTES + 1 + prefix.len() + len);
            assert_eq!(&found[HEADER_BYTES + 1..][..prefix.len()], prefix);
            assert!(found[HEADER_BYTES + 1 + prefix.len()..].iter().all(|byte| *byte == b'\\'));
            // A text that is made of another type is as long as its column says.
            if len == 251 {
                let fixed = column(&format!("FixedString({len})"), &[], vec![b'x'; len]);
                let found = written(&[fixed], 1, &[0]);
                assert_eq!(&found[HEADER_BYTES + 1..][..prefix.len()], prefix);
                assert_eq!(found.len(), HEADER_BYTES + 1 + prefix.len() + len);
            }
        }
    }

    #[test]
    fn a_frame_ends_with_the_row_that_fills_it() {
        let mut data = Vec::new();
        for _ in 0..3 {
            append_string(&mut data, &vec![b'x'; FRAME_BYTES / 2 + 1]);
        }
        let found = written(&[column("String", &[], data)], 3, &[0]);
        assert_eq!(found[..4], 2u32.to_le_bytes());
        let size = u32::from_le_bytes(found[4..8].try_into().expect("four bytes")) as usize;
        assert_eq!(found[HEADER_BYTES + size..][..4], 1u32.to_le_bytes());
    }
}
