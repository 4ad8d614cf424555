"""The operator: one load of rowfall as a task."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

from airflow.sdk import BaseHook, BaseOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from rowfall_airflow.connections import SECRET_WORDS, Address, source_of, target_of
from rowfall_airflow.lineage import lineage_of
from rowfall_airflow.process import LoadProcess, LoadResult
from rowfall_airflow.triggers import ENDED, LATE, UNSEEN, RowfallTrigger

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

RETRY_CODES = (1, 6, 130)
"""Exit codes after which the same command may do the rest: some files failed, the engine died, it
was interrupted. All others need a person: docs/reference/exit-codes.md."""
_WEB = re.compile(r"https?://", re.IGNORECASE)
_HOST = r"(?:\[[^]]*\]|[^:,\[\]]*)(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_NAMED_VALUE = re.compile(r"[?&][\w.-]+=")
# Options whose value is a word where YAML and Python have a truth value.
_YES_NO = ("header",)
# A stream that goes on for ever is a pipeline, and a report of another kind is none of a task.
_NOT_HERE = {
    "follow": "a task has an end: follow with `rowfall pipeline start`, or schedule the DAG",
    "json": "the operator asks for it itself",
    "config": "give config= to the operator",
    "to": "give to= or to_conn_id= to the operator",
    "table": "give table= to the operator",
}


class RowfallOperator(BaseOperator):
    """Load files, buckets, tables or topics with ``rowfall load``, each row exactly once.

    The words are those of the command: ``source``, ``to``, ``table``, and ``options`` by their long
    names with ``_`` for ``-``. The load runs as a process of its own, so its memory is not the
    worker's (bound it by ``options={"memory": "2GiB"}``), and a try that follows a lost worker
    finds a load that still runs. Where it does not, the same command loads what is missing.

    Args:
        source: what to load, one or several. With ``source_conn_id`` a table or topic in it.
        to: target as on the command line, without a password. ``table``: to load into.
        source_conn_id: connection of the type postgres, mysql, clickhouse, kafka or aws.
        to_conn_id: connection of the type clickhouse, postgres, mysql or kafka.
        database: of the target, in place of the one that its connection names.
        options: of ``rowfall load``: ``{"order_by": "id", "type": {"id": "UInt64"}}``.
        config: a ``rowfall.toml``, whose connections ``to`` may name.
        deferrable: give the slot of the worker back while the load runs.
        retry_codes: exit codes after which Airflow's retries make sense.
        poll_seconds: between two looks of the trigger.
        state_dir: folder for what runs, which workers and triggerers see; by default
            ``[rowfall] state_dir`` of Airflow's configuration, else ``AIRFLOW_HOME/rowfall``.
        rowfall: path of the command; by default the one of this environment, else of ``PATH``.

    The result (XCom) is a summary of the load's report: ``load``, ``outcome``, ``rows``, ``bytes``,
    ``files``, ``files_loaded_before``, ``seconds``, ``target``, ``table``.

    Raises:
        AirflowFailException: the load would fail again in the same way: no retry.
        AirflowException: a retry may load the rest.
    """

    template_fields: Sequence[str] = (
        "source", "to", "table", "database", "options", "config", "state_dir",
    )  # fmt: skip
    template_fields_renderers: ClassVar[dict[str, str]] = {"options": "json"}
    ui_color = "#ffe9a8"

    def __init__(
        self,
        *,
        source: str | Sequence[str] = "",
        to: str | None = None,
        table: str | None = None,
        source_conn_id: str | None = None,
        to_conn_id: str | None = None,
        database: str | None = None,
        options: Mapping[str, Any] | None = None,
        config: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        retry_codes: Sequence[int] = RETRY_CODES,
        poll_seconds: float = 2.0,
        state_dir: str | None = None,
        rowfall: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source, self.to, self.table = source, to, table
        self.source_conn_id, self.to_conn_id, self.database = source_conn_id, to_conn_id, database
        self.options, self.config = options, config
        self.deferrable, self.retry_codes = deferrable, tuple(retry_codes)
        self.poll_seconds, self.state_dir, self.rowfall = poll_seconds, state_dir, rowfall
        self._load: LoadProcess | None = None
        self._sources: list[str] = []
        self._report: Mapping[str, Any] = {}

    # --- the task ---------------------------------------------------------------------------------

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the load, or wait for the one that an earlier try has left running."""
        load = self._begin(context)
        if self.deferrable:
            limit = self.execution_timeout
            self.defer(
                trigger=RowfallTrigger(
                    str(load.folder), self.poll_seconds,
                    None if limit is None else time.time() + limit.total_seconds(),
                ),
                method_name="execute_complete",
            )  # fmt: skip
        return self._wait(load)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on when the trigger has seen the load end."""
        command, _ = self._command()
        load = self._load = self._found(context, command)
        state = event["state"]
        if state == LATE:
            load.end()
            raise AirflowException(
                f"the load took longer than the task may ({self.execution_timeout}), and was "
                "interrupted; the next try goes on with it"
            )
        if state == UNSEEN or not load.is_here():
            self.log.warning(
                "%s is not on the machine of the %s: the task waits for its load itself. Let "
                "state_dir be a folder that workers and triggerers share.",
                load.folder, "triggerer" if state == UNSEEN else "worker",
            )  # fmt: skip
            return self._wait(self._begin(context))
        if state != ENDED:
            raise AirflowFailException(f"an event that means nothing here: {state}")
        return self._wait(load)

    def on_kill(self) -> None:
        """End the load as Ctrl-C does: what is visible stays, and the next try loads the rest."""
        if self._load is not None:
            self.log.info("ending the load")
            self._load.end()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return what was read and written, with rows and bytes."""
        return lineage_of(self._sources, self._report)

    # --- the load ---------------------------------------------------------------------------------

    def _begin(self, context: Context) -> LoadProcess:
        command, environment = self._command()
        load = self._load = self._found(context, command)
        if load.start(command, environment):
            self.log.info("running %s", shlex.join(map(_shown, command)))
        else:
            self.log.info("an earlier try has begun the load: %s", shlex.join(map(_shown, command)))
        return load

    def _found(self, context: Context, command: Sequence[str]) -> LoadProcess:
        instance = context["ti"]
        task = (instance.dag_id, instance.run_id, instance.task_id, str(instance.map_index))
        home = os.environ.get("AIRFLOW_HOME") or os.path.expanduser("~/airflow")
        parent = self.state_dir or conf.get("rowfall", "state_dir", fallback=f"{home}/rowfall")
        return LoadProcess.named(str(parent), task, command)

    def _wait(self, load: LoadProcess) -> dict[str, Any]:
        for line in load.said():
            self.log.info("%s", line)
        return self._ended(load, load.result())

    def _ended(self, load: LoadProcess, result: LoadResult) -> dict[str, Any]:
        code, report = result.code, result.document
        if code != 0:
            why = _reason(result)
            if code is None or code < 0 or code in self.retry_codes:
                if _lasting(report):
                    raise AirflowFailException(f"{why}; the same load would fail again")
                raise AirflowException(f"{why}; a retry loads what is missing, each row once")
            raise AirflowFailException(why)
        self._report = report
        load.remove()
        return _summary(report)

    # --- the command ------------------------------------------------------------------------------

    def _command(self) -> tuple[list[str], dict[str, str]]:
        """Return the command, without secrets, and the variables that hold them."""
        environment: dict[str, str] = {}
        try:
            self._sources = [self._address(source, environment) for source in self._given()]
            to = self.to
            if self.to_conn_id:
                if to:
                    raise ValueError("give to or to_conn_id, not both")
                target = target_of(BaseHook.get_connection(self.to_conn_id), self.database)
                to = target.url
                environment.update(target.environment)
            for text in (*self._sources, to or ""):
                _check_secret(text)
            arguments = [*_flags("to", to), *_flags("table", self.table)]
            for name, value in (self.options or {}).items():
                if why := _NOT_HERE.get(name.replace("-", "_")):
                    raise ValueError(f"the option {name} is not for a task: {why}")
                arguments += _flags(name, value)
        except ValueError as error:
            raise AirflowFailException(str(error)) from None
        before = ["--config", self.config] if self.config else []
        return [
            self._program(), "--json", "--no-color", *before, "load", *arguments, "--",
            *self._sources,
        ], environment  # fmt: skip

    def _given(self) -> list[str]:
        given = [self.source] if isinstance(self.source, str) else [*self.source]
        if not self.source_conn_id and not any(given):
            raise ValueError("no source is given")
        return given

    def _address(self, source: str, environment: dict[str, str]) -> str:
        if not self.source_conn_id:
            return source
        found: Address = source_of(BaseHook.get_connection(self.source_conn_id), source)
        environment.update(found.environment)
        return found.url

    def _program(self) -> str:
        if self.rowfall:
            return self.rowfall
        beside = Path(sys.executable).with_name("rowfall")
        found = str(beside) if beside.exists() else shutil.which("rowfall")
        if not found:
            raise AirflowFailException(
                "no command rowfall; install it (pip install rowfall) in the worker's environment, "
                "or in another and give rowfall='/path/to/rowfall'"
            )
        return found


def _flags(name: str, value: Any) -> list[str]:
    """Return an option as the command line has it; None and False are left out.

    After ``=`` a value that begins with a dash is a value all the same.
    """
    flag = "--" + name.replace("_", "-")
    if name in _YES_NO and isinstance(value, bool):
        return [f"{flag}={'yes' if value else 'no'}"]
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        between = " " if name == "type" else "="
        value = [f"{key}{between}{said}" for key, said in value.items()]
    many = value if isinstance(value, list | tuple) else (value,)
    return [f"{flag}={one}" for one in many]


def _check_secret(address: str) -> None:
    """Check that an address holds no password: the DAG's text is stored and shown.

    Raises:
        ValueError: it does; the error does not repeat it.
    """
    if "://" not in address:
        return
    scheme, _, rest = address.partition("://")
    first, before = re.split("[/?#]", rest, maxsplit=1)[0], rest.rpartition("@")[0]
    password = ":" in first.rpartition("@")[0]
    if before and ":" in first and "@" not in first:
        # A password that nobody has percent-encoded may end what is taken for the host. What is no
        # port is one; so may be a port, but paths of the web and of HDFS may have an "@".
        paths = scheme.lower() == "hdfs" or _WEB.match(address) or _NAMED_VALUE.search(before)
        password = not paths or not _HOSTS.fullmatch(first)
    # Parameters of the web are mostly signatures, which only the log must not have.
    given = () if _WEB.match(address) else parse_qsl(rest.partition("?")[2])
    secret = [name for name, _ in given if any(word in name.lower() for word in SECRET_WORDS)]
    if secret or password:
        raise ValueError(
            f"the address of {scheme}:// holds "
            f"{secret[0] if secret else 'a password'}; keep it in a connection of Airflow and name "
            "that (to_conn_id, source_conn_id)"
        )


def _shown(word: str) -> str:
    """Return a word of the command for the log: an address of the web without its parameters."""
    head, mark, _ = word.partition("?")
    return f"{head}?***" if mark and _WEB.match(word) else word


def _lasting(report: Mapping[str, Any]) -> bool:
    """Tell whether each file that failed would fail again: bad data, other columns."""
    failures = report.get("failures") or []
    return bool(failures) and all(failure.get("lasting") for failure in failures)


def _reason(result: LoadResult) -> str:
    """Return what went wrong, in the words of rowfall."""
    document, code = result.document, result.code
    if "error" in document:
        hint = document.get("hint")
        return f"exit code {code}: {document['error']}" + (f" ({hint})" if hint else "")
    if failures := document.get("failures"):
        first = failures[0]
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        return f"exit code {code}: {first['error']}{more}"
    if code is None:
        return "the load was lost: its machine or container has gone"
    if code < 0:
        return f"the load was killed by signal {-code}"
    return f"exit code {code}; its log says why"


def _summary(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task pushes: small, as XComs are rows of Airflow's database."""
    if "rowfall_tables" in report:
        tables = report["tables"]
        return {
            "outcome": report["outcome"], "rows": report["rows"], "seconds": report["seconds"],
            "target": report["target"],
            "tables": {table["table"]: table["rows"] for table in tables},
            "loads": [table["load_id"] for table in tables if table["load_id"]],
        }  # fmt: skip
    return {
        "load": report["load_id"], "outcome": report["outcome"], "rows": report["rows"],
        "rows_rejected": report["rows_rejected"], "bytes": report["bytes_source"],
        "files": report["splits_loaded"], "files_loaded_before": report["splits_skipped"],
        "seconds": report["total_seconds"], "target": report["target"], "table": report["table"],
    }  # fmt: skip
