"""Questions to servers: can it read the source, can it run rowfall-decode, how fast is the network.

Found out by asking, never by guessing from addresses: the server reads a few objects, and what it
sees has to be what this machine sees. Measured (2 cores, all on one machine): 4 to 10 ms for an
object in S3 or a file, 5 to 50 ms for one behind HTTP.
"""

from __future__ import annotations

import contextlib
import copy
import os
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import Reach
from rowfall.core import formats, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret, redact
from rowfall.core.model import Encoding, Kind, Statement, version_numbers
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.version import __version__
from rowfall.decoder import installed
from rowfall.engines.base import Engine, NoAnswerError
from rowfall.sources.base import Pullable, ReaderFeatures, Source
from rowfall.systems.clickhouse.codes import ACCESS_DENIED

# s3('{a,b}') asks for each key from here on; older servers leave out what is missing.
EXACT = (25, 1)
# s3() compares the ETags of all answers about an object from here on (s3_validate_etag_on_read).
COMPARES_ETAGS = (26, 7)
# All questions together: a server that cannot reach the source must not keep the user waiting.
BUDGET_SECONDS = 9.0
# One question takes milliseconds; 5 s cover a store on another continent that lost packets twice.
QUESTION_SECONDS = 5.0
# Objects that are compared: the first and the last of some buckets, hosts, or folders.
MOST_OBJECTS = 8
# By default an unreachable endpoint is tried 100 times over minutes. Unknown ones are not sent.
IMPATIENT = {
    "s3_retry_attempts": "0",
    "s3_max_single_read_retries": "1",
    "s3_connect_timeout_ms": "2000",
    "s3_request_timeout_ms": "4000",
    "s3_use_adaptive_timeouts": "0",  # of a first try: 0.5 s, too short for a store far away
    "http_max_tries": "1",
    "http_connection_timeout": "2",
    "http_receive_timeout": "4",
    "http_send_timeout": "4",
    "max_execution_time": "5",
    "max_threads": "1",
    "http_write_exception_in_output_format": "0",
}

_ANY = Encoding("One", "none", Kind.TYPED)
_MARK = "rowfall-mark-"  # stands for a secret when the server shows what it would log
_INSIDE = regex(r"is not inside `([^`]+)`")
_CAUSES = (
    (regex(r"Not found address of host: [^\s,]+"), None),
    (regex(r"HTTP (?:response|status) code: 403"), "it answers 403, access denied"),
    (regex(r"HTTP (?:response|status) code: 404"), "it answers 404, no such object"),
    (regex(r"HTTP (?:response|status) code: '?(\d{3})"), "it answers \\1"),
    (regex(r"SSL Exception: [^(]+"), None),
    (regex(r"[Cc]onnection refused"), None),
    (regex(r"[Tt]imeout|timed out|Connect timed out"), "no answer in time"),
    (regex(r"File .+ doesn't exist"), "the server finds no such file"),
    (regex(r"filesystem error: in posix_stat"), "the server may not read that folder"),
    (regex(r"not allowed in configuration[^(]*"), None),
)


def reach(
    server: Engine, source: Source, listing: Listing, encoding: Encoding | None, *,
    oldest: str = "",
) -> Reach:  # fmt: skip
    """Ask a server whether it can read the source; at most about 10 s, usually 10 to 100 ms.

    Args:
        oldest: the lowest version of the servers that will read it; that of ``server`` by default.

    Returns:
        ``pull`` is False, too, where the server would write a secret of the source into its logs.

    Raises:
        SourceError: an object that was listed cannot be read from here any more.
    """
    started = time.monotonic()
    if encoding is None and source.made is not None:
        return Reach(True, "the server makes the rows itself", source)
    if not source.replayable:
        why = _Refusal("only this process can read its stdin", "Leave out --pull.")
    elif not isinstance(source, Pullable):
        why = _Refusal("no server reads such a source itself", "Leave out --pull.")
    else:
        pulled = cast("Source", _as_read_by_server(source, oldest or server.facts.version))
        found = _refusal(server, pulled, listing, started + BUDGET_SECONDS)
        found = found or _misread(server, pulled, listing, encoding, oldest)
        seconds = time.monotonic() - started
        if found is None:
            count = "its only object" if len(listing) == 1 else "first and last object"
            text = f"the server can read {_location(listing)} itself ({count} seen"
            reason = f"{text} in {1e3 * seconds:.0f} ms)"
            return Reach(True, reason, pulled, seconds)
        why = found
    return Reach(False, why.text, source, time.monotonic() - started, why.hint)


def source_reader(session: Session, reach: Reach | None) -> tuple[Engine, Source]:
    """Return the engine that answers questions about the source, and the source as it names it.

    A server that pulls the source answers them as well, so the local engine need not start.
    """
    if reach is not None and reach.pull and session.source.made is None:
        return session.source_engine, reach.source
    return session.reader, session.source


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Reason why a server does not read the source, and what would help."""

    text: str
    hint: str


def _as_read_by_server(source: Pullable, version: str) -> Pullable:
    pulled = copy.copy(source)
    release = version_numbers(version)[:2]
    pulled.reader = ReaderFeatures(
        bz2=True, exact=release >= EXACT, arrays=False, etags=release >= COMPARES_ETAGS,
    )  # fmt: skip
    return pulled


def _refusal(server: Engine, source: Source, listing: Listing, deadline: float) -> _Refusal | None:
    """Return the reason, and a hint, that the server cannot read the source; None if it can."""
    sample = [listing.split(index, "") for index in _sample(listing)]
    logged = _logged_secret(server, source, sample)
    if logged is not None:
        return logged
    for split in sample:
        left = deadline - time.monotonic()
        if left < 0.5:
            return _Refusal(
                f"the server needs too long to read {split.uri}",
                "Check how the server reaches it, or send the rows with --push.",
            )
        wrong = _compare(server, source, split, min(left, QUESTION_SECONDS))
        if wrong:
            return wrong
    return None


def _misread(
    server: Engine, source: Source, listing: Listing, encoding: Encoding | None, oldest: str
) -> _Refusal | None:
    """Return a refusal where the server would read other values out of a file without an error.

    The reader of Arrow of 24.10 gives other numbers for half floats, which it says are Float32.
    """
    release = version_numbers(oldest or server.facts.version)[:2]
    if encoding is None or encoding.format not in formats.ARROW or release >= _HALF_FLOATS:
        return None
    split = listing.split(_sample(listing)[0], "")
    asked = SqlText.of("DESCRIBE TABLE ", source.relation([split], encoding, ""))
    try:
        rows = server.probe(asked, QUESTION_SECONDS, IMPATIENT)
    except RowfallError:
        return None  # who takes the sample says so
    for name, type_, *_ in rows:
        if "Float32" in str(type_):
            return _Refusal(
                f"{name} of {split.uri} may hold half floats, which releases before "
                f"{'.'.join(map(str, _HALF_FLOATS))} read as other numbers",
                "Leave out --pull.",
            )
    return None


_HALF_FLOATS = (26, 9)  # the first that was tried and reads those of Arrow


# --- secrets ------------------------------------------------------------------------------------


def _logged_secret(server: Engine, source: Source, sample: Sequence[Split]) -> _Refusal | None:
    """Return a refusal if the server would log a secret of the source (query_log, log file).

    The server is shown a statement of the same form with marks for secrets, in a CTE that nothing
    uses, and says how it would log it. Servers hide the secret key of s3() and HTTP headers;
    session tokens only lately, and addresses never. A named collection would be worse: CREATE
    NAMED COLLECTION is logged with all its values.
    """
    # Some addresses may hold a secret, where redirects lead to, for one, and others not.
    relations = [(source.relation([split], _ANY, "dummy UInt8"), split) for split in sample]
    relation, split = max(relations, key=lambda one: _count_secrets(one[0]))
    secrets = [part for part in relation.parts if isinstance(part, Secret)]
    if not secrets:
        return None
    marked: list[str] = []
    for part in relation.parts:
        marked.append(part if isinstance(part, str) else f"'{_MARK}{len(marked)}-0123456789'")
    query = (
        f"WITH unused AS (SELECT * FROM {''.join(marked)}) "
        "SELECT query FROM system.processes WHERE query_id = queryID()"
    )
    try:
        rows = server.probe(query, QUESTION_SECONDS)
        leaks = not rows or _MARK in rows[0][0]
    except RowfallError:  # the user may not look at system.processes
        leaks = _is_rarely_hidden(relation)
    if not leaks:
        return None
    if split.uri.startswith("s3://"):
        return _Refusal(
            "its keys have a session token, which the server would write into its query_log",
            "Send the rows with --push, or use keys without a session token.",
        )
    return _Refusal(
        f"the address {split.uri} holds a secret, which the server would write into its query_log",
        "Send the rows with --push, or use an address without one.",
    )


def _count_secrets(relation: SqlText) -> int:
    return sum(isinstance(part, Secret) for part in relation.parts)


def _is_rarely_hidden(relation: SqlText) -> bool:
    """Tell it from the text: the token is the second secret in a row, an address comes first."""
    parts = relation.parts
    for index, part in enumerate(parts):
        if isinstance(part, Secret):
            before = cast("str", parts[index - 1])
            if before.endswith("(") or (before == ", " and isinstance(parts[index - 2], Secret)):
                return True
    return False


# --- objects ------------------------------------------------------------------------------------


def _compare(server: Engine, source: Source, split: Split, seconds: float) -> _Refusal | None:
    """Compare one object as the server sees it with what is listed; None: they are the same."""
    probe = cast("Pullable", source).probe(split)
    try:
        rows = server.probe(probe.query, seconds, IMPATIENT)
    except NoAnswerError:
        return _unreachable(split, f"no answer within {seconds:.0f} s")
    except RowfallError as error:
        return _in_words(source, split, error)
    if not rows:
        return _unreachable(split, "it finds nothing there")
    for (what, wanted), seen in zip(probe.wanted, rows[0], strict=True):
        if wanted and seen is not None and seen != wanted:
            return _Refusal(_differs(split, what, wanted, str(seen)), _ELSEWHERE)
    return None


_ELSEWHERE = (
    "The name leads somewhere else from there (127.0.0.1, a private network, a folder of its own): "
    "use an address that is the same for both, or send the rows with --push."
)


def _differs(split: Split, what: str, wanted: str, seen: str) -> str:
    differs = f"its {what} is {seen}, not {wanted}" if len(seen + wanted) < 100 else f"its {what}"
    return f"what the server finds at {split.uri} is another object ({differs})"


def _unreachable(split: Split, cause: str) -> _Refusal:
    return _Refusal(
        f"the server cannot reach {split.uri}: {cause}",
        "Check network and rights of the server, or send the rows with --push.",
    )


def _in_words(source: Source, split: Split, error: RowfallError) -> _Refusal:
    message = redact(error.message, *source.secrets)
    if error.code == ACCESS_DENIED and error.hint:
        grant = error.hint.rpartition("GRANT ")[2]
        return _Refusal(f"its user may not read the source: GRANT {grant}", error.hint)
    if uri.scheme_of(split.uri) == uri.FILE:
        inside = _INSIDE.search(message)
        why = f"the server reads files of {inside[1]}" if inside else _short(message)
        return _Refusal(
            f"only this machine can read {split.uri}: {why}",
            "Put the files into the server's user_files, or send the rows with --push.",
        )
    return _unreachable(split, _short(message))


def _short(message: str) -> str:
    """Return the cause in a few words."""
    for pattern, text in _CAUSES:
        found = pattern.search(message)
        if found:
            return found.expand(text) if text else found[0].strip()
    plain = message.partition(": While executing")[0].partition(" (version")[0]
    plain = " ".join(plain.split())
    return plain if len(plain) < 160 else plain[:157] + "..."


# --- samples -------------------------------------------------------------------------------------


def _sample(listing: Listing) -> Sequence[int]:
    """Return first and last object of every bucket, host or folder, at most ``MOST_OBJECTS``."""
    ends: dict[str, list[int]] = {}
    for index in range(len(listing)):
        place = _folder(listing.uri(index))
        ends.setdefault(place, [index, index])[1] = index
    indexes = sorted({index for pair in ends.values() for index in pair})
    if len(indexes) > MOST_OBJECTS:
        step = (len(indexes) - 1) / (MOST_OBJECTS - 1)
        indexes = [indexes[round(n * step)] for n in range(MOST_OBJECTS)]
    return indexes


def _folder(name: str) -> str:
    """Return bucket or host with its scheme; the folder of a file."""
    if uri.scheme_of(name) == uri.FILE:
        return name.rpartition("/")[0]
    scheme, _, rest = name.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _location(listing: Listing) -> str:
    return _folder(listing.uri(0)) if len(listing) > 1 else listing.uri(0)


# --- rowfall-decode inside a server --------------------------------------------------------------

# A program that does not answer must not hold up a plan; it does within milliseconds.
PROGRAM_MS = 5_000


def decoder_refused(server: Engine) -> str | None:
    """Return a clause: why a server cannot run this version of rowfall-decode; None if it can."""
    try:
        said = _program_version(server, installed.PROGRAM)
    except RowfallError:
        return f"the server has no {installed.PROGRAM}"
    if said != f"{installed.PROGRAM} {__version__}":
        return f"the server has {said or installed.PROGRAM}, and this is {__version__}"
    return None


def program_refused(server: Engine, program: str) -> str | None:
    """Return the server's error message when it fails to run a program; None when it can."""
    try:
        _program_version(server, program)
    except RowfallError as error:
        return error.message
    return None


def _program_version(server: Engine, program: str) -> str:
    relation = f"executable({quote(f'{program} --version')}, 'LineAsString', 'line String', "
    limits = f"SETTINGS check_exit_code = 1, command_read_timeout = {PROGRAM_MS})"
    text = SqlText.of(f"SELECT line FROM {relation}{limits}")
    return server.run(Statement(text, format="TabSeparatedRaw")).data.decode().strip()


# --- the way back --------------------------------------------------------------------------------


def way_back(server: Engine, address: str | None) -> str | None:
    """Return a clause: why a server cannot read what this machine serves; None if it can.

    Args:
        address: see ``--build-address``.

    Raises:
        UsageError: it cannot be listened at.
    """
    from rowfall.systems.clickhouse.part_server import part_server  # http.server takes 20 ms

    parts, word = part_server(address), secrets.token_hex(16)
    offer = parts.offer({"word": word.encode()})
    told = "" if address else " (--build-address names another address of this machine)"
    try:
        text = SqlText.of(
            "SELECT * FROM s3(", offer.access("word"), ", 'LineAsString', 'w String')"
        )
        rows = server.probe(text, QUESTION_SECONDS, IMPATIENT)
    except RowfallError as error:
        if error.code == ACCESS_DENIED and error.hint:
            return f"its user may not read from here: GRANT {error.hint.rpartition('GRANT ')[2]}"
        return f"the server cannot reach {parts.address}: {_short(error.message)}{told}"
    finally:
        parts.withdraw(offer)
    if rows != [[word]]:
        return f"at {parts.address} the server finds another machine{told}"
    return None


# --- the network to a server ---------------------------------------------------------------------

# Bytes sent at first, 0.26 s of a network of 1 MB/s, and then, 0.07 s of one of 1 Gbit/s.
FEW, MANY = 1 << 18, 8 << 20
# By so much the statements themselves differ on a busy machine.
NOISE_SECONDS = 0.1
_INTO_NOTHING = SqlText.of("INSERT INTO FUNCTION null('data UInt64') FORMAT Native")
# Rows of a block: as the decoder's, they are taken over as they are.
_BLOCK_ROWS = 1 << 15


def network_rate(server: Engine) -> float | None:
    """Measure the bytes per second that get to a server, with a few inserts into nothing.

    None where its user may not try that.
    """
    return rate_of(partial(send_seconds, server))


def rate_of(
    send_seconds: Callable[[int], float], sizes: Sequence[int] = (FEW, MANY)
) -> float | None:
    """Measure the bytes per second that are sent, with a few tries; None where they are refused.

    Args:
        send_seconds: sends so many bytes and returns the seconds until the server has said so.
        sizes: what is sent, until one is large enough to be measured.
    """
    with contextlib.suppress(RowfallError):
        # A statement's own time, and that of a new connection.
        least = min(send_seconds(0) for _ in range(2))
        *smaller, most = sizes
        for size in smaller:
            taken = send_seconds(size) - least
            if taken > NOISE_SECONDS:
                return size / taken
        taken = send_seconds(most) - least
        if taken < 3 * NOISE_SECONDS:
            taken = min(taken, send_seconds(most) - least)
        return most / max(taken, 1e-3)
    return None


def send_seconds(server: Engine, size: int) -> float:
    """Return the seconds until the server has got ``size`` bytes and has said so."""
    # Nothing on the way can make less of them.
    block = b"\x01\x80\x80\x02\x04data\x06UInt64" + os.urandom(8 * _BLOCK_ROWS)
    started = time.monotonic()
    server.run(Statement(_INTO_NOTHING), body=[block] * (size // (8 * _BLOCK_ROWS)))
    return time.monotonic() - started
