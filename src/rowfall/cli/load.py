"""``rowfall load``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rowfall.cli.options import chosen, command, destination_options, table_options
from rowfall.cli.output import Output
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret

if TYPE_CHECKING:
    from rowfall.core.results import Report


@command
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@destination_options
@table_options("load")
@click.pass_obj
def load(
    output: Output, /, sources: tuple[str, ...], to: str | None, table: str | None,
    password: Secret | None, **values: Any,
) -> int:  # fmt: skip
    """Load files or generated rows into a table, exactly once.

    SOURCE is a path, a pattern, a URI such as s3://bucket/trips/*.csv.gz or
    generate://trips?rows=1e8, or - for stdin. Running the same command again resumes a load and
    skips what has landed.
    """
    from rowfall.engines.prestart import prestart

    prestart(sources, to)  # before the imports below: the two take as long as each other
    from rowfall import api

    with output.listener() as listener:
        result = api.load(
            sources, to=to, table=table, options=chosen(values), on_event=listener,
            password=password,
        )  # fmt: skip
    return show_report(output, result)


def show_report(output: Output, result: Report) -> int:
    """Print the report of a finished run; returns the exit code."""
    from rowfall.report.loads import report_document, report_text

    if output.json:
        output.document(report_document(result))
    else:
        text = report_text(
            result, color=output.talk_color, verbose=output.verbose, width=output.columns
        )
        output.talk(f"\n{text}")
    return Exit.DONE if result.outcome == "done" else Exit.PARTIAL
