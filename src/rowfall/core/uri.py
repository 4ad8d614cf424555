"""URIs as users type them: schemes, parts, masking. Pure; paths and ``-`` are URIs, too."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import MASK, Secret, is_shown, redact
from rowfall.core.patterns import regex

FILE, STDIN = "file", "stdin"
LAKES = ("iceberg", "delta")
"""Schemes of tables that have snapshots."""
_WEB = frozenset({"http", "https"})
_STORES = frozenset({"s3", "gs", "az"})
# "?" is a wildcard or a letter there.
_NO_QUERY = frozenset({FILE, "s3", "gs", "az", "hdfs", *LAKES})

_SCHEME = regex(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
# The first one in a text. It is looked for once in each run of such letters: from each of 200,000
# it took minutes.
_SCHEME_IN = regex(r"(?<![a-zA-Z0-9+.-])[0-9+.-]*([a-zA-Z][a-zA-Z0-9+.-]*)://")
# A kind of table in front of the address of its folder: iceberg+s3://bucket/path, delta+/path.
_LAKE = regex(rf"\A({'|'.join(LAKES)})\+(?=[^+])", re.IGNORECASE)
# Everything up to the last "@" before the path: passwords may hold an unescaped "@" or ":".
_USERINFO = regex(r"\A([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)@")
# Hosts with ports, as kafka:// has several.
_HOST = r"(?:\[[^\[\]@]*\]|[^:@,\[\]]*)(?::\d*)?"
_HOSTS = regex(rf"{_HOST}(?:,{_HOST})*")
# What is meant as an address and is none, as jdbc:postgresql://u:p@h, clickhouse:/u:p@h or u:p@h:1.
_ALMOST_USERINFO = regex(r"(?<![^/?#:@\s])([^/?#:@\s]*):([^/@\s]+)@(?=[\w\[-])")
# Certainly one, and not what a password has between "@" and "/".
_FULL_HOST = regex(r"localhost|.*[.:\[,].*")
# What stands behind an "@" in the path of a URL and is no host: a version, or the end of a name.
_NO_HOST = regex(
    r"(?:v?\d+(?:\.\d+){0,2}(?:[-+][\w.+-]*)?|latest|main|master|next)(?=[/?#]|\Z)"
    r"|[\w.-]*\.(?:csv|tsv|txt|log|json|jsonl|ndjson|parquet|pq|orc|arrow|feather|avro|native|xlsx|zip|"
    r"tar|tgz|gz|zst|lz4|xz|bz2|br|snappy)(?=[?#]|\Z)",
    re.IGNORECASE,
)
_NAMED_VALUE = regex(r"[?&][\w.-]+=")
# Parameters that say who asks and not what for: another value is the same object where its server
# says so by ETag or time. `key`, `code`, `id` and all that is not known may name the object.
_CREDENTIAL = regex(
    r"password|passwd|pwd|secret|token|signature|credential|auth(?!or)|jwt|bearer|session"
    r"|sig\Z|(?:\A|[-_.])(?:sid|otp)\Z|(?:api|access|subscription|account|private)[-_.]?key",
    re.IGNORECASE,
)
# What was hidden before everything was that is not known: names in older ledgers depend on it.
_HIDDEN_BEFORE = regex(r"password|passwd|secret|token|signature|credential|sig\Z", re.IGNORECASE)
# Parameters that sign an address: they say who may read an object and until when, not which
# object it is. Of each kind: those by which it is known, and all that it may consist of.
_SIGNATURES: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
    (frozenset(marks.split()), frozenset(f"{marks} {others}".split()))
    for marks, others in (
        # S3, Google Cloud Storage (V4)
        ("x-amz-signature x-amz-credential",
         "x-amz-algorithm x-amz-date x-amz-expires x-amz-signedheaders x-amz-security-token"),
        ("x-goog-signature x-goog-credential",
         "x-goog-algorithm x-goog-date x-goog-expires x-goog-signedheaders"),
        # the same by their older form (V2)
        ("signature awsaccesskeyid", "expires x-amz-security-token"),
        ("signature googleaccessid", "expires"),
        # Alibaba OSS, Tencent COS, Huawei OBS
        ("x-oss-signature x-oss-credential",
         "x-oss-signature-version x-oss-date x-oss-expires x-oss-additional-headers "
         "x-oss-security-token"),
        ("signature ossaccesskeyid", "expires security-token"),
        ("q-signature q-ak",
         "q-sign-algorithm q-sign-time q-key-time q-header-list q-url-param-list "
         "x-cos-security-token"),
        ("signature accesskeyid", "expires x-obs-security-token"),
        # CloudFront; a canned policy has Expires in place of Policy
        ("signature key-pair-id", "policy expires hash-algorithm"),
        # shared access signatures of Azure
        ("sig sv", "se st sp sr spr sip si ss srt ses sdd skoid sktid skt ske sks skv saoid suoid "
         "scid"),
    )
)  # fmt: skip
_SHORT_NUMBER = regex(r"\d{1,4}")
# What makes a guess at a short secret dear: 8 ms and 4 MB each.
_GUESS = {"n": 1 << 12, "r": 8, "p": 1, "dklen": 8}


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI in parts, percent-decoded; ``text`` holds no secrets.

    Attributes:
        text: as typed, password and parameters that may hold a secret masked.
        scheme: lower case; ``file`` for paths, ``stdin`` for ``-``.
        host, port, user: "" and None where absent.
        password: None when there is none.
        path: with its leading slash; the whole text for a plain path.
        query: parameters, the last one wins.
    """

    text: str
    scheme: str
    path: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: Secret | None = None
    query: Mapping[str, str] = field(default_factory=dict)


def scheme_of(text: str) -> str:
    """Return ``file`` for paths, ``stdin`` for ``-``, else the lower-case scheme.

    That of ``iceberg+s3://...`` and ``delta+/path`` is the kind of table.
    """
    if text == "-":
        return STDIN
    if text.startswith("null:"):
        return "null"
    if lake := _LAKE.match(text):
        return lake[1].lower()
    match = _SCHEME.match(text)
    return match[1].lower() if match else FILE


def lake_address(text: str) -> str:
    """Return the address of a lake table's folder without the kind in front; others as they are."""
    return _LAKE.sub("", text, count=1)


def lake_name(table: str) -> str:
    """Return the name of a lake table in SQL: the last part of its folder, or of its full name."""
    return table.rpartition("/")[2] if "/" in table else table.rpartition(".")[2]


def parse(text: str) -> Uri:
    """Parse a URI into its parts.

    Raises:
        UsageError: empty text, a port that is not a number, a malformed host.
    """
    if not text:
        raise UsageError("the empty text is not a path or URI")
    scheme = scheme_of(text)
    if scheme == FILE:
        return Uri(text, FILE, file_path(text))
    if scheme in (STDIN, "null"):
        return Uri(text, scheme, "")
    check_password(text)
    userinfo = _USERINFO.match(text)
    bare = text if userinfo is None else userinfo[1] + text[userinfo.end() :]
    user, colon, password = userinfo[2].partition(":") if userinfo else ("", "", "")
    try:
        parts = urlsplit(bare)
        port = parts.port
        host = parts.hostname or ""
    except ValueError as error:
        # The error has the text of the port, which may be a password without an "@" behind it.
        why = "a port is a number up to 65535" if "ort " in str(error) else "malformed host"
        raise UsageError(
            f"{mask(text)!r} is not a URI: {why}",
            hint="A URI looks like scheme://user@host:port/path?name=value.",
        ) from None
    return Uri(
        mask(text),
        scheme,
        unquote(parts.path),
        host,
        port,
        unquote(user),
        Secret(unquote(password)) if colon else None,
        dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def check_password(text: str) -> None:
    """Check that no password in an address has a letter that divides the parts of an address.

    Raises:
        UsageError: one has, or what stands in the place of a port is none.
    """
    if scheme_of(text) in _WEB or _raw_password(text) is None:
        return
    if "@" not in text:
        raise UsageError(
            f"{mask(text)!r} is not a URI: a port is a number up to 65535",
            hint="A URI looks like scheme://user@host:port/path?name=value.",
        )
    raise UsageError(
        f"{mask(text)!r} is ambiguous: its password, or a name in it, has a letter that divides "
        "the parts of an address",
        hint="In a password write / as %2F, ? as %3F, # as %23 and @ as %40, and @ as %40 in the "
        "name of a database or table; or leave the password out: --ask-password asks for that of "
        "the target.",
    )


def file_path(text: str) -> str:
    """Return the path of ``file:///a%20b`` or of a plain path, which is taken letter by letter.

    Raises:
        UsageError: a ``file://`` URI names another host.
    """
    match = _SCHEME.match(text)
    if match is None:
        return text
    host, slash, rest = text[match.end() :].partition("/")
    if host not in ("", "localhost"):
        raise UsageError(
            f"{text!r} names the host {host!r}, but files are read from this machine",
            hint="Write file:///absolute/path with three slashes.",
        )
    return unquote(slash + rest)


def mask(text: str) -> str:
    """Return ``text`` without passwords, and without the parameters that may hold a secret.

    Of an address of the web a lone user is hidden, which is most often a token, and so is what
    stands behind ``#``. See :func:`rowfall.core.masked.is_shown` for parameters.
    """
    if raw := _raw_password(text):
        text = f"{text[: raw[0]]}{MASK}{text[raw[1] :]}"
    scheme, match = scheme_of(text), _USERINFO.match(text)
    web = scheme in _WEB
    if match:
        user, colon, _ = match[2].partition(":")
        if colon:
            text = f"{match[1]}{user}:{MASK}@{text[match.end() :]}"
        elif match[2] and (web or scheme in _STORES):
            text = f"{match[1]}{MASK}@{text[match.end() :]}"
    if scheme in _NO_QUERY:
        return text
    if web:
        text, hash_, fragment = text.partition("#")
        return _with_masks(text) + (f"#{MASK}" if hash_ and fragment else hash_)
    head, mark, query = text.partition("?")
    if not mark:
        return text
    return head + mark + "&".join(_masked(item, web=False) for item in query.split("&"))


def mask_almost(text: str) -> str:
    """Return the text of a path without the password that it has where an address was meant."""
    found = _SCHEME_IN.search(text)
    if found is not None:
        return text[: found.start(1)] + mask(text[found.start(1) :])
    return redact(_ALMOST_USERINFO.sub(rf"\1:{MASK}@", text))


def is_almost_address(path: str) -> bool:
    """Tell whether a path has a user and a password in it, as an address has them."""
    return bool(_ALMOST_USERINFO.search(path))


def _raw_password(text: str) -> tuple[int, int] | None:
    """Return where a password begins and ends that holds a raw ``/``, ``?`` or ``#``, or no host.

    What may be one counts: an address that shows less than it could does no harm.
    """
    found = _SCHEME_IN.search(text)
    if found is None:
        return None
    start, last = found.end(), text.rfind("@")
    end = min((at for m in "/?#" if (at := text.find(m, start)) >= 0), default=len(text))
    scheme, whole = scheme_of(lake_address(text)), text[start:end]
    if 0 <= last < end and last >= start:
        return None  # the usual form
    user, has_user, hosts = whole.rpartition("@")
    colon = start + whole.find(":") + 1
    if colon == start:
        return None
    if not has_user and not _HOSTS.fullmatch(whole):
        return (colon, last) if last > end else (colon, end)
    if last < end:
        return None
    behind = text[end : last + 1]
    # No bucket has a colon; HDFS knows no passwords, and a path may be anything.
    if scheme not in _STORES and (scheme in _NO_QUERY or _NAMED_VALUE.search(behind)):
        return None
    if has_user:
        return (colon, last) if ":" in user and not _FULL_HOST.fullmatch(hosts) else None
    # A password of digits, up to its slash; or a port, and an "@" in a name or path.
    web_path = (
        _FULL_HOST.fullmatch(whole.partition(":")[0])
        or ("/@" in behind and behind.count("@") == 1)
        or _NO_HOST.match(text, last + 1)
    )
    return None if scheme in _WEB and web_path else (colon, last)


def object_name(url: str) -> str:
    """Return the name by which the object behind a URL is known for ever; it shows no secret.

    Without user and signature, and with digests of all that :func:`mask` hides, so that two pages
    which only a token tells apart are two objects: ``#q<parameters>.<credentials>``, each where
    there are some. A URL without such parameters is its own name.
    """
    plain = unsigned(without_user(url))
    hidden = [item for item in _parameters(plain) if _masked(item, web=True) != item]
    if not hidden:
        return plain
    origin = "/".join(plain.split("/", 3)[:3])
    keys = [item for item in hidden if _CREDENTIAL.search(item.partition("=")[0])]
    others = [item for item in hidden if item not in keys]
    marks = [f"q{_digest_of_parameters(others, origin)}"] if others else []
    marks += [_digest("&".join(keys), origin)] if keys else []
    return f"{_with_masks(plain)}#{'.'.join(marks)}"


def former_name(url: str) -> str:
    """Return the name that :func:`object_name` gave when it hid what sounds like a secret only."""
    plain = unsigned(without_user(url))
    head, _, query = plain.partition("?")
    items = query.split("&") if query else []
    hidden = [i for i in items if "=" in i and _HIDDEN_BEFORE.search(i.partition("=")[0])]
    if not hidden:
        return plain
    shown = (f"{i.partition('=')[0]}={MASK}" if i in hidden else i for i in items)
    origin = "/".join(plain.split("/", 3)[:3])
    return f"{head}?{'&'.join(shown)}#{_digest('&'.join(hidden), origin)}"


def without_user(url: str) -> str:
    """Return a URL without user, password and fragment."""
    scheme, rest = url.split("://", 1)
    end = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    return f"{scheme}://{rest[rest.rfind('@', 0, end) + 1 :].partition('#')[0]}"


def unsigned(url: str) -> str:
    """Return a URL without the parameters that sign it."""
    given = [(item.partition("=")[0].lower(), item) for item in _parameters(url)]
    names = {name for name, _ in given}
    signing = frozenset[str]().union(*(all_ for marks, all_ in _SIGNATURES if marks <= names))
    if not signing:
        return url
    kept = "&".join(item for name, item in given if name not in signing)
    return "?".join(filter(None, (url.partition("?")[0], kept)))


def without_secrets(name: str) -> str:
    """Return an object's name without credentials, equal for all names of the same object.

    Args:
        name: of an object, also as versions of rowfall wrote it that had no digests.
    """
    if not name.startswith(("http://", "https://")):
        return name
    url, _, marks = name.partition("#")
    parameters = marks.partition(".")[0] if marks.startswith("q") else ""
    return "#".join(filter(None, (unsigned(url), parameters)))


@lru_cache(maxsize=1 << 16)  # most often all URLs of a load have the same token
def _digest(secret: str, origin: str) -> str:
    """Return 16 hex digits that tell secrets of one web server apart and give none away.

    Not keyed: every machine that loads into a table has to find the same name.
    """
    return hashlib.scrypt(secret.encode(), salt=origin.encode(), **_GUESS).hex()


def _digest_of_parameters(items: Sequence[str], origin: str) -> str:
    """Return a digest of parameters that are not known to be secrets.

    A number of four digits is guessed within 80 s however dear a guess is, so those are not made
    dear: there may be thousands of such addresses, of stations or customers (8 ms each).
    """
    numbers = [i for i in items if _SHORT_NUMBER.fullmatch(i.partition("=")[2])]
    others = [i for i in items if i not in numbers]
    dear = _digest("&".join(others), origin) if others else ""
    if not numbers:
        return dear
    text = "&".join([origin, dear, *numbers])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _parameters(url: str) -> list[str]:
    """Return the parameters of a URL: those of its path and those of its query."""
    path, _, query = url.partition("#")[0].partition("?")
    return [*path.split(";")[1:], *(query.split("&") if query else [])]


def _with_masks(url: str) -> str:
    """Return a URL of the web with a mask for the value of each parameter that is not shown."""
    path, mark, query = url.partition("?")
    path, *more = path.split(";")
    path = ";".join([path, *(_masked(item, web=True) for item in more)])
    return path + mark + "&".join(_masked(item, web=True) for item in query.split("&"))


def has_parameters(text: str) -> bool:
    """Tell whether a question mark in an address begins parameters; elsewhere it is a letter."""
    return scheme_of(text) not in _NO_QUERY


def is_credential(name: str) -> bool:
    """Tell whether a parameter of a web address sounds like who asks, and not like what for."""
    return bool(_CREDENTIAL.search(name))


def secret_values(text: str) -> tuple[Secret, ...]:
    """Return the secrets that :func:`mask` hides, decoded and as typed, to mask other text."""
    found: list[str] = []
    if raw := _raw_password(text):
        found.append(text[slice(*raw)])
    scheme, match = scheme_of(text), _USERINFO.match(text)
    web = scheme in _WEB
    if match and (":" in match[2] or web or scheme in _STORES):
        user, colon, password = match[2].partition(":")
        found.append(password if colon else user)
    if scheme not in _NO_QUERY:
        url, _, fragment = text.partition("#") if web else (text, "", "")
        found.append(fragment)
        items = _parameters(url) if web else url.partition("?")[2].split("&")
        for item in items:
            name, equals, value = item.partition("=")
            if _masked(item, web=web) != item:
                found.append(value if equals else name)
    both = (value for each in found for value in (each, unquote(each)))
    return tuple(Secret(value) for value in dict.fromkeys(both) if value)


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL: what is secret is sent to no other."""
    try:
        parts = urlsplit(url)
        scheme, port = parts.scheme.lower(), parts.port
    except ValueError:  # a port that is not a number
        return "", url, None
    default = {"http": 80, "https": 443}.get(scheme)
    # Readers of URLs differ in what is the host where a user is in it, so that is none asked for.
    host = url if "@" in parts.netloc else (parts.hostname or "").lower()
    return scheme, host, default if port is None else port


def encode(path: str, safe: str = "/") -> str:
    """Percent-encode everything but letters, digits, ``-._~`` and ``safe``."""
    return quote(path, safe=safe)


def _masked(item: str, *, web: bool) -> str:
    """Return one parameter, its value masked where it may be a secret."""
    name, equals, value = item.partition("=")
    if not item or is_shown(name, value, web=web) or not (equals or web):
        return item
    return f"{name}={MASK}" if equals else MASK
