"""``rowfall lab``: up, down and status of a private cluster."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowfall.cli.app import F, command, group, option
from rowfall.cli.output import CommandOutput
from rowfall.core import units
from rowfall.core.errors import Exit

if TYPE_CHECKING:
    from rowfall.lab.cluster import Lab

_DEFAULT = "rowfall-lab"
_ROW = "{:>4} {:>5} {:>7} {:>6} {:>6} {:>8} {:>9}  {}"


@group
def lab() -> None:
    """Run a private ClickHouse cluster to try things on.

    Real servers, one process each, on free ports of 127.0.0.1 and in a folder of their own. They
    keep running until 'rowfall lab down'.
    """


def _folder(function: F) -> F:
    return option(
        "--folder",
        metavar="FOLDER",
        default=_DEFAULT,
        group="Lab",
        help=f"Folder of the lab. Default: ./{_DEFAULT}.",
    )(function)


@command
@option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    group="Lab",
    help="Shards of a new lab. Default: 2.",
)
@option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="N",
    group="Lab",
    help="Replicas of each shard. Default: 2.",
)
@_folder
@option(
    "--clickhouse",
    metavar="PATH",
    group="Lab",
    help="The ClickHouse binary. Default: ROWFALL_CLICKHOUSE, or clickhouse on PATH.",
)
@click.pass_obj
def up(
    output: CommandOutput,
    shards: int | None,
    replicas: int | None,
    folder: str,
    clickhouse: str | None,
) -> int:
    """Start a cluster, or start the one in the folder again.

    Waits until all servers answer and ON CLUSTER works, then prints how to load into it. The
    password is in the file 'password' of the folder.
    """
    from rowfall.lab.process import (
        VARIABLE,
        LabUsageError,
        clickhouse_version,
        find_clickhouse,
    )

    program = find_clickhouse(clickhouse)
    if program is None:
        raise LabUsageError(
            "find ClickHouse: there is no program clickhouse on PATH",
            hint=f"Name one with --clickhouse or {VARIABLE}; clickhouse.com/docs/install "
            "says how to get it. rowfall does not download it.",
        )
    version = clickhouse_version(program)
    found = _make(Path(folder), shards, replicas)
    output.talk(f"starting ClickHouse {version}: {_shape(found)}")
    found.up(program)
    if output.json:
        output.document(_document(found))
    else:
        output.data(_next_commands(found, folder))
    return Exit.DONE


@command
@_folder
@option("--remove", is_flag=True, group="Lab", help="Delete the folder and all data in it.")
@click.pass_obj
def down(output: CommandOutput, folder: str, remove: bool) -> int:
    """Stop the servers; their data stay for the next 'up'."""
    from rowfall.lab.cluster import Lab

    found = Lab.open(Path(folder))
    count = found.down(remove=remove)
    if output.json:
        output.document({"rowfall_lab_down": 1, "ended": count, "removed": remove})
    else:
        servers = units.counted(count, "server")
        output.talk(f"stopped {servers}" + (f" and removed {folder}" if remove else ""))
    return Exit.DONE


@command
@_folder
@click.pass_obj
def status(output: CommandOutput, folder: str) -> int:
    """Show the servers of a lab: ports, processes, memory, and whether they answer."""
    from rowfall.lab.cluster import Lab

    found = Lab.open(Path(folder))
    document = _document(found)
    if output.json:
        output.document(document)
        return Exit.DONE
    head = ("node", "shard", "replica", "http", "tcp", "pid", "memory", "state")
    lines = [_ROW.format(*head)]
    for node in document["nodes"]:
        pid, memory = node["pid"] or "-", f"{node['memory_bytes'] / 1e6:.0f} MB"
        shown = ("node", "shard", "replica", "http_port", "tcp_port")
        lines.append(_ROW.format(*(node[x] for x in shown), pid, memory, node["state"]))
    output.data("\n".join([*lines, "", f"--to '{document['to']}'"]))
    return Exit.DONE


for _each in (up, down, status):
    lab.add_command(_each)


def _make(folder: Path, shards: int | None, replicas: int | None) -> Lab:
    """Open the lab in the folder, or make one."""
    from rowfall.lab.cluster import Lab
    from rowfall.lab.process import LabUsageError

    if not Lab.within(folder):
        return Lab.make(folder, shards or 2, replicas or 2)
    found = Lab.open(folder)
    if (shards or found.shards, replicas or found.replicas) != (found.shards, found.replicas):
        raise LabUsageError(
            f"start the lab in {found.folder}: it has {_shape(found)}",
            hint="Leave out --shards and --replicas, choose another --folder, or remove this one "
            "with 'rowfall lab down --remove'.",
        )
    return found


def _shape(found: Lab) -> str:
    shards = units.counted(found.shards, "shard")
    each = " each" if found.shards > 1 else ""
    return f"{shards} with {units.counted(found.replicas, 'replica')}{each}"


def _next_commands(found: Lab, folder: str) -> str:
    file = shlex.quote(os.path.join(folder, found.password_file.name))
    where = "" if folder == _DEFAULT else f" --folder {shlex.quote(folder)}"
    return "\n".join([
        f"The cluster is up: {_shape(found)}; node 1 runs the Keeper.",
        "",
        f'  export ROWFALL_PASSWORD="$(cat {file})"',
        f"  rowfall load ... --to '{found.uri()}'",
        f"  rowfall lab down{where}",
    ])  # fmt: skip


def _document(found: Lab) -> dict[str, Any]:
    """Return the document ``rowfall_lab``."""
    nodes = [
        {
            "node": node.number,
            "shard": node.shard,
            "replica": node.replica,
            "http_port": node.config.ports.http,
            "tcp_port": node.config.ports.tcp,
            "pid": node.pid,
            "state": node.state(),
            "memory_bytes": node.memory(),
        }
        for node in found.nodes
    ]
    return {
        "rowfall_lab": 1,
        "folder": str(found.folder),
        "password_file": str(found.password_file),
        "shards": found.shards,
        "replicas": found.replicas,
        "to": found.uri(),
        "nodes": nodes,
    }
