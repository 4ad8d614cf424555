"""Rows of a table with a sharding key: which way they go to their shards, and how."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from rowfall import placing, sql
from rowfall.cluster.keys import Keyed
from rowfall.delivery import Delivery, Order
from rowfall.engines.base import Tick
from rowfall.engines.codes import NETWORK_ERROR
from rowfall.errors import EngineError, RowfallError, UsageError
from rowfall.inputs import Inputs
from rowfall.jobs import Job, Seat
from rowfall.model import Outcome, Schema, Setting
from rowfall.parallel import on_all
from rowfall.publish import ask
from rowfall.sqltext import quote
from rowfall.targets.table import Table
from rowfall.ways import DISTRIBUTED, FILTER

# What a Distributed table takes for a key when it inserts (StorageDistributed::createSelector).
_INTEGER = re.compile(r"(LowCardinality\()?U?Int(8|16|32|64)\)?")
# Rounds up what uptime() rounds down.
_UPTIME_SECONDS = 1.0
_ASK_LANE = 99


def spread(job: Job, inputs: Inputs) -> Inputs:
    """The inputs of a plan with the way that is taken, and why.

    Raises:
        UsageError: the key is none; neither way works, or not the one that was asked for.
    """
    keyed, wish = job.keyed, job.options.method
    if keyed is None:
        return inputs
    obstacles = {FILTER: _no_filter(job, inputs, keyed), DISTRIBUTED: _no_distributed(job, keyed)}
    able = [way for way, why in obstacles.items() if not why]
    if obstacles.get(wish):
        raise UsageError(
            f"--method {wish} cannot be used: {obstacles[wish]}",
            hint=f"Take --method {able[0]}, or leave it out." if able else None,
        )
    if not able:
        raise UsageError(
            f"rows cannot be brought to the shards that {keyed.key} says: "
            + "; ".join(f"{way}: {why}" for way, why in obstacles.items()),
            hint="Set internal_replication = true for the shards of the cluster.",
        )
    todo = [i for i in range(len(inputs.listing)) if i not in inputs.landed]
    found = None if keyed.mirrored else placing.costs(inputs, todo, keyed.shares)
    way = wish if wish in obstacles else able[0]
    if len(able) > 1 and wish not in obstacles:
        way = found.cheaper if found else DISTRIBUTED
    why = found.text(way) if found else way
    if len(able) == 1:
        other = next(name for name in obstacles if name != way)
        why += f" ({other} does not apply: {obstacles[other]})"
    inputs = replace(inputs, spread=way, why_spread=why)
    if way == FILTER:
        return replace(inputs, only=keyed.condition(0))
    assert isinstance(job.target, Table)  # noqa: S101 - clusters are of tables
    return replace(inputs, target=job.target.spread(keyed.cluster, keyed.key))


def _no_filter(job: Job, inputs: Inputs, keyed: Keyed) -> str:
    """Why not every shard can read all rows and keep its own; "" if each can."""
    refused = _refused(job, inputs.schema, keyed)
    if keyed.mirrored:
        return "each replica has a table of its own, and would have to read all files"
    if inputs.delivery == "push":
        return "rows are read here, and each would be sent to every shard"
    if keyed.fickle:
        return f"{keyed.key} is another value each time that a row is read"
    if inputs.listing.total_size is None and inputs.listing.total_rows is None:
        return "nothing tells whether the source changes between one reading and the next"
    if job.options.max_errors or job.options.max_error_ratio:
        return "bad rows are to be left out, and each shard would have to count them"
    return refused


def _refused(job: Job, schema: Schema, keyed: Keyed) -> str:
    """Why the key cannot be told from what is loaded, for a table that is there already.

    Raises:
        UsageError: a Distributed table could not have this key.
    """
    values = ", ".join(
        f"defaultValueOfTypeName({quote(c.type)}) AS {sql.name(c.name)}" for c in schema.columns
    )
    try:
        ((kind,),) = ask(job.engine, f"SELECT toTypeName({keyed.key}) FROM (SELECT {values})")
    except RowfallError as error:
        if schema.exists:
            return f"{keyed.key} cannot be told from the columns that are loaded"
        raise UsageError(
            f"--shard-key {keyed.key} does not fit the table: {error.message}",
            hint="Write an expression of its columns, like cityHash64(name).",
        ) from None
    if _INTEGER.fullmatch(str(kind)):
        return ""
    raise UsageError(
        f"the sharding key {keyed.key} is a {kind}, and shards are told by whole numbers",
        hint=f"Take a hash of it: --shard-key 'cityHash64({keyed.key})'.",
    )


def _no_distributed(job: Job, keyed: Keyed) -> str:
    """Why rows cannot be sent on from shard to shard; "" if they can."""
    cluster = job.shards.cluster if job.shards else None
    if cluster is None or cluster.internal_replication or not cluster.replicated:
        return ""
    if keyed.mirrored:
        return ""
    return (
        "the cluster lets Distributed tables write to each replica (internal_replication = 0), and "
        "the tables replicate by themselves, too"
    )


def sending(seat: Seat, keyed: Keyed) -> Seat:
    """The seat as one whose INSERTs send each row to its shard."""
    assert isinstance(seat.target, Table)  # noqa: S101 - clusters are of tables
    return replace(seat, target=seat.target.spread(keyed.cluster, keyed.key))


class Filtered:
    """Each shard reads what an order names and keeps the rows that belong there.

    Args:
        each: the delivery of every shard. ``settings``: what was computed for its machine.
    """

    def __init__(
        self, each: Sequence[Delivery], settings: Sequence[Sequence[Setting]], keyed: Keyed
    ) -> None:
        self._each, self._settings, self._keyed = each, settings, keyed

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        failed: list[RowfallError] = []

        def one(at: int) -> Outcome:
            own = replace(order, only=self._keyed.condition(at), settings=self._lowest(order, at))
            try:
                # All read the same: the first one's progress is that of the attempt.
                return self._each[at].insert(own, lane, _silent if at else on_tick)
            except RowfallError as error:
                failed.append(error)
                self.kill(order.attempt)  # the others' work is lost with this one's
                raise failed[0] from None  # and they only say that they were ended

        outcomes = on_all(one, range(len(self._each)))
        return replace(
            outcomes[0],
            rows_written=sum(outcome.rows_written for outcome in outcomes),
            cpu_seconds=sum(outcome.cpu_seconds for outcome in outcomes),
            peak_memory=max(outcome.peak_memory for outcome in outcomes),
        )

    def _lowest(self, order: Order, at: int) -> dict[str, str | int | float]:
        """The order's settings, lower where this machine has less than the first one."""
        found = dict(order.settings)
        for setting in self._settings[at]:
            value = found.get(setting.name)
            if isinstance(value, int | float) and isinstance(setting.value, int | float):
                found[setting.name] = min(value, setting.value)
        return found

    def kill(self, attempt: str) -> None:
        on_all(lambda delivery: delivery.kill(attempt), self._each)


class Scattered:
    """The delivery of one shard, whose rows go to all of them: each of them can make it fail."""

    def __init__(self, delivery: Delivery, seats: Sequence[Seat]) -> None:
        self._delivery, self._seats = delivery, seats

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        started = time.monotonic()
        try:
            return self._delivery.insert(order, lane, on_tick)
        except RowfallError as error:
            gone = self._gone(time.monotonic() - started)
            if not gone or not error.code:
                raise
            # Whatever the server made of a connection that ended: it is no fault of the data.
            raise EngineError(
                f"{gone} went away during the insert: {error.message}", transient=True,
                code=error.code if error.transient else NETWORK_ERROR,
            ) from None  # fmt: skip

    def _gone(self, seconds: float) -> str:
        """A node that does not answer, or has been started since; "" if there is none."""
        for seat in self._seats:
            try:
                ((up,),) = ask(seat.engine, "SELECT uptime()", lane=_ASK_LANE)
            except RowfallError:
                return seat.place
            if up <= seconds + _UPTIME_SECONDS:
                return seat.place
        return ""

    def kill(self, attempt: str) -> None:
        self._delivery.kill(attempt)


def _silent(progress: object) -> None:
    """Nobody looks at this one."""
