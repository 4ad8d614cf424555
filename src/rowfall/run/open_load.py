"""Choose the load to go on with: the unfinished one of the same request, or a new one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from rowfall.contracts.destination import LoadRun, Session
from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.events import one_at_a_time
from rowfall.core.options import changed
from rowfall.core.signals import undisturbed
from rowfall.destinations.questions import about_load
from rowfall.ledger import Ledger, LoadRow, scratches
from rowfall.ledger.recorder import Recorder, Running
from rowfall.run.history import record_stopped

# Loads that this process runs now: another thread's load is not an unfinished one.
_ACTIVE: set[str] = set()


class OtherLoads(Collection[str]):
    """The other loads that this process runs at the moment when it is asked.

    One that begins while this one settles what was left must not be taken for a dead one.
    """

    def __init__(self, load_id: str) -> None:
        self._own = load_id

    def __contains__(self, load_id: object) -> bool:
        return load_id != self._own and load_id in _ACTIVE

    def __iter__(self) -> Iterator[str]:
        return iter(_ACTIVE - {self._own})

    def __len__(self) -> int:
        return len(_ACTIVE - {self._own})


@contextmanager
def open_load(session: Session) -> Iterator[LoadRun]:
    """Take up the unfinished load of the same request, or begin a new one.

    ``rowfall status`` sees how far it is, and how it has ended, whatever has ended it.

    Raises:
        UsageError: it has loaded something and was run with options that read otherwise.
    """
    ledger = session.ledger
    assert ledger is not None  # noqa: S101 - only dry sessions have none
    choice = _choose_load(session, ledger, _ACTIVE)
    engines = {id(e): e for e in (session.reader, *(w.engine for w in session.writers))}.values()
    with ExitStack() as stack:
        load_id = ""
        try:
            # Of a load that is written down as running by then, Ctrl-C has to know the id.
            with undisturbed():
                load_id, new = _begin(session, ledger, choice)
                _ACTIVE.add(load_id)
                stack.callback(_ACTIVE.discard, load_id)
            recorder = Recorder()
            said = Running(ledger.path, load_id, recorder)
            stack.callback(said.remove)

            for engine in engines:
                stack.callback(engine.log_statements, None)
                engine.log_statements(recorder.ran)
            yield LoadRun(
                session, load_id, one_at_a_time(said.hear, session.emit),
                datetime.now(UTC).isoformat(timespec="seconds"), ledger,
                session.destination.key(session, load_id),
                load_id if session.options.force else "", new, OtherLoads(load_id), recorder,
            )  # fmt: skip
        except BaseException as error:
            # What ended the load is said, not that a ledger takes no more words.
            with suppress(LedgerError):
                record_stopped(ledger, load_id, error)
            raise


@dataclass(frozen=True, slots=True)
class _Choice:
    """The load to go on with; ``old`` is None for a new one.

    Attributes:
        fingerprint: by which a re-run finds it. ``request``: JSON without secrets.
    """

    old: LoadRow | None
    fingerprint: str
    request: str


def _choose_load(session: Session, ledger: Ledger, active: Collection[str]) -> _Choice:
    """Return the unfinished load of the same sources into the same table, or a new one.

    Args:
        active: loads that this process runs now, which are not unfinished.

    Raises:
        UsageError: it has loaded something and was run with options that read otherwise.
    """
    # By absolute paths: rowfall resume knows the load again from any folder.
    sources = [os.path.abspath(s) if "://" not in s and s != "-" else s for s in session.sources]
    web = {s: uri.object_name(s) for s in sources if uri.scheme_of(s) in ("http", "https")}
    request_print = _request_print(session, [web.get(s, s) for s in sources])
    given = changed(session.options)
    old = None
    if session.source.replayable:
        # Older versions took the addresses with their secrets, or with fewer digests.
        former = [uri.former_name(s) if s in web else s for s in sources]
        old = (
            ledger.unfinished(request_print)
            or ledger.unfinished(_request_print(session, former))
            or ledger.unfinished(_request_print(session, sources))
        )
    if old is not None and old.id in active:
        old = None
    if old is not None and session.destination.has_unknown_attempts(session, old.id):
        ledger.give_up(old.id)
        old = None
    if old is not None and session.options.cursor is not None and session.options.replace:
        # Rows that came since below the values which it has gathered would be left out.
        ledger.give_up(old.id)
        old = None
    if old is not None:
        _same_options(session, old, given, ledger)
    request = json.dumps({
        "sources": [uri.mask(s) for s in sources],
        "folder": os.getcwd(),
        "to": str(session.target.folder or session.target.text),
        "table": session.table_text or None,
        # Not which: that it had one, so that a file made of this load says where to put it.
        "password": bool(session.target.secrets),
        "options": {k: v for k, v in given.items() if k not in _ANSWERS},
    })  # fmt: skip
    return _Choice(old, request_print, request)


def _begin(session: Session, ledger: Ledger, choice: _Choice) -> tuple[str, bool]:
    """Record that a load runs; return its id, and whether it is a new one."""
    old = choice.old
    if old is not None and ledger.take_up(old, choice.request):
        return old.id, False
    load_id = secrets.token_hex(5)
    if session.scratch:  # by which what it leaves after a kill -9 is known
        load_id = scratches.load_id(ledger.path.stem)
    ledger.begin(
        load_id,
        choice.fingerprint,
        session.source.text,
        session.target.text,
        session.target_key,
        choice.request,
    )
    return load_id, True


def _request_print(session: Session, sources: Sequence[str]) -> str:
    """Return the digest of sources, target and ``--force`` by which a re-run finds its load."""
    # A forced load is another one: it loads what the others are loaded.
    told: list[Any] = [sorted(sources), session.target_key, session.options.force]
    if session.options.partial:  # a load of its own, too
        told.append(session.options.partial)
    text = json.dumps(told)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


# Said once, about what was found then, or about this process: no part of what is resumed.
_ANSWERS = ("force", "force_append", "verify", "loaded", "metrics_port", "metrics_host")
# What decides how bytes become rows, or where they gather: half a load in each way is not a load.
_BINDING = ("format", "compression", "delimiter", "atomic", "replace", "upsert")


def followed_loads(session: Session, ledger: Ledger) -> list[str]:
    """Return the reports, as JSON, of what was loaded while these sources were followed before.

    The oldest comes first; only of loads that are done.
    """
    sources = [os.path.abspath(s) if "://" not in s else s for s in session.sources]
    web = {s: uri.object_name(s) for s in sources if uri.scheme_of(s) in ("http", "https")}
    rows = ledger.loads(
        "WHERE fingerprint = ? AND state = 'done' AND report IS NOT NULL AND "
        "json_extract(request, '$.options.follow')",
        _request_print(session, [web.get(s, s) for s in sources]),
    )
    return [row.report for row in reversed(rows) if row.report is not None]


def _same_options(session: Session, old: LoadRow, given: Mapping[str, Any], ledger: Ledger) -> None:
    if not ledger.loaded_by(old.id):
        return
    before = json.loads(old.request)["options"]
    differ = [
        _difference(f"--{name.replace('_', '-')}", before.get(name), given.get(name))
        for name in _BINDING
        if before.get(name) != given.get(name)
    ]
    if differ:
        raise UsageError(
            f"load {old.id} of these files is unfinished and was run with other options: "
            + "; ".join(differ),
            hint="Give the same options to go on, or begin anew after "
            f"{about_load(session, 'forget', old.id)}",
        )


def _difference(option: str, before: object, now: object) -> str:
    """Say how an option was given otherwise; flags are True, None is "not given"."""
    if True in (before, now):
        return f"{option} was {'' if before else 'not '}given, now it is{'' if now else ' not'}"
    was = "not given" if before is None else before
    return f"{option} was {was}, now it is {'not given' if now is None else now}"
