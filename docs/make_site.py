"""Lay out the pages of the documentation for mkdocs, and build the site: ``make docs``.

Pages link to each other, to results in ``bench/`` and to files of the code by relative paths. So
the site has the paths of the checkout: every page of git, and every file that one of them links to.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build/site-pages"
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def lay_out() -> None:
    """Copy pages, and the files they link to, into :data:`PAGES`."""
    shutil.rmtree(PAGES, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],  # noqa: S607 - a developer's git
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    for name in listed:
        _copy(ROOT / name)
        text = _FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))
        for link in _LINK.findall(text):
            target = (ROOT / name).parent.joinpath(link).resolve()
            if "://" not in link and target.is_file() and target.suffix != ".md":
                _copy(target)


def _copy(path: Path) -> None:
    target = PAGES / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _expanded(nav: Any) -> Any:
    """Return the navigation with patterns replaced by the pages they stand for."""
    if isinstance(nav, dict):
        return {title: _expanded(below) for title, below in nav.items()}
    if isinstance(nav, list):
        pages: list[Any] = []
        for one in nav:
            found = _expanded(one)
            pages += [f for f in found if f not in pages] if isinstance(found, list) else [found]
        return pages
    if "*" in nav:
        return sorted(str(page.relative_to(PAGES)) for page in PAGES.glob(nav))
    return nav


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    lay_out()
    settings = ROOT / "docs/mkdocs.yml"
    nav = _expanded(yaml.safe_load(settings.read_text(encoding="utf-8"))["nav"])
    build(load_config(str(settings), nav=nav))
    sys.stdout.write(f"the site is in {ROOT / 'build/site'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
