//! Reads blocks of HDFS from data nodes, by their own protocol: they send what lies on their disks,
//! with its checksums, and copy nothing. Over WebHDFS a data node is a client of HDFS itself, and
//! takes several times the CPU.
//!
//! <https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/HdfsDesign.html>; messages
//! as in `datatransfer.proto` and `hdfs.proto` of Hadoop.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Mutex;

use crate::input::http_request::{CONNECT_TIMEOUT, READ_TIMEOUT};
use crate::spec::Block;

/// The version of the protocol (since Hadoop 2), and the number of "read a block" in it.
const VERSION: u16 = 28;
const READ_BLOCK: u8 = 81;
/// "The checksums are right", which lets a data node note that it has looked at a block.
const CHECKSUM_OK: u64 = 6;
/// Bytes of an answer or of the head of a packet, which takes some 30: more is something else.
const MOST_HEAD: usize = 64 << 10;
/// Data nodes send 64 KiB in a packet; clients of Hadoop take up to 16 MiB.
const MOST_DATA: usize = 16 << 20;
/// Heads and checksums are read together; data goes past this buffer.
const BUFFER: usize = 4 << 10;

/// Data nodes that could not be reached from here: each piece would wait for them again.
static AWAY: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Append the bytes `from..to` of a file, whose blocks are in order. What was read before an error is
/// kept, and is right.
pub fn read(blocks: &[Block], from: u64, to: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let had = bytes.len() as u64;
    // The last chunk is sent as a whole.
    bytes.reserve_exact((to - from) as usize + BUFFER);
    loop {
        let at = from + bytes.len() as u64 - had;
        if at >= to {
            return Ok(());
        }
        let behind = blocks.partition_point(|block| block.start <= at);
        let block = behind.checked_sub(1).map(|n| &blocks[n]);
        let block = block.filter(|block| at < block.start + block.bytes);
        let block = block.ok_or_else(|| odd("no block has these bytes"))?;
        let end = to.min(block.start + block.bytes);
        read_block(block, at - block.start, end - block.start, bytes)?;
    }
}

/// Append the bytes `from..to` of a block, from the first data node that has them.
fn read_block(block: &Block, from: u64, to: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let had = bytes.len();
    let mut last = odd("no data node can be reached that has the block");
    for node in &block.nodes {
        let away = || AWAY.lock().expect("no thread panics");
        if away().contains(node) {
            continue;
        }
        let stream = match connect(node) {
            Ok(stream) => stream,
            Err(error) => {
                away().insert(node.clone());
                last = error;
                continue;
            }
        };
        let at = from + (bytes.len() - had) as u64;
        match receive(&stream, block, at, to, bytes) {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect(node: &str) -> io::Result<TcpStream> {
    let mut last = odd("a name without an address");
    for address in node.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(READ_TIMEOUT))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Ask a data node for the bytes `from..to` of a block, and append them packet by packet.
fn receive(
    stream: &TcpStream,
    block: &Block,
    from: u64,
    to: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    let mut out = stream;
    out.write_all(&request(block, from, to - from))?;
    let mut reader = BufReader::with_capacity(BUFFER, stream);
    let size = varint(|| Ok(array::<1>(&mut reader)?[0]))? as usize;
    let (sums, mut at) = opened(&exactly(&mut reader, size, MOST_HEAD)?)?;
    while at < to {
        let packet = Packet::read(&mut reader)?;
        if packet.at != at || packet.bytes == 0 {
            return Err(odd("a packet that does not follow the one before it"));
        }
        let stored = exactly(&mut reader, packet.sums, MOST_DATA)?;
        let had = bytes.len();
        let read = (&mut reader).take(packet.bytes as u64).read_to_end(bytes)?;
        if read < packet.bytes || !sums.agree(&bytes[had..], &stored) {
            bytes.truncate(had);
            return Err(odd(if read < packet.bytes { "half a packet" } else { "damaged bytes" }));
        }
        // A packet begins where a checksum begins, and ends where one ends.
        let skip = from.saturating_sub(at).min(packet.bytes as u64) as usize;
        bytes.drain(had..had + skip);
        at += packet.bytes as u64;
        let more = at.saturating_sub(to) as usize;
        bytes.truncate((bytes.len() - more).max(had));
    }
    // An empty packet ends it. Nobody needs to hear from us who has ended the connection.
    if Packet::read(&mut reader).is_ok_and(|packet| packet.bytes == 0) {
        let mut said = Vec::new();
        number(&mut said, 1, CHECKSUM_OK);
        said.insert(0, said.len() as u8);
        let _ = out.write_all(&said);
    }
    Ok(())
}

/// OpReadBlockProto with its length, version and number.
fn request(block: &Block, from: u64, length: u64) -> Vec<u8> {
    let mut named = Vec::new(); // ExtendedBlockProto
    text(&mut named, 1, block.pool.as_bytes());
    number(&mut named, 2, block.id);
    number(&mut named, 3, block.stamp);
    let mut base = Vec::new(); // BaseHeaderProto
    text(&mut base, 1, &named);
    let mut header = Vec::new(); // ClientOperationHeaderProto
    text(&mut header, 1, &base);
    text(&mut header, 2, b"rowfall");
    let mut asked = Vec::new();
    text(&mut asked, 1, &header);
    number(&mut asked, 2, from);
    number(&mut asked, 3, length);
    let mut out = VERSION.to_be_bytes().to_vec();
    out.push(READ_BLOCK);
    put_varint(&mut out, asked.len() as u64);
    out.extend(asked);
    out
}

/// What an answer (BlockOpResponseProto) says: the checksums, and where the first packet begins.
fn opened(message: &[u8]) -> io::Result<(Sums, u64)> {
    let (mut status, mut info, mut said) = (0, &[][..], String::new());
    for field in fields(message) {
        match field? {
            (1, Value::Number(found)) => status = found,
            (4, Value::Bytes(found)) => info = found,
            (5, Value::Bytes(found)) => said = String::from_utf8_lossy(found).into_owned(),
            _ => {}
        }
    }
    if status != 0 {
        return Err(io::Error::other(format!("the data node answers {status}: {said}")));
    }
    let (mut kind, mut chunk, mut at) = (0, 0, 0); // ReadOpChecksumInfoProto, ChecksumProto
    for field in fields(info) {
        match field? {
            (1, Value::Bytes(checksum)) => {
                for field in fields(checksum) {
                    match field? {
                        (1, Value::Number(found)) => kind = found,
                        (2, Value::Number(found)) => chunk = found as usize,
                        _ => {}
                    }
                }
            }
            (2, Value::Number(found)) => at = found,
            _ => {}
        }
    }
    let sums = match kind {
        0 => Sums { of: None, chunk: 1 },
        1 if chunk > 0 => Sums { of: Some(crc32fast::hash), chunk },
        2 if chunk > 0 => Sums { of: Some(crc32c::crc32c), chunk },
        _ => return Err(odd("checksums of an unknown kind")),
    };
    Ok((sums, at))
}

/// How each chunk of the data is summed; not at all where a file was written so.
struct Sums {
    of: Option<fn(&[u8]) -> u32>,
    chunk: usize,
}

impl Sums {
    fn agree(&self, data: &[u8], stored: &[u8]) -> bool {
        let Some(sum) = self.of else { return stored.is_empty() };
        stored.len() == 4 * data.len().div_ceil(self.chunk)
            && data
                .chunks(self.chunk)
                .zip(stored.chunks(4))
                .all(|(chunk, stored)| sum(chunk).to_be_bytes() == stored)
    }
}

/// The head of a packet.
struct Packet {
    /// Offset in the block.
    at: u64,
    /// Bytes of data, and of the checksums before them.
    bytes: usize,
    sums: usize,
}

impl Packet {
    fn read(reader: &mut impl Read) -> io::Result<Packet> {
        // Bytes of this number, of checksums and data; bytes of the head (PacketHeaderProto).
        let all = u32::from_be_bytes(array(reader)?) as usize;
        let head = u16::from_be_bytes(array(reader)?) as usize;
        let (mut at, mut bytes) = (None, None);
        for field in fields(&exactly(reader, head, MOST_HEAD)?) {
            match field? {
                (1, Value::Number(found)) => at = Some(found),
                (4, Value::Number(found)) => bytes = Some(found as usize),
                _ => {}
            }
        }
        let (Some(at), Some(bytes)) = (at, bytes) else { return Err(odd("no packet")) };
        match all.checked_sub(4).and_then(|rest| rest.checked_sub(bytes)) {
            Some(sums) if bytes <= MOST_DATA => Ok(Packet { at, bytes, sums }),
            _ => Err(odd("a packet of another length")),
        }
    }
}

// --- messages -------------------------------------------------------------------------------------

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message of Protocol Buffers.
fn fields(message: &[u8]) -> impl Iterator<Item = io::Result<(u64, Value<'_>)>> {
    let mut rest = message;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = field(&mut rest);
        if found.is_err() {
            rest = &[];
        }
        Some(found)
    })
}

fn field<'a>(rest: &mut &'a [u8]) -> io::Result<(u64, Value<'a>)> {
    let tag = varint(|| Ok(take(rest, 1)?[0]))?;
    let value = match tag & 7 {
        0 => Value::Number(varint(|| Ok(take(rest, 1)?[0]))?),
        1 => Value::Number(u64::from_le_bytes(take(rest, 8)?.try_into().expect("8 bytes"))),
        2 => {
            let size = varint(|| Ok(take(rest, 1)?[0]))?;
            Value::Bytes(take(rest, usize::try_from(size).unwrap_or(usize::MAX))?)
        }
        5 => Value::Number(u32::from_le_bytes(take(rest, 4)?.try_into().expect("4 bytes")).into()),
        _ => return Err(odd("no message")),
    };
    Ok((tag >> 3, value))
}

fn take<'a>(rest: &mut &'a [u8], size: usize) -> io::Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(size).ok_or_else(|| odd("half a message"))?;
    *rest = left;
    Ok(taken)
}

fn varint(mut byte: impl FnMut() -> io::Result<u8>) -> io::Result<u64> {
    let mut found = 0;
    for shift in (0..64).step_by(7) {
        let next = byte()?;
        found |= u64::from(next & 0x7f) << shift;
        if next < 0x80 {
            return Ok(found);
        }
    }
    Err(odd("no number"))
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

fn text(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn array<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn exactly(reader: &mut impl Read, size: usize, most: usize) -> io::Result<Vec<u8>> {
    if size > most {
        return Err(odd("a message that is too long"));
    }
    let mut bytes = vec![0; size];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const CHUNK: usize = 512;

    /// Answers one request for a range of `data`; what is asked for is widened to whole chunks.
    /// Of the packets, `damaged` has a wrong byte, and behind `lost` there are none.
    fn node(data: &'static [u8], damaged: Option<usize>, lost: Option<usize>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let name = listener.local_addr().expect("an address").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            let head: [u8; 3] = array(&mut reader).expect("a request");
            assert_eq!(head, [0, 28, 81]);
            let size = varint(|| Ok(array::<1>(&mut reader)?[0])).expect("a length") as usize;
            let asked = exactly(&mut reader, size, MOST_HEAD).expect("a message");
            let numbers: Vec<u64> = fields(&asked)
                .filter_map(|field| match field.expect("a field") {
                    (2 | 3, Value::Number(found)) => Some(found),
                    _ => None,
                })
                .collect();
            let from = numbers[0] as usize / CHUNK * CHUNK;
            let end = (numbers[0] + numbers[1]) as usize;
            let end = end.next_multiple_of(CHUNK).min(data.len());
            let (mut checksum, mut info, mut answer) = (Vec::new(), Vec::new(), Vec::new());
            number(&mut checksum, 1, 2);
            number(&mut checksum, 2, CHUNK as u64);
            text(&mut info, 1, &checksum);
            number(&mut info, 2, from as u64);
            number(&mut answer, 1, 0);
            text(&mut answer, 4, &info);
            let mut out = Vec::new();
            put_varint(&mut out, answer.len() as u64);
            out.extend(answer);
            let empty = (end, &data[..0]);
            let packets = data[from..end].chunks(2 * CHUNK).enumerate();
            let packets = packets.map(|(n, part)| (from + 2 * CHUNK * n, part)).chain([empty]);
            for (n, (at, part)) in packets.enumerate() {
                if lost == Some(n) {
                    break;
                }
                let sums: Vec<u8> =
                    part.chunks(CHUNK).flat_map(|c| crc32c::crc32c(c).to_be_bytes()).collect();
                let mut head = vec![9];
                head.extend((at as u64).to_le_bytes());
                head.push(37);
                head.extend((part.len() as u32).to_le_bytes());
                out.extend(((4 + sums.len() + part.len()) as u32).to_be_bytes());
                out.extend((head.len() as u16).to_be_bytes());
                out.extend(head);
                out.extend(sums);
                out.extend(part);
                if damaged == Some(n) {
                    *out.last_mut().expect("a byte") ^= 1;
                }
            }
            let _ = stream.write_all(&out);
            let _ = reader.read_to_end(&mut Vec::new());
        });
        name
    }

    fn data() -> &'static [u8] {
        (0..5000).map(|n: u32| (n * 7 % 251) as u8).collect::<Vec<u8>>().leak()
    }

    fn block(start: u64, bytes: u64, nodes: Vec<String>) -> Block {
        Block { start, bytes, pool: "BP-1".into(), id: 1 << 40, stamp: 1001, nodes }
    }

    fn fetched(blocks: &[Block], from: u64, to: u64) -> (Vec<u8>, io::Result<()>) {
        let mut bytes = b"before".to_vec();
        let result = read(blocks, from, to, &mut bytes);
        assert_eq!(bytes.drain(..6).as_slice(), b"before");
        (bytes, result)
    }

    #[test]
    fn ranges_of_several_blocks_are_read() {
        let data = data();
        for (from, to) in
            [(0, 10_000), (0, 1), (511, 513), (700, 6100), (4999, 5001), (9999, 10_000)]
        {
            let nodes = || vec![node(data, None, None)];
            let blocks = [block(0, 5000, nodes()), block(5000, 5000, nodes())];
            let (bytes, result) = fetched(&blocks, from, to);
            result.expect("all of it");
            let both = [data, data].concat();
            assert_eq!(bytes, both[from as usize..to as usize], "{from}..{to}");
        }
    }

    #[test]
    fn another_node_gives_the_rest() {
        let data = data();
        for bad in [node(data, Some(2), None), node(data, None, Some(2)), node(data, None, Some(0))]
        {
            let blocks = [block(0, 5000, vec![bad, node(data, None, None)])];
            let (bytes, result) = fetched(&blocks, 100, 4900);
            result.expect("all of it");
            assert_eq!(bytes, data[100..4900]);
        }
    }

    #[test]
    fn what_came_before_an_error_is_right() {
        let data = data();
        let blocks = [block(0, 5000, vec![node(data, Some(2), None)])];
        let (bytes, result) = fetched(&blocks, 100, 5000);
        assert_eq!(result.expect_err("a wrong byte").to_string(), "damaged bytes");
        assert_eq!(bytes, data[100..4 * CHUNK]);
        let (bytes, result) = fetched(&[block(0, 50, Vec::new())], 60, 70);
        assert_eq!(result.expect_err("no block").to_string(), "no block has these bytes");
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_node_that_is_away_is_asked_once() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let name = free.local_addr().expect("an address").to_string();
        drop(free);
        let blocks = [block(0, 50, vec![name.clone()])];
        fetched(&blocks, 0, 50).1.expect_err("nobody there");
        assert!(AWAY.lock().expect("no panic").contains(&name));
        let again = fetched(&blocks, 0, 50).1.expect_err("not asked");
        assert_eq!(again.to_string(), "no data node can be reached that has the block");
    }
}
