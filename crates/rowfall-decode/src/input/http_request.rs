//! Makes one HTTP request for an object or a range of it, and checks that the answer is about the
//! object that was listed. Retries are left to `http.rs`.

use std::io::{self, Read};
use std::sync::Mutex;
use std::time::Duration;

use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::spec::{Input, Secret};

/// A connection without a byte for so long has stalled: stores answer within a second, or say 503.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// Time to connect: a packet lost twice takes 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections kept open for their next request: all that a run uses on 32 cores.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// The client with the connections of all objects of a run.
pub fn agent() -> Agent {
    // What the machine trusts, as all its programs: stores inside companies have their own roots.
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(READ_TIMEOUT))
        .timeout_per_read(Some(READ_TIMEOUT))
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .max_idle_connections(MAX_IDLE_CONNECTIONS)
        .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS)
        .user_agent(concat!("rowfall-decode/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
}

/// The reason why a request failed. Messages never hold the address, which may be signed.
pub enum RequestError {
    /// Another request may succeed.
    Temporary(io::Error),
    /// Another request would fail in the same way.
    Permanent(io::Error),
}

impl RequestError {
    /// The server does not keep to HTTP.
    pub fn broken(what: &str) -> RequestError {
        RequestError::Permanent(io::Error::other(format!("the server sent {what}")))
    }

    fn changed() -> RequestError {
        let message = "the object is not the one that was listed: it has changed";
        RequestError::Permanent(io::Error::other(message))
    }
}

/// The headers that tell two versions of an object apart.
#[derive(Clone, PartialEq)]
struct ObjectVersion {
    etag: Option<String>,
    modified: Option<String>,
    size: Option<u64>,
}

/// The address of an object, and what is known about the object.
pub struct ObjectAddress {
    agent: Agent,
    url: Secret,
    headers: Vec<(String, Secret)>,
    /// Size in bytes and ETag that the listing gave.
    size: Option<u64>,
    version: Option<String>,
    /// The headers of the first answer: all others have to have the same.
    first_seen: Mutex<Option<ObjectVersion>>,
}

/// The body of a successful answer.
pub enum Answer {
    /// The range that was asked for.
    Range(Body),
    /// All of the object and its Content-Length: the server knows no ranges.
    Whole(Body, Option<u64>),
}

impl ObjectAddress {
    /// The address of an input; None for files.
    pub fn new(agent: &Agent, input: &Input) -> Option<ObjectAddress> {
        Some(ObjectAddress {
            agent: agent.clone(),
            url: input.url()?,
            headers: input.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            size: input.size,
            version: input.version.clone(),
            first_seen: Mutex::default(),
        })
    }

    /// Ask for the bytes `from..to`, or for the whole object.
    pub fn ask(&self, range: Option<(u64, u64)>) -> Result<Answer, RequestError> {
        let mut request = self.agent.get(self.url.reveal()).header("Accept-Encoding", "identity");
        for (name, value) in &self.headers {
            request = request.header(name, value.reveal());
        }
        if let Some((from, to)) = range {
            request = request.header("Range", format!("bytes={from}-{}", to - 1));
        }
        let answer = request.call().map_err(unanswered)?;
        match answer.status().as_u16() {
            200 => {
                let promised = number(answer.headers(), "content-length");
                self.check(answer.headers(), promised)?;
                Ok(Answer::Whole(answer.into_body(), promised))
            }
            206 => self.range(range.map(|(from, _)| from), answer),
            code @ (408 | 425 | 429 | 500 | 502 | 503 | 504) => {
                Err(RequestError::Temporary(status_error(code)))
            }
            // No such range: the object has become shorter.
            416 => Err(RequestError::changed()),
            code => Err(RequestError::Permanent(status_error(code))),
        }
    }

    fn range(&self, from: Option<u64>, answer: Response<Body>) -> Result<Answer, RequestError> {
        let (first, size) = content_range(answer.headers())
            .ok_or_else(|| RequestError::broken("a range without its Content-Range"))?;
        if Some(first) != from {
            return Err(RequestError::broken("another range than the one asked for"));
        }
        self.check(answer.headers(), size)?;
        Ok(Answer::Range(answer.into_body()))
    }

    /// Fail where an answer is about another version than the listing or the first answer.
    fn check(&self, headers: &HeaderMap, size: Option<u64>) -> Result<(), RequestError> {
        let text = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let tag: Option<String> = text("etag");
        let etag = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
        let now = ObjectVersion { etag, modified: text("last-modified"), size };
        if differ(&now.etag, &self.version) || differ(&now.size, &self.size) {
            return Err(RequestError::changed());
        }
        let mut first_seen = self.first_seen.lock().expect("no thread panics");
        if *first_seen.get_or_insert_with(|| now.clone()) == now {
            Ok(())
        } else {
            Err(RequestError::changed())
        }
    }
}

/// True where both are known and not the same.
fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// Append exactly `want` bytes of an answer; the bytes that came before an error are kept.
pub fn receive(mut body: Body, want: u64, bytes: &mut Vec<u8>) -> Result<(), RequestError> {
    let had = bytes.len();
    // One byte more, so that the end is seen and the connection can be used again.
    let read = body.as_reader().take(want + 1).read_to_end(bytes);
    let got = (bytes.len() - had) as u64;
    if got > want {
        return Err(RequestError::broken("more than it was asked for"));
    }
    read.map_err(|error| RequestError::Temporary(interrupted(error)))?;
    if got < want { Err(RequestError::Temporary(connection_lost(want - got))) } else { Ok(()) }
}

/// The error of a body that ends too soon.
pub fn connection_lost(missing: u64) -> io::Error {
    let message = format!("the connection broke {missing} bytes before the end");
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

/// The error in the middle of a body, timeouts in words of their own.
pub fn interrupted(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    if matches!(inner, Some(ureq::Error::Timeout(_))) || error.kind() == io::ErrorKind::TimedOut {
        return timed_out();
    }
    error
}

fn timed_out() -> io::Error {
    let message = format!("no answer for {} s", READ_TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, message)
}

fn status_error(code: u16) -> io::Error {
    let reason = StatusCode::from_u16(code).ok().and_then(|s| s.canonical_reason());
    io::Error::other(format!("the server answered {code} {}", reason.unwrap_or("")))
}

/// Sort the error of a request that got no answer.
fn unanswered(error: ureq::Error) -> RequestError {
    use ureq::Error::{BadUri, Http, InvalidProxyUrl, Io, Rustls, Timeout, Tls};
    match error {
        BadUri(_) | Http(_) => {
            RequestError::Permanent(io::Error::other("the address is not one of HTTP"))
        }
        Rustls(_) | Tls(_) | InvalidProxyUrl => RequestError::Permanent(io::Error::other(error)),
        Timeout(_) => RequestError::Temporary(timed_out()),
        // A certificate that is not trusted, an answer that is not HTTP.
        Io(error) if error.kind() == io::ErrorKind::InvalidData => RequestError::Permanent(error),
        other => RequestError::Temporary(interrupted(other.into_io())),
    }
}

/// First byte of the range, and size of the whole object (None: `*`), by `Content-Range`.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get("content-range")?.to_str().ok()?.strip_prefix("bytes ")?;
    let (span, size) = text.split_once('/')?;
    Some((span.split_once('-')?.0.parse().ok()?, size.parse().ok()))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}
