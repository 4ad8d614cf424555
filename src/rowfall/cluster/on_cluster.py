"""Runs a statement on all nodes of a cluster, and finds out on which it has been done.

ON CLUSTER puts the statement into a queue in Keeper, from which every node takes it when it can. A
time-out is no failure: the statement stays in the queue, so the queue is asked.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowfall.cluster.creation import Ddl
from rowfall.cluster.discover import Asks, Cluster, Node
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.sqltext import quote
from rowfall.engines.codes import ACCESS_DENIED, translate

Run = Callable[[str, Mapping[str, str | int | float]], list[list[Any]]]
"""Runs a statement with settings; its rows as Python values."""

RunOn = Callable[[Node, str], object]
"""Runs a statement on one node."""

# ErrorCodes.cpp of the server.
TIMEOUT, NO_KEEPER, KEEPER_FAILS = 159, frozenset({139, 225}), frozenset({999, 242, 319})
# Making a table takes 0.1 s; a node that is busy with an earlier statement of the queue, longer.
AT_ONCE_SECONDS = 10
# A node that has not come so far in two minutes is stuck or down.
PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Host:
    """How far one node is; ``code`` is None as long as it has not done it."""

    address: str
    code: int | None
    text: str


def run_on_cluster(
    run: Run,
    asks: Asks,
    cluster: Cluster,
    ddl: Ddl,
    *,
    each: RunOn | None = None,
    patience: float = PATIENCE_SECONDS,
) -> tuple[Node, ...]:
    """Run a statement on all nodes and wait until those that answer have done it.

    Args:
        run, asks: of one server, which need not be in the cluster.
        each: for clusters without a Keeper: runs a statement on one node.
        patience: seconds.

    Returns:
        The nodes that did not answer before and have not done it; they do when they are back, or
        not at all where there is no Keeper.

    Raises:
        TargetError: a node refuses or has not done it in time; a right is missing; the Keeper
            does not answer, or there is none and no ``each``.
    """
    mark = f"rowfall-{uuid.uuid4()}"
    settings: dict[str, str | int | float] = {
        "distributed_ddl_task_timeout": AT_ONCE_SECONDS,
        "distributed_ddl_output_mode": "never_throw",  # one line for each host, whatever happens
        "log_comment": mark,  # the queue keeps it: how to find the statement there
    }
    deadline = time.monotonic() + patience
    try:
        hosts = [_host(row) for row in run(ddl.on_cluster, settings)]
    except RowfallError as error:
        if error.code in NO_KEEPER:
            return _one_by_one(cluster, ddl, each, error)
        lost = error.transient and not error.code
        if not lost and error.code != TIMEOUT:
            raise _refused(cluster, ddl, error) from None
        hosts = _queued(asks, mark)
        if not hosts:  # it did not get that far
            raise
    nodes = {node.address: node for node in cluster.nodes}
    while True:
        _check_failures(ddl, hosts, nodes)
        left = [host.address for host in hosts if host.code is None]
        late = [at for at in left if at not in nodes or not nodes[at].error]
        if not late:
            return tuple(nodes[at] for at in left)
        if time.monotonic() > deadline:
            raise TargetError(
                f"the {ddl.what} was not made in time ON CLUSTER {cluster.name} by "
                f"{', '.join(nodes[at].name if at in nodes else at for at in late)}",
                hint="The statement stays in the cluster's queue (system.distributed_ddl_queue); "
                "run the same command again when these servers have caught up.",
                transient=True,
                code=TIMEOUT,
            )
        time.sleep(PAUSE_SECONDS)
        hosts = _queued(asks, mark) or hosts


def _host(row: Sequence[Any]) -> _Host:
    host, port, status, text, *_ = row
    return _Host(f"{host}:{port}", None if status is None else int(status), text or "")


def _queued(asks: Asks, mark: str) -> list[_Host]:
    """How far the hosts are, as the queue has it; [] when it is not there or cannot be asked."""
    try:
        rows = asks(
            "SELECT host, port, exception_code, exception_text FROM system.distributed_ddl_queue "
            f"WHERE settings['log_comment'] = {quote(mark)}"
        )
    except RowfallError:
        return []
    return [_host(row) for row in rows]


def _check_failures(ddl: Ddl, hosts: Sequence[_Host], nodes: Mapping[str, Node]) -> None:
    failed = [host for host in hosts if host.code]
    if failed:
        first = failed[0]
        name = nodes[first.address].name if first.address in nodes else first.address
        more = f" (and {len(failed) - 1} more)" if failed[1:] else ""
        raise TargetError(
            f"the {ddl.what} cannot be made on {name}{more}: {first.text}",
            hint=translate(f"Code: {first.code}. DB::Exception: {first.text}").hint
            or "Other nodes may have it by now; run the same command again when it can be made.",
            code=first.code or 0,
        )


def _one_by_one(
    cluster: Cluster, ddl: Ddl, each: RunOn | None, error: RowfallError
) -> tuple[Node, ...]:
    if each is None:
        raise TargetError(
            f"the {ddl.what} cannot be made ON CLUSTER {cluster.name}: {error.message}",
            hint="Without a Keeper statements cannot be handed around: make it on each node.",
            code=error.code,
        ) from None
    for node in cluster.up:
        try:
            each(node, ddl.alone)
        except RowfallError as refusal:
            raise TargetError(
                f"the {ddl.what} cannot be made on {node.name}: {refusal.message}",
                hint=refusal.hint,
                transient=refusal.transient,
                code=refusal.code,
            ) from None
    return tuple(node for node in cluster.nodes if node.error)


def _refused(cluster: Cluster, ddl: Ddl, error: RowfallError) -> RowfallError:
    what = f"the {ddl.what} cannot be made ON CLUSTER {cluster.name}"
    if error.code in KEEPER_FAILS:
        return TargetError(
            f"{what}: its Keeper does not answer ({error.message.partition('. nodes:')[0]})",
            hint="Statements are handed around by Keeper; run again when it is up.",
            transient=True,
            code=error.code,
        )
    hint = error.hint
    if error.code == ACCESS_DENIED and hint is None:
        hint = "The user needs CLUSTER ON *.* and the rights of the statement itself."
    return TargetError(
        f"{what}: {error.message}", hint=hint, transient=error.transient, code=error.code
    )
