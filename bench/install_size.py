"""Measure what an installation takes on disk, by the packages of this environment.

    python bench/install_size.py

Counts the files of rowfall and of everything that it needs, as their own records list them. Writes
``bench/results-install.json``. The decoder is left out: that of a developer's environment is not
built as wheels are, and is three times as large.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

OUT = Path(__file__).with_name("results-install.json")


def needed(name: str) -> set[str]:
    """Return the names of a package and of all that it needs without extras."""
    found: set[str] = set()
    left = [name]
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in found:
            continue
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:  # of another system
            continue
        found.add(name)
        for text in requires:
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                left.append(one.name)
    return found


def size(name: str) -> int:
    """Return the bytes of a package's files."""
    files = [Path(str(one.locate())) for one in distribution(name).files or []]
    return sum(path.stat().st_size for path in files if path.exists())


def main() -> None:
    names = needed("rowfall")
    sizes = {name: size(name) for name in sorted(names)}
    # An editable installation has no files of its own: those of the source.
    source = Path(__file__).parents[1] / "src"
    sizes["rowfall"] = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    OUT.write_text(json.dumps({"bytes": sizes}, indent=1) + "\n")
    print(f"{sum(sizes.values()) / 1e6:,.0f} MB in {len(sizes)} packages; see {OUT}")


if __name__ == "__main__":
    main()
