"""Take the pictures of report pages in docs/images, on a quiet machine, with the tests' browser.

``PYTHONPATH=tests python docs/images/capture_pages.py``; see tests/lab/browser.py for its needs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.browser import Browser

HERE = Path(__file__).parent
FILES = 6
HEIGHT = 1280  # of a picture: the tiles and the first rows of charts


def main() -> None:
    rowfall = shutil.which("rowfall", path=str(Path(sys.executable).parent)) or "rowfall"
    with tempfile.TemporaryDirectory(prefix="trips-") as folder, Browser() as browser:

        def run(*command: str) -> None:
            subprocess.run([rowfall, *command], cwd=folder, check=True, capture_output=True)

        for number in range(1, FILES + 1):
            source = f"generate://taxi?rows={number}00_000"
            run("load", source, "--to", f"taxi/2023-0{number}.csv.gz")
        run("load", "taxi/*.csv.gz", "--to", "data", "--table", "trips",
            "--attempt-bytes", "12MB", "--memory", "2GB")  # fmt: skip
        run("report", "last", "--to", "data", "--html", "trips.html")
        page = Path(folder, "trips.html").as_uri()
        browser.open(page, width=1280)
        browser.picture(HERE / "report.png", 0, HEIGHT)
        browser.open(page, width=390, dark=True)
        browser.picture(HERE / "report-phone.png", 0, HEIGHT)
        run("load", "generate://trips?rows=2_000_000", "--to", "trips/{n}.csv.gz", "--files", "4")
        run("tune", "trips/*.csv.gz", "--to", "lake", "--budget", "30s", "--html", "tune.html")
        browser.open(Path(folder, "tune.html").as_uri(), width=1280)
        browser.picture(HERE / "tune.png", 0, 1130)


if __name__ == "__main__":
    main()
