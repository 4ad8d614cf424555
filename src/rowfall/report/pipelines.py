"""The state of a pipeline as text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rowfall.core import units
from rowfall.report.layout import WIDTH, grid, plain_facts, render, wrap

SHOWN_FAILED = 10


def pipeline_text(state: Mapping[str, Any], *, width: int = WIDTH) -> str:
    """Return the text of the document ``rowfall_pipeline``."""
    watcher, lag = state["watcher"], state["lag_objects"]
    follows = state["state"] not in ("stopped", "lost", "paused") or watcher
    since = f" for {_age(state['since'])}" if state["since"] and follows else ""
    rows = [
        ("source", state["source"]),
        ("target", f"{state['table']} in {state['target']}" if state["table"] else state["target"]),
    ]
    if watcher is not None:
        said = f"last sign {units.duration(watcher['idle'])} ago"
        rows.append(("watcher", f"{_who(watcher)}, {said}"))
    rows.append(("standing by", ", ".join(map(_who, state["standing_by"]))))
    if state["since"]:
        loaded = f"{units.counted(state['files'], 'file')}, {units.counted(state['rows'], 'row')}"
        last = state["last_batch"]
        rows.append(("loaded", loaded + (f"; the last batch {_ago(last)}" if last else "")))
        waits = f", {units.exact(state['waiting'])} not at rest" if state["waiting"] else ""
        age = units.duration(state["lag_seconds"])
        rows.append(("behind", f"{units.counted(lag, 'file')}, {age}{waits}" if lag or waits else
                     "nothing"))  # fmt: skip
    if state["background"] is not None:
        rows.append(("log", state["background"]["log"]))
    if state["last_error"]:
        rows.append(("last error", f"{state['last_error']} ({_ago(state['last_error_at'])})"))
    parts = [f"pipeline {state['name']}  {state['state']}{since}", plain_facts(rows, width=width)]
    if failed := state["failed_files"]:
        parts.append(f"\n{units.counted(state['failed'], 'file')} failed:")
        parts += [
            wrap(one["error"] if one["error"].startswith(one["file"]) else
                 f"{one['file']}: {one['error']}",
                 indent="    ", first="  ", width=width, whole=one["file"])
            for one in failed[:SHOWN_FAILED]
        ]  # fmt: skip
        if state["failed"] > SHOWN_FAILED:
            parts.append(f"  and {units.exact(state['failed'] - SHOWN_FAILED)} more")
        parts.append(
            wrap("A repaired file of the same name is loaded by itself; rowfall pipeline retry "
                 f"{state['name']} FILE tries one again as it is, skip leaves it out.", width=width)
        )  # fmt: skip
    return "\n".join(parts)


def pipelines_text(states: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each of some documents ``rowfall_pipeline``."""
    rows = [
        (state["name"], state["state"], units.exact(state["files"]), units.exact(state["rows"]),
         units.exact(state["lag_objects"]), units.exact(state["failed"]),
         state["table"] or state["target"])
        for state in states
    ]  # fmt: skip
    head = ("pipeline", "state", "files", "rows", "behind", "failed", "table")
    return render([grid([head, *rows], right={2, 3, 4, 5}, indent=0)])


def _who(watcher: Mapping[str, Any]) -> str:
    return f"{watcher.get('host', '?')} (pid {watcher.get('pid', '?')})"


def _ago(text: str) -> str:
    return f"{_age(text)} ago"


def _age(text: str) -> str:
    """Return how long ago a time was, as it is written in UTC."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    return units.duration(max(0.0, seconds))


def preview_document(
    name: str, table: str, file: str, files: int,
    shown: tuple[Sequence[tuple[str, str]], Sequence[Sequence[str | None]]],
    target: tuple[bool, str],
) -> dict[str, Any]:  # fmt: skip
    """Return the JSON document of ``rowfall pipeline test``.

    Args:
        shown: (name, type) of the columns, and rows.
        target: whether the table would be made, and why a load would fail, "" if not.
    """
    return {
        "rowfall_pipeline_test": 1, "name": name, "table": table, "creates": target[0],
        "files": files, "file": file,
        "columns": [{"name": column, "type": type_} for column, type_ in shown[0]],
        "rows": [list(row) for row in shown[1]], "refused": target[1],
    }  # fmt: skip


def preview_text(document: Mapping[str, Any], *, width: int = WIDTH) -> str:
    """Return the rows of ``rowfall pipeline test`` as a table."""
    made = "would be made" if document["creates"] else "is there"
    files = units.counted(document["files"], "file")
    columns = document["columns"]
    head = f"pipeline {document['name']}: {files}; {document['table']} {made}"
    if not document["rows"]:
        return f"{head}\nno rows could be read"
    rows = [[one["name"] for one in columns], [one["type"] for one in columns]]
    rows += [["NULL" if value is None else value for value in row] for row in document["rows"]]
    shown = len(document["rows"])
    file = document["file"].removeprefix(f"{os.getcwd()}/")
    parts = [wrap(head, width=width), f"first {units.counted(shown, 'row')} of {file}"]
    parts += ["", *_table(rows, width)]
    if document["refused"]:
        parts += ["", wrap(f"a load would fail: {document['refused']}", width=width)]
    return "\n".join([*parts, "", "nothing was written"])


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return rows as aligned columns, as many as fit; a value longer than a column is cut."""
    longest = max(8, (width - 2) // 3)
    cells = [[_cut(units.printable(value), longest) for value in row] for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    fits, used = 0, 2
    for one in widths:
        if used + one > width and fits:
            break
        used, fits = used + one + 2, fits + 1
    left = len(widths) - fits
    lines = [
        "  " + "  ".join(v.ljust(w) for v, w in zip(row[:fits], widths, strict=False)).rstrip()
        for row in cells
    ]
    return [
        *lines,
        *([f"  and {units.counted(left, 'column')} more (--json has all)"] if left else []),
    ]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
