"""Names and layers: what wins, what is seen from where, the order of loads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowfall.core import passwords
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.project import NamedLoad, Origin, connection_names, find_project

PROD = '[connections.prod]\nuri = "clickhouse://me@ch1/db"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in list(os.environ):
        if name.startswith("ROWFALL_"):
            monkeypatch.delenv(name)
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def write(folder: Path, text: str) -> Path:
    path = folder / "rowfall.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def changed(load: NamedLoad) -> dict[str, object]:
    default = Options()
    names = Options.__dataclass_fields__
    return {n: getattr(load.options, n) for n in names
            if getattr(load.options, n) != getattr(default, n)}  # fmt: skip


def test_the_nearest_file_and_that_of_the_user(folder: Path, tmp_path: Path) -> None:
    write(tmp_path, '[connections.far]\nuri = "x"\n')
    write(folder.parent, PROD)
    own = write(
        tmp_path / "config" / "rowfall",
        '[connections.prod]\nuri = "other"\n[profiles.mine]\nto = "data"\n',
    )
    assert connection_names() == ["prod", "mine"]
    project = find_project()
    prod, mine = project.connection("prod"), project.connection("mine")
    assert prod is not None
    assert (prod.uri, prod.password) == ("clickhouse://me@ch1/db", None)
    assert mine is not None
    assert mine.uri == str(own.parent / "data")


def test_a_file_that_is_named_stands_in_place_of_the_one_that_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, PROD)
    (folder / "other.toml").write_text('[connections.other]\nuri = "x"\n')
    assert find_project("other.toml").names("connections") == ["other"]
    monkeypatch.setenv("ROWFALL_CONFIG", "other.toml")
    assert find_project().names("connections") == ["other"]
    for name, says in (("gone.toml", "is not there"), (str(folder), "is a folder")):
        with pytest.raises(UsageError, match=f"--config {name}: the file {says}"):
            find_project(name)
    monkeypatch.setenv("ROWFALL_CONFIG", "gone.toml")
    with pytest.raises(UsageError, match=r"ROWFALL_CONFIG gone.toml: the file is not there"):
        find_project()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_left_out_where_nothing_of_it_is_named(folder: Path) -> None:
    path = write(folder.parent, PROD)
    os.chown(path, 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        find_project()
    project = find_project(needed=False)
    assert (project.files, len(project.foreign)) == ((), 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        find_project(str(path), needed=False)


def test_profiles_are_connections(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "geheim")
    (folder / "pw").write_text("geheim\n")
    for line in ('password_env = "PW"', 'password_file = "pw"'):
        write(folder, f'[profiles.prod]\nto = "clickhouse://me@ch1/db"\nthreads = 2\n{line}\n')
        found = find_project().connection("prod")
        assert found is not None
        assert found.legacy
        assert found.password is not None
        assert found.password.reveal() == "geheim"
        assert found.values == {"threads": 2}
    write(folder, '[profiles.prod]\nto = "clickhouse://me:geheim@ch1/db"\n')
    with pytest.raises(UsageError, match="holds a secret"):
        find_project()


def test_what_wins(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags, environment, load, its target, its source, defaults here, defaults of the user."""
    own = write(
        tmp_path / "config" / "rowfall",
        '[defaults]\nthreads = 1\nmemory = "1GiB"\npatience = "1h"\nto = "nowhere/else"\n',
    )
    path = write(
        folder.parent,
        "[defaults]\nthreads = 2\nmemory = '2GiB'\nto = 'prod'\nstreams = 2\nmax_record = '1MiB'\n"
        f"{PROD}threads = 3\nstreams = 3\nmax_columns = 3\n"
        "[connections.shop]\nuri = 's3://bucket/in'\nstreams = 4\nmax_columns = 4\n"
        "max_record = '4MiB'\n[loads.orders]\nconnection = 'shop'\nsource = 'a/*.csv'\n"
        "threads = 5\nnull = '5'\n",
    )
    plain = find_project().load("orders")
    assert plain.sources == ("s3://bucket/in/a/*.csv",)
    assert plain.to == "clickhouse://me@ch1/db"
    assert changed(plain) == {
        "threads": 5, "null": "5", "streams": 3, "max_columns": 3, "max_record": "4MiB",
        "memory": "2GiB", "patience": "1h",
    }  # fmt: skip
    assert plain.origins["threads"] == Origin("project", f"{path} line 20, [loads.orders]")
    assert plain.origins["streams"] == Origin("project", f"{path} line 10, [connections.prod]")
    assert plain.origins["to"] == Origin("project", f"{path} line 4, [defaults]")
    assert plain.origins["patience"] == Origin("user", f"{own} line 4, [defaults]")
    monkeypatch.setenv("ROWFALL_THREADS", "6")
    monkeypatch.setenv("ROWFALL_NULL", "6")
    monkeypatch.setenv("ROWFALL_TO", "shop")
    flags = {"null": ("7", Origin("flag", "--null"))}
    given = find_project().load("orders", flags)
    assert (given.options.threads, given.options.null, given.to) == (6, "7", "s3://bucket/in")
    assert given.options.streams == 4
    assert given.origins["threads"] == Origin("environment", "ROWFALL_THREADS")
    assert given.origins["null"] == Origin("flag", "--null")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ROWFALL_THREADS", "two", "it is a whole number of 1 or more"),
        ("ROWFALL_VERIFY", "maybe", "it is a switch: 1 or 0"),
        ("ROWFALL_DATES", "dym", "it is dmy, mdy or ymd"),
        ("ROWFALL_MAX_ERROR_RATIO", "2", "it is a number from 0 to 1"),
    ],
)
def test_a_variable_that_makes_no_sense(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    write(folder, '[loads.a]\nsource = "a.csv"\n')
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"{name}={value}: {says}"):
        find_project().load("a")


def test_values_of_every_kind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        folder,
        '[loads.a]\nsource = ["a.csv", "~/b.csv"]\nheader = true\nmemory = 4294967296\n'
        'type = { id = "UInt64" }\nset = { max_threads = 8, x = true }\nskip = "c"\n'
        'rename = ["a=b", "c=d"]\nmax_error_ratio = 0\nfrom = "earliest"\nverify = true\n'
        'rejects = "bad.tsv"\n',
    )
    monkeypatch.setenv("ROWFALL_SKIP", "a\nb\n")
    monkeypatch.setenv("ROWFALL_NO_SYNC", "1")
    load = find_project().load("a")
    assert load.sources == ("a.csv", os.path.expanduser("~/b.csv"))
    assert changed(load) == {
        "header": "yes", "memory": "4294967296", "type": ("id UInt64",),
        "set": ("max_threads=8", "x=true"), "skip": ("a", "b"), "rename": ("a=b", "c=d"),
        "start_at": "earliest", "verify": True, "rejects": str(folder / "bad.tsv"), "no_sync": True,
    }  # fmt: skip


def test_an_answer_is_not_taken_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, '[loads.a]\nsource = "a.csv"\n')
    monkeypatch.setenv("ROWFALL_FORCE", "1")
    assert not find_project().load("a").options.force


def test_a_password_of_a_source_is_known_to_its_reader_and_not_in_its_address(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "geheim")
    write(
        folder,
        '[connections.shop]\nuri = "postgresql://me@db.example:5433/shop?sslmode=require"\n'
        'password = "env:PW"\n[loads.a]\nconnection = "shop"\nsource = "orders"\n'
        '[loads.b]\nsource = "postgresql://you:env:PW@db.example/shop/t"\n'
        '[loads.c]\nconnection = "shop"\nquery = "SELECT 1"\ntable = "t"\n',
    )
    project = find_project()
    for name, address in (
        ("a", "postgresql://me@db.example:5433/shop/orders?sslmode=require"),
        ("b", "postgresql://you@db.example/shop/t"),
        ("c", "postgresql://me@db.example:5433/shop?sslmode=require"),
    ):
        load = project.load(name)
        assert load.sources == (address,)
        found = passwords.given(address)
        assert found is not None
        assert found.reveal() == "geheim"
        assert "geheim" not in repr(load)
    assert passwords.given("postgresql://other@db.example/shop/t") is None


def test_the_order_of_loads(folder: Path) -> None:
    needs = {"c": "['b', 'a']", "a": "", "b": "'a'"}
    write(folder, "".join(f'[loads.{name}]\nsource = "x"\n' + (f"needs = {some}\n" if some else "")
                          for name, some in needs.items()))  # fmt: skip
    assert find_project().order(["c"]) == ["a", "b", "c"]
    assert find_project().order(["b"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "round in a circle: a needs b needs c needs a"),
        ({"a": "a"}, "round in a circle: a needs a"),
        ({"a": "bb", "b": ""}, "names bb, which is no load"),
    ],
)
def test_needs_that_cannot_be(folder: Path, needs: dict[str, str], says: str) -> None:
    text = "".join(f'[loads.{name}]\nsource = "x"\n' + (f'needs = "{need}"\n' if need else "")
                   for name, need in needs.items())  # fmt: skip
    path = write(folder, text)
    with pytest.raises(UsageError, match=says) as caught:
        find_project().load("a")
    assert caught.value.message.startswith(f"{path} line ")


def test_names_that_are_not_there(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no rowfall\.toml is here or in a folder above"):
        find_project().load("orders")
    write(
        folder,
        PROD + '[loads.orders]\nsource = "a"\nto = "prdo"\n[pipelines.live]\nsource = "b"\n'
        '[loads.items]\nconnection = "shop"\n[loads.lines]\nsource = "a"\nneeds = "live"\n',
    )
    project = find_project()
    cases = {
        "order": (r"has no load order", "Did you mean orders?"),
        "live": (r"has no load live", "It is a pipeline: rowfall watch live"),
        "orders": (r"line 5, \[loads.orders\]: to names prdo, and there is no such connection",
                   "Did you mean prod?"),
        "items": (r"line 9, .*: connection names shop", "Write [connections.shop]"),
        "lines": (r"line 12, .*: needs names live, which is no load", "It is a pipeline"),
    }  # fmt: skip
    for name, (says, hint) in cases.items():
        with pytest.raises(UsageError, match=says) as caught:
            project.load(name)
        assert hint in (caught.value.hint or "")
    with pytest.raises(UsageError, match="has no pipeline orders") as caught:
        project.pipeline("orders")
    assert "It is a load: rowfall run orders" in (caught.value.hint or "")


def test_a_pipeline_follows(folder: Path) -> None:
    write(folder, '[pipelines.live]\nsource = "kafka://h:9092/t"\nto = "./data"\n')
    found = find_project().pipeline("live")
    assert found.options.follow
    assert found.to == str(folder / "data")
    assert found.folder == folder
