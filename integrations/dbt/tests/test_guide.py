"""The guide: its files make a project, and its commands print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "dbt.md"
_FILE = re.compile(r"^```(?:yaml|sql)\n(?:#|--) (\S+)\n(.*?)^```$", re.M | re.S)
_RUN = re.compile(r"^```console\n(rowfall-dbt run\n.*?)^```\n\n```text\n(.*?)^```$", re.M | re.S)


def test_what_the_guide_shows(tmp_path: Path) -> None:
    text = _GUIDE.read_text()
    for name, content in _FILE.findall(text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders1.csv").write_text("id,price\n1,1.5\n2,2\n3,4\n")
    (tmp_path / "data" / "items.csv").write_text("id,item\n1,a\n2,a\n3,b\n")
    ((commands, printed),) = _RUN.findall(text)
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "XDG_STATE_HOME": str(tmp_path / "state"),
    }  # fmt: skip
    done = None
    for command in commands.splitlines():
        done = subprocess.run(
            ["/bin/bash", "-c", command], cwd=tmp_path, env=environment,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, command + done.stdout + done.stderr
    assert done is not None
    assert done.stdout == printed
