"""What became of single files of a pipeline: failed, to be tried again, or left out."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.nearest import nearest
from rowfall.core.results import Failure
from rowfall.ledger.pipeline_log import ASKED, FAILED, RETRY, SKIP, LogLine, PipelineLog


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A version of a file that could not be loaded, and has not been loaded or skipped since.

    Attributes:
        at: UTC, ISO 8601.
    """

    file: str
    version: str
    error: str
    hint: str
    at: str


class FileMarks:
    """The files of a pipeline that need somebody, as its log says; for any thread."""

    def __init__(self, log: PipelineLog) -> None:
        self._log = log
        # The load marks files while the signs of life hear what people have asked for. It is held
        # while the log is asked: what was read before a mark must not replace it.
        self._guard = threading.Lock()
        self.failed: dict[str, FailedFile] = {}
        self._skipped: dict[str, str] = {}
        self._wanted: dict[str, str] = {}
        self.read()

    def read(self) -> list[str]:
        """Read the log; return the files that had failed and are to be tried again."""
        with self._guard:
            return self._read()

    def _read(self) -> list[str]:
        latest: dict[str, LogLine] = {}
        for line in self._log.lines(files=True):
            if line.event in (FAILED, RETRY, SKIP):
                latest[line.item] = line
        before, self.failed, self._skipped, self._wanted = set(self.failed), {}, {}, {}
        for name, line in latest.items():
            said = json.loads(line.detail) if line.detail else {}
            version = str(said.get("version", ""))
            if line.event == FAILED:
                self.failed[name] = FailedFile(
                    name, version, str(said.get("error", "")), str(said.get("hint", "")),
                    str(said.get("at", "")),
                )  # fmt: skip
            elif line.event == SKIP:
                self._skipped[name] = version
            elif version:  # without one nobody has asked: another version has come
                self._wanted[name] = version
        return [name for name in before if name not in self.failed and name not in self._skipped]

    def takes(self, name: str, version: str) -> bool:
        """Tell whether a version of a file is to be loaded."""
        with self._guard:
            if self._skipped.get(name) == version:
                return False
            known = self.failed.get(name)
            if known is None:
                return True
            if known.version == version:
                return False
            # Repaired, or another one of that name: what was wrong with the one before is over.
            self._log.append(RETRY, item=name)
            del self.failed[name]
            return True

    def wants(self, name: str, version: str) -> bool:
        """Tell whether people have asked to try this version of a file again."""
        with self._guard:
            return self._wanted.get(name) == version

    def add(self, failure: Failure, name: str, version: str) -> None:
        """Remember that a version of a file has failed."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        found = FailedFile(name, version, failure.error, failure.hint or "", now)
        said = {"version": version, "error": found.error, "hint": found.hint, "at": now}
        with self._guard:
            self.failed[name] = found
            self._log.append(FAILED, item=name, detail=json.dumps(said))

    def again(self, file: str) -> FailedFile:
        """Let a failed file be tried once more; return what was wrong with it.

        Raises:
            UsageError: no file of this name has failed.
        """
        return self._ask(file, RETRY)

    def skip(self, file: str) -> FailedFile:
        """Leave the version of a file out that has failed; return what was wrong with it.

        Raises:
            UsageError: no file of this name has failed.
        """
        return self._ask(file, SKIP)

    def _ask(self, file: str, event: str) -> FailedFile:
        names = [name for name in self.failed if name == file or name.endswith(f"/{file}")]
        if len(names) != 1:
            near = nearest(file, self.failed) if not names else None
            raise UsageError(
                f"{file} is no file of this pipeline that has failed"
                if not names
                else f"{file} is the end of {len(names)} names: {', '.join(sorted(names)[:3])}",
                hint=f"Did you mean {near}?" if near else "The status of the pipeline lists them.",
            )
        found = self.failed.pop(names[0])
        self._log.append(event, item=found.file, detail=json.dumps({"version": found.version}))
        self._log.append(ASKED)
        return found
