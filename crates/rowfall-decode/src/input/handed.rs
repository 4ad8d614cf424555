//! Reads the answer of a database from its connection, which the process that has asked for it hands
//! over: no byte of the answer passes through that process.
//!
//! An input named `SOCKET/NUMBER` is one of those that are offered behind a Unix socket. The other
//! side is told the number, sends a descriptor, and gets at the end what it needs to know whether its
//! connection is good for another question: a byte, 1 where the connection has ended, and the last
//! bytes of what was read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// More than the bytes of an error with its context, or of what stands at the end of rows.
const LAST_BYTES: usize = 16 << 10;
/// Servers send 8 or 16 KiB at a time. Taken one by one they cost more than what is taken at once
/// after a millisecond (a row of 410 bytes 1.1 us and 0.75, in Python): sockets hold more than that.
const FEW_BYTES: usize = 128 << 10;
const PAUSE: Duration = Duration::from_millis(1);

/// The answer of a database on a connection of another process.
pub struct Answer {
    connection: File,
    owner: UnixStream,
    last: Vec<u8>,
    /// The last read has taken all there was.
    few: bool,
    /// The connection has ended.
    lost: bool,
}

impl Answer {
    /// Take over what `path` names: a socket and a number.
    pub fn open(path: &str) -> io::Result<Answer> {
        let path = Path::new(path);
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
        let (Some(socket), Some(number)) = (path.parent(), number) else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let mut owner = UnixStream::connect(socket)?;
        owner.write_all(&number.to_le_bytes())?;
        let connection = receive(&owner)?;
        Ok(Answer { connection, owner, last: Vec::new(), few: false, lost: false })
    }

    /// Wait for bytes. The error is that whoever has asked for them is gone.
    fn wait(&self) -> io::Result<()> {
        let asked = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut both = [asked(self.connection.as_raw_fd()), asked(self.owner.as_raw_fd())];
        // SAFETY: the array lives as long as the call, and has as many elements as it is told.
        while unsafe { libc::poll(both.as_mut_ptr(), both.len() as libc::nfds_t, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if both[1].revents != 0 {
            let what = "whoever has asked the database has gone";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, what));
        }
        Ok(())
    }
}

impl Read for Answer {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if mem::take(&mut self.few) {
            thread::sleep(PAUSE);
        }
        self.wait()?;
        let read = self.connection.read(out);
        let count = *read.as_ref().unwrap_or(&0);
        self.lost = count == 0 && !out.is_empty();
        self.few = count < FEW_BYTES.min(out.len());
        let new = &out[count.saturating_sub(LAST_BYTES)..count];
        let kept = self.last.len().min(LAST_BYTES - new.len());
        self.last.drain(..self.last.len() - kept);
        self.last.extend_from_slice(new);
        read
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut said = vec![u8::from(self.lost)];
        said.append(&mut self.last);
        // Who has gone needs no answer.
        let _ = self.owner.write_all(&said);
    }
}

// No program that is started meanwhile gets the descriptor. macOS lacks the flag; nothing here starts
// another program.
#[cfg(not(target_vendor = "apple"))]
const FLAGS: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(target_vendor = "apple")]
const FLAGS: libc::c_int = 0;

/// Receive one descriptor.
fn receive(owner: &UnixStream) -> io::Result<File> {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // As aligned as the head of a control message, and with room for one with a descriptor.
    let mut control = [0_u64; 8];
    // SAFETY: all fields may be zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: what the message points to lives as long as the call.
    let count = unsafe { libc::recvmsg(owner.as_raw_fd(), &raw mut message, FLAGS) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: recvmsg has filled the message. A control message of this kind and of no less bytes
    // holds a descriptor that nobody else owns.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        let least = libc::CMSG_LEN(mem::size_of::<RawFd>() as _) as usize;
        if count == 1
            && !head.is_null()
            && (*head).cmsg_level == libc::SOL_SOCKET
            && (*head).cmsg_type == libc::SCM_RIGHTS
            && (*head).cmsg_len as usize >= least
        {
            return Ok(File::from_raw_fd(libc::CMSG_DATA(head).cast::<RawFd>().read_unaligned()));
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the database has not answered"))
}
