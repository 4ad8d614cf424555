//! Writes rows into the connection of a database, which another process has opened and goes on to
//! use, in packets of MySQL's protocol: no byte goes through a pipe and that process first, which
//! costs 0.5 CPU-seconds a GiB.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem;
use std::os::fd::BorrowedFd;

use serde_json::json;

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
        Ok(match connection {
            None => Destination::File(native::open(path)?),
            Some(found) => Destination::Connection(Connection::open(path, found)?),
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
    state: State,
    number: u8,
    packet_bytes: usize,
}

/// How far a connection is.
enum State {
    /// Packets are held until they have some bytes, in front of which nobody has to wait for this
    /// process any more; then the pipe at a path is opened.
    Filling { path: String, held: Vec<u8>, enough: usize },
    /// The pipe whose reader has let this process begin, and gets the number of the next packet at
    /// the end, in one byte.
    Sending(File),
    /// A packet was not sent as a whole, so that the connection is of no use any more, and nothing
    /// is handed back.
    Broken,
}

impl Connection {
    fn open(path: &str, asked: &spec::Connection) -> io::Result<Connection> {
        // SAFETY: no descriptor has the number -1 here, and of one that is not open the clone is an
        // error.
        let socket = unsafe { BorrowedFd::borrow_raw(asked.descriptor.into()) };
        let socket = File::from(socket.try_clone_to_owned()?);
        let (number, packet_bytes, enough) =
            (asked.number, asked.packet_bytes, asked.prefill_bytes);
        let state = match enough {
            0 => State::Sending(native::open(path)?),
            _ => State::Filling { path: path.to_owned(), held: Vec::new(), enough },
        };
        Ok(Connection { socket, state, number, packet_bytes })
    }

    /// Send the first rows as one packet; return their bytes.
    fn send(&mut self, rows: &[u8]) -> io::Result<usize> {
        let rows = &rows[..rows.len().min(self.packet_bytes)];
        let [a, b, c, ..] = rows.len().to_le_bytes();
        let header = [a, b, c, self.number];
        self.number = self.number.wrapping_add(1);
        if let State::Filling { held, enough, .. } = &mut self.state {
            held.extend_from_slice(&header);
            held.extend_from_slice(rows);
            if held.len() >= *enough {
                self.begin()?;
            }
        } else {
            self.write(&mut [IoSlice::new(&header), IoSlice::new(rows)])?;
        }
        Ok(rows.len())
    }

    /// Say that all is there that was to be held, and send it when the connection waits for it.
    fn begin(&mut self) -> io::Result<()> {
        let State::Filling { path, held, .. } = &mut self.state else { return Ok(()) };
        eprintln!("{}", json!({"held_bytes": held.len()}));
        let (handed_back, held) = (native::open(path)?, mem::take(held));
        self.state = State::Sending(handed_back);
        self.write(&mut [IoSlice::new(&held)])
    }

    /// Write whole packets into a connection that is in use.
    fn write(&mut self, packets: &mut [IoSlice<'_>]) -> io::Result<()> {
        let state = mem::replace(&mut self.state, State::Broken);
        native::write_all(&mut self.socket, packets)
            // Whoever has opened the connection finds out why it was lost.
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.state = state;
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Of fewer rows than were to be held; what fails hands nothing back.
        let _ = self.begin();
        if let State::Sending(handed_back) = &mut self.state {
            // Nobody reads it where the load has been stopped.
            let _ = handed_back.write_all(&[self.number]);
        }
    }
}
