"""Whose the data folder is, who may read it, and what others may have put there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.tools import Shell, csv
from rowfall.deliver.decode import PIPES
from rowfall.schema.bad_rows.rejects import REJECTS
from rowfall.systems.clickhouse.embedded import LOCK_NAME
from rowfall.targets.base import LEDGER_NAME

LOAD = ("load", "a.csv", "--table", "t", "--schema", "id UInt64, name String")
PRECIOUS = "of somebody else\n" * 9


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def precious(shell: Shell) -> Path:
    """A file that no load may touch; rows to load, one of them bad."""
    shell.write("a.csv", csv([(1, "a"), (2, "b"), ("x", "c")], "id", "name"))
    return shell.write("precious", PRECIOUS)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_a_load_makes_is_for_its_user_alone(shell: Shell, precious: Path) -> None:
    shell.ok(*LOAD, "--max-errors", "1")
    data = shell.folder / "rowfall-data"
    assert mode(data) == 0o700
    assert mode(data / LEDGER_NAME) == mode(data / LOCK_NAME) == 0o600
    assert mode(shell.folder / REJECTS) == 0o600
    shell.ok("load", "generate://trips?rows=10", "--to", "null:")
    state = shell.cli.home / "state" / "rowfall"
    assert mode(state) == 0o700
    assert mode(state / LEDGER_NAME) == 0o600


def test_what_is_there_keeps_its_mode(shell: Shell, precious: Path) -> None:
    data = shell.folder / "rowfall-data"
    data.mkdir(mode=0o750)
    for name in (LEDGER_NAME, LOCK_NAME):
        (data / name).touch(0o640)
    shell.ok(*LOAD, "--max-errors", "1")
    assert mode(data) == 0o750
    assert mode(data / LEDGER_NAME) == mode(data / LOCK_NAME) == 0o640


@pytest.mark.parametrize("name", [LOCK_NAME, PIPES])
def test_a_link_in_the_data_folder_is_not_followed(shell: Shell, precious: Path, name: str) -> None:
    link, kept = shell.folder / "rowfall-data" / name, precious
    link.parent.mkdir()
    if name == PIPES:
        kept = shell.write("folder/precious", PRECIOUS)
    link.symlink_to(kept.parent if name == PIPES else kept)
    done = shell.ends(5, *LOAD, "--decoder", "always")
    assert f"{name} is a symbolic link" in done.talk
    assert "hint:" in done.err
    assert kept.read_text() == PRECIOUS
    link.unlink()
    shell.ok(*LOAD, "--decoder", "always", "--max-errors", "1")


def test_a_pipe_for_a_lock_is_refused(shell: Shell, precious: Path) -> None:
    (shell.folder / "rowfall-data").mkdir()
    os.mkfifo(shell.folder / "rowfall-data" / LOCK_NAME)
    assert "not an ordinary file" in shell.ends(5, *LOAD).talk


def test_a_link_for_the_rejects_is_followed_where_the_user_names_it(
    shell: Shell, precious: Path
) -> None:
    (shell.folder / REJECTS).symlink_to(precious)
    done = shell.ends(5, *LOAD, "--max-errors", "1")
    assert f"{REJECTS} is a symbolic link" in done.talk
    assert precious.read_text() == PRECIOUS
    own = shell.folder / "own"
    (shell.folder / "named.tsv").symlink_to(own)
    shell.ok(*LOAD, "--max-errors", "1", "--rejects", "named.tsv")
    assert len(own.read_text().splitlines()) == 2


def belongs_to_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give ``path`` to another user, who is not root; only root can, so others become another."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def test_a_folder_into_which_strangers_write_is_refused(
    shell: Shell, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shell.folder / "rowfall-data"
    data.mkdir()
    data.chmod(0o777)
    shell.ok(*LOAD, "--max-errors", "1")  # it is the user's own
    belongs_to_another(data, monkeypatch)
    done = shell.ends(2, *LOAD, "--max-errors", "1")
    assert "belongs to another user, and everybody may write into it" in done.talk
    data.chmod(0o775)
    shell.ok(*LOAD, "--max-errors", "1")  # the owner, or a group of users


def test_a_ledger_that_another_user_has_linked_is_refused(
    shell: Shell, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shell.folder / "rowfall-data"
    data.mkdir()
    (data / LEDGER_NAME).symlink_to(shell.folder / "elsewhere")
    shell.ok(*LOAD, "--max-errors", "1")  # the user's own link
    assert (shell.folder / "elsewhere").exists()
    belongs_to_another(data / LEDGER_NAME, monkeypatch)
    assert "symbolic link of another user" in shell.ends(3, *LOAD).talk


@pytest.mark.parametrize("name", ["a*b", "a?b", "default.*", "/etc/hostname"])
def test_a_table_that_the_engine_takes_for_files_is_refused(
    shell: Shell, precious: Path, name: str
) -> None:
    done = shell.ends(2, "load", "a.csv", "--table", name)
    assert "for files and not for a table" in done.talk
    assert not (shell.folder / "rowfall-data").exists()


def test_such_a_name_is_one_in_another_database(shell: Shell, precious: Path) -> None:
    shell.ok("load", "a.csv", "--table", "d.a*b")
    assert shell.row("SELECT count() FROM d.`a*b`") == [3]


@pytest.mark.parametrize("name", ["data?x", "data{a,b}"])
def test_a_folder_that_the_engine_takes_for_another_is_refused(
    shell: Shell, precious: Path, name: str
) -> None:
    """Before, the rows of ``data?x`` were in ``data``, without lock and ledger."""
    done = shell.ends(2, "load", "a.csv", "--to", name)
    assert "in the path of a data folder" in done.talk
    assert not list(shell.folder.glob("data*"))


def test_a_second_source_of_the_same_name_is_said(shell: Shell) -> None:
    for number, name in enumerate(("a", "b")):
        shell.write(f"{name}/sales.csv", f"id\n{number}\n")
    assert "holds rows of" not in shell.ok("load", "a/sales.csv").talk
    talk = shell.ok("load", "b/sales.csv").talk
    assert "sales is named after the source and holds rows of" in talk
    assert "a/sales.csv already" in talk
    assert "--table NAME" in talk
    assert "holds rows of" not in shell.ok("load", "b/sales.csv").talk


def test_two_pipes_are_two_sources(shell: Shell) -> None:
    """Neither is a version of the other."""
    assert "holds rows of" not in shell.ok("load", "-", stdin="a,b\n1,x\n").talk
    talk = shell.ok("load", "-", stdin="a,b\n2,y\n").talk
    assert "data is named after the source and holds rows of another stdin already" in talk
    assert "earlier version" not in talk
    assert shell.row("SELECT count(), sum(a) FROM data") == [2, 3]
