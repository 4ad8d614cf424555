//! Where bytes come from and go to: files and objects, connections, and texts that no message shows.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// One object. A path is a file here, `-` is stdin, an address of HTTP is read from there; with
/// `url` the path is only the name that messages say, `s3://bucket/key` for one.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The file, `-`, or the address.
    pub path: String,
    /// The name in messages and the summary; `path` where there is none.
    #[serde(default)]
    pub uri: Option<String>,
    /// Offset of the first byte to read.
    #[serde(default)]
    pub start: u64,
    /// Offset behind the last byte to read; none to read to the end.
    #[serde(default)]
    pub stop: Option<u64>,
    /// Its address; may hold a signature.
    #[serde(default)]
    pub url: Option<Secret>,
    /// Headers of the requests, which say who asks.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Ranges are asked for with `offset` and `length` in the query of `url`, as WebHDFS wants it.
    #[serde(default)]
    pub by_query: bool,
    /// Of a file in HDFS: its blocks, in their order; none where only `url` can be asked.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// Its size in bytes by the listing; another size is an error.
    #[serde(default)]
    pub size: Option<u64>,
    /// Its ETag by the listing, without quotes; another one is an error.
    #[serde(default)]
    pub version: Option<String>,
}

impl Input {
    /// A whole file, or `-` for stdin.
    pub fn file(path: &str) -> Input {
        Input {
            path: path.to_owned(),
            uri: None,
            start: 0,
            stop: None,
            url: None,
            headers: BTreeMap::new(),
            by_query: false,
            blocks: Vec::new(),
            size: None,
            version: None,
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        self.uri.as_deref().unwrap_or(&self.path)
    }

    /// True for a range with more bytes behind it: it has to end with a line.
    pub fn is_cut(&self) -> bool {
        matches!((self.stop, self.size), (Some(stop), Some(size)) if stop < size)
    }

    /// Offset behind the last byte to read; None where it is unknown.
    pub fn end(&self) -> Option<u64> {
        self.stop.into_iter().chain(self.size).min()
    }

    /// Stored bytes to read; None where the size is unknown.
    pub fn bytes(&self) -> Option<u64> {
        self.end().map(|end| end.saturating_sub(self.start))
    }

    /// Its address; None for files.
    pub fn url(&self) -> Option<Secret> {
        let plain = ["http://", "https://"].iter().any(|s| self.path.starts_with(s));
        self.url.clone().or_else(|| plain.then(|| Secret(self.path.clone())))
    }
}

/// A connection of MySQL's protocol, whose socket this process has been started with.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// The descriptor of the socket.
    pub descriptor: u16,
    /// The number of the first packet.
    pub number: u8,
    /// Bytes of rows in a packet at most.
    pub packet_bytes: usize,
    /// Bytes of packets, or all of them where there are fewer, that are made before the output is
    /// opened; a line of stderr says when they are.
    #[serde(default)]
    pub prefill_bytes: usize,
}

/// A stream of Arrow for a program that computes with the values: they keep their types.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ArrowOutput {
    /// Rows at the beginning that are left out: whoever reads the stream has them.
    #[serde(default)]
    pub skip_rows: usize,
}

/// A block of a file in HDFS.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Offset of its first byte in the file.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The pool of blocks that it belongs to.
    pub pool: String,
    /// Its number in the pool.
    pub id: u64,
    /// Its generation stamp: the version.
    pub stamp: u64,
    /// `host:port` of the data nodes that have it, the nearest first.
    pub nodes: Vec<String>,
}

/// A text that no message shows.
#[derive(Clone, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("[HIDDEN]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[HIDDEN]")
    }
}
