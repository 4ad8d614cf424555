"""Files on web servers: ``http://`` and ``https://``, one or several, ``{1..9}`` and ``{a,b}``."""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from rowfall.core import retry, units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import CutOffError, NotReachedError, SourceError, UsageError
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import HttpAddress, ListedObject, ListedPage, Probe, any_version
from rowfall.sources.compression import path_of
from rowfall.stores import completeness, globs
from rowfall.stores.objects import (
    READS_PARTS,
    REQUESTS,
    ObjectSource,
    changed_while_read,
    largest,
)
from rowfall.stores.patience import Patience

_TIMEOUT = 9.0  # seconds
# Fewer bytes within these seconds are no answer. A socket counts only the time without any byte: a
# server that sent one every half second held a load for ever.
_LEAST_BYTES, _READ = 4 << 10, 256 << 10
# Too many requests, a server that is busy, or a gateway whose server is: it asks to be asked again,
# and one such answer ended loads of a thousand files.
_BUSY = frozenset({408, 429, 502, 503, 504})
# A GET asks the same where a server has no answer to HEAD.
_MOST_HEADS = 2
_UNVERSIONED = "unversioned"
# An engine refuses such streams where their end is missing.
_HAVE_ENDS = frozenset({"gzip", "bz2", "xz"})
# Where a redirect leads may be good for minutes only: it is asked for again after this.
_LEADS_SECONDS = 60.0
# Everything a URL may hold except "{", "}", "|", "," and "*", which the engine takes as patterns.
_SAFE = "%/:?#[]@!$&'()+;=~"


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts about a file: its bytes, what changes with it, and where redirects led.

    Attributes:
        etag, modified: the headers; "" where the server sends none.
        ends: a connection that breaks is told from the end of the file.
        headed: the answer to HEAD says so, too; without that a GET of all of it does not.
    """

    size: int | None
    version: str
    final: str
    etag: str = ""
    modified: str = ""
    ends: bool = True
    headed: bool = True

    def differ(self, other: _Facts) -> bool:
        """Tell whether both are known to be of different versions."""
        if self.etag and other.etag:
            return from_clause.bare(self.etag) != from_clause.bare(other.etag)
        pairs = ((self.size, other.size), (self.modified, other.modified))
        return any(one and two and one != two for one, two in pairs)


class Http(ObjectSource):
    """One source for any number of URLs of one user; splits are whole files.

    A user and password in the URL travel as a header, so the rest of the URL stays readable.
    """

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(" ".join(uri.mask(text) for text in texts), options)
        self._signature = _one_user(texts)
        hidden = [secret for text in texts for secret in uri.secret_values(text)]
        self.secrets = tuple(dict.fromkeys([*from_clause.secrets_of(self._signature), *hidden]))
        self._texts = tuple(uri.without_user(text) for text in texts)
        # What the engine reads: the URI of a split, which shows no secrets -> the whole URL.
        self._urls: dict[str, str] = {}
        # Where redirects lead; may hold signatures that expire, so it is used for samples only.
        self._final: dict[str, str] = {}
        # With a password, no engine may follow redirects: where they lead, and since when.
        self._leads: dict[str, tuple[str, float]] = {}
        self._listed: dict[str, _Facts] = {}
        # Files that are sent without their length, which the listing has: an engine takes a lost
        # connection for their end.
        self._cut_unseen: set[str] = set()
        # Origin -> it refuses a request for another ETag.
        self._checking: dict[tuple[str, str, int | None], bool] = {}
        self._patience = Patience.of(options)

    def _found(self) -> Iterator[tuple[str, str, int | None]]:
        """Give all files; ``version`` is ETag, or size and Last-Modified, or ``unversioned``."""
        for text in self._texts:
            for url in globs.expand(text):
                clean = quote(url, safe=_SAFE)
                self._urls[uri.object_name(clean)] = clean
        names = sorted(self._urls)
        with ThreadPoolExecutor(REQUESTS) as pool:
            answers = pool.map(self._facts, (self._urls[name] for name in names))
            for name, facts in zip(names, answers, strict=True):
                self._listed[name] = facts
                if facts.final != self._urls[name]:
                    self._final[name] = facts.final
                yield name, facts.version, facts.size

    def encoding(self, listing: Listing) -> Encoding:
        """See :class:`rowfall.sources.base.Source`; some files may be cut without a sign of it."""
        found = super().encoding(listing)
        endless = [name for name, facts in self._listed.items() if not facts.ends]
        if endless and found.kind is not Kind.TYPED:
            self.notes = (
                *self.notes,
                f"the web server does not say how long {units.counted(len(endless), 'file')} is "
                f"({endless[0]}): one that is cut at the end of a line is not noticed; compare "
                "the rows, or load a packed file, which has an end of its own",
            )
        return found

    def without_length(self, encoding: Encoding | None) -> list[str]:
        if encoding is not None and encoding.kind is Kind.TYPED:
            return []
        unsaid = {name for name, facts in self._listed.items() if facts.ends and not facts.headed}
        found = sorted(unsaid | self._cut_unseen)
        return [name for name in found if self._packing(name) not in _HAVE_ENDS]

    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[from_clause.TableFunction]:
        if self._signature:
            with ThreadPoolExecutor(REQUESTS) as pool:
                list(pool.map(self._lead, splits))  # many at a time
        pins = self._pins(splits) if structure and self.pinned else {}
        objects = {
            split.uri: self._object(split, structure, pins.get(split.uri, from_clause.NO_PIN))
            for split in splits
        }
        return from_clause.url_functions(objects, encoding, structure)

    def _object(self, split: Split, structure: str, pin: from_clause.Pin) -> from_clause.UrlObject:
        """Return the argument of url() by which an engine reads an object."""
        name, home, signature = split.uri, self._url(split), self._signature
        url = home
        if signature:
            url = self._lead(split)
            # The password stays at home, and where a redirect leads elsewhere none is needed.
            signature = signature if uri.origin(url) == uri.origin(home) else None
        elif not structure:
            # The engine ignores the settings of a subselect while it looks for the structure.
            url = self._final.get(name, home)
        redirects = name in self._final or url != home
        return from_clause.UrlObject(url, url != name, signature, redirects, pin)

    def _pins(self, splits: Sequence[Split]) -> dict[str, from_clause.Pin]:
        """Return the pins that hold an engine to the listed versions, by the objects' names."""
        known = {s.uri: self._listed[s.uri] for s in splits if s.uri in self._listed}
        pins: dict[str, from_clause.Pin] = {}
        if len(splits) <= from_clause.APART:
            pins = {
                name: from_clause.pin_by_request(facts.etag)
                for name, facts in known.items()
                if facts.etag.startswith('"') and self._checks_etags(self._urls[name])
            }
        return pins

    def _read_here(self, splits: Sequence[Split], encoding: Encoding | None) -> dict[str, Split]:
        if not self.reads_here(encoding):
            return {}
        pins = self._pins(splits)
        known = (name for name, facts in self._listed.items() if facts.etag or facts.modified)
        left = set(known).difference(pins) | self._cut_unseen
        return {split.uri: split for split in splits if split.uri in left}

    def unpinned(self, listing: Listing, encoding: Encoding | None) -> str | None:
        if self.reads_here(encoding):
            return None
        splits = largest(listing)
        pins = self._pins(splits)
        for split in splits:
            facts = self._listed.get(split.uri)
            pin = pins.get(split.uri)
            # Those without both headers have a warning of their own.
            if facts and (facts.etag or facts.modified) and pin is None:
                return READS_PARTS
        return None

    def _checks_etags(self, url: str) -> bool:
        """Ask a server once whether it refuses a request for another version (If-Match)."""
        origin = uri.origin(url)
        if origin not in self._checking:
            headers = {"Range": "bytes=0-0", "If-Match": from_clause.OTHER_ETAG}

            def asked() -> bool:
                try:
                    with _network_errors(url), _answer(url, self._signature, "GET", headers):
                        return False
                except HTTPError as error:
                    error.close()
                    if error.code in _BUSY:
                        raise _status_error(url, error) from None
                    return error.code == 412

            self._checking[origin] = self._patience.ask(asked)
        return self._checking[origin]

    def _lead(self, split: Split) -> str:
        """Return the address that a GET is led to."""
        url = self._url(split)
        known = self._leads.get(split.uri)
        if known is None or time.monotonic() - known[1] > _LEADS_SECONDS:

            def asked() -> str:
                with _all_errors(url), _answer(url, self._signature, "GET", _FIRST_BYTE) as answer:
                    return _led_to(answer)

            known = self._leads[split.uri] = self._patience.ask(asked), time.monotonic()
        return known[0]

    def probe(self, split: Split) -> Probe:
        """Ask for size and first bytes: in another network an address may be another server's."""
        length = min(from_clause.HEAD, split.size or 1)
        head = self.part(split, 0, length)
        (function,) = any_version(self)._functions([split], *from_clause.head_columns(length))
        return from_clause.url_probe(function, split.size, head)

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        headers = {"Authorization": self._signature} if self._signature else {}
        return [HttpAddress(Secret(self._url(s)), headers) for s in splits]

    def _part(self, split: Split, start: int, length: int) -> bytes:
        try:
            return self._read(split, start, length)
        except _NoRangesError:
            return b""

    def _read(self, split: Split, start: int, length: int) -> bytes:
        """Return a part of the version that was listed, see :func:`_range`."""
        url, signature, listed = self._url(split), self._signature, self._of(split)
        try:
            return self._patience.ask(lambda: _range(url, signature, listed, start, length))
        except _NoRangesError as error:
            if not error.ends and split.size is not None:
                self._cut_unseen.add(split.uri)
            raise

    def _of(self, split: Split) -> _Facts | None:
        """Return the listed facts to compare an answer with; None where nothing is compared."""
        return self._listed.get(split.uri) if self.pinned else None

    def _problem(self, split: Split) -> str | None:
        url = self._url(split)
        try:
            now = self._facts(url)
            if now.version != split.version:
                return f"changed from {split.version} to {now.version}"
            return self._pipes.broken(split.name) or completeness.check_remote(
                partial(self._read, split),
                now.size,
                self._packing(split.uri),
            )
        except _NoRangesError:
            return None
        except SourceError as error:
            if error.transient:
                raise
            return error.message.removeprefix(f"cannot read {split.uri}: ")

    def modified(self, split: Split) -> float | None:
        """See :class:`rowfall.sources.base.HasModificationTimes`: the header Last-Modified."""
        facts = self._listed.get(split.uri) or self._facts(self._url(split))
        try:
            return parsedate_to_datetime(facts.modified).timestamp()
        except ValueError:
            return None

    def _opener(self, split: Split) -> pipes.Opener:
        return partial(_pieces, self._url(split), self._signature, self._patience, self._of(split))

    # Web servers show a file while it is uploaded.
    rest_seconds = 2.0

    def walks(self) -> list[HttpWalk]:
        """See :class:`rowfall.sources.base.ListedSource`: a web server lists nothing.

        So the names are those that the addresses stand for, and each costs a request at each look;
        one that is not there yet is taken when it is.
        """
        for text in self._texts:
            for url in globs.expand(text):
                clean = quote(url, safe=_SAFE)
                self._urls[uri.object_name(clean)] = clean
        walk = HttpWalk(self, sorted(self._urls), self.text)
        walk.check()
        return [walk]

    def notices(self, emit: Listener) -> None:
        """See :class:`rowfall.sources.base.ListedSource`: nothing tells."""

    def renew(self) -> None:
        """Forget where redirects have led: signatures expire."""
        self._leads.clear()
        self._final.clear()

    def listed(self, name: str) -> ListedObject | None:
        """Return a file as it is now; None where there is none.

        Raises:
            SourceError: the server does not answer, or refuses.
        """
        try:
            facts = self._facts(self._urls[name])
        except SourceError as error:
            if " answered 404 " in error.message or " answered 410 " in error.message:
                return None
            raise
        self._listed[name] = facts
        modified = None
        with contextlib.suppress(ValueError):
            modified = parsedate_to_datetime(facts.modified).timestamp()
        # One without a length is taken for one that has some rows.
        return ListedObject(name, facts.version, 1 if facts.size is None else facts.size, modified)

    def former_name(self, name: str) -> str:
        return uri.former_name(self._urls.get(name, name))

    def _url(self, split: Split) -> str:
        return self._urls.get(split.uri, split.uri)

    def _path(self, name: str) -> str:
        """Return the path of a URL as people write it."""
        return unquote(urlsplit(path_of(name)).path)

    def _facts(self, url: str) -> _Facts:
        """Return size and version by HEAD, or by reading one byte where HEAD is not allowed."""
        tries = 0

        def head() -> _Facts | None:
            nonlocal tries
            tries += 1
            try:
                return self._ask(url, "HEAD", {})
            except HTTPError as error:
                error.close()
                if error.code == 404 or (error.code in _BUSY and tries < _MOST_HEADS):
                    raise _status_error(url, error) from None
                return None
            except NotReachedError:
                raise
            except SourceError:
                if tries < _MOST_HEADS:
                    raise
                return None

        def first_byte() -> _Facts:
            try:
                return self._ask(url, "GET", _FIRST_BYTE)
            except HTTPError as error:
                error.close()
                if error.code == 416:  # no first byte, or none for who asks for a range
                    return whole()
                raise _status_error(url, error) from None

        def whole() -> _Facts:
            with _all_errors(url):
                return self._ask(url, "GET", {})

        found = self._patience.ask(head)
        if found is not None and found.ends:
            return found
        # A HEAD may leave out the length that the GET of a range has.
        return replace(self._patience.ask(first_byte), headed=found is None)

    def _ask(self, url: str, method: str, headers: Mapping[str, str]) -> _Facts:
        with _network_errors(url), _answer(url, self._signature, method, headers) as answer:
            return _read_facts(answer)


_FIRST_BYTE = {"Range": "bytes=0-0"}


class _NoRangesError(Exception):
    """The server sends whole files only.

    Attributes:
        ends: its answer says how long it is, or where it ends.
    """

    def __init__(self, *, ends: bool = True) -> None:
        super().__init__()
        self.ends = ends


def _answer(
    url: str, signature: Secret | None, method: str, headers: Mapping[str, str]
) -> http.client.HTTPResponse:
    # Servers that compress on the way change the ETag.
    asked = {"Accept-Encoding": "identity", **headers}
    request = Request(url, method=method, headers=asked)  # noqa: S310 - http(s) by registry
    if signature:
        request.add_unredirected_header("Authorization", signature.reveal())
    answer: http.client.HTTPResponse = _opener().open(request, timeout=_TIMEOUT)
    return answer


class _Redirects(HTTPRedirectHandler):
    """Follows redirects; the password goes no further than its origin (scheme, host, port)."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage,
        newurl: str,
    ) -> Request | None:  # fmt: skip
        if not newurl.lower().startswith(("http://", "https://")):
            raise URLError(f"it redirects to {newurl.partition(':')[0]}, which is not HTTP")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        signature = req.unredirected_hdrs.get("Authorization")
        # Once it has left, it does not get it back: others decide where it goes.
        if new is not None and signature and uri.origin(req.full_url) == uri.origin(newurl):
            new.add_unredirected_header("Authorization", signature)
        return new


@cache
def _opener() -> OpenerDirector:
    return build_opener(_Redirects)


def _check(url: str, listed: _Facts | None, answer: http.client.HTTPResponse) -> None:
    """Check that an answer is about the version that was listed.

    Raises:
        ObjectChangedError: it is about another one.
    """
    if listed is not None and listed.differ(_read_facts(answer)):
        raise changed_while_read(uri.mask(url))


def _pieces(
    url: str, signature: Secret | None, patience: Patience, listed: _Facts | None = None
) -> Iterator[bytes]:
    """Give a whole file in pieces; where the connection breaks, it goes on behind the last one.

    Args:
        listed: what it was when it was listed; None where any version will do.

    Raises:
        ObjectChangedError: it has changed.
        SourceError: the server refuses, or the connection breaks and nothing more comes.
    """
    at, known, waiting = 0, listed, patience.begin()
    while True:
        try:
            for piece, facts in _pieces_from(url, signature, known, at):
                at, known = at + len(piece), facts
                waiting.progress()
                yield piece
            return
        except SourceError as error:
            if at and known is None:  # nobody could tell whether it is the same file
                raise
            waiting.after(error)


def _pieces_from(
    url: str, signature: Secret | None, listed: _Facts | None, at: int
) -> Iterator[tuple[bytes, _Facts | None]]:
    """Give the pieces of a file behind its first ``at`` bytes, and what the file is known by."""
    asked = {"Range": f"bytes={at}-"} if at else {}
    with _all_errors(url), _answer(url, signature, "GET", asked) as answer:
        _check(url, listed, answer)
        facts = _read_facts(answer)
        known = listed or (facts if has_validator(facts.version) else None)
        skip = at
        if at and answer.status == 206:
            if not (answer.headers.get("Content-Range") or "").startswith(f"bytes {at}-"):
                raise _NoRangesError
            skip = 0
        left = _length(answer, listed, at)
        while chunk := _read(url, answer, pipes.CHUNK):
            left -= len(chunk)
            skipped, skip = min(skip, len(chunk)), max(0, skip - len(chunk))
            if piece := chunk[skipped:]:
                yield piece, known
    if left > 0:  # http.client takes a lost connection for the end when asked for pieces
        raise _cut_off(url, left)


def _length(answer: http.client.HTTPResponse, listed: _Facts | None, at: int) -> int:
    """Return the bytes that an answer has to have; -1 where it has an end of its own, or none.

    One that ends with its connection may be cut; the listing knows how long it has to be.
    """
    given = answer.headers.get("Content-Length")
    if given or listed is None or listed.size is None:
        return int(given or -1)
    if answer.headers.get("Transfer-Encoding") or answer.headers.get("Content-Encoding"):
        return -1
    return listed.size - (at if answer.status == 206 else 0)


def _range(
    url: str, signature: Secret | None, listed: _Facts | None, start: int, length: int
) -> bytes:
    """Return a part of a file.

    Raises:
        ObjectChangedError: it is not the version that was ``listed``.
        _NoRangesError: this server cannot.
        SourceError: as :func:`_pieces`.
    """
    span = f"bytes={start}-{start + length - 1}"
    try:
        with _network_errors(url), _answer(url, signature, "GET", {"Range": span}) as answer:
            _check(url, listed, answer)
            given = answer.headers.get("Content-Range") or ""
            if answer.status != 206 or not given.startswith(f"bytes {start}-"):
                raise _NoRangesError(ends=_read_facts(answer).ends)
            # One more, as an answer is at its end where nothing follows.
            data = _read(url, answer, length + 1)
            if (left := int(answer.headers.get("Content-Length") or 0) - len(data)) > 0:
                raise _cut_off(url, left)
            return data
    except HTTPError as error:
        error.close()
        if error.code == 416 and listed is not None and start < (listed.size or 0):
            # The bytes are there: some servers refuse every range. What is read whole is compared.
            raise _NoRangesError(ends=listed.ends) from None
        raise _status_error(url, error) from None


def _read(url: str, answer: http.client.HTTPResponse, most: int) -> bytes:
    """Return the next ``most`` bytes of an answer, fewer at its end.

    Raises:
        SourceError: they come too slowly, see :data:`_LEAST_BYTES`; transient.
    """
    pieces: list[bytes] = []
    size, counted, since = 0, 0, time.monotonic()
    while size < most and (piece := answer.read1(min(_READ, most - size))):
        pieces.append(piece)
        size += len(piece)
        now = time.monotonic()
        if now - since >= _TIMEOUT:
            if size - counted < _LEAST_BYTES:
                raise SourceError(
                    f"cannot read {uri.mask(url)}: only {units.counted(size - counted, 'byte')} "
                    f"came within {_TIMEOUT:.0f} s",
                    hint="Look at the file with curl -o: its server, or the network, hangs.",
                    transient=True,
                )
            counted, since = size, now
    return b"".join(pieces)


def _read_facts(answer: http.client.HTTPResponse) -> _Facts:
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    text = whole if answer.status == 206 else answer.headers.get("Content-Length") or ""
    size = int(text) if text.isdigit() else None
    etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
    if etag:
        version = from_clause.bare(etag)
    else:
        version = f"{size}-{modified}" if size is not None or modified else _UNVERSIONED
    chunked = "chunked" in (answer.headers.get("Transfer-Encoding") or "").lower()
    ends = size is not None or chunked
    return _Facts(size, version, _led_to(answer), etag or "", modified or "", ends)


def _led_to(answer: http.client.HTTPResponse) -> str:
    return quote(answer.url, safe=_SAFE)


def has_validator(version: str) -> bool:
    """Tell whether a version is more than a size: an ETag, or size and time."""
    return version != _UNVERSIONED and not version.endswith("-None")


def _one_user(texts: Sequence[str]) -> Secret | None:
    """Return the Authorization header for the user in the URLs, None without one.

    Raises:
        UsageError: the URLs name several users.
    """
    users = set()
    for text in texts:
        parts = uri.parse(text)
        if not parts.host:
            raise UsageError(f"{parts.text!r} names no host", hint="Write https://host/path.")
        users.add((parts.user, parts.password))
    if len(users) > 1:
        raise UsageError(
            "the URLs name several users",
            hint="Run one load after the other into the same table.",
        )
    user, password = users.pop()
    if not user:
        return None
    pair = f"{user}:{password.reveal() if password else ''}"
    return Secret("Basic " + base64.b64encode(pair.encode()).decode())


@contextlib.contextmanager
def _all_errors(url: str) -> Iterator[None]:
    """Raise SourceError for what the server refuses and for a broken connection."""
    try:
        with _network_errors(url):
            yield
    except HTTPError as error:
        error.close()
        raise _status_error(url, error) from None


@contextlib.contextmanager
def _network_errors(url: str) -> Iterator[None]:
    """Raise SourceError for a broken connection; answers of the server pass."""
    try:
        yield
    except HTTPError:
        raise
    except (URLError, OSError, http.client.HTTPException) as error:
        raise _network_error(url, error) from error


def _status_error(url: str, error: HTTPError) -> SourceError:
    if 300 <= error.code < 400:  # those that lead somewhere have been followed
        return SourceError(
            f"cannot read {uri.mask(url)}: it redirects, and never to a file ({error.code})",
            hint="Look with curl -IL where it leads: a login page, or back to itself.",
        )
    hints = {
        401: "Give user and password as https://user:password@host/path.",
        403: "The server wants other credentials, or the link has expired.",
        404: "Check the path; wildcards (*) are not possible over HTTP, {1..9} and {a,b} are.",
    }
    made = SourceError(
        f"cannot read {uri.mask(url)}: the server answered {error.code} {error.reason}",
        hint=hints.get(error.code, "Open the address with curl -I to see what it says."),
        transient=error.code >= 500 or error.code in _BUSY,
    )
    made.ask_after = retry.asked_pause(error.headers.get("Retry-After"))
    return made


def _cut_off(url: str, left: int | None) -> SourceError:
    missing = f" {left:,} bytes" if left else ""  # chunks do not say how many there are
    return CutOffError(
        f"cannot read {uri.mask(url)}: the connection broke{missing} before the end",
        hint="Look at the file with curl -o: its server promises more bytes than it sends.",
        transient=True,
    )


def _network_error(url: str, error: Exception) -> SourceError:
    if isinstance(error, http.client.IncompleteRead):
        return _cut_off(url, error.expected)
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLError):
        text, hint = f"TLS failed ({reason.reason or reason})", "Is it http instead of https?"
    elif isinstance(reason, TimeoutError):
        text, hint = f"no answer within {_TIMEOUT:.0f} s", "Check host, port and proxy."
    else:
        cause = getattr(reason, "strerror", None) or str(reason)
        text, hint = cause.lower(), "Check host and port, and that the server runs."
    parts = urlsplit(url)
    server = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    # In URLError are those of connecting, but for a connection that breaks while a request is sent.
    broken = isinstance(reason, ConnectionError) and not isinstance(reason, ConnectionRefusedError)
    made = NotReachedError if isinstance(error, URLError) and not broken else SourceError
    return made(
        f"cannot read {uri.mask(url)}: no connection to {server} ({text})",
        hint=hint,
        transient=True,
    )


class HttpWalk:
    """The files that addresses stand for; see :class:`rowfall.sources.base.ObjectWalk`."""

    resumes = False

    def __init__(self, source: Http, names: Sequence[str], text: str) -> None:
        self._source, self._names, self.text = source, names, text

    def check(self) -> None:
        """Check that the server answers.

        Raises:
            SourceError: it does not.
        """
        self._source.listed(self._names[0])

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        names = [name for name in self._names if name > after]
        with ThreadPoolExecutor(REQUESTS) as pool:
            for start in range(0, len(names), REQUESTS):
                some = names[start : start + REQUESTS]
                found = [item for item in pool.map(self._source.listed, some) if item is not None]
                yield ListedPage(found, some[-1])

    def look(self, name: str) -> ListedObject | None:
        return self._source.listed(name)
