"""What an address of PostgreSQL leaves out is taken as libpq takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.systems.postgresql.conninfo import completed
from rowfall.systems.postgresql.source import PostgresSource
from rowfall.systems.postgresql.target import PostgresTarget

SERVICES = """# of the shop
[shop]
host=db1,db2
port=5432,5433
dbname=shop
user=reader
target_session_attrs=read-write
[lake]
host=/var/run/postgresql
dbname=lake
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "PORT", "DATABASE", "SERVICE", "SERVICEFILE", "SYSCONFDIR", "USER"):
        monkeypatch.delenv(f"PG{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".pg_service.conf").write_text(SERVICES)


@pytest.mark.parametrize(
    ("text", "env", "wanted"),
    [
        ("postgresql://a@h:1/d/t?schema=s", {}, "postgresql://a@h:1/d/t?schema=s"),
        ("postgresql://h/d/t", {"PGHOST": "x", "PGPORT": "7"}, "postgresql://h:7/d/t"),
        ("postgresql:///d/t", {"PGHOST": "x"}, "postgresql://x/d/t"),
        ("postgresql:///d/t", {"PGPORT": "7"}, "postgresql://localhost:7/d/t"),
        ("postgresql:///?table=t", {"PGDATABASE": "d e", "PGHOST": "x"},
         "postgresql://x/d%20e?table=t"),
        ("postgresql:///d/t?host=/run/pg&port=6", {}, "postgresql:///d/t?host=%2Frun%2Fpg&port=6"),
        ("postgresql://u@a:1,b/d/t", {}, "postgresql://u@/d/t?host=a%2Cb&port=1%2C5432"),
        ("postgresql:///?service=shop&table=t", {},
         "postgresql:///shop?service=shop&table=t&host=db1%2Cdb2&port=5432%2C5433"),
        ("postgresql://own/d/t", {"PGSERVICE": "shop"},
         "postgresql:///d/t?host=own&port=5432%2C5433"),
        ("postgresql:///d/t", {"PGSERVICE": "lake", "PGHOST": "x"},
         "postgresql:///d/t?host=%2Fvar%2Frun%2Fpostgresql&port=5432"),
        ("postgresql://[::1]:5/d/t", {}, "postgresql://[::1]:5/d/t"),
    ],
)  # fmt: skip
def test_addresses(
    monkeypatch: pytest.MonkeyPatch, text: str, env: dict[str, str], wanted: str
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert completed(text).replace("/", "%2F") == wanted.replace("/", "%2F")


def test_source_and_target_are_the_same_server() -> None:
    source = PostgresSource(["postgresql:///orders?service=lake&table=t"], Options())
    assert source.address.login.host == "/var/run/postgresql"
    assert source.address.login.port == 5432
    target = PostgresTarget("postgresql:///?service=lake", "t", Options())
    assert target.address is not None
    assert (target.address.host, target.address.options["database"]) == (
        "/var/run/postgresql", "lake",
    )  # fmt: skip


def test_what_was_taken_is_said() -> None:
    said: list[str] = []
    completed("postgresql:///?service=lake", said)
    assert said == [
        "host /var/run/postgresql by the service lake",
        "dbname lake by the service lake",
    ]


def test_a_service_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"no service shopp in .*\.pg_service\.conf") as error:
        completed("postgresql:///d/t?service=shopp")
    assert "Did you mean shop?" in str(error.value.hint)
    broken = tmp_path / "broken.conf"
    monkeypatch.setenv("PGSERVICEFILE", str(broken))
    for text, line in (("password=kQ7x\n", 1), ("[shop]\nhost=x\nkQ7x\n", 3)):
        broken.write_text(text)
        with pytest.raises(UsageError, match=r"cannot be looked up in .*broken\.conf") as error:
            completed("postgresql:///d/t?service=shop")
        assert f"line {line} is neither [name] nor key=value" in str(error.value)
        assert "kQ7x" not in str(error.value)


@pytest.mark.parametrize("text", ["postgresql://me:kQ7x/Zw9v@h/db", "postgresql://me:kQ7x/db"])
def test_a_password_that_is_no_port_is_not_shown(text: str) -> None:
    with pytest.raises(UsageError) as error:
        completed(text)
    assert "kQ7x" not in f"{error.value}{error.value.hint}"
