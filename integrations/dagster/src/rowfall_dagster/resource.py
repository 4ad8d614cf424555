"""Runs loads in a process of their own, and tells Dagster what became of them."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster import (
    AssetExecutionContext,
    AssetKey,
    ConfigurableResource,
    Failure,
    MaterializeResult,
    MultiPartitionKey,
    TableColumn,
    TableSchema,
)

from rowfall.core.sql import literal
from rowfall.project import find_project
from rowfall_dagster.assets import LOAD, PARAM, PROJECT

# rowfall ends its statements within two seconds of SIGTERM, and gives up a server that does not
# answer after some more; then its process is killed, which no row is lost by either.
_STOP_SECONDS = 60.0
_PARTIAL, _INTERRUPTED = 1, 130
_COLUMNS = (
    "SELECT column_name AS name, data_type AS type FROM information_schema.columns "
    "WHERE table_schema = {schema} AND table_name = {table} ORDER BY ordinal_position"
)


class Rowfall(ConfigurableResource["Rowfall"]):
    """The command ``rowfall`` of this environment.

    Args:
        memory: for all loads of a step together, as ``8GiB``; None for half of what is free.
        at_once: loads of a step that run at the same time at most; None for as many as fit.
        verify: read the source of each load again and compare checksums: it takes about as long
            as the load.
    """

    memory: str | None = None
    at_once: int | None = None
    verify: bool = False

    def run(
        self, context: AssetExecutionContext, *arguments: str
    ) -> Iterator[MaterializeResult[Any]]:
        """Run the loads whose assets are selected, for each partition of this run.

        Args:
            arguments: more of ``rowfall run``, as ``--threads``, ``4``.

        Raises:
            dagster.Failure: one is not done. It is retried where that may help: after exit code 1
                (but for bad data, which stays bad), and where the process was killed or stopped.
        """
        loads = _Loads(context)
        partitions = context.partition_keys if context.has_partition_key_range else [None]
        if context.has_partition_key:
            partitions = [context.partition_key]
        found: dict[str, list[Mapping[str, Any]]] = {}
        problems: list[tuple[str, Mapping[str, Any]]] = []
        for partition in partitions:
            document = self._run(context, loads, loads.filled(partition), arguments)
            for one in document["loads"]:
                if one["exit"] == 0:
                    found.setdefault(one["name"], []).append(one)
                else:
                    problems.append((one["name"], one))
            if problems:
                break
        failed = {name for name, _ in problems}
        for name, several in found.items():
            if name in failed:  # of an earlier partition: the next try finds it loaded
                continue
            reports = [report for one in several for report in _reports(one)]
            metadata = _metadata(several, reports)
            if self.verify:
                loaded = [load_id for one in several for load_id in _loaded(one)]
                metadata["checksum"] = self._verified(context, loads, name, loaded)
            metadata |= self._table(context, loads, name, reports)
            yield MaterializeResult(asset_key=loads.keys[name], metadata=metadata)
        if problems:
            raise _failure(problems)

    def _run(
        self, context: AssetExecutionContext, loads: _Loads, params: Mapping[str, str],
        arguments: Sequence[str],
    ) -> Mapping[str, Any]:  # fmt: skip
        """Return the document of ``rowfall run``."""
        words = ["run", *loads.keys, "--json"]
        words += [word for each in params.items() for word in ("--param", "=".join(each))]
        words += ["--memory", self.memory] if self.memory else []
        words += ["--at-once", str(self.at_once)] if self.at_once else []
        code, document = loads.command(context, [*words, *arguments])
        if "rowfall_run" not in document:
            raise _failure([(", ".join(loads.keys), {"exit": code, **document})])
        return document

    def _verified(
        self, context: AssetExecutionContext, loads: _Loads, name: str, loaded: Sequence[str]
    ) -> str:
        """Return the checksums of the rows that were loaded; "" where there were none.

        Args:
            loaded: ids of loads.

        Raises:
            dagster.Failure: source and target differ, or one of them cannot be read.
        """
        checksums = []
        for load_id in loaded:
            words = ["verify", load_id, "--json", *loads.target(name)]
            code, document = loads.command(context, words)
            if code:
                raise _failure([(name, {"exit": code, **document})])
            checksums.append(document["source_checksum"])
        return " ".join(checksums)

    def _table(
        self, context: AssetExecutionContext, loads: _Loads, name: str,
        reports: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:  # fmt: skip
        """Return the table's name and columns as metadata; of targets without tables nothing."""
        tables = {report["table"] for report in reports}
        if len(tables) != 1 or "." not in (table := tables.pop()):
            return {}
        schema, _, short = table.rpartition(".")
        sql = _COLUMNS.format(schema=literal(schema), table=literal(short))
        _, document = loads.command(context, ["query", sql, "--json", *loads.target(name)], True)
        columns = [TableColumn(one["name"], one["type"]) for one in document.get("data", ())]
        if not columns:
            return {"dagster/table_name": table}
        return {"dagster/table_name": table, "dagster/column_schema": TableSchema(columns)}


class _Loads:
    """The loads that a step runs.

    Attributes:
        keys: of their assets, by their names.
    """

    def __init__(self, context: AssetExecutionContext) -> None:
        of_all = context.assets_def.metadata_by_key
        selected = [(key, of_all[key]) for key in of_all if key in context.selected_asset_keys]
        self.keys: dict[str, AssetKey] = {of[LOAD]: key for key, of in selected}
        self._config = Path(selected[0][1][PROJECT])
        self._param = str(selected[0][1][PARAM])

    def filled(self, partition: str | None) -> Mapping[str, str]:
        """Return the parameters that a partition's key fills."""
        if isinstance(partition, MultiPartitionKey):
            return partition.keys_by_dimension
        return {} if partition is None else {self._param: partition}

    def target(self, name: str) -> list[str]:
        """Return ``--to`` for the target of a load."""
        made = find_project(str(self._config)).assembled("loads", name)
        if made.connection is not None:
            return ["--to", made.connection.name]
        return ["--to", made.values["to"][0]] if "to" in made.values else []

    def command(
        self, context: AssetExecutionContext, words: Sequence[str], quiet: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """Run rowfall in the folder of the project file.

        Its process ends with this one, and with the step.

        Args:
            quiet: what it says is not logged: nothing depends on it.

        Returns:
            Its exit code (negative for a signal) and its document, which holds at least ``error``
            where there is none.
        """
        command = [sys.executable, "-m", "rowfall", *words, "--config", str(self._config)]
        line = ""
        with (
            tempfile.TemporaryFile() as out,
            subprocess.Popen(
                command, cwd=self._config.parent, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.PIPE, text=True, errors="replace",
                preexec_fn=_end_with_parent,
            ) as process,
        ):  # fmt: skip
            try:
                for line in process.stderr or ():
                    if not quiet:
                        context.log.info("rowfall: %s", line.rstrip())
                code = process.wait()
            except BaseException:
                _stop(process)
                raise
            out.seek(0)
            text = out.read()
        try:
            document = json.loads(text)
        except ValueError:
            by = f"signal {-code}" if code < 0 else f"exit code {code}"
            document = {"error": f"rowfall has ended by {by}: {line.strip() or 'it said nothing'}"}
        return code, document


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>


def _end_with_parent() -> None:
    """End this process when its parent is killed: a retry would find the load locked by it."""
    if _LIBC is not None:
        _LIBC.prctl(_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _reports(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the reports of a load: one, or with ``tables`` none, as each table has its own."""
    report = one["report"]
    return [report] if report and "rowfall_report" in report else []


def _loaded(one: Mapping[str, Any]) -> list[str]:
    """Return the ids of what a load has loaded: one, or with ``tables`` one for each table."""
    report = one["report"] or {}
    if "rowfall_tables" in report:
        tables = report["tables"]
        return [each["load_id"] for each in tables if each["load_id"] and each["rows"]]
    return [report["load_id"]] if report.get("splits_loaded") else []


def _failures(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files that could not be loaded, or with ``tables`` the tables."""
    report = one.get("report") or {}
    if "rowfall_tables" in report:
        return [{"split": each["source"], **each["problem"]}
                for each in report["tables"] if each["problem"]]  # fmt: skip
    return list(report.get("failures") or ())


def _metadata(
    several: Sequence[Mapping[str, Any]], reports: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the figures of a load, of all partitions of the run together."""
    found: dict[str, Any] = {
        "rows": sum(one["rows"] for one in several),
        "seconds": round(sum(one["seconds"] for one in several), 3),
    }
    if reports:
        found |= {
            "bytes": sum(report["bytes_source"] for report in reports),
            "files": sum(report["splits_loaded"] for report in reports),
            "files_loaded_before": sum(report["splits_skipped"] for report in reports),
            "rows_rejected": sum(report["rows_rejected"] for report in reports),
            "load_id": " ".join(report["load_id"] for report in reports),
            "source": " ".join(dict.fromkeys(report["source"] for report in reports)),
        }
    return found


def _failure(problems: Sequence[tuple[str, Mapping[str, Any]]]) -> Failure:
    """Return what to raise for loads that are not done: in rowfall's own words."""
    said, metadata = [], {}
    for name, one in problems:
        failures = _failures(one) or [{}]
        error = one.get("error") or failures[0].get("error") or one.get("outcome", "not done")
        hint = one.get("hint") or failures[0].get("hint")
        where = failures[0].get("split")
        said.append(
            f"{name}: {f'{where}: ' if where else ''}{error}" + (f"\nhint: {hint}" if hint else "")
        )
        metadata[f"{name} exit code"] = one["exit"]
    retry = all(_may_work(one) for _, one in problems)
    return Failure("\n".join(said), metadata=metadata, allow_retries=retry)


def _may_work(one: Mapping[str, Any]) -> bool:
    """Return whether a load that is not done may be when it is run again as it is."""
    if one["exit"] == _PARTIAL:
        failures = (one.get("report") or {}).get("failures") or ()
        return not any(failure["lasting"] for failure in failures)
    return one.get("outcome") == "skipped" or one["exit"] == _INTERRUPTED or one["exit"] < 0
