//! Writes rows into the connection of a database, which another process has opened and goes on to
//! use, in packets of MySQL's protocol: no byte goes through a pipe and that process first, which
//! costs 0.5 CPU-seconds a GiB.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::BorrowedFd;

use crate::output::native;
use crate::spec;

/// Where the rows of one worker go.
pub enum Destination {
    /// A pipe, a file or stdout.
    File(File),
    /// A connection.
    Connection(Connection),
}

impl Destination {
    /// Open the output `path` of a spec; of a named pipe this waits for its reader.
    pub fn open(path: &str, connection: Option<&spec::Connection>) -> io::Result<Destination> {
        let file = native::open(path)?;
        Ok(match connection {
            None => Destination::File(file),
            Some(found) => Destination::Connection(Connection::open(file, found)?),
        })
    }
}

impl Write for Destination {
    fn write(&mut self, rows: &[u8]) -> io::Result<usize> {
        match self {
            Destination::File(file) => file.write(rows),
            Destination::Connection(connection) => connection.send(rows),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is buffered
    }
}

/// A connection that waits for rows.
pub struct Connection {
    socket: File,
    /// The pipe whose reader has let this process begin, and gets the number of the next packet at
    /// the end, in one byte. It gets nothing where a packet was not sent as a whole, so that the
    /// connection is of no use any more.
    handed_back: File,
    number: u8,
    packet_bytes: usize,
    whole: bool,
}

impl Connection {
    fn open(handed_back: File, asked: &spec::Connection) -> io::Result<Connection> {
        // SAFETY: no descriptor has the number -1 here, and of one that is not open the clone is an
        // error.
        let socket = unsafe { BorrowedFd::borrow_raw(asked.descriptor.into()) };
        let socket = File::from(socket.try_clone_to_owned()?);
        let (number, packet_bytes) = (asked.number, asked.packet_bytes);
        Ok(Connection { socket, handed_back, number, packet_bytes, whole: true })
    }

    /// Send the first rows as one packet; return their bytes.
    fn send(&mut self, rows: &[u8]) -> io::Result<usize> {
        let rows = &rows[..rows.len().min(self.packet_bytes)];
        let [a, b, c, ..] = rows.len().to_le_bytes();
        let header = [a, b, c, self.number];
        self.whole = false;
        native::write_all(&mut self.socket, &mut [IoSlice::new(&header), IoSlice::new(rows)])
            // Whoever has opened the connection finds out why it was lost.
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.whole = true;
        self.number = self.number.wrapping_add(1);
        Ok(rows.len())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.whole {
            // Nobody reads it where the load has been stopped.
            let _ = self.handed_back.write_all(&[self.number]);
        }
    }
}
