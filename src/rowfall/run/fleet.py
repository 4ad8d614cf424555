"""A load that several machines share (``--fleet``): every worker runs a load of its own.

Leases of files keep them apart, as they do any two loads of the same files, so nothing about
exactly once is new here. What is added: all of them load the files that one of them has listed, and
that one adds the report up. Which one that is, and what becomes of it when it dies, is said by
:mod:`rowfall.ledger.team`.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from rowfall.contracts.destination import LoadRun, PreparedLoad, Session
from rowfall.core import units, uri
from rowfall.core.errors import EngineError, RowfallError, SourceError, UsageError, headline
from rowfall.core.events import AttemptPublished, Doing, Event, Note, Progressed, RunBegan
from rowfall.core.listing import Listing
from rowfall.core.masked import is_shown
from rowfall.core.model import Plan
from rowfall.core.options import Options, changed
from rowfall.core.results import Failure, Report, WorkerReport
from rowfall.core.signals import check_stopped
from rowfall.core.version import __version__
from rowfall.ledger import leases
from rowfall.ledger.pipeline_log import QUIT
from rowfall.ledger.team import (
    BEAT_SECONDS,
    ENDED,
    LOADING,
    LOST,
    WAITING,
    WORK,
    File,
    SharedPlan,
    Team,
    TeamMember,
    TeamState,
)
from rowfall.sources.base import HasFolderTables, Streamed

LOOK_SECONDS = 0.5
"""Between two looks of one that waits for others: a small SELECT."""
# Of one machine alone: they decide nothing about rows, or are said for each.
_OWN = frozenset((
    "fleet", "memory", "threads", "streams", "metrics_port", "metrics_host", "rejects",
    "no_adapt", "patience", "decoder", "compress", "on", "workers",
))  # fmt: skip
# Failures that a worker tells who leads; a report prints twenty.
_MOST_FAILURES = 1_000
# Figures of a report that are sums over all workers.
_SUMS = (
    "rows", "rows_rejected", "splits_loaded", "bytes_source", "bytes_raw", "bytes_written",
    "cpu_seconds", "cpu_seconds_here", "parts_written", "attempts", "retries",
)  # fmt: skip


def check_fleet(session: Session) -> None:
    """Check that several machines can share a load.

    Raises:
        UsageError: they cannot, and why.
    """
    options, source = session.options, session.source
    name = options.fleet or ""
    if not name.strip() or name[0] == "-" or not name.isprintable():
        raise UsageError(
            f"--fleet {name!r} is no name for a load",
            hint="Give letters and digits, as --fleet nightly-2026-01-31.",
        )
    for text in options.set:
        key, _, value = text.partition("=")
        if not is_shown(key, value, web=False):
            raise UsageError(
                f"--fleet and --set {key} exclude each other: the options of a shared load are "
                "written down beside its table, where others may read them",
                hint="Set it in the profile of the server's user.",
            )
    whole = "each worker makes what it has loaded visible by itself"
    for given, flag, why in (
        (options.atomic, "--atomic", whole), (options.replace, "--replace", whole),
        (options.upsert, "--upsert", whole),
        (options.direct, "--direct", "what a dead worker has inserted could not be taken back"),
        (options.force, "--force", "each worker would load all files once more"),
        (options.cursor, "--cursor", "the rows that are new are one worker's"),
        (options.after_load != "nothing", "--after", "others may still read the files"),
    ):  # fmt: skip
        if given:
            raise UsageError(
                f"--fleet and {flag} exclude each other: {why}",
                hint=f"Leave out {flag}, or load from one machine without --fleet.",
            )
    single = isinstance(source, Streamed | HasFolderTables) or not source.replayable
    if single or session.listing.continued:
        raise UsageError(
            f"--fleet is for files and objects that every worker reads for itself, and "
            f"{source.text} is read by one process",
            hint="Leave out --fleet.",
        )


@contextmanager
def joined(session: Session) -> Iterator[Worker]:
    """Take part in a shared load: agree on its files, and give signs of life until the end.

    Raises:
        UsageError: this worker has another version, other options or another table.
        SourceError: it does not see the files of the load.
    """
    check_fleet(session)
    tables = session.destination.small_tables(session)
    assert tables is not None  # noqa: S101 - who takes --fleet has them
    patience = units.parse_duration(session.options.patience)
    worker = Worker(session, Team(tables, session.options.fleet or "", patience=patience))
    try:
        yield worker
    finally:
        worker.quit()


class Worker:
    """This process as a worker of a shared load.

    Args:
        session: of its part of the load.

    Attributes:
        session: with the files of the load alone, once they are agreed on.
    """

    def __init__(self, session: Session, team: Team) -> None:
        self._emit, self._team = session.emit, team
        self.session = session.heard_by(self._hear)
        self._plan: SharedPlan | None = None
        self._done, self._splits = False, 0
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._beats, name="fleet", daemon=True)
        team.join()
        self._beat.start()

    def _hear(self, event: Event) -> None:
        match event:
            case RunBegan():
                self._team.says(load=event.load_id, state=LOADING)
                self._team.sign(WORK)
            case AttemptPublished() if not self._done:
                self._splits += event.splits
                self._team.says(splits=self._splits)
            case Progressed() if not self._done:
                self._team.says(
                    rows=event.rows, bytes=event.bytes or 0, seconds=round(event.seconds, 1)
                )
            case _:
                pass
        self._emit(event)

    def _beats(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            # A target that is away is the business of the load.
            with suppress(RowfallError):
                self._team.sign()
                self._take_over(self._team.look())

    def _take_over(self, state: TeamState) -> None:
        """Write the plan down once more where this worker leads now: others may still join."""
        plan = self._plan
        if state.leads and state.plan is None and plan is not None:
            last = state.last or plan
            self._team.write_plan({**plan.said, "age": round(last.seconds, 3)})

    def quit(self) -> None:
        """Say that this process takes part no more."""
        self._ended.set()
        self._beat.join()
        # Others find out by its silence where this does not get through.
        with suppress(RowfallError):
            self._team.sign(QUIT)

    # --- the plan ---------------------------------------------------------------------------------

    def agree(self) -> None:
        """Wait for the files that are to be loaded, unless this process is to list them.

        Raises:
            UsageError, SourceError: see :func:`joined`.
        """
        told = False
        while True:
            state = self._team.look()
            if state.leads:
                return
            if state.plan is not None:
                break
            if not told:
                told = True
                self._emit(Note("info", f"waits for the plan of {_who(state.standing.sign)}"))
            pause()
        self._plan = state.plan
        said = state.plan.said
        try:
            self._check(said)
            wanted = self._files(said)
        except RowfallError:
            self._team.says(state="refused")
            raise
        listing = self.session.listing
        if len(wanted) < len(listing):
            left = units.counted(len(listing) - len(wanted), listing.unit)
            self._emit(Note("info", f"{left} came after the load was planned: not part of it"))
            self.session = self.session.for_batch(listing.only(wanted), self.session.declared)
        name = self.session.options.fleet
        self._emit(Note("info", f"joins load {name} ({said['load'][:8]}) of {said['host']}"))

    def _check(self, said: Mapping[str, Any]) -> None:
        session, name = self.session, self.session.options.fleet
        check_version(said, name or "")
        if said["key"] != session.target_key:
            raise UsageError(
                f"load {name} of {said['host']} goes into {said['table']}, and this one into "
                f"{session.table_text}",
                hint="Give each load a name of its own, or all of its workers the same table.",
            )
        theirs, own = said["options"], binding(session.options)
        for key in sorted(theirs.keys() | own.keys()):
            if theirs.get(key) != own.get(key):
                flag = f"--{key.replace('_', '-')}"
                raise UsageError(
                    f"load {name} of {said['host']} has {flag} {_shown(theirs.get(key))}, and this "
                    f"one {_shown(own.get(key))}",
                    hint="Give all workers the same options.",
                )

    def _files(self, said: Mapping[str, Any]) -> list[int]:
        """Return the indexes of the files that are to be loaded.

        Raises:
            SourceError: this machine does not see one of them, or sees another version.
        """
        listing, name = self.session.listing, self.session.options.fleet
        own = {_file(listing, index): index for index in range(len(listing))}
        versions = {(u, start, stop): v for u, v, start, stop in own}
        wanted = []
        for file in self._team.files(said["files"]):
            index = own.get(file)
            if index is not None:
                wanted.append(index)
                continue
            there = versions.get((file[0], file[2], file[3]))
            if there is None:
                why = "is not there"
            else:
                why = f"is another version: {_version(there)} here, {_version(file[1])} there"
            raise SourceError(
                f"{file[0]}: the file of load {name}, as {said['host']} has listed it, {why}",
                hint="All workers need to see the same files with equal sizes and times: give them "
                "a shared folder or a bucket, or begin the load again.",
            )
        return sorted(wanted)

    def begin(self, load: LoadRun, plan: Plan) -> Plan:
        """Write down what is to be loaded, where this process leads; its table is there now.

        Returns:
            The plan, whose attempts begin at another place than those of the other workers.
        """
        team = self._team
        state = team.look()
        if state.leads and state.plan is None:
            self._write_plan(load, plan, state)
            state = team.look()
        place = next((n for n, m in enumerate(state.members) if m.owner == team.owner), 0)
        groups = plan.work.groups
        first = int(spread(place) * len(groups))
        return replace(plan, work=replace(plan.work, groups=groups[first:] + groups[:first]))

    def _write_plan(self, load: LoadRun, plan: Plan, state: TeamState) -> None:
        team = self._team
        session, listing = load.session, load.session.listing
        number = next(m.number for m in state.standing.lines if m.owner == team.owner)
        sources = [*map(_anywhere, session.sources)]
        said: dict[str, Any] = {
            "version": __version__, "host": os.uname().nodename, "load": load.id,
            "sources": sources, "to": session.target.text, "table": session.table_text,
            "key": session.target_key, "options": binding(session.options),
            "files": team.write_files(_file(listing, i) for i in range(len(listing))),
            "since": number, "before": plan.work.loaded, "splits": len(plan.listing),
            "place": session.destination.record_place(session),
        }  # fmt: skip
        team.write_plan(said)
        self._plan = SharedPlan(team.owner, said, 0.0)
        name = session.options.fleet
        where = shlex.join(["rowfall", "worker", name or "", "--to", session.target.text])
        load.emit(Note("info", f"other machines join this load by: {where}"))

    # --- the end ----------------------------------------------------------------------------------

    def end(self, load: LoadRun, plan: Plan, report: Report, prepared: PreparedLoad) -> Report:
        """Say what this process has loaded; return the report of all, where this process leads.

        Who leads waits for what the others have begun; the others wait until it has added up, so
        that one of them takes over should it die.
        """
        self._done = True
        failures = [asdict(f) for f in report.failures[:_MOST_FAILURES]]
        sums = {name: getattr(report, name) for name in _SUMS}
        self._team.says(
            state=WAITING, outcome=report.outcome, sums=sums, failures=failures, rows=report.rows,
            splits=report.splits_loaded, bytes=report.bytes_source, seconds=report.seconds,
            cpu=report.cpu_seconds + report.cpu_seconds_here,
        )  # fmt: skip
        if report.outcome not in ("done", "partial", "failed"):
            self._team.says(state=report.outcome)
            return report
        try:
            return self._reported(load, plan, report, prepared)
        except EngineError as error:
            if error.transient:
                raise
            # The rows are loaded and on record: only who has brought which is not known.
            note = f"what the other workers have loaded is not known: {headline(error.message)}"
            load.emit(Note("warning", note))
            return replace(report, notes=(*report.notes, note))

    def _reported(
        self, load: LoadRun, plan: Plan, report: Report, prepared: PreparedLoad
    ) -> Report:
        self._team.sign(WORK)
        while True:
            state = self._team.look()
            if (leader := state.added_up) is not None:
                self._team.says(state=ENDED)
                self._team.sign(WORK)
                note = f"the report of all workers has {_who(leader.says)}"
                return replace(report, notes=(*report.notes, note))
            if state.leads:
                self._take_over(state)
                working = [m for m in state.members if m.works]
                if not working:
                    break
                self._emit(Doing(f"waits for {_listed(working)}"))
            pause()
        self._end_dead(load, prepared, state)
        found = self._added_up(load, plan, report, self._team.look())
        self._team.says(state=ENDED, led=True, outcome=found.outcome)
        self._team.sign(WORK)
        return found

    def _end_dead(self, load: LoadRun, prepared: PreparedLoad, state: TeamState) -> None:
        """Drop what workers have left that died between the record of an attempt and its end.

        Nobody asks for its files again, so no lease tells of it, and no load may follow.
        """
        this = leases.this_process()
        dead = [m.owner for m in state.members if m.state == LOST and not m.owner.startswith(this)]
        if not dead:
            return
        for owner in dead:
            leases.presume_ended(owner)
        try:
            prepared.end_dead()
        except RowfallError as error:
            why = headline(error.message)
            load.emit(Note("warning", f"staging of dead workers stays until the next load: {why}"))

    def _added_up(self, load: LoadRun, plan: Plan, own: Report, state: TeamState) -> Report:
        """Return the report of all workers together: what each has loaded is on record."""
        session, said = load.session, self._plan.said if self._plan is not None else {}
        # A process that was started again goes on with the load of the one before it.
        members = {m.load_id: m for m in state.members if m.load_id}
        record = session.destination.loaded_by(session, [*members], int(said.get("place", 0)))
        workers: list[WorkerReport] = []
        totals: dict[str, Any] = dict.fromkeys(_SUMS, 0)
        failures: dict[str, Failure] = {}
        for load_id, member in members.items():
            sums = dict(member.says.get("sums", {}))
            # By the record also for those that live: what one has committed, and was silent for
            # too long, another one has published.
            rows, splits = record.get(load_id, (0, 0))
            sums |= {"rows": rows, "splits_loaded": splits}
            leads = member.owner == self._team.owner
            share = replace(member.report(), rows=rows, splits=splits, leads=leads)
            if "sums" not in member.says:  # what it has read, and nobody knows how much of it came
                share = replace(share, bytes_source=0)
            workers.append(share)
            for key, value in sums.items():
                totals[key] += value  # seconds are floats, all others whole numbers
            failures |= {f["split"]: Failure(**f) for f in member.says.get("failures", ())}
        left = _not_loaded(session, plan, failures)
        known = int(said.get("before", 0))
        seconds = max(own.seconds, state.plan.seconds if state.plan else 0.0)
        loaded = int(totals["splits_loaded"])
        outcome = "done" if not left else "partial" if loaded or known else "failed"
        notes: list[str] = list(own.notes)
        dead = [w for w in workers if w.state == LOST]
        if dead:
            names = ", ".join(f"{w.host} (pid {w.pid})" for w in dead)
            notes.append(f"died while it loaded: {names}; others have loaded what was left")
            if session.options.verify and any(w.rows for w in dead):
                counted = units.counted(sum(w.rows for w in dead), "row")
                notes.append(f"{counted} of those were counted, and not compared with the source")
        return replace(
            own, **totals, outcome=outcome, failures=tuple(left.values()),
            splits_failed=len(left), seconds=round(seconds, 3),
            splits_skipped=max(0, own.splits - loaded - len(left)),
            workers=tuple(workers), notes=tuple(notes),
        )  # fmt: skip


def check_version(said: Mapping[str, Any], name: str) -> None:
    """Check that this rowfall is of the version that the plan of a load names.

    Raises:
        UsageError: it is of another one.
    """
    if said["version"] != __version__:
        raise UsageError(
            f"load {name} is run by rowfall {said['version']} on {said['host']}, and this is "
            f"rowfall {__version__}: all workers of a load need one version",
            hint=f"pip install rowfall=={said['version']}",
        )


def spread(number: int) -> float:
    """Return a place in 0 to 1 for the n-th of workers whose number nobody knows.

    0, 1/2, 1/4, 3/4, 1/8, ...: van der Corput's sequence leaves no large gap at any time.
    """
    place, part = 0.0, 0.5
    while number:
        place += part * (number & 1)
        number, part = number >> 1, part / 2
    return place


def binding(options: Options) -> dict[str, Any]:
    """Return the options, for JSON, that all workers of a load have to have alike."""
    found = {key: value for key, value in changed(options).items() if key not in _OWN}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}


def _not_loaded(
    session: Session, plan: Plan, failures: Mapping[str, Failure]
) -> dict[str, Failure]:
    """Return the failures of files that no other worker has loaded."""
    if not failures:
        return {}
    ids = {s.name: s.id for s in plan.listing.splits(session.target_key) if s.name in failures}
    there = session.destination.loaded_among(session, [*ids.values()])
    return {name: why for name, why in failures.items() if ids.get(name) not in there}


def _file(listing: Listing, index: int) -> File:
    split = listing.split(index, "")
    return split.uri, split.version, split.start, split.stop


def _version(text: str) -> str:
    """Return the version of a file for people: of a local one ``size-mtime_ns``."""
    size, dash, stamp = text.partition("-")
    if dash and size.isdigit() and stamp.isdigit():
        from datetime import UTC, datetime

        at = datetime.fromtimestamp(int(stamp) / 1e9, UTC)
        return f"{int(size):,} bytes of {at:%Y-%m-%d %H:%M:%S.%f}"
    return text


def _anywhere(source: str) -> str:
    """Return a source as it is named in any folder of a machine, without secrets."""
    if "://" in source:
        return uri.mask(source)
    folder = uri.lake_address(source)  # without delta+ in front of it
    return source[: len(source) - len(folder)] + os.path.abspath(folder)


def _shown(value: object) -> str:
    return "not given" if value is None else "given" if value is True else str(value)


def _who(says: Mapping[str, Any]) -> str:
    return f"{says['host']} (pid {says['pid']})" if "host" in says else "another worker"


def _listed(members: Collection[TeamMember]) -> str:
    return ", ".join(_who(member.says) for member in members)


def pause() -> None:
    """Wait a moment; Ctrl-C ends it."""
    threading.Event().wait(LOOK_SECONDS)
    check_stopped()
