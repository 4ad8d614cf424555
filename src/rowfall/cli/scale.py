"""``rowfall scale``."""

from __future__ import annotations

from typing import Any

import click

from rowfall.cli.app import command, options_of, sources_argument, table_options, target_option
from rowfall.cli.html_file import check_html, html_option, write_page
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret


@command
@sources_argument
@target_option
@table_options("scale")
@html_option
@click.pass_obj
def scale(
    output: CommandOutput, /, sources: tuple[str, ...], to: str | None, password: Secret | None,
    html: str | None, **values: Any,
) -> None:  # fmt: skip
    """Project time and cost of a load to N nodes.

    Says also what limits the load. SOURCE is what 'rowfall load' takes, or an imagined one:
    simulate://csv.gz?files=1e6&size=25MB&sigma=1. Nothing is written to the target.
    """
    from rowfall import api
    from rowfall.report.scale import scale_document, scale_text

    check_html(html)
    found = api.scale(sources, to=to, options=options_of(values), password=password)
    if output.json:
        output.document(scale_document(found))
    else:
        output.data(scale_text(found, color=output.data_color, width=output.columns))
    if html is not None:
        from rowfall.report.measured_pages import scale_page

        write_page(output, html, scale_page(found))
