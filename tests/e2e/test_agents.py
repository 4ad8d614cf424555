"""``rowfall mcp``, asked by the client of the official SDK over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from e2e.tools import Shell
from lab.process import wait_until

Do = Callable[[Client], Awaitable[Any]]


def ask(shell: Shell, do: Do, *arguments: str) -> Any:
    """Start the server in the folder of the commands, and talk to it."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "rowfall", "mcp", *arguments], env=dict(shell.env),
        cwd=shell.folder,
    )  # fmt: skip

    async def talk() -> Any:
        async with Client(command) as client:
            return await do(client)

    return asyncio.run(talk())


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    assert isinstance(found.structured_content, dict)
    return found.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    found = await client.call_tool(tool, arguments)
    assert found.is_error
    return " ".join(getattr(c, "text", "") for c in found.content)


def test_a_load_is_planned_shown_and_made(shell: Shell) -> None:
    shell.write("t.csv", "id,city\n1,Oslo\n2,Bern\n")

    async def do(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"plan", "load", "doctor", "status", "report", "query"}
        writers = [
            n for n, t in tools.items() if not (t.annotations and t.annotations.read_only_hint)
        ]
        assert writers == ["load", "doctor"]  # samples of doctor are removed, and written
        assert tools["load"].annotations is not None
        assert tools["load"].annotations.destructive_hint  # with replace
        plan = await call(client, "plan", source=["t.csv"], options={"order_by": "id"})
        assert [c["name"] for c in plan["columns"]] == ["id", "city"]
        assert plan["first_rows"] == [["1", "Oslo"], ["2", "Bern"]]
        assert not (shell.folder / "rowfall-data").exists()
        report = await call(client, "load", plan_id=plan["plan_id"])
        assert (report["outcome"], report["rows"], report["failed"]) == ("done", 2, "")
        rows = await call(client, "query", sql="SELECT sum(id) AS s FROM t")
        assert rows["data"] == [{"s": 3}]
        loads = await call(client, "status")
        assert loads["loads"][0]["load_id"] == report["load_id"]
        assert (await call(client, "report", load="last"))["rows"] == 2
        # What it has loaded is skipped, and that is another plan.
        again = await refused(client, "load", plan_id=plan["plan_id"])
        assert "nothing was loaded: source or target have changed" in again

    ask(shell, do)


def test_what_is_refused(shell: Shell) -> None:
    shell.write("t.csv", "id\n1\n")

    async def do(client: Client) -> None:
        assert "call plan first" in await refused(client, "load", plan_id="0123456789abcdef")
        plan = await call(client, "plan", source=["t.csv"])
        shell.write("t.csv", "id,more\n1,2\n")
        assert "have changed" in await refused(client, "load", plan_id=plan["plan_id"])
        assert not (shell.folder / "rowfall-data").exists()
        secret = "clickhouse://u:hunter2@h/db"
        for tool, arguments in {
            "plan": {"source": ["t.csv"], "to": secret}, "query": {"sql": "SELECT 1", "to": secret},
            "status": {"to": secret}, "doctor": {"source": [secret]},
        }.items():  # fmt: skip
            said = await refused(client, tool, **arguments)
            assert "connection of rowfall.toml" in said
            assert "hunter2" not in said
        given = {"max_error": 1}
        assert "did you mean max_errors?" in await refused(
            client, "plan", source=["t.csv"], options=given
        )
        for option in ("force_append", "follow"):
            said = await refused(client, "plan", source=["t.csv"], options={option: True})
            assert "is not for agents" in said
        shell.ok("load", "t.csv")
        # The engine's own setting is met by what begins as if it read: see below.
        said = await refused(client, "query", sql="DROP TABLE t")
        assert "does not begin as one that reads" in said
        assert shell.row("SELECT count() FROM t") == [1]
        said = await refused(client, "query", sql="SELECT repeat('x', 100) FROM numbers(10000)")
        assert "longer than 256 KiB" in said
        missing = await refused(client, "plan", source=["gone.csv"])
        assert "exit code 4 (the source cannot be read)" in missing
        assert "gone.csv" in missing

    ask(shell, do)


@pytest.mark.long
def test_a_load_that_an_agent_takes_back_goes_on_later(shell: Shell) -> None:
    source = ["generate://cabs?rows=40000000"]

    def running() -> bool:
        if not (shell.folder / "rowfall-data").exists():
            return False
        loads = shell.ok("status", "--json").document["loads"]
        return bool(loads) and loads[0]["outcome"] == "running"

    async def do(client: Client) -> None:
        plan = await call(client, "plan", source=source, table="t")
        load = asyncio.create_task(client.call_tool("load", {"plan_id": plan["plan_id"]}))
        await asyncio.to_thread(wait_until, running, 60, "the load does not begin")
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        await asyncio.to_thread(wait_until, lambda: not running(), 60, "the load does not end")
        assert shell.ok("status", "--json").document["loads"][0]["outcome"] == "interrupted"
        rest = await call(client, "plan", source=source, table="t")
        done = await call(client, "load", plan_id=rest["plan_id"])
        assert done["outcome"] == "done"

    ask(shell, do)
    assert shell.row("SELECT count() FROM t") == [40_000_000]


@pytest.mark.long
def test_what_a_hostile_agent_tries(shell: Shell) -> None:
    shell.write("t.csv", "id,city\n1,Oslo\n2,Bern\n")
    shell.write("in/a.csv", "id\n1\n")
    shell.write("in/b.csv", "id\n2\n")
    taken: tuple[tuple[dict[str, Any], str], ...] = (
        ({"set": ["s3_secret_access_key=hunter22"]}, "option set holds a secret"),
        ({"s3_endpoint": "http://u:hunter22@h"}, "holds a secret"),
        ({"type": {"id": {"a": 1}}}, "takes a text or a number, or a list"),
        ({"delimiter": [";"], "quote": ["a", "b"]}, "quote takes one value"),
        ({"rejects": "/etc/x.tsv"}, "below the folder of this server"),
        ({"rejects": "../x.tsv"}, "below the folder of this server"),
        ({"rejects": "t.csv"}, "below the folder of this server"),
        ({"after_load": "delete"}, "is not for agents"),
        ({"on": "ray://h:1"}, "is not for agents"),
        ({"metrics_port": 0}, "is not for agents"),
        ({"columns": "a\0b"}, "character of the code 0"),
        ({"save": "x"}, "there is no option save"),
        ({"max_errors": "1 --force"}, "is not a valid integer"),
    )  # fmt: skip
    asked = {
        "SELECT 1 INTO OUTFILE 'o.csv'": "the statement writes a file (OUTFILE)",
        "SELECT 1; DROP TABLE t": "one statement",
        "SET readonly = 0": "does not begin as one that reads",
        "COPY (SELECT 1) TO 'o.csv'": "does not begin as one that reads",
        "--write": "does not begin as one that reads",
        "SELECT 1 SETTINGS readonly = 0": "(READONLY)",
        "SELECT * FROM url('http://127.0.0.1:9/?key=hunter22', CSV)": "holds a secret",
    }

    async def do(client: Client) -> None:
        for options, why in taken:
            said = await refused(client, "plan", source=["t.csv"], options=options)
            assert why in said
            assert "hunter22" not in said
        for source, why in ((["-"], "no stdin"), ([], "no source"), (["--force"], "no such file"),
                            (["x" * 200_000], "too long")):  # fmt: skip
            assert why in await refused(client, "plan", source=source)
        given = {"delimiter": None, "header": True, "set": {"max_threads": 1}, "null": "--force"}
        plan = await call(client, "plan", source=["t.csv"], to="--replace", options=given)
        assert plan["target"] == str(shell.folder / "--replace")
        many = await call(client, "plan", source=["in/*.csv"], options={"table_per_file": True})
        assert [table["table"] for table in many["tables"]] == ["a", "b"]
        done = await call(client, "load", plan_id=many["plan_id"])
        assert (done["outcome"], done["rows"]) == ("done", 2)
        for sql, why in asked.items():
            said = await refused(client, "query", sql=sql)
            assert why in said
            assert "hunter22" not in said
        assert (await call(client, "query", sql="/* a */ -- b\n WITH 1 AS x SELECT x"))["rows"] == 1
        assert not (shell.folder / "o.csv").exists()

    ask(shell, do)


def children(pid: int) -> list[int]:
    """The processes below one, which may lead sessions of their own."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, found) for each in (child, *children(child))]


def there(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.long
@pytest.mark.parametrize("end", ["hangs up", "SIGTERM", "Ctrl-C"])
def test_no_process_is_left(shell: Shell, end: str) -> None:
    """The client hangs up, ends its server, or is ended at a terminal, in the middle of a query."""
    master, terminal = pty.openpty()  # Ctrl-C comes while a thread waits for the next line
    own = terminal if end == "Ctrl-C" else subprocess.PIPE
    server = subprocess.Popen(
        [sys.executable, "-m", "rowfall", "mcp"], stdin=own, stdout=subprocess.DEVNULL,
        cwd=shell.folder, env={**os.environ, **shell.env, "HOME": str(shell.cli.home)},
        start_new_session=True,
    )  # fmt: skip
    write = master if end == "Ctrl-C" else server.stdin.fileno()  # type: ignore[union-attr]
    sql = "SELECT sleepEachRow(1) FROM numbers(600) SETTINGS max_block_size = 1"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
    for message in (
        {"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": sql}}},
    ):  # fmt: skip
        os.write(write, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    try:
        # The command, and the engine below it.
        wait_until(lambda: len(children(server.pid)) >= 2, 60, "the query does not run")
        below = children(server.pid)
        if end == "hangs up":
            server.stdin.close()  # type: ignore[union-attr]
        else:
            server.send_signal(signal.SIGTERM if end == "SIGTERM" else signal.SIGINT)
        assert server.wait(timeout=30) == (0 if end == "hangs up" else 130)
        wait_until(lambda: not any(map(there, below)), 10, "a process is left")
    finally:
        server.kill()
        if server.stdin is not None:
            server.stdin.close()
        os.close(master)
        os.close(terminal)
