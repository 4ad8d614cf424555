//! Writes a wide part whose columns come in pieces of whole granules: several threads write columns of
//! one part, and none of them is in memory as a whole.

use std::io;
use std::path::PathBuf;

use crate::codec::Chains;
use crate::column::Column;
use crate::column::keys::Keys;
use crate::column::reorder::{RowSelection, append_rows};
use crate::output::part::checksums::Checksums;
use crate::output::part::defaults::Counts;
use crate::output::part::stream::Streams;
use crate::output::part::{
    ColumnWriter, Lists, Output, PartBlock, Shape, Values, escaped, index_of,
};
use crate::spec::PartLayout;

/// Rows of a piece, about: a column of them stays in the cache, and calls for each piece do not matter.
const PIECE_ROWS: usize = 32 << 10;
/// Bytes of all columns of a piece where rows are wide; a granule has as many at most.
const PIECE_BYTES: usize = 8 << 20;

/// A part that is written in pieces.
pub struct PiecePart {
    folder: PathBuf,
    /// Indices of the columns of the primary key.
    keys: Vec<usize>,
    chains: Vec<Vec<Chains>>,
    layout: PartLayout,
    rows: usize,
    shape: Shape,
    /// Rows of a piece: whole granules.
    piece: usize,
}

/// What one column has left for the files about all columns.
pub struct WrittenColumn {
    checksums: Checksums,
    streams: Vec<String>,
    /// Of a column of the primary key: the values of the first row of each granule, and the last one.
    index: Column,
}

/// What is known of all values of a column before the first piece.
pub struct Facts {
    pub counts: Counts,
    /// Its dictionary, of LowCardinality columns that have few enough keys.
    pub keys: Option<Keys>,
}

impl Output {
    /// Begin a part of so many rows and about so many bytes in the engine's memory, whose columns come
    /// in pieces; None where it would be a compact one.
    pub fn begin_pieces(&mut self, rows: usize, bytes: usize) -> io::Result<Option<PiecePart>> {
        let shape = Shape::of(bytes, rows, self.layout);
        if shape.compact {
            return Ok(None);
        }
        let folder = self.begin(rows, shape, None, None)?.folder;
        let (keys, chains) = (self.keys.clone(), self.chains.clone());
        let fitting = PIECE_BYTES / (bytes / rows).max(1);
        let piece = fitting.clamp(1, PIECE_ROWS).next_multiple_of(shape.granule);
        Ok(Some(PiecePart { folder, keys, chains, layout: self.layout, rows, shape, piece }))
    }

    /// The streams of the thread that this output belongs to.
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }
}

impl PiecePart {
    /// Write a column, or find only its values of the primary index where it has no name. `fill` appends
    /// so many next rows to `column`, which is empty and has its type.
    pub fn column(
        &self,
        (number, name): (usize, Option<&str>),
        facts: &Facts,
        column: &mut Column,
        streams: &mut Streams,
        fill: &mut dyn FnMut(usize, &mut Column) -> io::Result<()>,
    ) -> io::Result<WrittenColumn> {
        let mut written = WrittenColumn {
            checksums: Checksums::default(),
            streams: Vec::new(),
            index: Column::new(column.data_type.clone()),
        };
        let mut done = 0;
        while done < self.rows {
            let rows = self.piece.min(self.rows - done);
            let last = done + rows == self.rows;
            column.clear();
            fill(rows, column)?;
            let block = PartBlock { rows, shape: self.shape, order: None };
            if self.keys.contains(&number) {
                let starts: Vec<u32> = (block.starts().chain(last.then_some(rows - 1)))
                    .map(|row| row as u32)
                    .collect();
                append_rows(&mut written.index, column, rows, RowSelection::Order(&starts));
            }
            if let Some(name) = name {
                streams.begin_piece(done == 0, last);
                let found = self.piece(
                    (number, name),
                    facts,
                    (&block, column),
                    streams,
                    &mut written.checksums,
                )?;
                if done == 0 {
                    written.streams = found;
                }
            }
            done += rows;
        }
        column.clear();
        Ok(written)
    }

    fn piece(
        &self,
        (number, name): (usize, &str),
        facts: &Facts,
        (block, column): (&PartBlock<'_>, &Column),
        streams: &mut Streams,
        checksums: &mut Checksums,
    ) -> io::Result<Vec<String>> {
        let mut writer = ColumnWriter {
            block,
            folder: &self.folder,
            streams,
            checksums,
            chains: &self.chains[number],
            layout: self.layout,
            totals: Some((self.rows, facts.keys.as_ref())),
            arrays: Vec::new(),
            reordered: false,
            dictionaries: Vec::new(),
            names: Vec::new(),
        };
        writer.column(&escaped(name.as_bytes()), column, block.rows, Some(&facts.counts))?;
        Ok([writer.dictionaries, writer.names].concat())
    }

    /// Write the files about all columns. `columns` are in the order of the table, behind them those of
    /// the key that are no columns.
    pub fn end(
        &self,
        names: &[String],
        columns: Vec<WrittenColumn>,
        facts: &[Facts],
        streams: &mut Streams,
    ) -> io::Result<()> {
        let (mut lists, mut checksums) = (Lists::default(), Checksums::default());
        let above = self.layout.sparse_above;
        for ((name, column), facts) in names.iter().zip(&columns).zip(facts) {
            let data_type = &column.index.data_type;
            let kind = facts.counts.kind(data_type, self.rows, above).filter(|_| above < 1.0);
            lists.add(name, data_type, &column.streams, kind);
        }
        let keys: Vec<Values<'_>> =
            self.keys.iter().map(|&key| columns[key].index.values()).collect();
        if !keys.is_empty() {
            let granules = self.rows.div_ceil(self.shape.granule);
            let index = index_of(&keys, granules + 1, 0..=granules);
            streams.small_file(&self.folder, "primary.cidx", &index, &mut checksums)?;
        }
        columns.into_iter().for_each(|column| checksums.join(column.checksums));
        lists.write(&self.folder, self.rows, false, self.layout, checksums)
    }
}
