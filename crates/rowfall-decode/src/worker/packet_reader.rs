//! Reads the packets of a database's answer.

use crate::block::{BadValue, decode_packets};
use crate::error::{Decline, DeclineKind, Fail, shorten};
use crate::input::buffer::TextBuffer;
use crate::input::queue::InputReader;
use crate::packets::{Answer, Broken, LocatedRows, Wire, mysql, postgresql};
use crate::progress::InputSummary;
use crate::spec::MAX_RECORD_BYTES;
use crate::spec::{Format, Input, Spec};
use crate::text::fields::ReadOptions;
use crate::worker::block_writer::BlockWriter;

/// Reads one answer after the other; its buffers are kept.
pub struct PacketReader {
    options: ReadOptions,
    buffer: TextBuffer,
    located: LocatedRows,
}

impl PacketReader {
    /// A reader with these options.
    pub fn new(options: ReadOptions) -> PacketReader {
        PacketReader { options, buffer: TextBuffer::default(), located: LocatedRows::default() }
    }

    /// Decode the rows of a database's answer, up to the packet that ends them: whoever sends them
    /// does not close the pipe before it is closed here.
    pub fn read(
        &mut self,
        block: &mut BlockWriter<'_>,
        input: &Input,
        raw: std::io::Result<InputReader>,
    ) -> Result<InputSummary, Fail> {
        if block.spec.format == Format::MySql {
            return self.read_answer(block, input, raw, mysql::ResultSet::default());
        }
        let copy = postgresql::Copy::of(&block.spec.input_types);
        let copy = copy.ok_or_else(|| Fail::declined(input.name(), "columns of other types"))?;
        self.read_answer(block, input, raw, copy)
    }

    fn read_answer(
        &mut self,
        block: &mut BlockWriter<'_>,
        input: &Input,
        raw: std::io::Result<InputReader>,
        mut answer: impl Answer,
    ) -> Result<InputSummary, Fail> {
        let io = |error: &std::io::Error| Fail::io(input.name(), error);
        let odd = |what: &str| io(&std::io::Error::other(what));
        let mut raw = raw.map_err(|e| io(&e))?;
        self.buffer.reset(input.start);
        let columns = block.spec.columns.iter();
        let field_numbers: Vec<usize> = columns.filter_map(|c| c.position).collect();
        let mut summary = InputSummary::default();
        let broken = |broken| match broken {
            Broken::Said(what) => odd(&what),
            Broken::Odd(what) => odd(what),
            Broken::Lost { sent, came } => {
                let sent = sent.map_or("no".to_owned(), |sent| sent.to_string());
                odd(&format!("the server sent {sent} rows, of which {came} came"))
            }
            Broken::Declined(what) => Fail::declined(input.name(), &what),
        };
        if let Some(wires) = answer.columns() {
            check_wires(block.spec, input, wires, &field_numbers)?;
        }
        while !answer.ended() {
            let before = self.buffer.end - self.buffer.start;
            if !self.buffer.read_some(&mut raw, block.spec.chunk_bytes).map_err(|e| io(&e))? {
                return Err(odd("the answer ends before its last packet"));
            }
            let bytes = (self.buffer.end - self.buffer.start - before) as u64;
            summary.bytes_read += bytes;
            block.add_bytes(bytes, None, 0)?;
            loop {
                let (start, end) = (self.buffer.start, self.buffer.end);
                let knew = answer.columns().is_some();
                let next = answer.read(self.buffer.text_mut(), start, end).map_err(broken)?;
                let wires = answer.columns().unwrap_or(&[]);
                let knows = answer.columns().is_some();
                if knows && !knew {
                    check_wires(block.spec, input, wires, &field_numbers)?;
                }
                answer.locate(self.buffer.text_mut(), &mut self.located).map_err(broken)?;
                self.decode_located(block, (input, summary.rows), wires, &field_numbers)?;
                summary.rows += self.located.count as u64;
                self.buffer.start = next;
                if knew == knows {
                    break;
                }
            }
            if self.buffer.end - self.buffer.start > MAX_RECORD_BYTES {
                return Err(Fail::too_long(input.name(), 0, 0));
            }
        }
        summary.bytes_raw = summary.bytes_read;
        Ok(summary)
    }

    /// Append the rows of packets that were found; `before` them the input had so many.
    fn decode_located(
        &self,
        block: &mut BlockWriter<'_>,
        (input, before): (&Input, u64),
        wires: &[Wire],
        field_numbers: &[usize],
    ) -> Result<(), Fail> {
        let located = &self.located;
        let mut taken = 0;
        while taken < located.count {
            let count = (located.count - taken).min(block.room());
            let text = (self.buffer.text(), &self.options);
            let (columns, sorting, rows) = (&mut block.columns, &mut block.sorting, (taken, count));
            let decoded =
                decode_packets(columns, located, wires, field_numbers, text, rows, sorting);
            if let Err(BadValue { row, column, start, end }) = decoded {
                let spec = column.map(|n| &block.spec.columns[n]);
                let type_name = spec.map_or(String::new(), |c| c.type_name.clone());
                let text = column.is_some_and(|n| wires[field_numbers[n]] == Wire::Text);
                return Err(Fail::Value(Box::new(Decline {
                    kind: DeclineKind::Value,
                    uri: input.name().to_owned(),
                    line: before + (taken + row) as u64 + 1,
                    offset: 0,
                    column: spec.map_or(String::new(), |c| c.name.clone()),
                    value: if text {
                        shorten(&self.buffer.text()[start..end])
                    } else {
                        String::new()
                    },
                    message: format!("a value that may not fit {type_name}"),
                    expected: type_name,
                })));
            }
            taken += count;
            block.add_rows(count)?;
        }
        Ok(())
    }
}

/// Check that an answer has the columns that are wanted.
fn check_wires(
    spec: &Spec,
    input: &Input,
    wires: &[Wire],
    field_numbers: &[usize],
) -> Result<(), Fail> {
    let count = wires.len();
    let wanted = spec.file_columns.unwrap_or(count);
    if count != wanted || field_numbers.iter().any(|number| *number >= count) {
        let what = format!("an answer of {count} columns where {wanted} are expected");
        return Err(Fail::declined(input.name(), &what));
    }
    Ok(())
}
