"""Shared loads from outside: find one to join, and say how far one is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.masked import MASK, Secret
from rowfall.core.options import Options
from rowfall.core.results import Report, WorkerReport
from rowfall.destinations import open_destination
from rowfall.ledger.team import LOST, SILENT_SECONDS, Team, TeamState, name_of
from rowfall.run.fleet import check_version, pause
from rowfall.targets import open_target
from rowfall.targets.base import Target


def workers_of(state: TeamState) -> tuple[WorkerReport, ...]:
    """Return the workers of the newest load of a team."""
    leader = state.standing.holder
    return tuple(
        replace(m.report(), leads=m.report().leads or m.owner == leader) for m in state.members
    )


@dataclass(frozen=True, slots=True)
class SharedLoad:
    """The load that a worker joins."""

    name: str
    sources: tuple[str, ...]
    table: str
    options: dict[str, Any]


def find_load(
    name: str, to: str | None, password: Secret | None, seconds: float, emit: Listener
) -> SharedLoad | None:
    """Wait for a shared load to begin; return None where it has ended just now.

    Args:
        seconds: to wait. A load that ended so long ago counts as one that has ended just now, too.

    Raises:
        UsageError: none has begun; it is run by another version; its sources have secrets.
    """
    target = open_target(to, "any", Options(), password)
    destination, until, told = open_destination(target), time.monotonic() + seconds, False
    with destination.beside(target) as tables:
        if tables is None or not destination.shares_loads:
            raise not_shared(target)
        while True:
            state = None
            with suppress(EngineError):  # nobody has shared a load there yet
                shared = name_of(tables, name)
                state = Team(tables, shared, make=False).look()
            if state is not None and state.plan is not None and not state.standing.dead:
                return _shared_load(shared, state.plan.said, to)
            if state is not None and state.last is not None and state.added_up:
                last = max(m.idle for m in state.members)
                if last < max(seconds, SILENT_SECONDS) and not state.standing.holder:
                    emit(Note("info", f"load {shared} has ended: nothing is left to do"))
                    return None
            if time.monotonic() >= until:
                raise UsageError(
                    f"no load {name} runs into {target.text}",
                    hint=f"Begin it: rowfall load SOURCE --to {target.text} --fleet {name}",
                )
            if not told:
                told = True
                emit(Note("info", f"waits for load {name} to begin"))
            pause()


def _shared_load(name: str, said: Mapping[str, Any], to: str | None) -> SharedLoad:
    check_version(said, name)
    for text in said["sources"]:
        if MASK in text and uri.scheme_of(text) != uri.FILE:
            raise UsageError(
                f"load {name} reads {text}, whose secrets are not shared",
                hint="Give the sources in full here as well, with the command that has begun the "
                f"load: rowfall load SOURCE --to {uri.mask(to or 'TARGET')} --fleet {name}",
            )
    return SharedLoad(name, tuple(said["sources"]), said["table"], dict(said["options"]))


def not_shared(target: Target) -> UsageError:
    """Return the error of a target whose loads cannot be shared."""
    return UsageError(
        f"loads into {target.text} are not shared by several machines: they need a ClickHouse "
        "server, where leases of files are kept",
        hint="Name the server of the load: --to clickhouse://HOST:8123/DATABASE",
    )


def report_of(to: str, name: str, password: Secret | None) -> Report | None:
    """Return how far a shared load is, as its workers have told last; None where there is none.

    Args:
        name: of the load, or the beginning of its id.
    """
    target = open_target(to, "any", Options(), password)
    destination = open_destination(target)
    if not destination.shares_loads:
        return None
    with destination.beside(target) as tables, suppress(EngineError):
        assert tables is not None  # noqa: S101 - who shares loads has them
        state = Team(tables, name_of(tables, name), make=False).look()
        plan = state.plan or state.last
        if plan is None:
            return None
        workers = workers_of(state)
        outcome = "running" if any(m.works for m in state.members) else LOST
        if (leader := state.added_up) is not None:
            outcome = str(leader.says["outcome"])
        said = plan.said
        return Report(
            said["load"], outcome, " ".join(said["sources"]), said["to"], said["table"], "",
            splits=said["splits"], splits_skipped=said["before"],
            splits_loaded=sum(w.splits for w in workers), rows=sum(w.rows for w in workers),
            bytes_source=sum(w.bytes_source for w in workers), seconds=round(plan.seconds, 3),
            workers=workers,
        )  # fmt: skip
    return None
