"""Write what is made from code: ``python docs/make_reference.py``.

These are the pages in docs/reference, and the keyword options of the library with their types,
which an editor completes. A test compares them with what this makes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from rowfall.cli.app import ALL_TOPICS, COMMANDS, GroupedCommand, cli
from rowfall.core.engine_formats import BY_NAME, ENGINE_FORMATS
from rowfall.core.errors import Exit
from rowfall.core.formats import FORMATS
from rowfall.core.options import ADOPT, LOAD, PLAN, READ, SCALE, TUNE, Flag, Options, flags_of
from rowfall.telemetry.figures import COUNTER, METRICS
from rowfall.telemetry.otlp import otel_name

KEYWORDS = Path(__file__).parents[1] / "src/rowfall/core/keywords.py"
_MADE = "<!-- Made by `python docs/make_reference.py`; edit the code instead. -->\n"

_EXITS = {
    Exit.DONE: "Everything is done.",
    Exit.PARTIAL: "Some files could not be loaded, or none could. What is loaded stays; run the "
    "same command again to load the rest.",
    Exit.USAGE: "The command line, an option, a URI or a configuration makes no sense.",
    Exit.LEDGER: "The ledger is damaged, locked by another load, newer than this version, or "
    "contradicts the target.",
    Exit.SOURCE: "The source cannot be listed or read, or holds a value that does not fit.",
    Exit.TARGET: "The target refuses: not writable, other columns, no right, disk full.",
    Exit.ENGINE: "The engine failed to run a statement, or died.",
    Exit.VERIFY: "Source and target hold different rows.",
    Exit.HOOK: "A hook of `rowfall run` failed. After one before a load nothing is loaded, after "
    "one behind it the rows are. The same command runs it again.",
    Exit.BUG: "A bug in rowfall. `--debug` prints the traceback to report.",
    Exit.INTERRUPTED: "Stopped by Ctrl-C. Run the same command again to resume.",
}


def exit_codes() -> str:
    """Return docs/reference/exit-codes.md."""
    lines = [
        "# Exit codes",
        "",
        _MADE,
        "An error is printed to stderr as `rowfall: error: <what>` with a line `hint: <what would",
        "help>` below it where there is something to say.",
        "",
        "| code | name | meaning |",
        "|---:|---|---|",
        *(f"| {code.value} | `{code.name.lower()}` | {_EXITS[code]} |" for code in Exit),
    ]
    return "\n".join(lines) + "\n"


def options() -> str:
    """Return docs/reference/options.md."""
    lines = [
        "# Options of load and plan",
        "",
        _MADE,
        "The Python API takes the same options by the name in the second column, as keyword",
        "arguments or fields of `rowfall.Options`. What every command takes besides is in",
        "[commands](commands.md).",
    ]
    groups: dict[str, list[str]] = {}
    for item in fields(Options):
        flag: Flag = item.metadata["flag"]
        shown = f"{', '.join(flag.flags)} {flag.metavar}".strip()
        text = flag.help + (" May be given more than once." if flag.many else "")
        row = f"| `{shown}` | `{item.name}` | {', '.join(flag.commands)} | {_cell(text)} |"
        groups.setdefault(flag.group, []).append(row)
    for group, rows in groups.items():
        lines += ["", f"## {group}", "", "| option | in Python | commands | |", "|---|---|---|---|"]
        lines += rows
    return "\n".join(lines) + "\n"


def keywords() -> str:
    """Return src/rowfall/core/keywords.py: the keyword options with their types."""
    load, plan, scale, adopt, tune, rows = (
        {item.name: item for item, _ in flags_of(command)}
        for command in (LOAD, PLAN, SCALE, ADOPT, TUNE, READ)
    )
    both, only = rows.keys() & scale.keys(), (rows.keys() & plan.keys()) - scale.keys()
    classes = (
        ("SourceKeywords", "TypedDict", "read, load, plan and scale", both),
        ("SelectKeywords", "TypedDict", "read, load and plan", only),
        ("RowKeywords", "SourceKeywords, SelectKeywords", "read", rows.keys() - plan.keys()),
        (
            "ReadKeywords",
            "SourceKeywords",
            "load, plan and scale",
            plan.keys() & scale.keys() - both,
        ),
        (
            "PlanKeywords",
            "ReadKeywords, SelectKeywords",
            "load and plan",
            plan.keys() - scale.keys() - only,
        ),
        ("LoadKeywords", "PlanKeywords", "load", load.keys() - plan.keys()),
        ("ScaleKeywords", "ReadKeywords", "scale", scale.keys() - plan.keys()),
        ("AdoptKeywords", "TypedDict", "adopt", adopt.keys()),
        ("TuneKeywords", "PlanKeywords", "tune", tune.keys() - plan.keys()),
    )
    lines = [_KEYWORDS_HEAD]
    for name, base, users, names in classes:
        lines += ["", "", f"class {name}({base}, total=False):"]
        lines += [f'    """Options of {users}."""']
        for item in fields(Options):
            if item.name in names:
                lines += ["", f"    {item.name}: {_type_of(item)}", *_docstring(item)]
    return "\n".join(lines) + "\n"


_KEYWORDS_HEAD = '''\
"""Name the keyword options of the library with their types, for editors and type checkers.

Made by ``python docs/make_reference.py`` from :mod:`rowfall.core.options`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Literal, TypedDict'''


def _docstring(item: Field[Any]) -> list[str]:
    lines = wrap('"""' + item.metadata["flag"].help, 96, break_on_hyphens=False)
    if len(lines) == 1 and len(lines[0]) <= 93:
        return [f'    {lines[0]}"""']
    return [*(f"    {line}" for line in lines), '    """']


def _type_of(item: Field[Any]) -> str:
    """Return the type of an option as Python code may give it, see ``options.from_keywords``."""
    flag: Flag = item.metadata["flag"]
    declared = str(item.type)
    if flag.many:
        known = "str | Iterable[str]"
        return known if flag.metavar == "NAME" else f"{known} | Mapping[str, object]"
    if not declared.startswith("str"):
        return declared
    optional = " | None" if declared.endswith("None") else ""
    if flag.metavar == "yes|no":
        return 'bool | Literal["yes", "no"]' + optional
    if re.fullmatch(r"[a-z0-9]+(\|[a-z0-9]+)+", flag.metavar):
        words = ", ".join(f'"{word}"' for word in flag.metavar.split("|"))
        return f"Literal[{words}]{optional}"
    more = {"FILE": " | PathLike[str]", "SIZE": " | int", "N": " | float"}.get(flag.metavar, "")
    return f"str{more}{optional}"


def commands() -> str:
    """Return docs/reference/commands.md."""
    lines = ["# Commands", "", _MADE, *_help([])]
    for name in COMMANDS:
        lines += ["", f"## rowfall {name}", "", *_help([name])]
        command = cli.get_command(click.Context(cli), name)
        for below in command.commands if isinstance(command, click.Group) else ():
            lines += ["", f"### rowfall {name} {below}", "", *_help([name, below])]
    return "\n".join(lines) + "\n"


def formats() -> str:
    """Return docs/reference/formats.md."""
    lines = [
        "# Formats",
        "",
        _MADE,
        "`--format NAME`, in any case. Of the formats in the first table rowfall checks that each",
        "value arrives unchanged, as [strictness](../concepts/strictness.md) says.",
        "",
        "| format | extensions | other names |",
        "|---|---|---|",
    ]
    own = [f for f in FORMATS if f.name not in BY_NAME]
    lines += [_format(f.name, f.extensions, f.aliases) for f in own]
    lines += [
        "",
        "The others are read by the engine's own readers. rowfall makes them as strict as settings",
        "can (an unknown JSON key, SQL among `Values` are errors), loads each file exactly once,",
        "but does not compare values with what the file says; the plan says so. Bad rows cannot be",
        "left out. Where a file has no names or no types, `--schema` or the table gives them. A",
        "setting that begins with `format_` or `input_format_` also applies to the sample.",
        "`JSON` in capitals is a document with `meta` and `data` (as ClickHouse writes it); `json`",
        "is one object a line. `CapnProto` and `HiveText` are not in the embedded engine.",
        "",
        "Numbers of `MsgPack` that do not fit their column are refused all the same, or left out",
        "with `--max-errors`; of 64 bits a negative one is not told from one of 2^63 or more. A",
        "point in time is the number that the engine writes for it: seconds for `DateTime`, and as",
        "many digits of a second more as a `DateTime64` has. `RowBinary` and `Buffers` mean what",
        "the types say they do; a number that an `Enum` does not have is refused.",
        "",
        "The same holds for `Npy`, whose column is read as what the array holds (text of type `U`",
        "must be ASCII), for `BSONEachRow`, and for `Protobuf` and `CapnProto`: what does not fit",
        "is refused by file and column, as only the server has the schema that would find the row.",
        "",
        "| format | extensions | other names | needs |",
        "|---|---|---|---|",
    ]
    for f in ENGINE_FORMATS:
        lines.append(_format(f.name, f.extensions, f.aliases) + f" {_cell(f.needs)} |")
    return "\n".join(lines) + "\n"


def man_page() -> str:
    """Return docs/reference/rowfall.1, the manual page of all commands."""
    command, context = _found([])
    lines = [
        r'.\" Made by `python docs/make_reference.py`; edit the code instead.',
        ".TH ROWFALL 1", ".SH NAME",
        r"rowfall \- load data into ClickHouse, exactly once", ".SH SYNOPSIS",
        r".B rowfall", _roff("[OPTIONS] COMMAND [ARGUMENTS]"), ".SH DESCRIPTION",
        *_paragraphs(command), ".SH COMMANDS",
    ]  # fmt: skip
    paths = [[name] for name in COMMANDS]
    for path in paths:
        command, context = _found(path)
        if isinstance(command, click.Group):
            below = [[*path, name] for name in command.commands]
            at = paths.index(path) + 1
            paths[at:at] = below
        pieces = " ".join(command.collect_usage_pieces(context))
        lines += [".SS " + _roff(" ".join(["rowfall", *path])), ".PP",
                  _roff(f"rowfall {' '.join(path)} {pieces}"), *_paragraphs(command)]  # fmt: skip
        for param in command.get_params(context):
            record = param.get_help_record(context)
            if record is not None and isinstance(param, click.Option):
                lines += [".TP", r"\fB" + _roff(record[0]) + r"\fR", _roff(record[1])]
    lines += [".SH EXIT STATUS"]
    for code in Exit:
        lines += [".TP", str(code.value), _roff(_EXITS[code].replace("`", ""))]
    return "\n".join(lines) + "\n"


def _paragraphs(command: click.Command) -> list[str]:
    """Return the text of a command; lines of examples stay lines."""
    lines: list[str] = []
    # Python 3.13 takes the indentation out of docstrings itself.
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        rows = paragraph.strip("\n").split("\n")
        if rows[0].strip() == "\b":
            lines += [".PP", ".nf", *map(_roff, rows[1:]), ".fi"]
        else:
            lines += [".PP", _roff(" ".join(row.strip() for row in rows))]
    return lines


def _roff(text: str) -> str:
    """Return text for roff: hyphens that are typed, no line that looks like a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + escaped if escaped.startswith((".", "'")) else escaped


def _format(name: str, extensions: Iterable[str], aliases: Iterable[str]) -> str:
    known = [", ".join(f"`{each}`" for each in some) for some in (extensions, aliases)]
    return f"| `{name}` | {' | '.join(known)} |"


SRC = Path(__file__).parents[1] / "src/rowfall"
_PROTOCOLS = (
    ("Sources", "sources/base.py", ""),
    ("Targets", "targets/base.py", "Target"),
    ("Destinations", "contracts/destination.py", ""),
    ("What a plan takes from a destination", "contracts/facts.py", "DestinationRules"),
    ("Deliveries", "contracts/delivery.py", "Delivery"),
    ("Receivers", "contracts/receiver.py", "Receiver"),
    ("Databases", "engines/database.py", ""),
)


def protocols() -> str:
    """Return docs/reference/protocols.md: the signatures of all protocols, from the code."""
    lines = [
        "# Protocols",
        "",
        _MADE,
        "What a new source, target or database has to be, with the first line of each docstring.",
        "How they work together is in [extending](../extending.md).",
    ]
    for title, file, only in _PROTOCOLS:
        lines += ["", f"## {title}", "", f"`{file}`", "", "```text"]
        tree = ast.parse((SRC / file).read_text(encoding="utf-8"))
        classes = [
            node for node in tree.body if isinstance(node, ast.ClassDef) and _is_protocol(node)
        ]
        found = [node for node in classes if only in ("", node.name)]
        lines += "\n\n".join(map(_protocol, found)).split("\n")
        lines.append("```")
    return "\n".join(lines) + "\n"


def _is_protocol(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return not node.name.startswith("_") and bool(bases & {"Protocol", "ABC"})


def _protocol(node: ast.ClassDef) -> str:
    """Return a class as it is declared: attributes and methods without their bodies."""
    lines = [f"class {node.name}:  # {_said(node)}"]
    names = [ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign)]
    lines += [f"    {name}" for name in names]
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            returns = f" -> {ast.unparse(item.returns)}" if item.returns else ""
            # A method of a protocol is never called with its own name in front.
            given = ast.unparse(item.args).removeprefix("self").removeprefix(", ")
            lines.append(f"    {item.name}({given}){returns}")
            lines += [f"        {line}" for line in wrap(_said(item), 88)]
    return "\n".join(lines)


def _said(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the first sentence of a docstring."""
    text = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    return text.replace("``", "").rstrip(".")


def metrics() -> str:
    """Return docs/reference/metrics.md."""
    lines = [
        "# Metrics",
        "",
        _MADE,
        "What `--metrics-port` serves to Prometheus, and OTLP exports by the names of the second",
        "column ([guide](../guides/watch-loads.md)). All but `build_info` have the labels `table`",
        "and, in a pipeline, `pipeline`. Metrics of the process (`process_...`) are there, too.",
        "",
        "| Prometheus | OpenTelemetry | type | more labels | meaning |",
        "|---|---|---|---|---|",
    ]
    for metric in METRICS.values():
        total = "_total" if metric.kind == COUNTER else ""
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(
            f"| `rowfall_{metric.name}{total}` | `{otel_name(metric)}` | {metric.kind} | {labels} "
            f"| {_cell(metric.help)} |"
        )
    return "\n".join(lines) + "\n"


PAGES = {
    "metrics.md": metrics,
    "protocols.md": protocols,
    "exit-codes.md": exit_codes,
    "options.md": options,
    "commands.md": commands,
    "formats.md": formats,
    "rowfall.1": man_page,
}


def _help(path: list[str]) -> list[str]:
    """Return the help as it is printed on 80 columns."""
    command, context = _found(path)
    if isinstance(command, GroupedCommand):
        command.set_topic(context, ALL_TOPICS)
    return ["```text", *command.get_help(context).split("\n"), "```"]


def _found(path: list[str]) -> tuple[click.Command, click.Context]:
    """Return a command and its context on 80 columns."""
    command: click.Command = cli
    context = click.Context(cli, info_name="rowfall", terminal_width=80)
    for name in path:
        if not isinstance(command, click.Group):
            raise LookupError(name)
        found = command.get_command(context, name)
        if found is None:
            raise LookupError(name)
        command = found
        context = click.Context(found, info_name=name, parent=context, terminal_width=80)
    context.help_option_names = ["-h", "--help"]
    return command, context


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write all pages into the folder given, by default docs/reference."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (folder / name).write_text(make(), encoding="utf-8")
    if folder == Path("docs/reference"):
        KEYWORDS.write_text(keywords(), encoding="utf-8")


if __name__ == "__main__":
    main()
