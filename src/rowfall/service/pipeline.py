"""A pipeline of the project file, and the log of its events beside its target."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from rowfall.contracts.destination import Destination
from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.destinations import open_destination
from rowfall.ledger.pipeline_log import LocalLog, PipelineLog, SharedLog
from rowfall.project import NamedLoad
from rowfall.run.session import Request
from rowfall.targets import default_table, open_target
from rowfall.targets.base import Target, state_folder

# The log of pipelines into targets that one process has to itself.
LOCAL_LOG = "pipelines.sqlite"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline, seen from the folder of its file; nothing of its target is open.

    Attributes:
        destination: of the kind of its target.
    """

    named: NamedLoad
    target: Target
    destination: Destination

    @property
    def name(self) -> str:
        return self.named.name

    @property
    def table_text(self) -> str:
        """Return ``database.table``, "" where there is none."""
        return ".".join(filter(None, (self.target.database, self.target.table)))

    @property
    def source_text(self) -> str:
        """Return the sources without secrets."""
        return " ".join(map(uri.mask, self.named.sources))

    @property
    def request(self) -> Request:
        """Return what is loaded, as a followed load is asked for."""
        named = self.named
        return Request(named.sources, named.to, named.table, named.options, named.password)

    @property
    def files(self) -> Path:
        """Return the path, without an extension, of what is kept of it on this machine."""
        text = f"{self.named.path}\0{self.target.text}\0{self.table_text}"
        digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
        return state_folder() / "pipelines" / f"{self.name}-{digest}"

    @contextmanager
    def log(self) -> Iterator[PipelineLog]:
        """Open the log of its events: beside the target, or on this machine.

        Raises:
            TargetError: the target is out of reach.
        """
        with self.destination.beside(self.target) as tables:
            if tables is not None:
                yield SharedLog(tables, f"{self.name} {self.table_text}")
                return
            yield LocalLog(
                state_folder() / LOCAL_LOG,
                "\0".join((self.name, os.path.abspath(self.target.text), self.table_text)),
            )


def open_pipeline(named: NamedLoad) -> Pipeline:
    """Return a pipeline whose folder is the current one.

    Raises:
        UsageError: its target makes no sense, or keeps nothing.
    """
    table = named.table if named.table is not None else default_table(named.sources)
    target = open_target(named.to, table, _checked(named.options), named.password)
    destination = open_destination(target)
    destination.check(target, named.options)
    if not destination.follows:
        raise UsageError(
            f"pipeline {named.name} needs a table, and {target.text} is none",
            hint="What has been loaded is remembered with the table.",
        )
    return Pipeline(named, target, destination)


def _checked(options: Options) -> Options:
    from rowfall.core.after import after_of

    after_of(options)
    return options


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Run in a folder: relative names of a project file are seen from its own.

    Raises:
        UsageError: it is gone.
    """
    before = os.getcwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(f"cannot enter {folder}: {(error.strerror or '').lower()}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(before)
