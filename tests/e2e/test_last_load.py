"""``last`` is the newest load of the target at hand, whatever else this user has loaded."""

from __future__ import annotations

import os
import re

import pytest

from e2e.test_hint_commands import typed
from e2e.tools import Shell


def test_last_with_two_targets(shell: Shell) -> None:
    """It was the newest load of any target: verify read another table, forget took its files."""
    shell.write("a.csv", "id,n\n1,2\n2,3\n")
    shell.write("b.csv", "id,n\n3,4\n")
    one = shell.ok("load", "a.csv", "--to", "one", "--table", "t", "--json").document["load_id"]
    two = shell.ok("load", "b.csv", "--to", "two", "--table", "t", "--json").document["load_id"]
    for to, own, rows in (("one", one, 2), ("two", two, 1)):
        assert shell.ok("report", "last", "--to", to, "--json").document["load_id"] == own
        found = shell.ok("verify", "last", "--to", to, "--json").document
        assert (found["load_id"], found["target_rows"]) == (own, rows)
        assert own[:8] in shell.ok("explain", "last", "--to", to).out
    # Here is no folder: the newest of others is not taken for it.
    for command in (("report", "last"), ("verify", "last"), ("forget", "last", "--yes"),
                    ("explain", "last"), ("resume",)):  # fmt: skip
        refused = shell.ends(2, *command)
        assert "no" in refused.talk, command
        assert two[:8] not in refused.out, command
    # Whose load it is, is said before it is forgotten. The command of the hint is about that one;
    # it was "rowfall forget last --yes", which is about the folder here.
    asked = " ".join(shell.ends(2, "forget", "last", "--to", "one").talk.split())
    assert f"nothing of load {one[:8]} into" in asked
    hint = re.search(r"(rowfall forget \S+ --to one --yes)", asked)
    assert hint
    assert typed(shell, hint[1]).code == 0
    assert shell.ok("load", "b.csv", "--to", "two", "--table", "t", "--json").document["rows"] == 0
    assert shell.ok("load", "a.csv", "--to", "one", "--table", "t", "--json").document["rows"] == 2


@pytest.mark.parametrize("command", ["resume", "report", "verify"])
def test_last_is_that_of_the_folder_here(shell: Shell, command: str) -> None:
    """A load of an hour ago in this folder, and one of now in another."""
    if command == "resume":
        shell.write("a.csv", "id,n\n" + "1,2\n" * 30_000 + "x,y\n")
        mine = shell.ends(1, "load", "a.csv", "--schema", "id UInt8, n UInt8", "--json").document
        shell.write("a.csv", "id,n\n1,2\n")
    else:
        shell.write("a.csv", "id,n\n1,2\n")
        mine = shell.ok("load", "a.csv", "--json").document
    here = shell.folder
    (other := here / "elsewhere").mkdir()
    (other / "b.csv").write_text("id,n\n3,4\n4,5\n")
    shell.ok("load", f"{other}/b.csv", "--to", f"{other}/rowfall-data")
    last = () if command == "resume" else ("last",)
    done = shell.ok(command, *last, "--json").document
    assert done["load_id"] == mine["load_id"]
    assert os.getcwd() != str(other)
