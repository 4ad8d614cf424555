"""One bucket of an object store, by obstore: listed and read, with plain reasons where it fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from rowfall.core.after import TAG, After
from rowfall.core.errors import (
    CutOffError,
    NotReachedError,
    RowfallError,
    SourceError,
    UsageError,
)
from rowfall.core.masked import Secret, redact
from rowfall.core.patterns import regex
from rowfall.sources import from_clause
from rowfall.stores.objects import (
    changed_while_read,
)
from rowfall.stores.patience import Patience

CHUNK = 1000  # keys per answer: S3 gives no more
_CODE = regex(r"<Code>(\w+)</Code>")
_STATUS = regex(r"status code: (\d{3})")
# How the parser of listings says that an answer ends in the middle.
_CUT = regex(r"invalid list response: .*(before end of input|tag not closed|Event::Eof)")
_PIECE = 4 << 20  # a range of it arrives within the client's 9 s at 0.5 MB/s
PATIENCE: dict[str, Any] = {
    "client_options": {"allow_http": True, "connect_timeout": "3s", "timeout": "9s"},
    "retry_config": {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=9),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=1),
            "base": 2,
        },
    },
}
"""Options of every store: one that is away is an error after some 10 s, not after minutes."""
# An attempt is 20 s of work, but one object of 5 TB at 100 MB/s is 14 hours. S3 allows a week.
SIGNED = timedelta(days=1)
"""Life of a signed address."""


class PreconditionFailed(Exception):  # noqa: N818 - what HTTP calls it
    """The object has another ETag than the one that was asked for."""


class StoredObject(NamedTuple):
    """One object of a listing; ``version`` is the ETag, else ``size-mtime``.

    ``modified`` is in seconds since 1970, None where the listing was read in another way.
    """

    key: str
    size: int
    version: str
    modified: float | None = None


class Bucket(ABC):
    """One bucket, listed and read with obstore.

    Keys that obstore refuses (with control characters or ``//``) go to the ``*_any_key`` methods.

    Attributes:
        uri: ``scheme://name``.
        where: the service, as shown to people.
        wrong_service: the hint when it answers like no service of this kind.
        unreachable: the hint when nothing answers.
    """

    wrong_service: ClassVar[str]
    unreachable: ClassVar[str]

    def __init__(self, name: str, scheme: str, where: str) -> None:
        self.name, self.where = name, where
        self.uri = f"{scheme}://{name}"
        self.patience = Patience()
        self._opened: Any = None
        self._refuses: bool | None = None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects whose key starts with ``prefix``, in the order of the service.

        Raises:
            SourceError: no such bucket, access denied, not reachable; with a hint.
        """
        last, waiting = "", self.patience.begin()
        while True:
            try:
                for item in self._list_from(prefix, last):
                    last = item.key
                    waiting.progress()
                    yield item
                return
            except SourceError as error:
                waiting.after(error)

    def _list_from(self, prefix: str, last: str) -> Iterator[StoredObject]:
        """Give the objects behind the key ``last``.

        Raises:
            SourceError: as :meth:`list`.
        """
        from obstore.exceptions import InvalidPathError

        try:
            yield from self._list(prefix, last)
        except InvalidPathError:
            # ListedSource twice from the start; the caller keeps what it has seen by key.
            yield from self._list_any_key(prefix)
        except RowfallError:
            raise
        except Exception as error:
            raise self._source_error(error, f"list {self.uri}/{prefix}".rstrip("/")) from error

    resumes: ClassVar[bool] = True
    """A listing may begin behind a key without those before it being sent."""

    def page(self, prefix: str, after: str) -> Sequence[StoredObject]:
        """Return the objects of one answer behind a key, whose key starts with ``prefix``.

        Nothing is returned where nothing follows.

        Raises:
            SourceError: as :meth:`list`.
        """
        from obstore.exceptions import InvalidPathError

        def asked() -> Sequence[StoredObject]:
            try:
                return self._page(prefix, after)
            except InvalidPathError:
                return self._page_any_key(prefix, after)
            except RowfallError:
                raise
            except Exception as error:
                raise self._source_error(error, f"list {self.uri}/{prefix}".rstrip("/")) from error

        return self.patience.ask(asked)

    def _page(self, prefix: str, after: str) -> Sequence[StoredObject]:
        folder, begin = _folder_and_offset(prefix, after)
        # One request: what follows is asked for from behind the last key, as some services repeat
        # their tokens.
        chunk = next(iter(self._store().list(folder, offset=begin, chunk_size=CHUNK)), ())
        return [stored_object(meta, meta["path"]) for meta in chunk]

    def head(self, key: str) -> StoredObject | None:
        """Return one object, None when there is none.

        Raises:
            SourceError: as :meth:`list`.
        """
        return self.patience.ask(lambda: self._head(key))

    def _head(self, key: str) -> StoredObject | None:
        try:
            try:
                meta = self._store().head(key)
            except ValueError:  # obstore refuses the key before it asks
                return self._head_any_key(key)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._source_error(error, f"read {self.uri}/{key}") from error
        return stored_object(meta, key)

    def read(self, key: str, start: int, length: int, version: str = "") -> bytes:
        """Return ``length`` bytes of an object, fewer where it ends.

        Args:
            version: that it was listed with; "" takes any.

        Raises:
            ObjectChangedError: it is another version.
            SourceError: as :meth:`list`, or the object is gone.
        """
        etag = from_clause.etag_of(version)
        try:
            data, found = self.patience.ask(lambda: self._get(key, start, length, etag))
        except PreconditionFailed:
            raise changed_while_read(f"{self.uri}/{key}") from None
        # Stores that do not look at If-Match, and those without ETags.
        if version and found != version and bool(etag) == bool(from_clause.etag_of(found)):
            raise changed_while_read(f"{self.uri}/{key}")
        return data

    def refuses_other_versions(self, key: str) -> bool:
        """Ask once whether the store looks at ``If-Match``; ``key`` is one of its objects.

        Raises:
            SourceError: as :meth:`read`.
        """
        if self._refuses is None:
            try:
                self.patience.ask(lambda: self._get(key, 0, 1, from_clause.OTHER_ETAG))
                self._refuses = False
            except PreconditionFailed:
                self._refuses = True
        return self._refuses

    def _get(self, key: str, start: int, length: int, etag: str) -> tuple[bytes, str]:
        """Return bytes of an object, and which version of it they are of.

        Raises:
            PreconditionFailed: it has another ETag.
            SourceError: as :meth:`read`.
        """
        from obstore.exceptions import PreconditionError

        wanted: dict[str, Any] = {"range": (start, start + length)}
        if etag:
            wanted["if_match"] = etag
        try:
            try:
                got = self._store().get(key, options=wanted)
                return bytes(got.bytes()), stored_object(got.meta, key).version
            except ValueError:  # as in head
                return self._get_any_key(key, start, length, etag)
        except PreconditionError:
            raise PreconditionFailed from None
        except (RowfallError, PreconditionFailed):
            raise
        except FileNotFoundError as error:
            raise SourceError(f"cannot read {self.uri}/{key}: it is gone") from error
        except Exception as error:
            raise self._source_error(error, f"read {self.uri}/{key}") from error

    def pieces(self, key: str, size: int, version: str = "") -> Iterator[bytes]:
        """Give a whole object in ranges: no connection stays open while nobody takes its bytes.

        Raises:
            SourceError: as :meth:`read`.
        """
        for start in range(0, size, _PIECE):
            yield self.read(key, start, min(_PIECE, size - start), version)

    def check_after(self, action: After) -> None:
        """Check that objects can get what ``--after`` asks for.

        Raises:
            UsageError: they cannot.
        """
        if action.kind == TAG:
            raise UsageError(
                f"--after tag: objects of {self.uri.partition(':')[0]}:// have no tags",
                hint="Take --after move:PREFIX or --after delete.",
            )

    def copy(self, found: StoredObject, to: str) -> None:
        """Copy this version of an object to another key of the bucket.

        Raises:
            ObjectChangedError: it has another version now; there is no copy of that.
            SourceError: as :meth:`list`.
        """
        with self._writing(found.key, "copy"):
            self._store().copy(found.key, to)
        if self._is_other(found):
            with self._writing(to, "delete"):
                self._store().delete(to)
            raise changed_while_read(f"{self.uri}/{found.key}")

    def delete(self, found: StoredObject) -> None:
        """Delete this version of an object; nothing where it is gone.

        Raises:
            ObjectChangedError: it has another version now.
            SourceError: as :meth:`list`.
        """
        if self._is_other(found):
            raise changed_while_read(f"{self.uri}/{found.key}")
        with self._writing(found.key, "delete"), suppress(FileNotFoundError):
            self._store().delete(found.key)

    def tag(self, key: str, name: str, value: str) -> None:
        """Give an object one more tag.

        Raises:
            SourceError: as :meth:`list`.
        """
        raise self._refused(f"tag {self.uri}/{key}")

    def _is_other(self, found: StoredObject) -> bool:
        now = self.head(found.key)
        return now is not None and now.version != found.version

    @contextmanager
    def _writing(self, key: str, word: str) -> Iterator[None]:
        """Raise what a store says while an object is changed, in plain words."""
        from obstore.exceptions import PreconditionError

        try:
            yield
        except PreconditionError:
            raise changed_while_read(f"{self.uri}/{key}") from None
        except (RowfallError, FileNotFoundError):
            raise
        except Exception as error:
            raise self._source_error(error, f"{word} {self.uri}/{key}") from error

    def _list(self, prefix: str, last: str) -> Iterator[StoredObject]:
        start = prefix.rpartition("/")[2]
        (folder, offset), head = _folder_and_offset(prefix, last), ""
        while True:
            begin, listed, former = offset, 0, set[str]()
            for chunk in self._store().list(folder, offset=begin, chunk_size=CHUNK):
                if head and not listed and chunk and chunk[0]["path"] == head:
                    # It goes on from behind no key, so nobody knows whether there are more.
                    yield from self._list_any_key(prefix)
                    return
                keys = {meta["path"] for meta in chunk}
                if chunk:
                    head, offset = head or chunk[0]["path"], chunk[-1]["path"]
                listed += len(chunk)
                yield from (
                    stored_object(m, m["path"]) for m in chunk if m["path"].startswith(prefix)
                )
                # Keys come in order: behind the prefix nothing can match any more.
                if chunk and start and chunk[-1]["path"] > prefix + "\U0010ffff":
                    return
                if 2 * len(keys - former) < len(chunk):
                    break  # the same pages again: the service repeats a token for ever
                former = keys
            else:
                if not listed or not self._may_go_on(listed):
                    return
            if offset == begin:
                return

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _may_go_on(self, listed: int) -> bool:
        """Tell whether more keys may be there where a listing has ended after ``listed`` keys."""
        return False

    @abstractmethod
    def _open(self) -> Any:
        """Open the store of obstore."""

    @abstractmethod
    def _secrets(self) -> tuple[Secret | None, ...]:
        """Return the secrets that must not be in the text of an error."""

    @abstractmethod
    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        """Return cause and hint of an error that services of this kind have; None for others.

        Args:
            text: of the error, masked.
            status: of the answer; 0 where there was none.
            code: ``<Code>`` of the answer, "" without one.
        """

    def _source_error(self, error: Exception, what: str) -> SourceError:
        """Return an error in plain words; foreign text is cut to its first line and masked."""
        text = redact(str(error), *self._secrets())
        number, name = _STATUS.search(text), _CODE.search(text)
        status, code = int(number[1]) if number else 0, name[1] if name else ""
        transient = False
        if _CUT.search(text):
            return CutOffError(
                f"cannot {what}: the answer of {self.where} ends in the middle",
                hint="A proxy in between, or the service, cuts its answers.", transient=True,
            )  # fmt: skip
        if found := self._reason(text, status, code):
            cause, hint = found
        elif status:
            transient = status >= 500 or status == 429
            cause = f"{self.where} answered {status} {code}".rstrip()
            hint = "Try again later." if transient else self.wrong_service
        else:
            why, reached = _network(text)
            cause, hint = f"no connection to {self.where} ({why})", self.unreachable
            made = SourceError if reached else NotReachedError
            return made(f"cannot {what}: {cause}", hint=hint, transient=True)
        return SourceError(f"cannot {what}: {cause}", hint=hint, transient=transient)

    # Without obstore; stores that have no other client refuse the key.

    def _page_any_key(self, prefix: str, after: str) -> Sequence[StoredObject]:
        raise self._refused(f"list {self.uri}/{prefix}")

    def _list_any_key(self, prefix: str) -> Iterator[StoredObject]:
        raise self._refused(f"list {self.uri}/{prefix}")

    def _head_any_key(self, key: str) -> StoredObject | None:
        raise self._refused(f"read {self.uri}/{key}")

    def _get_any_key(self, key: str, start: int, length: int, etag: str) -> tuple[bytes, str]:
        raise self._refused(f"read {self.uri}/{key}")

    def _refused(self, what: str) -> SourceError:
        return SourceError(
            f"cannot {what}: keys with //, /./, /../ or control characters cannot be asked for",
            hint="Copy such objects to other keys, or use a narrower pattern.",
        )


def _folder_and_offset(prefix: str, after: str) -> tuple[str | None, str | None]:
    """Return the folder that obstore lists for a prefix, and the key that it begins behind.

    It lists folders only; inside the folder it starts right before the wanted names.
    """
    folder, _, start = prefix.rpartition("/")
    offset = None
    if start and " " < start[-1] <= "~":
        offset = prefix[:-1] + chr(ord(start[-1]) - 1)
    return folder or None, after or offset


def _network(text: str) -> tuple[str, bool]:
    """Return the reason of a network error by the text of obstore or botocore, and whether there
    was a connection."""
    lower = text.lower().replace("retry_timeout", "")
    for needle, reason in (
        ("connection refused", "connection refused"),
        ("dns error", "the host name is not known"),
        ("failed to lookup", "the host name is not known"),
        ("certificate", "the TLS certificate is not trusted"),
        ("invalidcontenttype", "it does not speak TLS: use http instead of https"),
        ("corrupt message", "it does not speak TLS: use http instead of https"),
    ):
        if needle in lower:
            return reason, False
    if "timed out" in lower or "timeout" in lower:
        return "no answer in time", "connect" not in lower.replace("connect_timeout", "")
    return text.partition("\n")[0][-160:], True


def stored_object(meta: Any, key: str) -> StoredObject:
    """Return an object as the stores describe it."""
    version = version_of(meta["e_tag"], meta["size"], meta["last_modified"])
    return StoredObject(key, meta["size"], version, meta["last_modified"].timestamp())


def version_of(etag: str | None, size: int, modified: datetime) -> str:
    """Return the version of an object: its ETag without quotes, else ``size-mtime``."""
    if etag:
        return etag.strip('"')
    return f"{size}-{modified.timestamp():.0f}"
