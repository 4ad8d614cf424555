"""The exactly-once protocol as a state machine: which step follows which, and what a crash means.

What is recorded is on disk before it is recorded: a power cut takes back whatever nobody has
flushed, so a sync precedes each of the two records that a later run relies on.

It knows no engine, no ledger and no journal. Whoever carries out an attempt enters one step after
the other (:class:`AttemptProgress`); whoever finds an attempt that was left open asks
:func:`after_crash`. ``docs/concepts/exactly-once.md`` gives the reasons for the order.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from rowfall.core.dataclass import dataclass


class Step(IntEnum):
    """A step of an attempt, in the order of the protocol."""

    START = 1
    """Write into the ledger that the attempt begins, and how its staging table is called."""
    LEASE = 2
    """Ask the journal for the splits; where nobody else loads there is nothing to ask."""
    STAGE = 3
    """Create the staging tables."""
    DELIVER = 4
    """Insert the rows into staging."""
    CHECK_SOURCE = 5
    """Check that the objects are still those that were listed."""
    COUNT = 6
    """Alter staging like a target that was altered meanwhile; compare the staged rows with those
    that were read; note what the target holds."""
    SYNC_STAGED = 7
    """Flush staging to disk: a commit binds the next run to publish what staging holds.

    A server may have been without power since the INSERT, so staging is counted once more."""
    COMMIT = 8
    """Write into journal and ledger that the rows can only be published from now on."""
    PUBLISH = 9
    """Make the staged rows visible: one ATTACH for each table."""
    SYNC_TARGET = 10
    """Flush the target to disk: once it is recorded, nobody loads these splits again.

    A server may have been without power since the ATTACH, so its parts are looked for."""
    RECORD = 11
    """Write into journal and ledger that the rows are visible and the splits are loaded."""
    DROP = 12
    """Drop staging."""


class ProtocolError(Exception):
    """A step out of its order: a fault of this program, before any harm is done."""


def next_step(done: Step | None) -> Step | None:
    """Return the step that follows ``done`` (None: nothing was done); None after the last one."""
    if done is Step.DROP:
        return None
    return Step.START if done is None else Step(done + 1)


@dataclass(slots=True)
class AttemptProgress:
    """Progress of one attempt through the steps.

    Attributes:
        step: the one that was entered last; it may not have ended.
    """

    step: Step | None = None

    def enter(self, step: Step) -> None:
        """Go on to the next step.

        Raises:
            ProtocolError: another step comes first.
        """
        if next_step(self.step) is not step:
            raise ProtocolError(f"{step.name} cannot follow {self.step}")
        self.step = step

    @property
    def may_discard(self) -> bool:
        """Tell whether the attempt may still be taken back.

        Once a commit is sent it may not, even where its answer is lost: others may have seen it.
        """
        return self.step is None or self.step < Step.COMMIT


class Recorded(Enum):
    """State of an open attempt in ledger and journal."""

    NOTHING = "nothing"
    STARTED = "started"
    COMMITTED = "committed"
    PUBLISHED = "published"
    ENDED = "failed, lost, released or expired before its commit"


class Evidence(Enum):
    """Findings in the target about a committed attempt."""

    NOT_ASKED = "only committed attempts need evidence"
    NO_PARTS = "no part of staging is in the target"
    SOME_PARTS = "some parts of staging are in the target"
    ALL_PARTS = "all parts of staging are in the target"
    UNDECIDED = "neither the log nor blocks, row counts and a sample of the rows decide it"
    UNFIT = "what is missing cannot be altered like the target, which somebody has altered"
    STAGING_GONE = "somebody else has dropped staging"
    TARGET_GONE = "the target is not the table any more that the attempt was loaded for"
    ROLLED_BACK = "the target has taken the transaction of the attempt back"
    OVERWRITES = "the target is a file or an object, which another attempt writes again as a whole"


class Action(Enum):
    """Ways to end an attempt that was left open."""

    LOAD = "load its splits"
    DISCARD = "end its statements, drop staging, load its splits again"
    ATTACH = "attach what staging holds, then as for RECORD"
    ATTACH_REST = "drop from staging the parts that the target has, then attach the others"
    RECORD = "sync, write down that it is published, drop staging"
    DROP = "drop staging if it is there"
    KEEP = "leave staging as it is, warn, and go on with everything else"
    STOP = "leave both tables as they are and tell the user"


_COMMITTED = {
    Evidence.NO_PARTS: Action.ATTACH,
    Evidence.SOME_PARTS: Action.ATTACH_REST,
    Evidence.ALL_PARTS: Action.RECORD,
    Evidence.UNDECIDED: Action.STOP,
    Evidence.STAGING_GONE: Action.STOP,
    # Its files stay taken; other attempts and other loads do not wait for it.
    Evidence.UNFIT: Action.KEEP,
    # A new table gets all files again, so it must not get these rows, too.
    Evidence.TARGET_GONE: Action.DISCARD,
    Evidence.ROLLED_BACK: Action.DISCARD,
    Evidence.OVERWRITES: Action.DISCARD,
}


def after_crash(recorded: Recorded, evidence: Evidence = Evidence.NOT_ASKED) -> Action:
    """Return the next action for an attempt that a crash has left open.

    What was found in a target may not be on its disk yet, if only a process has crashed. So the
    target is synced before anything is dropped from staging or recorded because of it.

    Raises:
        ProtocolError: the attempt is committed, and the target has not been searched.
    """
    if recorded is Recorded.NOTHING:
        return Action.LOAD
    if recorded is Recorded.STARTED:
        return Action.DISCARD
    if recorded is not Recorded.COMMITTED:
        return Action.DROP
    if evidence not in _COMMITTED:
        raise ProtocolError("a committed attempt is only judged by what the target holds")
    return _COMMITTED[evidence]


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces in one partition of the target of staged parts that it does not list.

    Attributes:
        removed: people have taken out parts that came since the count, or all of before it.
        has_unlisted_blocks: a merged part holds new blocks that no listed part explains.
        has_unexplained_rows: it holds rows that may be anybody's: in new parts as INSERT of others
            or ATTACH PART leaves them, or in blocks that held another number of rows.
        counted: it has got the rows in question (True), or none of them (False); None: another
            number.
        found: a sample of these rows is there (True), or none of it (False); None: not known.
        logged: the server's log says that they were attached.
    """

    removed: bool = False
    has_unlisted_blocks: bool = False
    has_unexplained_rows: bool = False
    counted: bool | None = None
    found: bool | None = None
    logged: bool = False


def judge(traces: Traces) -> Evidence:
    """Conclude from traces where staged parts are: NO_PARTS, ALL_PARTS or UNDECIDED.

    What was taken out may be put back, or be in another table: then nothing is known. Neither a
    number of rows nor a sample is believed where the other contradicts it.
    """
    if traces.removed:
        return Evidence.UNDECIDED
    if not (traces.has_unlisted_blocks or traces.has_unexplained_rows):
        return Evidence.NO_PARTS
    if traces.found is False and (not traces.has_unlisted_blocks or traces.counted is False):
        return Evidence.NO_PARTS
    if traces.found and (traces.counted or traces.logged):
        return Evidence.ALL_PARTS
    return Evidence.UNDECIDED
