"""The configuration of Hadoop's clients: which name nodes a name service has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rowfall.core.errors import UsageError

RPC_PORT, HTTP_PORT = 8020, 9870
"""Ports of a name node where nothing else is configured (Hadoop 3)."""

Place = tuple[str, int, int]
"""Host of a name node, its RPC port, and that of its web interface."""


def folders() -> list[Path]:
    """Return where the configuration may be, as Hadoop's own tools look for it."""
    given = os.environ.get("HADOOP_CONF_DIR")
    home = os.environ.get("HADOOP_HOME")
    found = [Path(given)] if given else []
    return [*found, *([Path(home, "etc/hadoop")] if home else []), Path("/etc/hadoop/conf")]


def name_nodes(service: str) -> tuple[Place, ...]:
    """Return the name nodes of a name service, none where no configuration names it.

    Raises:
        UsageError: the configuration cannot be read, or lacks the address of one of them.
    """
    for folder in folders():
        found = _settings(folder)
        listed = found.get(f"dfs.ha.namenodes.{service}", "")
        if names := [name.strip() for name in listed.split(",") if name.strip()]:
            return tuple(_place(folder, found, f"{service}.{name}") for name in names)
    return ()


def _settings(folder: Path) -> dict[str, str]:
    from xml.etree import ElementTree  # 10 ms that other loads save

    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        path = folder / name
        try:
            root = ElementTree.parse(path).getroot()  # noqa: S314 - of the user's own machine
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        for item in root.iter("property"):
            key, value = item.findtext("name"), item.findtext("value")
            found[(key or "").strip()] = (value or "").strip()
    return found


def _place(folder: Path, settings: Mapping[str, str], node: str) -> Place:
    rpc = settings.get(f"dfs.namenode.rpc-address.{node}", "")
    web = settings.get(f"dfs.namenode.http-address.{node}", "")
    host, _, port = rpc.partition(":")
    _, _, web_port = web.partition(":")
    try:
        if host:
            return host, int(port or RPC_PORT), int(web_port or HTTP_PORT)
    except ValueError:
        pass
    raise UsageError(
        f"{folder}/hdfs-site.xml names no address of the name node {node}",
        hint=f"Give it one, as HOST:PORT, in dfs.namenode.rpc-address.{node}.",
    )
