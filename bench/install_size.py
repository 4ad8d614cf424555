"""Measure what an installation takes on disk, by the packages of this environment.

    python bench/install_size.py crates/rowfall-decode/target/release/rowfall-decode

Counts the files of rowfall and of everything that it needs with the extras ``embedded`` and
``aws``, as their own records list them, without what Python compiles. Writes
``bench/results-install.json``. The decoder is the one that is named: that of a developer's
environment is not built as wheels are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

OUT = Path(__file__).with_name("results-install.json")


def needed(name: str, *extras: str) -> set[str]:
    """Return the names of a package and of all that it needs with these of its extras."""
    found: set[str] = set()
    left = [(name, ("", *extras))]
    while left:
        name, extras = left.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name in found:
            continue
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:  # of another system
            continue
        found.add(name)
        for text in requires:
            one = Requirement(text)
            if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in extras):
                left.append((one.name, ("",)))
    return found


def size(name: str) -> int:
    """Return the bytes of a package's files."""
    return _bytes(Path(str(one.locate())) for one in distribution(name).files or [])


def _bytes(files: Iterable[Path]) -> int:
    written = (path for path in files if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in written)


def main() -> None:
    names = needed("rowfall", "embedded", "aws")
    sizes = {name: size(name) for name in sorted(names)}
    # An editable installation has no files of its own: those of the source.
    source = Path(__file__).parents[1] / "src"
    sizes["rowfall"] = _bytes(source.rglob("*"))
    sizes["rowfall-decode"] = _bytes([Path(sys.argv[1])])
    OUT.write_text(json.dumps({"bytes": sizes}, indent=1) + "\n")
    print(f"{sum(sizes.values()) / 1e6:,.0f} MB in {len(sizes)} packages; see {OUT}")


if __name__ == "__main__":
    main()
