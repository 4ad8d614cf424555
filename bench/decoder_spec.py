"""Specs of rowfall-decode for the benchmark: ``decoder_spec trips|taxi OUTPUT... FILE...``."""

from __future__ import annotations

import argparse
import json

from rowfall.sources.recipes import taxi, trips


def spec(table: str, files: list[str], outputs: list[str], **more: object) -> dict[str, object]:
    """The spec that decodes ``files`` of a table."""
    schema = {"trips": trips, "taxi": taxi}[table](0).schema
    packed = "gzip" if files[0].endswith(".gz") else "none"
    columns = [
        {"name": c.name, "source": c.name, "position": n, "type": c.type}
        for n, c in enumerate(schema.columns)
    ]
    return {
        "version": 2,
        "inputs": [{"path": f, "uri": f.rsplit("/", 1)[-1]} for f in files],
        "compression": packed,
        "format": "JSONEachRow" if ".json" in files[0] else "CSV",
        "null": "\\N" if table == "taxi" else "",
        "timezone": "UTC",
        "columns": columns,
        "outputs": outputs,
        **more,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=("trips", "taxi"))
    parser.add_argument("--output", action="append", default=[])
    parser.add_argument("--more", default="{}", help="other keys of the spec, as JSON")
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    outputs = given.output or ["/dev/null"]
    print(json.dumps(spec(given.table, given.files, outputs, **json.loads(given.more))))


if __name__ == "__main__":
    main()
