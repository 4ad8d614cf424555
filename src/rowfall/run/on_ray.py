"""Start the workers of a shared load on a Ray cluster (``--on``).

Ray places processes and starts dead ones again; which of them loads what is the business of leases,
as everywhere. It is imported only here, where the option is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.errors import UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.extras import missing
from rowfall.core.masked import MASK

LOCAL, SCHEME = "ray", "ray://"
# Workers hear of the end of a load within a second; one that says nothing then is stopped.
_END_SECONDS = 30.0
# Ray starts a task again whose process or machine has died.
_RETRIES = 3


@contextmanager
def started(session: Session, work: Callable[[str, str], tuple[str, str]]) -> Iterator[None]:
    """Run the workers that ``--on`` asks for beside this process, until the load has ended.

    Args:
        work: takes the name of the load and the target; gives the name of its machine, and the
            error that has ended it, "" for none. Processes of Ray import it.

    Raises:
        UsageError: Ray is not installed, does not answer, or the option makes no sense.
    """
    options, on = session.options, session.options.on or LOCAL
    if on != LOCAL and not on.startswith(SCHEME):
        raise UsageError(
            f"--on {on} is no place to run workers on",
            hint="Write --on ray for the cluster of this machine, or --on ray://HOST:10001.",
        )
    ray = _ray()
    try:
        ray.init(
            address=None if on == LOCAL else on, log_to_driver=False,
            logging_level=logging.ERROR, ignore_reinit_error=True,
        )  # fmt: skip
    except Exception as error:  # of many kinds
        raise UsageError(
            f"Ray does not answer at {on}: {error}",
            hint="ray status, run there, says whether it is up.",
        ) from None
    try:
        nodes = sum(1 for node in ray.nodes() if node["Alive"])
        count = options.workers or nodes
        to = session.target.text.replace(f":{MASK}@", "@")  # each has its own password
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(work)
        task = task.options(scheduling_strategy="SPREAD")
        running = [task.remote(options.fleet, to) for _ in range(count)]
        where = units.counted(nodes, "node")
        session.emit(Note("info", f"{units.counted(count, 'worker')} on {where} of Ray"))
        try:
            yield
            _ended(ray, running, session.emit)
        finally:
            for each in running:
                ray.cancel(each, force=True)
    finally:
        ray.shutdown()


def _ended(ray: Any, running: list[Any], emit: Listener) -> None:
    """Say which workers have failed: others have loaded what they had not."""
    ready, _ = ray.wait(running, num_returns=len(running), timeout=_END_SECONDS)
    for each in ready:
        try:
            host, error = ray.get(each)
        except Exception as died:  # Ray's own error about a process that has died too often
            host, error = "Ray", str(died).partition("\n")[0]
        if error:
            emit(Note("warning", f"a worker on {host} has failed: {error}"))


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise missing("--on needs the library ray, which is not installed", "ray") from None
    return ray
