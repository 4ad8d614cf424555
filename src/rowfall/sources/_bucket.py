"""One bucket of an object store: list, look at objects, and say in plain words why that failed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.masked import Secret, redact

_CHUNK = 1000  # keys per answer: S3 gives no more
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
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
"""Of every store: one that is away is an error after some 10 s, and not after minutes."""


class Object(NamedTuple):
    """One object of a listing; ``version`` is the ETag, else ``size-mtime``."""

    key: str
    size: int
    version: str


class Bucket(ABC):
    """Lists and reads with obstore; what it refuses (control characters, ``//``) goes another way.

    Attributes:
        uri: ``scheme://name``.
        where: the service for people.
        odd: the hint when it answers like no service of this kind.
        away: the hint when nothing answers.
    """

    odd: ClassVar[str]
    away: ClassVar[str]

    def __init__(self, name: str, scheme: str, where: str) -> None:
        self.name, self.where = name, where
        self.uri = f"{scheme}://{name}"
        self._opened: Any = None

    def list(self, prefix: str) -> Iterator[Object]:
        """Objects whose key starts with ``prefix``, streamed in the order of the service.

        Raises:
            SourceError: no such bucket, access denied, not reachable; with a hint.
        """
        from obstore.exceptions import InvalidPathError

        try:
            yield from self._list(prefix)
        except InvalidPathError:
            # Listed twice from the start; the caller keeps what it has seen by key.
            yield from self._list_slowly(prefix)
        except RowfallError:
            raise
        except Exception as error:
            raise self._explained(error, f"list {self.uri}/{prefix}".rstrip("/")) from error

    def head(self, key: str) -> Object | None:
        """One object, None when there is none.

        Raises:
            SourceError: as :meth:`list`.
        """
        try:
            try:
                meta = self._store().head(key)
            except ValueError:  # obstore refuses the key before it asks
                return self._head_slowly(key)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._explained(error, f"read {self.uri}/{key}") from error
        return _object(meta, key)

    def read(self, key: str, start: int, length: int) -> bytes:
        """A range of an object; shorter where the object ends.

        Raises:
            SourceError: as :meth:`list`, or the object is gone.
        """
        try:
            try:
                return bytes(self._store().get_range(key, start=start, length=length))
            except ValueError:  # as in head
                return self._read_slowly(key, start, length)
        except FileNotFoundError as error:
            raise SourceError(f"cannot read {self.uri}/{key}: it is gone") from error
        except Exception as error:
            raise self._explained(error, f"read {self.uri}/{key}") from error

    def pieces(self, key: str, size: int) -> Iterator[bytes]:
        """A whole object by ranges: no connection stays open while nobody takes its bytes.

        Raises:
            SourceError: as :meth:`read`.
        """
        for start in range(0, size, _PIECE):
            yield self.read(key, start, min(_PIECE, size - start))

    def _list(self, prefix: str) -> Iterator[Object]:
        # obstore lists folders only; inside the folder, start right before the wanted names.
        folder, _, start = prefix.rpartition("/")
        offset = None
        if start and " " < start[-1] <= "~":
            offset = prefix[:-1] + chr(ord(start[-1]) - 1)
        stream = self._store().list(folder or None, offset=offset, chunk_size=_CHUNK)
        for chunk in stream:
            for meta in chunk:
                key = meta["path"]
                if key.startswith(prefix):
                    yield _object(meta, key)
            # Keys come in order: past the prefix nothing can match any more.
            if chunk and start and chunk[-1]["path"] > prefix + "\U0010ffff":
                return

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @abstractmethod
    def _open(self) -> Any:
        """A store of obstore."""

    @abstractmethod
    def _secrets(self) -> tuple[Secret | None, ...]:
        """What must not be in an error."""

    @abstractmethod
    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        """Cause and hint of what a service of this kind says in its own way; None: nothing.

        Args:
            text: of the error, masked.
            status: of the answer; 0 where there was none.
            code: ``<Code>`` of the answer, "" without one.
        """

    def _explained(self, error: Exception, what: str) -> SourceError:
        """The error in the user's words; foreign text is cut to its first line and masked."""
        text = redact(str(error), *self._secrets())
        number, name = _STATUS.search(text), _CODE.search(text)
        status, code = int(number[1]) if number else 0, name[1] if name else ""
        transient = False
        if found := self._reason(text, status, code):
            cause, hint = found
        elif status:
            transient = status >= 500 or status == 429
            cause = f"{self.where} answered {status} {code}".rstrip()
            hint = "Try again later." if transient else self.odd
        else:
            transient = True
            cause, hint = f"no connection to {self.where} ({_network(text)})", self.away
        return SourceError(f"cannot {what}: {cause}", hint=hint, transient=transient)

    # Without obstore; stores that have no other way refuse the key.

    def _list_slowly(self, prefix: str) -> Iterator[Object]:
        raise self._refused(f"list {self.uri}/{prefix}")

    def _head_slowly(self, key: str) -> Object | None:
        raise self._refused(f"read {self.uri}/{key}")

    def _read_slowly(self, key: str, start: int, length: int) -> bytes:
        raise self._refused(f"read {self.uri}/{key}")

    def _refused(self, what: str) -> SourceError:
        return SourceError(
            f"cannot {what}: keys with //, /./, /../ or control characters cannot be asked for",
            hint="Copy such objects to other keys, or use a narrower pattern.",
        )


def _network(text: str) -> str:
    """Why there was no answer, out of what obstore or botocore said."""
    lower = text.lower()
    for needle, reason in (
        ("connection refused", "connection refused"),
        ("dns error", "the host name is not known"),
        ("failed to lookup", "the host name is not known"),
        ("certificate", "the TLS certificate is not trusted"),
        ("invalidcontenttype", "it does not speak TLS: use http instead of https"),
        ("corrupt message", "it does not speak TLS: use http instead of https"),
        ("timed out", "no answer in time"),
        ("timeout", "no answer in time"),
    ):
        if needle in lower.replace("retry_timeout", ""):
            return reason
    return text.partition("\n")[0][-160:]


def _object(meta: Any, key: str) -> Object:
    return Object(key, meta["size"], version_of(meta["e_tag"], meta["size"], meta["last_modified"]))


def version_of(etag: str | None, size: int, modified: datetime) -> str:
    """What tells two versions of an object apart."""
    if etag:
        return etag.strip('"')
    return f"{size}-{modified.timestamp():.0f}"
