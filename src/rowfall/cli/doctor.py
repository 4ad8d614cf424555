"""``rowfall doctor``."""

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
from rowfall.core.masked import Secret


@command
@sources_argument
@destination_options
@table_options("doctor")
@html_option
@click.pass_obj
def doctor(
    output: CommandOutput, /, sources: tuple[str, ...], to: str | None, table: str | None,
    password: Secret | None, html: str | None, **values: Any,
) -> None:  # fmt: skip
    """Measure each link of a load and name the slowest.

    Takes the arguments of 'rowfall load' and about 20 seconds; loads samples into places of their
    own beside the target and leaves nothing there. Prints what source, network, target and protocol
    give, how fast the load will be, and what would help most.
    """
    from rowfall import api
    from rowfall.report.doctor import doctor_document, doctor_text

    check_html(html)
    with output.listener() as listener:
        found = api.doctor(
            sources, to=to, table=table, options=options_of(values), password=password,
            on_event=listener,
        )  # fmt: skip
    if output.json:
        output.document(doctor_document(found))
    else:
        output.data(doctor_text(found, color=output.data_color, width=output.columns))
    if html is not None:
        from rowfall.report.measured_pages import doctor_page

        write_page(output, html, doctor_page(found))
