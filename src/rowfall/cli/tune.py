"""``rowfall tune``."""

from __future__ import annotations

from typing import Any

import click

from rowfall.cli.app import (
    command,
    destination_options,
    options_of,
    sources_argument,
    table_options,
)
from rowfall.cli.html_file import check_html, html_option, write_page
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret


@command
@sources_argument
@destination_options
@table_options("tune")
@html_option
@click.pass_obj
def tune(
    output: CommandOutput, /, sources: tuple[str, ...], to: str | None, table: str | None,
    password: Secret | None, html: str | None, **values: Any,
) -> int:  # fmt: skip
    """Find the fastest settings for a load.

    Takes the arguments of 'rowfall load' and a few minutes (--budget); loads samples into places of
    their own beside the target and leaves nothing there. Prints every combination, the fastest, and
    what the published formula and the defaults give. Ctrl-C prints what is known so far.
    """
    from rowfall import api
    from rowfall.report.tune import tune_document, tune_text

    check_html(html)
    with output.listener() as listener:
        found = api.tune(
            sources, to=to, table=table, options=options_of(values), password=password,
            on_event=listener,
        )  # fmt: skip
    if output.json:
        output.document(tune_document(found))
    else:
        output.data(tune_text(found, color=output.data_color, width=output.columns))
    if html is not None:
        from rowfall.report.tune_page import tune_page

        write_page(output, html, tune_page(found))
    return Exit.INTERRUPTED if found.interrupted else Exit.DONE
