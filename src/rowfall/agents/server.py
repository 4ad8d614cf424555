"""The server of the Model Context Protocol: the tools, and what each may do.

Nothing is written but by ``load``, which takes the id of a plan that this server has shown, and
looks again before it starts: what would be loaded otherwise than it was shown is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from rowfall.agents import commands
from rowfall.agents.commands import CommandResult, load_arguments
from rowfall.core.errors import Exit, RowfallError
from rowfall.core.version import __version__

INSTRUCTIONS = """rowfall loads files, buckets, databases and topics into ClickHouse, PostgreSQL,
MySQL, DuckDB, Kafka and Iceberg, each row exactly once. Call plan first and look at columns and
first_rows; then load with its plan_id. A load that failed in part or was interrupted goes on where
it was when it is planned and loaded again. Never put passwords or keys into arguments: name a
connection of rowfall.toml, or ask the person who runs this server to set them in its environment.
"""
# What makes a plan another one: which rows come from where, and what is made of them. Forecasts
# differ from one look to the next.
_BINDING = ("source", "target", "database", "table", "ddl", "listing", "loaded", "schema")
# What helps to judge a plan. Its attempts and settings are thousands of lines of a large load.
_SHOWN = (
    "source", "target", "database", "table", "delivery", "placement", "decoder", "promise",
    "visibility", "upsert", "views", "ddl", "first_rows", "listing", "loaded", "forecast",
)  # fmt: skip
# Documents of a load that began, and of one of many tables, whatever became of it.
_REPORTS = {"rowfall_report", "rowfall_tables"}
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=True)


def serve(to: str | None) -> None:
    """Answer an agent over stdin and stdout until it hangs up.

    Args:
        to: the target of tools that are not told one; None for that of the command line.
    """
    asyncio.run(_serve(made(to)))


async def _serve(server: MCPServer[Any]) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    serving = asyncio.create_task(server.run_stdio_async())
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    await commands.end_all()
    if stopped.is_set():
        # A thread of the SDK waits for the next line of stdin, and the interpreter for the thread.
        os._exit(Exit.INTERRUPTED)
    stopping.cancel()
    await serving


def made(to: str | None) -> MCPServer[Any]:
    """Return the server; see :func:`serve`."""
    server: MCPServer[Any] = MCPServer(
        "rowfall", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    plans: dict[str, list[str]] = {}
    own = to

    @server.tool(annotations=_READS)
    async def plan(
        source: list[str],
        to: str | None = None,
        table: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Show what a load would do, and write nothing: columns, first rows, forecast, plan_id.

        source: paths, globs and addresses (s3://, https://, postgresql://, kafka://, ...).
        to: the target or a connection of rowfall.toml. options: those of `rowfall load` by their
        names, as {"max_errors": 10, "delimiter": ";"}.
        """
        arguments = _arguments(source, to or own, table, options)
        found = await _planned(arguments)
        plans[found["plan_id"]] = arguments
        return found

    @server.tool(
        annotations=ToolAnnotations(
            # With replace or upsert rows take the place of others.
            read_only_hint=False,
            destructive_hint=True,
            idempotent_hint=True,
            open_world_hint=True,
        )
    )
    async def load(plan_id: str) -> dict[str, Any]:
        """Load what a plan has shown, exactly once; returns the report.

        plan_id: of a call of plan. Where source or target have changed since then, nothing is
        loaded: plan again. Files that are loaded already are skipped.
        """
        arguments = plans.get(plan_id)
        if arguments is None:
            raise ToolError(f"no plan {plan_id} was shown: call plan first, and use its plan_id")
        now = (await _planned(arguments))["plan_id"]
        if now != plan_id:
            raise ToolError(
                "nothing was loaded: source or target have changed since the plan was shown; call "
                "plan again, look at it, and load with its plan_id"
            )
        answer = await commands.run("load", "--json", *arguments)
        if isinstance(answer.document, dict) and _REPORTS & answer.document.keys():
            return {**answer.document, "notes_and_errors": answer.said, "failed": answer.error}
        return _document(answer)

    @server.tool(
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
        )
    )
    async def doctor(
        source: list[str],
        to: str | None = None,
        table: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Measure each link of a load and name the slowest; takes about 20 seconds.

        Samples are loaded into places of their own beside the target, and removed.
        """
        arguments = _arguments(source, to or own, table, options)
        return _document(await commands.run("doctor", "--json", *arguments))

    @server.tool(annotations=_READS)
    async def status(load: str | None = None, to: str | None = None) -> dict[str, Any]:
        """List the loads of a target, newest first, or show one, by its id or `last`."""
        return _document(await commands.run("status", "--json", *_target(to or own), *_load(load)))

    @server.tool(annotations=_READS)
    async def report(load: str, to: str | None = None) -> dict[str, Any]:
        """Show what a load has done, by its id or `last`: rows, rate, what limited it, failures."""
        return _document(await commands.run("report", "--json", *_target(to or own), *_load(load)))

    @server.tool(annotations=_READS)
    async def query(sql: str, to: str | None = None) -> dict[str, Any]:
        """Run one statement that only reads, where the data was loaded; returns its rows.

        The engine refuses statements that write. Ask for few rows: an answer of more than 256 KiB
        is an error.
        """
        try:
            commands.check_query(sql)
        except RowfallError as error:
            raise _refused(error) from None
        answer = await commands.run("query", "--json", *_target(to or own), "--", sql)
        if answer.cut:
            raise ToolError("the answer is longer than 256 KiB: ask for fewer rows or columns")
        return _document(answer)

    return server


async def _planned(arguments: list[str]) -> dict[str, Any]:
    """Return what an agent sees of a plan, and its id."""
    answer = await commands.run("plan", "--json", *arguments)
    document = answer.document
    if answer.code or not isinstance(document, dict):
        if answer.cut:
            raise ToolError("the plan is longer than 256 KiB: load with fewer columns or files")
        raise ToolError(answer.error)
    if "rowfall_tables_plan" in document:  # names, places and rows are all that it says
        made = _digest([arguments, document])
        return {"plan_id": made, **document, "notes": answer.said.splitlines()}
    binding = [arguments, {key: document.get(key) for key in _BINDING}]
    made = _digest(binding)
    columns = [
        {key: column.get(key) for key in ("name", "type", "reason")}
        for column in document["schema"]["columns"]
    ]
    shown = {key: document.get(key) for key in _SHOWN}
    return {"plan_id": made, **shown, "columns": columns, "notes": answer.said.splitlines()}


def _digest(binding: object) -> str:
    return hashlib.sha256(json.dumps(binding, sort_keys=True).encode()).hexdigest()[:16]


def _arguments(
    source: list[str], to: str | None, table: str | None, options: Mapping[str, Any] | None
) -> list[str]:
    try:
        return load_arguments(source, to, table, options or {})
    except RowfallError as error:
        raise _refused(error) from None


def _target(to: str | None) -> list[str]:
    try:
        commands.check_texts(to)
    except RowfallError as error:
        raise _refused(error) from None
    return [] if to is None else [f"--to={to}"]


def _load(load: str | None) -> list[str]:
    try:
        commands.check_texts(load)
    except RowfallError as error:
        raise _refused(error) from None
    return [] if load is None else ["--", load]


def _refused(error: RowfallError) -> ToolError:
    hint = error.hint or ""
    return ToolError(f"{error}. {hint[:1].upper()}{hint[1:]}".strip())


def _document(answer: CommandResult) -> dict[str, Any]:
    """Return the document of a command.

    Raises:
        ToolError: it failed.
    """
    if answer.code or not isinstance(answer.document, dict):
        raise ToolError(answer.error or "the answer is longer than 256 KiB: ask for less")
    return {**answer.document, "notes": answer.said.splitlines()}
