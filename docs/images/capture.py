"""Draws docs/images/load.svg from a real run: ``python docs/images/capture.py``.

Makes 4 million rows of 51 columns in 20 csv.gz files, loads them on a pseudo-terminal of 80
columns, and lets rich draw what the terminal showed, moment after moment at its real pace. A viewer
that knows no animation shows the end.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 80
SOURCE = "generate://taxi?rows=4_000_000"
COMMAND = ("load", "taxi/*.csv.gz", "--to", "data")
SHOWN = "rowfall load 'taxi/*.csv.gz' --to data"
STEP, MOST = 0.4, 50  # seconds between two pictures; 50 of them are 160 kB
HOLD = 6.0  # seconds that the end stays

# The default format fetches a font over the network; a picture in a repository should not.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
        font-variant-east-asian: full-width;
    }}
    .{unique_id}-title {{
        font-family: sans-serif;
        font-size: 18px;
    }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})"
       clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    @FRAMES@
    </g>
</svg>
"""
FRAME = """\
<style>{styles}</style>
<g visibility="@START@">@SET@
{backgrounds}
<g class="load-matrix" xml:space="preserve">
{matrix}
</g>
</g>
"""
# Counts the time of all pictures, again and again.
LOOP = '<rect width="0" height="0"><animate id="loop" attributeName="x" from="0" to="0" \
begin="0;loop.end" dur="{seconds:.2f}s"/></rect>'


def main() -> None:
    picture = Path(__file__).with_name("load.svg")
    rowfall = [sys.executable, "-m", "rowfall"]
    # A short, plain path: it is part of what the run prints.
    work = Path(tempfile.gettempdir()) / "demo"
    work.mkdir()
    try:
        made = ["load", SOURCE, "--to", "taxi/part_{n}.csv.gz"]
        made += ["--files", "20", "--to-format", "CSVWithNames", "--quiet"]
        environment = {**os.environ, "ROWFALL_HOME": str(work / "state")}
        subprocess.run([*rowfall, *made], cwd=work, env=environment, check=True)
        seen = on_terminal([*rowfall, *COMMAND], work)
    finally:
        shutil.rmtree(work)
    *moving, (_, end) = seen
    step = max(STEP, seen[-1][0] / MOST)
    frames, seconds = [], 0.0
    for (_, written), (until, _) in zip(moving, seen[1:], strict=True):
        if until - seconds >= step or until == seen[-1][0]:
            frames.append((seconds, until, screen(written)))
            seconds = until
    last = screen(end)
    height = len(last)
    drawn = [LOOP.format(seconds=seconds + HOLD)]
    for number, (start, stop, shown) in enumerate(frames):
        when = f'begin="loop.begin+{start:.2f}s" dur="{stop - start:.2f}s"'
        drawn.append(draw(shown, height, FRAME, f"f{number}", "hidden", "visible", when))
    when = f'begin="loop.begin" dur="{seconds:.2f}s"'
    drawn.append(draw(last, height, FRAME, "end", "visible", "hidden", when))
    svg = draw(last, height, SVG, "load", "", "", "").replace("@FRAMES@", "\n".join(drawn))
    picture.write_text(re.sub(r" +$", "", svg, flags=re.M), encoding="utf-8")


def draw(
    shown: list[str], height: int, template: str, name: str, start: str, then: str, when: str
) -> str:
    """Draw one screen below the command; all have the same height."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), (SHOWN, "bold")))
    for line in shown + [""] * (height - len(shown)):
        text = Text.from_ansi(line)
        text.truncate(COLUMNS)
        console.print(text)
    svg = console.export_svg(title="rowfall", theme=MONOKAI, code_format=template, unique_id=name)
    change = f'<set attributeName="visibility" to="{then}" {when}/>'
    svg = svg.replace(f"{name}-line-", "load-line-")  # the lines are where they are in all of them
    return svg.replace("@START@", start).replace("@SET@", change)


def on_terminal(command: list[str], work: Path) -> list[tuple[float, str]]:
    """Return what ``command`` has written to a terminal of 80 columns and 50 lines, and when."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(
        command, cwd=work, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written, seen, began = b"", [], time.monotonic()
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        written += chunk
        seen.append((time.monotonic() - began, written.decode(errors="ignore")))
    if process.wait():
        raise SystemExit(f"the load failed:\n{written.decode(errors='replace')}")
    return seen


def screen(written: str) -> list[str]:
    """The lines that stand on the terminal."""
    shown: list[str] = []
    for line in re.sub(r"\x1b\[\?25[lh]", "", written).replace("\r\n", "\n").split("\n"):
        if "\x1b[1A" in line and shown:  # up: the progress line is taken away
            shown.pop()
        # The terminal shows what follows the last "erase the line".
        frames = [f.strip("\r") for f in line.replace("\x1b[1A", "").split("\x1b[2K")]
        shown.append(frames[-1])
    while shown and not shown[-1].strip():
        shown.pop()
    return shown


if __name__ == "__main__":
    main()
