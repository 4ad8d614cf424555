//! Makes one HTTP request for an object or a range of it, and checks that the answer is about the
//! object that was listed. Retries are left to `http.rs`.

use std::io::{self, Read};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Response, StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::spec::{Input, Secret};

/// A connection without a byte for so long has stalled: stores answer within a second, or say 503.
pub const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// Fewer bytes in that time are as good as none: one byte now and then would hold a load for ever.
const LEAST_BYTES: u64 = 4 << 10;
/// Time to connect: a packet lost twice takes 3 s.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Redirects that are followed: browsers and curl allow 20 and 50, servers need one or two.
const MAX_REDIRECTS: usize = 10;
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
        // Followed in `ObjectAddress::send`: the client would take headers to other ports of a host,
        // and all but two to every host.
        .max_redirects(0)
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
    by_query: bool,
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
    /// All of the object and its length, where that is known: the server knows no ranges.
    Whole(Body, Option<u64>),
}

impl ObjectAddress {
    /// The address of an input; None for files.
    pub fn new(agent: &Agent, input: &Input) -> Option<ObjectAddress> {
        Some(ObjectAddress {
            agent: agent.clone(),
            url: input.url()?,
            headers: input.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            by_query: input.by_query,
            size: input.size,
            version: input.version.clone(),
            first_seen: Mutex::default(),
        })
    }

    /// Ask for the bytes `from..to`, or for the whole object.
    pub fn ask(&self, range: Option<(u64, u64)>) -> Result<Answer, RequestError> {
        let answer = self.send(range)?;
        let promised = number(answer.headers(), "content-length");
        match answer.status().as_u16() {
            200 if self.by_query => match range {
                // Nothing in the answer names a version: the object has become shorter.
                Some((from, to)) if promised.is_some_and(|n| n != to - from) => {
                    Err(RequestError::changed())
                }
                Some(_) => Ok(Answer::Range(answer.into_body())),
                None => Ok(Answer::Whole(answer.into_body(), promised)),
            },
            200 => {
                self.check(answer.headers(), promised)?;
                // One that ends with its connection: the listing knows how long it has to be.
                let told = ["transfer-encoding", "content-encoding"]
                    .iter()
                    .any(|name| answer.headers().contains_key(*name));
                let promised = promised.or(self.size.filter(|_| !told));
                Ok(Answer::Whole(answer.into_body(), promised))
            }
            206 => self.range(range.map(|(from, _)| from), answer),
            code @ (408 | 425 | 429 | 500 | 502 | 503 | 504) => {
                Err(RequestError::Temporary(status_error(code)))
            }
            // Of the first bytes: some servers refuse every range, and give whole files only.
            416 if range.is_some_and(|(from, _)| from == 0) && self.size != Some(0) => {
                self.ask(None)
            }
            // No such range: the object has become shorter. Or If-Match found another version.
            412 | 416 => Err(RequestError::changed()),
            403 if self.by_query => Err(forbidden(answer)),
            code => Err(RequestError::Permanent(status_error(code))),
        }
    }

    /// Send one request and follow redirects; no header of the object ever leaves its origin.
    fn send(&self, range: Option<(u64, u64)>) -> Result<Response<Body>, RequestError> {
        let mut url = self.url.reveal().to_owned();
        // Where it redirects to, the range is named already.
        let by_header = range.filter(|_| !self.by_query);
        if let (true, Some((from, to))) = (self.by_query, range) {
            url = format!("{url}&offset={from}&length={}", to - from);
        }
        let mut at_home = true;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(&url).header("Accept-Encoding", "identity");
            for (name, value) in self.headers.iter().filter(|_| at_home) {
                request = request.header(name, value.reveal());
            }
            if let Some((from, to)) = by_header {
                request = request.header("Range", format!("bytes={from}-{}", to - 1));
            }
            let answer = request.call().map_err(unanswered)?;
            if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let location = answer.headers().get("location").and_then(|l| l.to_str().ok());
            url = location
                .and_then(|location| redirected(&url, location))
                .ok_or_else(|| RequestError::broken("a redirect to nowhere"))?;
            // Once it has left, it does not get them back: others decide where it goes.
            at_home &= same_origin(self.url.reveal(), &url);
        }
        Err(RequestError::broken("one redirect after the other"))
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
        // Of a web server that sends no ETag the listing has noted size and time.
        let timed = self.version.clone().filter(|version| version.ends_with(" GMT"));
        let made = now.size.zip(now.modified.as_ref()).map(|(size, at)| format!("{size}-{at}"));
        let other_time = now.etag.is_none() && differ(&made, &timed);
        if differ(&now.etag, &self.version) || differ(&now.size, &self.size) || other_time {
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

/// The address that `location` means in an answer from `base`; None where that is no HTTP.
fn redirected(base: &str, location: &str) -> Option<String> {
    let scheme = if base.starts_with("https:") { "https:" } else { "http:" };
    let authority = scheme.len() + 2;
    let root = base[authority..].find(['/', '?', '#']).map_or(base.len(), |at| authority + at);
    let path = base[root..].find(['?', '#']).map_or(base.len(), |at| root + at);
    let folder = base[root..path].rfind('/').map_or(root, |at| root + at);
    let location = location.split('#').next()?;
    let url = match location {
        absolute if absolute.contains("://") => absolute.to_owned(),
        _ if location.starts_with("//") => format!("{scheme}{location}"),
        _ if location.starts_with('/') => format!("{}{location}", &base[..root]),
        _ if location.starts_with('?') => format!("{}{location}", &base[..path]),
        "" => return None,
        relative => format!("{}/{relative}", &base[..folder]),
    };
    let uri: Uri = url.parse().ok()?;
    matches!(uri.scheme_str(), Some("http" | "https")).then_some(url)
}

/// True where scheme, host and port are the same.
fn same_origin(one: &str, other: &str) -> bool {
    let origin = |url: &str| {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        Some((scheme, uri.host()?.to_ascii_lowercase(), port))
    };
    origin(one).is_some() && origin(one) == origin(other)
}

/// True where both are known and not the same.
fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// Append exactly `want` bytes of an answer; the bytes that came before an error are kept.
pub fn receive(mut answer: Body, want: u64, bytes: &mut Vec<u8>) -> Result<(), RequestError> {
    let had = bytes.len();
    // One byte more, so that the end is seen and the connection can be used again.
    let body = Paced::new(answer.as_reader(), READ_TIMEOUT);
    let read = body.take(want + 1).read_to_end(bytes);
    let got = (bytes.len() - had) as u64;
    if got > want {
        return Err(RequestError::broken("more than it was asked for"));
    }
    read.map_err(|error| RequestError::Temporary(interrupted(error)))?;
    if got < want { Err(RequestError::Temporary(connection_lost(want - got))) } else { Ok(()) }
}

/// Reads a body, and fails where fewer than `LEAST_BYTES` come within `most` of waiting.
pub struct Paced<R> {
    from: R,
    most: Duration,
    waited: Duration,
    bytes: u64,
}

impl<R: Read> Paced<R> {
    pub fn new(from: R, most: Duration) -> Paced<R> {
        Paced { from, most, waited: Duration::ZERO, bytes: 0 }
    }
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let asked = Instant::now();
        let n = self.from.read(out)?;
        self.waited += asked.elapsed();
        self.bytes += n as u64;
        if self.bytes >= LEAST_BYTES {
            (self.waited, self.bytes) = (Duration::ZERO, 0);
        } else if n > 0 && self.waited >= self.most {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(n)
    }
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

/// Sort the error of WebHDFS that has one status for nearly all of them: a right that is missing stays
/// missing, but a data node that restarts is back within seconds.
fn forbidden(answer: Response<Body>) -> RequestError {
    let mut said = String::new();
    let _ = answer.into_body().as_reader().take(4096).read_to_string(&mut said);
    if said.contains("AccessControlException") {
        RequestError::Permanent(status_error(403))
    } else {
        RequestError::Temporary(status_error(403))
    }
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

#[cfg(test)]
mod tests {
    use std::io::{self, Read};
    use std::thread;
    use std::time::Duration;

    use super::{LEAST_BYTES, Paced, redirected, same_origin};

    /// Gives a byte a millisecond.
    struct Drips(u64);

    impl Read for Drips {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            thread::sleep(Duration::from_millis(1));
            let n = out.len().min(1).min(self.0 as usize);
            self.0 -= n as u64;
            Ok(n)
        }
    }

    #[test]
    fn a_body_that_drips_is_no_answer() {
        let mut got = Vec::new();
        let error = Paced::new(Drips(LEAST_BYTES), Duration::from_millis(20)).read_to_end(&mut got);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(got.len() < 21);
        // The end of a body may be as small as it is.
        let mut end = Paced::new(Drips(3), Duration::from_secs(9));
        assert_eq!(end.read_to_end(&mut got).unwrap(), 3);
    }

    #[test]
    fn redirects_lead_where_they_say() {
        let base = "https://h:8443/a/b.csv?x=/1";
        for (location, url) in [
            ("http://other/c", Some("http://other/c")),
            ("//other/c#end", Some("https://other/c")),
            ("/c?y", Some("https://h:8443/c?y")),
            ("?y=2", Some("https://h:8443/a/b.csv?y=2")),
            ("c.csv", Some("https://h:8443/a/c.csv")),
            ("", None),
            ("ftp://other/c", None),
        ] {
            assert_eq!(redirected(base, location).as_deref(), url, "{location}");
        }
        assert_eq!(redirected("http://h", "/c").as_deref(), Some("http://h/c"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert!(same_origin("http://h/a", "http://H:80/b"));
        for other in ["https://h/a", "http://h:81/a", "http://h.evil/a", "http://h@evil/a"] {
            assert!(!same_origin("http://h/a", other), "{other}");
        }
    }
}
