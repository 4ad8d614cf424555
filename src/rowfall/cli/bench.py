"""``rowfall bench``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from rowfall.cli.app import command, option
from rowfall.cli.html_file import check_html, html_option, write_page
from rowfall.cli.output import CommandOutput
from rowfall.core import units
from rowfall.core.errors import Exit, TargetError


@command
@click.argument("articles", nargs=-1, metavar="ARTICLE...")
@option("--list", "listing", is_flag=True, group="Bench", help="List the articles, and stop.")
@option(
    "--scale",
    metavar="SIZE",
    default="small",
    group="Bench",
    help="tiny, small, medium, full, or a share of full: 0.5. Default: small.",
)
@option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    default=3,
    group="Bench",
    help="Rounds of each method, in turns. Default: 3.",
)
@option(
    "--budget",
    metavar="TIME",
    group="Bench",
    help="Begin no method after so long in an article, as 5m. Default: no limit.",
)
@option(
    "--folder",
    metavar="FOLDER",
    default="rowfall-bench",
    group="Bench",
    help="Folder of files, servers and results. Default: ./rowfall-bench.",
)
@option(
    "--service",
    "services",
    metavar="NAME=ADDRESS",
    multiple=True,
    group="Bench",
    help="A service that runs already: postgresql, mysql, singlestore, kafka, hdfs or s3.",
)
@option("--fresh", is_flag=True, group="Bench", help="Forget earlier results.")
@option("--keep", is_flag=True, group="Bench", help="Keep the files for the next run.")
@option("--markdown", metavar="FILE", group="Output", help="Write the tables as Markdown, too.")
@html_option
@click.pass_obj
def bench(
    output: CommandOutput, /, articles: tuple[str, ...], listing: bool, scale: str, rounds: int,
    folder: str, **more: Any,
) -> int:  # fmt: skip
    """Run the loads of five published articles here.

    By hand and by rowfall, in turns, at the size of this machine, with the published figures beside
    them. ARTICLE is A1 to A5, or all. What cannot run here says why, and the rest goes on; the same
    command goes on after a Ctrl-C. Files are made by generators and removed at the end; the results
    stay in the folder.
    """
    from rowfall import api
    from rowfall.report.bench import bench_document, bench_markdown, bench_text

    if listing:
        titles = api.bench_articles()
        if output.json:
            output.document({"rowfall_bench_articles": 1, "articles": titles})
        else:
            output.data("\n".join(f"{name}  {title}" for name, title in titles.items()))
        return Exit.DONE
    html, markdown = more["html"], more["markdown"]
    check_html(html)
    if markdown is not None:
        _check(markdown)
    given = {
        "budget": units.parse_duration(more["budget"]) if more["budget"] else 0.0,
        "services": more["services"],
        "fresh": more["fresh"],
        "keep": more["keep"],
    }

    from rowfall.core.events import Note  # 10 ms that the help of commands does without

    def say(event: object) -> None:
        if isinstance(event, Note):
            output.talk(event.text)

    found = api.bench(articles, scale=scale, rounds=rounds, folder=folder, more=given, on_event=say)
    if markdown is not None:
        Path(markdown).write_text(bench_markdown(found))
    if html is not None:
        from rowfall.report.bench_page import bench_page

        write_page(output, html, bench_page(found))
    if output.json:
        output.document(bench_document(found))
    else:
        output.data(bench_text(found, color=output.data_color, width=output.columns))
    return Exit.INTERRUPTED if found.stopped else Exit.DONE


def _check(file: str) -> None:
    """Raise where the Markdown cannot be written, before anything is measured."""
    folder = Path(file).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise TargetError(
            f"cannot write --markdown {file}: {folder} is not a folder to write into",
            hint="Name a file in a folder that you may write to.",
        )
