"""Passwords never leave the origin (scheme, host and port) that they were given for."""

from __future__ import annotations

import json
import subprocess

from lab.scripted import Asked, Reply, Scripted
from rowfall.decoder import installed


def _file(asked: Asked) -> Reply:
    return Reply(b"a\n1\n2\n", headers={"ETag": '"x"'})


def test_the_decoder_keeps_headers_from_other_origins() -> None:
    """Another port of the same host got Authorization, another host got all other headers."""
    program = installed.program()
    assert program is not None
    with Scripted(_file) as other, Scripted(_file) as home:

        def reply(asked: Asked) -> Reply:
            if asked.path == "/data":
                return _file(asked)
            url = "/data" if asked.path == "/same" else other.url("data")
            return Reply(status=302, headers={"Location": url})

        home.reply = reply
        for path in ("same", "far"):
            headers = {"Authorization": "Basic c2VjcmV0", "X-Key": "k"}
            spec = {
                "version": 2, "compression": "none", "format": "CSVWithNames", "delimiter": ",",
                "null": "", "trim_strings": True, "tuples": "value", "allow_line_breaks": True,
                "timezone": "UTC",
                "inputs": [{"path": "n", "url": home.url(path), "headers": headers}],
                "columns": [{"name": "a", "source": "a", "type": "Int64"}],
                "block_rows": 100, "block_bytes": 1 << 20, "outputs": ["-"], "progress_ms": 0,
            }  # fmt: skip
            done = subprocess.run(
                [program, "run", "--spec", "-"], input=json.dumps(spec).encode() + b"\n",
                capture_output=True, timeout=20, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stderr.splitlines()[-1])["rows"] == 2
        assert [a.headers.get("x-key") for a in home.asked] == ["k", "k", "k"]
        assert [set(a.headers) & {"authorization", "x-key"} for a in other.asked] == [set()]
