"""Draws docs/images/load.svg from a real run: ``python docs/images/capture.py``.

Makes 50 million rows in 20 csv.gz files, loads them on a pseudo-terminal of 80 columns, and lets
rich draw what the terminal showed. The progress line is redrawn many times; one frame of it is
kept where it stood.
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
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 80
ROWS = "50_000_000"
COMMAND = ("load", "trips/*.csv.gz", "--to", "data")
SHOWN = "rowfall load 'trips/*.csv.gz' --to data"
# Where the frame that is kept should stand, in percent of the bytes.
FRAME = 60

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
    <g class="{unique_id}-matrix" xml:space="preserve">
    {matrix}
    </g>
    </g>
</svg>
"""


def main() -> None:
    picture = Path(__file__).with_name("load.svg")
    rowfall = [sys.executable, "-m", "rowfall"]
    # A short, plain path: it is part of what the run prints.
    work = Path(tempfile.gettempdir()) / "demo"
    work.mkdir()
    try:
        made = ["load", f"generate://trips?rows={ROWS}", "--to", "trips/part_{n}.csv.gz"]
        made += ["--files", "20", "--to-format", "CSVWithNames", "--quiet"]
        environment = {**os.environ, "ROWFALL_HOME": str(work / "state")}
        subprocess.run([*rowfall, *made], cwd=work, env=environment, check=True)
        screen = lines(on_terminal([*rowfall, *COMMAND], work))
    finally:
        shutil.rmtree(work)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.assemble(("$ ", "bold green"), (SHOWN, "bold")))
    for line in screen:
        text = Text.from_ansi(line)
        # A terminal folds long lines at its edge, whatever the words are.
        for part in text.divide(range(COLUMNS, len(text), COLUMNS)):
            console.print(part)
    svg = console.export_svg(title="rowfall", theme=MONOKAI, code_format=SVG, unique_id="load")
    picture.write_text(re.sub(r" +$", "", svg, flags=re.M), encoding="utf-8")


def on_terminal(command: list[str], work: Path) -> str:
    """What ``command`` writes to a terminal of 80 columns and 50 lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(
        command, cwd=work, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        written += chunk
    if process.wait():
        raise SystemExit(f"the load failed:\n{written.decode(errors='replace')}")
    return written.decode()


def lines(written: str) -> list[str]:
    """The lines that stay on the screen, and one frame of the progress line."""
    shown: list[str] = []
    for line in re.sub(r"\x1b\[\?25[lh]", "", written).replace("\r\n", "\n").split("\n"):
        if "\x1b[1A" in line:  # up: the progress line is taken away
            shown.pop()
        # The terminal shows what follows the last "erase the line"; what came before was redrawn.
        *frames, last = [f.strip("\r") for f in line.replace("\x1b[1A", "").split("\x1b[2K")]
        drawn = [f for f in frames if "/" in f and percent(f) is not None]
        if drawn:
            shown.append(min(drawn, key=lambda f: abs((percent(f) or 0) - FRAME)))
        shown.append(last)
    while shown and not shown[-1].strip():
        shown.pop()
    return shown


def percent(frame: str) -> int | None:
    found = re.match(r"\s*(\d+)%", frame)
    return int(found[1]) if found else None


if __name__ == "__main__":
    main()
