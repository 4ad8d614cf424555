"""``rowfall mcp``, asked by the client of the official SDK over stdin and stdout."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
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
        assert writers == ["load"]
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
        assert "(READONLY)" in await refused(client, "query", sql="DROP TABLE t")
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
