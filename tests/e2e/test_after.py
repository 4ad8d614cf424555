"""What becomes of loaded files (``--after``), on disks and in stores, also where it is killed."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Shell, csv, three_files
from lab.azure import Azure
from lab.seaweed import Seaweed

KILLER = Path(__file__).parents[1] / "faults/killer.py"
_numbers = itertools.count()
COUNT = "SELECT count(), sum(id) FROM t"
THREE = [3000, 2999 * 1500]


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def killed(shell: Shell, at: str, number: int, side: str, *args: str, env: Any = None) -> None:
    """Run a command that ends by its own SIGKILL."""
    program = (sys.executable, str(KILLER), at, str(number), side)
    process = shell.cli.start(*args, env=env, program=program)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, (out, err)


# --- on a disk ------------------------------------------------------------------------------------


def test_files_are_moved_once_they_are_loaded(shell: Shell) -> None:
    pattern = three_files(shell)
    shell.write("in/deep/3.csv", csv([(3000, "n", 0.5)], "id", "name", "price"))
    done = shell.ok("load", "in/**/*.csv", "--table", "t", "--after", "move:done")
    assert "moved 4 loaded files to done" in done.talk
    assert files(shell.folder / "done") == ["0.csv", "1.csv", "2.csv", "deep/3.csv"]
    assert files(shell.folder / "in") == []
    assert shell.row(COUNT) == [3001, THREE[1] + 3000]
    report = shell.ok("report", "last", "--json").document["after"]
    assert report == {"action": "move", "files": 4, "changed": 0, "failed": 0, "error": ""}
    # Another version under the same name keeps the first one.
    shell.write("in/0.csv", csv([(5000, "later", 1.5)], "id", "name", "price"))
    shell.ok("load", pattern, "--table", "t", "--after", "move:done/")
    moved = files(shell.folder / "done")
    (other,) = set(moved) - {"0.csv", "1.csv", "2.csv", "deep/3.csv"}
    assert other.startswith("0-")
    assert other.endswith(".csv")
    assert "later" in (shell.folder / "done" / other).read_text()
    assert shell.row(COUNT) == [3002, THREE[1] + 8000]


def test_nothing_is_left_after_all_was_moved(shell: Shell) -> None:
    """As a timer finds it most of the time; a name that was never loaded is wrong all the same."""
    pattern = three_files(shell)
    command = ["load", pattern, "--table", "t", "--after", "move:done"]
    shell.ok(*command)
    done = shell.ok(*command, "--json").document
    assert (done["outcome"], done["rows"], done["splits"]) == ("done", 0, 0)
    shell.ends(4, "load", pattern, "--table", "t")
    shell.ends(4, "load", "inn/*.csv", "--table", "t", "--after", "move:done")


@pytest.mark.long
def test_what_was_loaded_before_is_moved_too(shell: Shell) -> None:
    pattern = three_files(shell)
    shell.ok("load", pattern, "--table", "t")
    done = shell.ok("load", pattern, "--table", "t", "--after", "move:done", "--json").document
    assert done["rows"] == 0
    assert done["after"]["files"] == 3
    assert shell.row(COUNT) == THREE


def test_files_are_deleted_and_a_bad_one_stays(shell: Shell) -> None:
    pattern = three_files(shell)
    shell.write("in/1.csv", csv([(1, "n", 1.5), ("x", "n", 1.5)], "id", "name", "price"))
    done = shell.run("load", pattern, "--table", "t", "--schema", "id Int64, name String, "
                     "price Float64", "--after", "delete")  # fmt: skip
    assert done.code == 1
    assert files(shell.folder / "in") == ["1.csv"]
    assert shell.row("SELECT count() FROM t") == [2000]
    # Repaired, it is loaded and deleted.
    shell.write("in/1.csv", csv([(1, "n", 1.5)], "id", "name", "price"))
    shell.ok("load", pattern, "--table", "t", "--after", "delete")
    assert files(shell.folder / "in") == []
    assert shell.row("SELECT count() FROM t") == [2001]


@pytest.mark.long
def test_nothing_is_moved_where_nothing_is_visible(shell: Shell) -> None:
    pattern = three_files(shell)
    shell.write("in/1.csv", csv([("x", "n", 1.5)], "id", "name", "price"))
    done = shell.run("load", pattern, "--table", "t", "--schema", "id Int64, name String, "
                     "price Float64", "--atomic", "--after", "delete")  # fmt: skip
    assert done.code == 1
    assert files(shell.folder / "in") == ["0.csv", "1.csv", "2.csv"]


@pytest.mark.long
def test_files_are_tagged(shell: Shell) -> None:
    pattern = three_files(shell)
    shell.ok("load", pattern, "--table", "t", "--after", "tag:loaded.by=rowfall")
    path = shell.folder / "in/0.csv"
    assert os.getxattr(path, "user.loaded.by") == b"rowfall"
    done = shell.ok("load", pattern, "--table", "t", "--after", "tag", "--json").document
    assert done["rows"] == 0  # a tag makes no other version


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--after", "mov:done"], "--after mov:done is not one of move:PREFIX"),
        (["--after", "move:"], "names no folder"),
        (["--after", "delete:x"], "takes nothing behind it"),
        (["--after", "tag:x"], "is not KEY=VALUE"),
        (["--after", "move:in"], "inside of what is loaded"),
        (["--after", "move:in/done"], "inside of what is loaded"),
        (["--after", "move:s3://lake/done"], "no folder of this machine"),
        (["--after", "delete", "--to", "null:"], "drops them"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_loaded(
    shell: Shell, more: list[str], said: str
) -> None:
    three_files(shell)
    done = shell.ends(2, "load", "in", *more)
    assert said in done.talk
    assert files(shell.folder / "in") == ["0.csv", "1.csv", "2.csv"]
    assert not (shell.folder / "rowfall-data/store").exists()


@pytest.mark.long
def test_a_pattern_that_finds_moved_files_is_refused(shell: Shell) -> None:
    three_files(shell)
    done = shell.ends(2, "load", "**/*.csv", "--table", "t", "--after", "move:done")
    assert "inside of what is loaded" in done.talk
    # What a folder's load leaves out is no danger.
    shell.ok("load", "in", "--table", "t", "--after", "move:in/_done")
    assert files(shell.folder / "in/_done") == ["0.csv", "1.csv", "2.csv"]
    generated = shell.ends(2, "load", "generate://trips?rows=10", "--table", "g", "--after", "tag")
    assert "is for files on disks and in buckets" in generated.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [3, 1])
@pytest.mark.parametrize("side", ["after", "before"])
def test_a_rerun_finishes_the_moves_that_a_kill_left(shell: Shell, number: int, side: str) -> None:
    pattern = three_files(shell)
    command = ["load", pattern, "--table", "t", "--after", "move:done"]
    killed(shell, "os:rename", number, side, *command)
    if number == 3 and side == "after":
        assert files(shell.folder / "in") == []
    done = shell.ok(*command)
    assert ("nothing to load: no file matches" in done.talk) is ((number, side) == (3, "after"))
    assert files(shell.folder / "done") == ["0.csv", "1.csv", "2.csv"]
    assert files(shell.folder / "in") == []
    assert shell.row(COUNT) == THREE


def test_a_file_that_has_changed_is_left_alone(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowfall.stores import cleared

    pattern = three_files(shell)
    clear = cleared.ClearsLocalFiles.clear

    def clear_late(self: Any, split: Any, action: Any) -> bool:
        if split.uri.endswith("1.csv"):
            Path(split.uri).write_text("id,name,price\n7000,new,1.5\n")
        return clear(self, split, action)

    monkeypatch.setattr(cleared.ClearsLocalFiles, "clear", clear_late)
    done = shell.ok("load", pattern, "--table", "t", "--after", "delete")
    assert "1.csv has changed since it was loaded: it is not deleted" in done.talk
    assert files(shell.folder / "in") == ["1.csv"]
    monkeypatch.undo()
    shell.ok("load", pattern, "--table", "t", "--after", "delete")
    assert files(shell.folder / "in") == []
    assert shell.row(COUNT) == [3001, THREE[1] + 7000]


def test_what_cannot_be_moved_is_an_error_and_every_row_is_loaded(shell: Shell) -> None:
    pattern = three_files(shell)
    shell.write("done", "a file in the way")
    done = shell.ends(4, "load", pattern, "--table", "t", "--after", "move:done/x")
    assert "all rows are loaded, but --after move has failed for 3 files" in done.talk
    assert shell.row(COUNT) == THREE
    (shell.folder / "done").unlink()
    shell.ok("load", pattern, "--table", "t", "--after", "move:done/x")
    assert files(shell.folder / "done/x") == ["0.csv", "1.csv", "2.csv"]


# --- in buckets -----------------------------------------------------------------------------------


@dataclass
class Store:
    """A bucket with two files of 100 rows each.

    Attributes:
        copy, delete: what does these steps of a move.
        keys: lists the bucket.
    """

    at: str
    env: dict[str, str]
    put: Callable[[str, bytes], None]
    keys: Callable[[], list[str]]
    copy: str
    delete: str


def _open(request: pytest.FixtureRequest, kind: str) -> Store:
    name = f"after-{os.getpid()}-{next(_numbers)}"
    if kind == "s3":
        s3: Seaweed = request.getfixturevalue("s3")
        s3.create_bucket(name)
        client = "rowfall.core.s3_client:ClientStore"
        made = Store(f"s3://{name}", s3.env, lambda k, b: s3.put(name, k, b),
                     lambda: s3.list(name), f"{client}.copy", f"{client}.delete")  # fmt: skip
    elif kind == "az":
        azure: Azure = request.getfixturevalue("azure")
        azure.create_bucket(name)
        az = "rowfall.stores.az:AzBucket"
        made = Store(f"az://{name}", azure.env, lambda k, b: azure.put(name, k, b),
                     lambda: azure.list(name), f"{az}.copy", f"{az}.delete")  # fmt: skip
    else:  # Google by an HMAC key; the emulator of its own protocol can neither copy nor delete so
        s3 = request.getfixturevalue("s3")
        s3.create_bucket(name)
        client = "rowfall.core.s3_client:ClientStore"
        made = Store(f"gs://{name}", s3.google_env, lambda k, b: s3.put(name, k, b),
                     lambda: s3.list(name), f"{client}.copy", f"{client}.delete")  # fmt: skip
    for n in range(2):
        made.put(
            f"in/d{n}/{n} é.csv", csv([(i,) for i in range(n * 100, n * 100 + 100)], "id").encode()
        )
    return made


@pytest.fixture(params=["s3", pytest.param("gs", marks=pytest.mark.long),
                        pytest.param("az", marks=pytest.mark.long)])  # fmt: skip
def store(request: pytest.FixtureRequest) -> Store:
    return _open(request, request.param)


MOVED = ["done/d0/0 é.csv", "done/d1/1 é.csv"]


def test_objects_are_moved_and_a_kill_in_between_is_mended(shell: Shell, store: Store) -> None:
    command = ["load", f"{store.at}/in/**/*.csv", "--table", "t", "--after", "move:done"]
    killed(shell, store.copy, 1, "after", *command, env=store.env)
    killed(shell, store.delete, 1, "after", *command, env=store.env)
    shell.ok(*command, env=store.env)
    assert store.keys() == MOVED
    assert shell.row(COUNT) == [200, 199 * 100]
    # Another version under a name that is taken.
    store.put("in/d0/0 é.csv", b"id\n1000\n")
    done = shell.ok(*command, env=store.env)
    assert "moved 1 loaded file" in done.talk
    keys = store.keys()
    assert len(keys) == 3
    assert [key for key in keys if key.startswith("in/")] == []
    assert shell.row(COUNT) == [201, 199 * 100 + 1000]


def test_objects_are_deleted_but_not_a_new_version(shell: Shell, store: Store) -> None:
    from rowfall.run import after

    clear = after._Counted.clear

    def late(self: Any, split: Any) -> None:
        if split.uri.endswith("1 é.csv"):
            store.put("in/d1/1 é.csv", b"id\n2000\n")
        clear(self, split)

    command = ["load", f"{store.at}/in/**/*.csv", "--table", "t", "--after", "delete"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(after._Counted, "clear", late)
        done = shell.ok(*command, env=store.env)
    assert "has changed since it was loaded" in done.talk
    assert store.keys() == ["in/d1/1 é.csv"]
    shell.ok(*command, env=store.env)
    assert store.keys() == []
    assert shell.row(COUNT) == [201, 199 * 100 + 2000]


@pytest.mark.long
def test_objects_are_tagged(shell: Shell, request: pytest.FixtureRequest) -> None:
    store = _open(request, "s3")
    import botocore.session

    client = botocore.session.Session().create_client(
        "s3", endpoint_url=store.env["AWS_ENDPOINT_URL"], region_name="us-east-1",
        aws_access_key_id=store.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=store.env["AWS_SECRET_ACCESS_KEY"],
    )  # fmt: skip
    bucket, key = store.at.partition("://")[2], "in/d0/0 é.csv"
    own = {"TagSet": [{"Key": "mine", "Value": "1"}]}
    client.put_object_tagging(Bucket=bucket, Key=key, Tagging=own)
    command = ["load", f"{store.at}/in/**/*.csv", "--table", "t", "--after", "tag:a=b c"]
    shell.ok(*command, env=store.env)
    tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    assert sorted((t["Key"], t["Value"]) for t in tags) == [("a", "b c"), ("mine", "1")]
    done = shell.ok(*command, "--json", env=store.env).document
    assert (done["rows"], done["after"]["files"]) == (0, 0)


@pytest.mark.long
def test_blobs_are_tagged_and_google_has_no_tags(
    shell: Shell, request: pytest.FixtureRequest
) -> None:
    store = _open(request, "az")
    command = ["load", f"{store.at}/in/**/*.csv", "--table", "t", "--after"]
    done = shell.ok(*command, "tag:a=b c", "--json", env=store.env).document
    assert done["after"]["files"] == 2
    from rowfall.stores.az import AzBucket, resolve_account

    bucket = AzBucket(store.at.partition("://")[2], resolve_account(store.env))
    _, document = bucket._ask("GET", "in/d0/0 é.csv", "comp=tags")
    assert b"<Key>a</Key><Value>b c</Value>" in document
    google = _open(request, "gs")
    refused = shell.ends(
        2, "load", f"{google.at}/in/**/*.csv", "--table", "g", "--after", "tag", env=google.env
    )
    assert "have no tags" in refused.talk


@pytest.mark.long
def test_another_bucket_is_refused(shell: Shell, request: pytest.FixtureRequest) -> None:
    store = _open(request, "s3")
    done = shell.ends(
        2, "load", f"{store.at}/in", "--table", "t", "--after", "move:s3://other/done",
        env=store.env,
    )  # fmt: skip
    assert "is another bucket" in done.talk
    inside = shell.ends(
        2, "load", f"{store.at}/in", "--table", "t", "--after", "move:in/done", env=store.env
    )
    assert "inside of what is loaded" in inside.talk
