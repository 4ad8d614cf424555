"""What a load that ends unwell says: to run it again only where that can help."""

from __future__ import annotations

import gzip

import pytest

from e2e.tools import Shell

AGAIN = "run the same command again"
NEVER = "Once the cause is removed"
ROWS = "id,n\n" + "".join(f"{n},{n}\n" for n in range(40_000))
LASTING = {
    "value": ("a.csv", (ROWS + "x,y\n").encode()),
    "json": ("a.jsonl", b'{"id":1}\n' * 30_000 + b'{"id":\n'),
    "cut": ("a.csv.gz", gzip.compress(ROWS.encode())[:60_000]),
    "quote": ("a.csv", b'a, b\n1, "x" y\n' + b'2, "z"\n' * 30_000),
}


@pytest.mark.parametrize("name", LASTING)
def test_what_fails_for_ever(shell: Shell, name: str) -> None:
    file, body = LASTING[name]
    (shell.folder / file).write_bytes(body)
    done = shell.run("load", file, "--table", "t")
    assert done.code != 0
    assert AGAIN not in done.talk


def test_a_null_of_avro_and_damaged_files(shell: Shell) -> None:
    import fastavro

    kind = {"type": "record", "name": "r", "fields": [
        {"name": "a", "type": ["null", {"type": "array", "items": "int"}]}]}  # fmt: skip
    with (shell.folder / "n.avro").open("wb") as file:
        fastavro.writer(file, kind, [{"a": [1]}] * 30_000 + [{"a": None}])
    done = shell.run("load", "n.avro")
    assert done.code == 1
    assert AGAIN not in done.talk
    assert NEVER in done.talk
    data = (shell.folder / "n.avro").read_bytes()
    (shell.folder / "cut.avro").write_bytes(data[: len(data) // 3])
    done = shell.run("load", "cut.avro")
    assert done.code != 0
    assert AGAIN not in done.talk
    assert "cut.avro" in done.talk
