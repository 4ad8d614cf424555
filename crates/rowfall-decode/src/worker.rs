//! One worker: reads inputs one after the other, and writes their rows to its output as blocks.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::block::{Bad, Sorting, Text, decode_delimited, decode_objects};
use crate::column::Column;
use crate::cpu_time;
use crate::error::{Decline, Fail, shorten};
use crate::input::buffer::{LONGEST, Window};
use crate::input::queue::Raw;
use crate::input::read_ahead::read_ahead;
use crate::input::source::Opened;
use crate::output::Output;
use crate::simd::Simd;
use crate::spec::{Compression, Format, Input, Spec, Unknown};
use crate::text::delimited::{self, Problem};
use crate::text::fields::{Rules, Style};
use crate::text::json::objects;
use crate::text::layout::{self, Layout};
use crate::text::scan::{Scan, scan};

/// A block takes the last rows of its input, too, where they are about this part of it or less: a
/// part costs the same files and merges whatever it holds. 2 M taxi rows in 4 files, blocks of
/// 495,251 rows: 4 parts instead of 6, 1,000 files instead of 1,500.
const LEFT: u64 = 8;

/// What became of one input.
#[derive(Debug, Clone, Default)]
pub struct Done {
    pub rows: u64,
    pub bytes_read: u64,
    pub bytes_raw: u64,
}

/// Rows that have gone into the outputs, and bytes of the inputs that they were.
#[derive(Default)]
pub struct Written {
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    /// CPU time of making parts, and time without a core, in nanoseconds.
    pub making: AtomicU64,
    pub waited: AtomicU64,
}

/// One thread's state; its buffers are kept from block to block and file to file.
pub struct Worker<'a> {
    spec: &'a Spec,
    simd: Simd,
    output: Output,
    written: &'a Written,
    names: Vec<String>,
    columns: Vec<Column>,
    rows: usize,
    /// Rows and bytes that fill a block: more where its input ends soon.
    full: (usize, usize),
    /// Bytes of inputs read since a block was written.
    unwritten: u64,
    rules: Rules,
    window: Window,
    scan: Scan,
    sorting: Sorting,
    keys: objects::Keys,
    objects: objects::Rows,
}

/// Where a worker is in its input.
struct Place<'a> {
    input: &'a Input,
    /// Lines before `window.start`.
    lines: u64,
    rows: u64,
    layout: Option<Layout>,
}

impl<'a> Worker<'a> {
    pub fn new(spec: &'a Spec, simd: Simd, output: Output, written: &'a Written) -> Worker<'a> {
        let types = spec.types().expect("checked before workers start");
        let sources: Vec<String> = spec.columns.iter().map(|c| c.source().to_owned()).collect();
        let nullable = types.iter().map(|t| t.nullable).collect();
        let mut columns: Vec<Column> = types.into_iter().map(Column::new).collect();
        let sorting = Sorting::new(spec.sort_by.as_deref().unwrap_or(&[]), &mut columns);
        Worker {
            keys: objects::Keys::new(&sources, nullable, spec.unknown == Unknown::Skip),
            objects: objects::Rows::default(),
            spec,
            simd,
            output,
            written,
            full: (spec.block_rows, spec.block_bytes),
            unwritten: 0,
            names: spec.columns.iter().map(|c| c.name.clone()).collect(),
            columns,
            rows: 0,
            rules: Rules {
                simd,
                null_is_empty: spec.null.is_empty(),
                trim: spec.trim,
                breaks: spec.breaks,
                apart: spec.apart(),
            },
            window: Window::default(),
            scan: Scan::default(),
            sorting,
        }
    }

    /// Write the block that has been gathered.
    pub fn flush(&mut self) -> Result<(), Fail> {
        if self.rows == 0 {
            return Ok(());
        }
        let order = self.sorting.sort(&mut self.columns, self.rows);
        let began = cpu_time::thread();
        let written = self.output.write(&self.names, &self.columns, self.rows, order);
        written.map_err(|error| Fail::output(&self.output.path, &error))?;
        if self.spec.parts {
            self.written.making.fetch_add(cpu_time::thread() - began, Ordering::Relaxed);
        }
        self.columns.iter_mut().for_each(Column::clear);
        let bytes = std::mem::take(&mut self.unwritten);
        self.written.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.written.rows.fetch_add(self.rows as u64, Ordering::Relaxed);
        self.rows = 0;
        Ok(())
    }

    pub fn read(&mut self, input: &Input, raw: std::io::Result<Raw>) -> Result<Done, Fail> {
        let io = |error: &std::io::Error| Fail::io(input.name(), error);
        let opened = raw.and_then(|raw| Opened::new(raw, self.spec.compression));
        let packed = self.spec.compression != Compression::None;
        let opened = if self.spec.ahead && packed { opened.map(read_ahead) } else { opened };
        let mut source = opened.map_err(|e| io(&e))?;
        self.window.reset(input.start);
        let mut place = Place { input, lines: 0, rows: 0, layout: layout::by_positions(self.spec) };
        let mut chunk = self.spec.chunk_bytes;
        loop {
            let read = source.bytes_read();
            self.window.advance(&mut source, chunk).map_err(|e| io(&e))?;
            self.unwritten += source.bytes_read() - read;
            let left = input.bytes().map(|bytes| bytes.saturating_sub(source.bytes_read()));
            self.expect(left)?;
            if self.window.ended {
                let (start, end) = (self.window.start, self.window.end);
                let open = start < end && self.window.text()[end - 1] != b'\n';
                if open && input.is_cut() {
                    let what = "a range that ends in the middle of a line";
                    return Err(self.decline(&place, (end, end), None, what));
                }
                self.window.close(open);
            }
            let before = self.window.start;
            self.take(&mut place)?;
            if self.window.ended {
                break;
            }
            // A record longer than the chunk: look at more of it.
            chunk = if self.window.start > before { self.spec.chunk_bytes } else { chunk * 2 };
            if self.window.end - self.window.start > LONGEST {
                let at = self.window.start;
                return Err(self.decline(&place, (at, at), None, "a record of more than 48 MiB"));
            }
        }
        Ok(Done {
            rows: place.rows,
            bytes_read: source.bytes_read(),
            bytes_raw: self.window.offset(self.window.end) - input.start,
        })
    }

    fn scan(&mut self) {
        let style = if self.spec.format.is_csv() { Style::Csv } else { Style::Tsv };
        let range = (self.window.start, self.window.end);
        let delimiter = self.spec.delimiter.as_bytes()[0];
        scan(self.simd, style, delimiter, self.window.text(), range, &mut self.scan);
    }

    /// Decode all whole records of the window.
    fn take(&mut self, place: &mut Place<'_>) -> Result<(), Fail> {
        if self.window.offset(self.window.start) == 0 {
            let (at, text) = (self.window.start, self.window.text());
            if text[at..self.window.end].starts_with(b"\xef\xbb\xbf") {
                return Err(self.decline(place, (at, at + 3), None, "a byte order mark"));
            }
        }
        if self.spec.format == Format::Json {
            return self.take_objects(place);
        }
        self.scan();
        if place.layout.is_none() {
            if !self.take_header(place)? {
                return Ok(());
            }
            self.scan();
        }
        let layout = place.layout.take().expect("found above");
        let result = self.take_rows(place, &layout);
        place.layout = Some(layout);
        result
    }

    /// Find the columns by the first line; false when it is not there as a whole.
    fn take_header(&mut self, place: &mut Place<'_>) -> Result<bool, Fail> {
        let at = self.window.start;
        let text = self.window.text();
        let end = self.scan.index.iter().skip(1).find(|&&n| text[n as usize] == b'\n');
        let Some(&end) = end else {
            if self.window.ended || self.scan.bad.is_some() {
                return Err(self.decline(place, (at, at), None, "a header line that never ends"));
            }
            return Ok(false);
        };
        let end = end as usize;
        if self.scan.bad.is_some_and(|bad| bad <= end) {
            return Err(self.decline(place, (at, end), None, "a header that is not plain names"));
        }
        let layout =
            layout::by_header(text, &self.scan, self.spec).map_err(|(name, message)| {
                let mut fail = self.decline(place, (at, end), None, &message);
                if let Fail::Value(decline) = &mut fail {
                    decline.column = name;
                }
                fail
            })?;
        place.layout = Some(layout);
        place.lines += 1;
        self.window.start = end + 1;
        Ok(true)
    }

    fn take_rows(&mut self, place: &mut Place<'_>, layout: &Layout) -> Result<(), Fail> {
        let (rows, problem) = delimited::rows(self.window.text(), &self.scan, layout.width);
        let mut taken = 0;
        while taken < rows {
            let count = (rows - taken).min(self.full.0 - self.rows);
            let source = Text { text: self.window.text(), scan: &self.scan, rules: &self.rules };
            let decode = match self.spec.format.is_csv() {
                true => decode_delimited::<true>,
                false => decode_delimited::<false>,
            };
            let (columns, sorting) = (&mut self.columns, &mut self.sorting);
            let decoded = decode(columns, layout, &source, (taken, count), sorting);
            if let Err(Bad { column, start, end, .. }) = decoded {
                return Err(self.decline(place, (start, end), column, ""));
            }
            taken += count;
            self.added(count)?;
        }
        if let Some(Problem { at, message }) = problem {
            let stop = self.window.text()[at..self.window.end].iter().position(|c| *c == b'\n');
            let end = stop.map_or(self.window.end, |n| at + n);
            return Err(self.decline(place, (at, end), None, &message));
        }
        let end = self.scan.index[rows * layout.width] as usize + 1;
        if self.window.ended && end < self.window.end {
            return Err(self.decline(place, (end, self.window.end), None, "a quote never closed"));
        }
        place.lines += if self.scan.broken {
            newlines(&self.window.text()[self.window.start..end])
        } else {
            rows as u64
        };
        place.rows += rows as u64;
        self.window.start = end;
        Ok(())
    }

    /// Say when the block is full, from how many bytes its input has `left` (None: nobody knows).
    fn expect(&mut self, left: Option<u64>) -> Result<(), Fail> {
        let (rows, bytes) = (self.spec.block_rows, self.spec.block_bytes);
        let ending = left.is_some_and(|left| left <= self.unwritten / LEFT);
        let more = |size: usize| if ending { size + size / LEFT as usize } else { size };
        self.full = (more(rows), more(bytes));
        self.added(0)
    }

    /// Count rows that were appended, and write the block when it is full.
    fn added(&mut self, rows: usize) -> Result<(), Fail> {
        self.rows += rows;
        let bytes: usize = self.columns.iter().map(Column::bytes).sum();
        if self.rows >= self.full.0 || bytes >= self.full.1 {
            self.flush()?;
        }
        Ok(())
    }

    /// Decode all whole lines of the window as JSON objects.
    fn take_objects(&mut self, place: &mut Place<'_>) -> Result<(), Fail> {
        let (start, end) = (self.window.start, self.window.end);
        let lines = &self.window.text()[start..end];
        let Some(last) = lines.iter().rposition(|c| *c == b'\n') else {
            return Ok(());
        };
        let text = self.window.text();
        let range = (start, start + last + 1);
        let found = self.keys.rows(self.simd, text, range, &mut self.objects);
        let mut taken = 0;
        while taken < self.objects.count {
            let count = (self.objects.count - taken).min(self.full.0 - self.rows);
            let text = self.window.text();
            let (columns, sorting, rows) = (&mut self.columns, &mut self.sorting, (taken, count));
            let decoded = decode_objects(columns, &self.objects, text, &self.rules, rows, sorting);
            if let Err(Bad { column, start, end, .. }) = decoded {
                return Err(self.decline(place, (start, end), column, ""));
            }
            taken += count;
            self.added(count)?;
        }
        if let Err(wrong) = found {
            let end = wrong.end.min(self.window.end).max(wrong.at);
            return Err(self.decline(place, (wrong.at, end), wrong.column, wrong.message));
        }
        place.lines += taken as u64;
        place.rows += taken as u64;
        self.window.start = self.objects.end;
        Ok(())
    }

    /// The failure about `text[span]`, of a column or (None) of a whole row.
    fn decline(
        &self,
        place: &Place<'_>,
        (start, end): (usize, usize),
        column: Option<usize>,
        message: &str,
    ) -> Fail {
        let text = self.window.text();
        let spec = column.map(|n| &self.spec.columns[n]);
        let kind = spec.map_or(String::new(), |c| c.kind.clone());
        Fail::Value(Box::new(Decline {
            uri: place.input.name().to_owned(),
            line: place.lines + newlines(&text[self.window.start..start]) + 1,
            offset: self.window.offset(start),
            column: spec.map_or(String::new(), |c| c.name.clone()),
            value: shorten(&text[start..end]),
            message: match message {
                "" => format!("not surely a value of {kind}"),
                _ => message.to_owned(),
            },
            expected: kind,
        }))
    }
}

fn newlines(text: &[u8]) -> u64 {
    text.iter().filter(|c| **c == b'\n').count() as u64
}
