"""Objects in S3 and everything that speaks its protocol: ``s3://bucket/key-or-glob``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rowfall.core import extras, uri
from rowfall.core.after import After
from rowfall.core.errors import RowfallError
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.s3_access import Access, Keys, base_url, check_bucket, resolve, signature
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.sources import from_clause
from rowfall.sources.base import HttpAddress, ListedObject, ObjectNotices, Probe, any_version
from rowfall.sources.from_clause import TableFunction
from rowfall.stores.buckets import CHUNK, PATIENCE, SIGNED, Bucket, StoredObject, stored_object
from rowfall.stores.event_queue import EventQueue
from rowfall.stores.object_stores import StoreSource
from rowfall.stores.objects import changed_while_read, largest
from rowfall.stores.s3_clients import open_store

if TYPE_CHECKING:
    from rowfall.core.s3_client import ClientStore

_GLOB = frozenset("*?{}")  # no way to quote them for the engine
_IN_BRACES = frozenset(",^")  # letters outside braces only; 24.10 takes ^ for a regular expression


class S3(StoreSource):
    """One source for any number of ``s3://`` URIs; splits are whole objects sorted by key."""

    scheme: ClassVar[str] = "s3"
    hears_queue: ClassVar[bool] = True
    how_to_name: ClassVar[str] = (
        "Write s3://bucket/key; keys come from the environment or --s3-profile, the address of "
        "another service from --s3-endpoint."
    )

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(texts, options)
        for text, (bucket, _) in zip(texts, self._patterns, strict=True):
            check_bucket(bucket, uri.mask(text))
        self._opened: Access | None = None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        keys = self._opened.keys() if self._opened is not None else None
        return from_clause.secrets_of(keys.secret, keys.token) if keys else ()

    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[TableFunction]:
        access = self.access()
        # A header is sent for all keys of a call.
        groups: dict[tuple[str, from_clause.Pin], list[str]] = {}
        signed: dict[str, from_clause.UrlObject] = {}
        pins = self._pins(splits) if structure and self.pinned else {}
        for split in splits:
            bucket, key = self._bucket_and_key(split.uri)
            pin = pins.get(split.uri, from_clause.NO_PIN)
            if structure and self._is_refused(key, encoding):
                etag = from_clause.etag_of(split.version) if self.pinned else None
                pin = from_clause.Pin(etag) if etag else from_clause.NO_PIN
                address = cast("S3Bucket", self._bucket(bucket)).address(key)
                signed[split.uri] = from_clause.UrlObject(address.reveal(), hidden=True, pin=pin)
                continue
            groups.setdefault((bucket, pin), []).append(key)
        tail = from_clause.last_arguments(encoding, structure)
        census = from_clause.last_arguments(from_clause.ONE, from_clause.ONE_COLUMN)
        keys = access.keys()
        functions = from_clause.url_functions(signed, encoding, structure)
        for (bucket, pin), names in groups.items():
            for path, only, count in _paths(names):
                url = literal(base_url(access, bucket) + path)
                pinned = tail + (from_clause.if_match(pin.etag) if pin.etag else "")
                text, counted = (
                    SqlText.of("s3(", url, *signature(keys), f"{end})") for end in (pinned, census)
                )
                pattern = only is not None or count > 1  # a single key raises by itself
                functions.append(TableFunction(
                    text, None if only is None else f"{bucket}/{only}",
                    counted if pattern and not self.reader.exact else None, count, check=pin.check,
                ))  # fmt: skip
        return functions

    def _is_refused(self, key: str, encoding: Encoding | None) -> bool:
        """Tell whether an engine cannot read an object by the pattern that stands for its name.

        Asked for ``_path``, the reader of Parquet looks for it in the file (26.9). By its signed
        address the object can be read.
        """
        parquet = encoding is not None and encoding.format == from_clause.PARQUET
        return parquet and self.reader.etags and bool(_GLOB & set(key))

    def _pins(self, splits: Sequence[Split]) -> dict[str, from_clause.Pin]:
        """Return the pins that hold an engine to the listed versions, by the objects' names.

        An object that is alone is asked for by its ETag. Of many the engine compares the ETag that
        it has listed with each answer's; before 26.7 it did not, so there few are asked for, too.
        """
        etags = {
            split.uri: etag for split in splits if (etag := from_clause.etag_of(split.version))
        }
        # For a name that is only a pattern the bucket is listed, which is no request for a version.
        apart = [s for s in splits if s.uri in etags and not _GLOB & set(s.uri)]
        few = len(splits) <= (1 if self.reader.etags else from_clause.APART)
        pins = {}
        if few and apart and self._refuses_others(apart[0]):
            pins = {split.uri: from_clause.Pin(etags[split.uri]) for split in apart}
        others = [name for name in etags if name not in pins]
        if others:
            shown = (etags[name] for name in others)
            pin = from_clause.pin_by_etags(shown, weak=not self.reader.etags)
            pins |= dict.fromkeys(others, pin)
        return pins

    def unpinned(self, listing: Listing, encoding: Encoding | None) -> str | None:
        if any(pin.weak for pin in self._pins(largest(listing)).values()):
            return "A server before 26.7 looks at the ETag of S3 objects only before it reads them"
        return None

    def probe(self, split: Split) -> Probe:
        """Ask for size and ETag: another service may have the same bucket and key."""
        asking = any_version(self)
        (function,) = asking._functions([split], from_clause.ONE, from_clause.ONE_COLUMN)
        columns = "toString(_size), replaceAll(_etag, '\"', '')"
        wanted = (("size", str(split.size)), ("ETag", split.version))
        return Probe(from_clause.probe_query(function, columns), wanted)

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        found = []
        for split in splits:
            bucket, key = self._bucket_and_key(split.uri)
            found.append(HttpAddress(cast("S3Bucket", self._bucket(bucket)).address(key)))
        return found

    def notices(self, emit: Listener) -> ObjectNotices | None:
        """See :class:`rowfall.sources.base.HearsQueue`."""
        if self._options.queue is None:
            return None
        walks = self.walks()

        def look(name: str) -> ListedObject | None:
            found = (walk.look(name) for walk in walks)
            return next((item for item in found if item is not None), None)

        return EventQueue(self._options.queue, self.access, look, emit)

    def renew(self) -> None:
        """Read environment and profiles again; see :class:`rowfall.sources.base.ListedSource`."""
        super().renew()
        self._opened = None

    def access(self) -> Access:
        """Return endpoint and keys, found once."""
        if self._opened is None:
            self._opened = resolve(self._options)
        return self._opened

    def _open(self, name: str) -> Bucket:
        return S3Bucket(name, self.access(), self.scheme)


def _paths(keys: Sequence[str]) -> Iterator[tuple[str, str | None, int]]:
    """Give encoded URL paths that name exactly ``keys``: one for all plain ones, one for each odd.

    Yields (path, key to narrow it to by ``_path`` or None, number of keys). The engine decodes the
    URL before it looks for braces, so names are percent-encoded and the braces are not.
    """
    plain = [key for key in keys if not (_GLOB | _IN_BRACES) & set(key)]
    if len(plain) == 1:
        yield uri.encode(plain[0]), None, 1
    elif plain:
        yield from_clause.braces(plain, uri.encode), None, len(plain)
    for key in keys:
        if _GLOB & set(key):
            yield uri.encode(from_clause.wildcard(key)), key, 1
        elif _IN_BRACES & set(key):
            yield uri.encode(key), None, 1


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REGION = regex(r"<Region>([\w-]+)</Region>|expecting '([\w-]+)'")


class S3Bucket(Bucket):
    """A bucket asked with obstore; keys that it refuses go through botocore."""

    wrong_service = "Check the port in --s3-endpoint: it has to be the S3 API, not a console."
    unreachable = "Check --s3-endpoint (http or https, host, port) and that the service runs."

    def __init__(self, name: str, access: Access, scheme: str = "s3") -> None:
        super().__init__(name, scheme, access.where)
        self._access = access
        self._client: tuple[Keys | None, ClientStore] | None = None
        self._by_keys: tuple[Keys | None, Any] | None = None

    def address(self, key: str) -> Secret:
        """Return an address that lets anybody read this object for a day.

        Raises:
            SourceError: the credentials cannot be renewed.
        """
        keys = self._access.keys()
        if keys is None:
            return Secret(base_url(self._access, self.name) + uri.encode(key))
        import obstore

        store, seconds = self._store(), int(SIGNED.total_seconds())
        if keys.token:
            return Secret(store.address(key, seconds))
        try:
            return Secret(obstore.sign(store, "GET", key, SIGNED))
        except TypeError:  # how it says that it takes no such key
            return Secret(self._any_key().address(key, seconds))

    def _store(self) -> Any:
        """Return a store with the keys that are valid now: a store does not renew its own.

        Raises:
            SourceError: they cannot be renewed.
        """
        keys, opened = self._access.keys(), self._by_keys
        if opened is None or opened[0] != keys:
            opened = self._by_keys = keys, self._open()
        return opened[1]

    def _open(self) -> Any:
        return open_store(self.name, self._access, self._access.keys(), PATIENCE)

    def _may_go_on(self, listed: int) -> bool:
        """See :meth:`Bucket._may_go_on`.

        Some services say that a page is cut and not how to go on, which obstore takes for the end:
        the other keys were left out without a word. So every other service than AWS is asked once
        more behind the last key, which costs one request. botocore's listing looks at
        IsTruncated by itself.
        """
        keys = self._access.keys()
        if keys is not None and keys.token:
            return False
        return self._access.endpoint is not None or listed >= CHUNK

    def _any_key(self) -> ClientStore:
        from rowfall.core.s3_client import ClientStore

        keys, opened = self._access.keys(), self._client
        if opened is None or opened[0] != keys:
            opened = self._client = keys, ClientStore(self._access, keys, self.name)
        return opened[1]

    def _list_any_key(self, prefix: str) -> Iterator[StoredObject]:
        for page in self._any_key().with_prefix(prefix):
            for item in page:
                yield stored_object(item, item["path"])

    def _page_any_key(self, prefix: str, after: str) -> Sequence[StoredObject]:
        page = next(self._any_key().with_prefix(prefix, after or None), ())
        return [stored_object(item, item["path"]) for item in page]

    def _head_any_key(self, key: str) -> StoredObject | None:
        return stored_object(self._any_key().head(key), key)

    def _get_any_key(self, key: str, start: int, length: int, etag: str) -> tuple[bytes, str]:
        wanted: dict[str, Any] = {"range": (start, start + length)}
        got = self._any_key().get(key, wanted | ({"if_match": etag} if etag else {}))
        return got.bytes(), stored_object(got.meta, key).version

    def check_after(self, action: After) -> None:
        """See :class:`Bucket`: by botocore, whose requests can name a version."""
        try:
            import botocore  # noqa: F401
        except ImportError:
            raise extras.missing(
                f"--after {action.kind} in a bucket is done with botocore, which is not installed",
                "aws",
            ) from None

    def copy(self, found: StoredObject, to: str) -> None:
        with self._writing(found.key, "copy"):
            etag = from_clause.etag_of(found.version)
            self._any_key().copy(found.key, to, found.size, etag)

    def delete(self, found: StoredObject) -> None:
        if self._is_other(found):  # not every service looks at If-Match here
            raise changed_while_read(f"{self.uri}/{found.key}")
        with self._writing(found.key, "delete"), suppress(FileNotFoundError):
            self._any_key().delete(found.key, from_clause.etag_of(found.version))

    def tag(self, key: str, name: str, value: str) -> None:
        with self._writing(key, "tag"), suppress(FileNotFoundError):
            self._any_key().add_tag(key, name, value)

    def _secrets(self) -> tuple[Secret | None, ...]:
        with suppress(RowfallError):
            if keys := self._access.keys():
                return keys.secret, keys.token
        return ()

    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        if code == "NoSuchBucket":
            return (
                f"no bucket {self.name} at {self.where}",
                f"The endpoint {self.where} answered; check the bucket's name and --s3-endpoint.",
            )
        region = _REGION.search(text)
        if status in _REDIRECTS and self._access.endpoint and not region:
            return (
                f"{self.where} redirects to another address ({status}), where no keys are sent",
                "Give the address that it redirects to with --s3-endpoint.",
            )
        if status in _REDIRECTS or region:
            name = next(filter(None, region.groups()), "") if region else ""
            return (
                f"the bucket {self.name} is in another region than {self._access.region}",
                f"Give its region with --s3-region{' ' + name if name else ''}.",
            )
        if status in (401, 403) or "Expired" in code:  # AWS says 400 ExpiredToken
            return f"access denied by {self.where} ({code or status})", self._denied(code)
        if status in (404, 405) or "Got invalid list response" in text:
            return f"{self.where} does not answer like an S3 service", self.wrong_service
        return None

    def _denied(self, code: str) -> str:
        """Return the hint that helps where access is denied."""
        if self._access.anonymous:
            return "The bucket is not public: leave out --s3-anonymous and give credentials."
        if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"):
            return "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile."
        if "Expired" in code:
            return "The session token has expired: get a new one."
        return (
            "Check the keys: they need s3:ListBucket and s3:GetObject (without ListBucket a "
            "missing object looks the same); public buckets need --s3-anonymous."
        )
