"""``rowfall query``."""

from __future__ import annotations

import sys

import click

from rowfall.cli.app import command, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret

PRETTY, PIPED, JSON = "PrettyCompactMonoBlock", "TSVWithNames", "JSON"


@command
@click.argument("sql", metavar="SQL")
@target_option
@option(
    "--format",
    metavar="NAME",
    group="Query",
    help="Output format of the engine, e.g. CSVWithNames, JSONEachRow, Vertical. Default: an "
    "aligned table on a terminal, TSVWithNames elsewhere, JSON with --json.",
)
@option("--write", is_flag=True, group="Query", help="Allow statements that change data or tables.")
@click.pass_obj
def query(
    output: CommandOutput, sql: str, to: str | None, format: str | None, write: bool,
    password: Secret | None,
) -> None:  # fmt: skip
    """Run SQL where the data was loaded and print the rows.

    SQL is one statement, or - to read it from stdin. It may only read, unless --write is given.
    """
    from rowfall import api

    if sql == "-":
        sql = sys.stdin.read()
    pretty = output.to_terminal and not output.json
    if format is None:
        format = JSON if output.json else PRETTY if pretty else PIPED
    output.streamed = True
    # The engine writes to the file descriptor itself.
    with output.rows() as descriptor:
        api.query(sql, to=to, format=format, write=write, out_fd=descriptor, pretty=pretty,
                  password=password)  # fmt: skip
