"""What an address of MySQL leaves out is taken as its client takes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowfall.core import passwords
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.systems.mysql.option_files import completed
from rowfall.systems.mysql.source import MySQLSource
from rowfall.systems.mysql.target import MySQLTable

OPTIONS = """
[mysqld]
port=1
[client]
user = reader
password="p#a\\\\ss"   
host=db1
port=3307 # of the replica
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(passwords, "_known", {})


def test_the_file_of_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".my.cnf").write_text(OPTIONS)
    assert completed("mysql:///shop/orders") == "mysql://reader@db1:3307/shop/orders"
    source = MySQLSource(["mysql:///shop/orders"], Options())
    login = source.address.login
    assert (login.host, login.port, login.user) == ("db1", 3307, "reader")
    assert login.password is not None
    assert login.password.reveal() == "p#a\\ss"
    assert "ss" not in source.text
    target = MySQLTable("mysql:///shop", "t", Options())
    assert target.address is not None
    assert target.address.password is not None
    assert (target.address.host, target.address.user) == ("db1", "reader")
    # Another user has another password; another host is no reason for one.
    assert (
        MySQLSource(["mysql://me@db1:3307/shop/orders"], Options()).address.login.password is None
    )


def test_a_named_file_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[client]\nuser=a\n")
    monkeypatch.setenv("MYSQL_HOST", "h")
    monkeypatch.setenv("MYSQL_TCP_PORT", "5")
    said: list[str] = []
    assert completed(f"mysql:///d/t?defaults-file={file}", said) == "mysql://a@h:5/d/t"
    assert said == ["host h by MYSQL_HOST", "port 5 by MYSQL_TCP_PORT", f"user a by {file}"]
    assert completed("mysql://x/d/t") == "mysql://x/d/t"
    monkeypatch.delenv("MYSQL_HOST")
    monkeypatch.setenv("MYSQL_UNIX_PORT", "/run/m.sock")
    source = MySQLSource(["mysql:///d/t"], Options())
    assert source.address.settings["socket"] == "/run/m.sock"
    assert source.address.login.host == "/run/m.sock"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads any file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / ".my.cnf").write_text(OPTIONS)
    (tmp_path / ".my.cnf").chmod(0)
    with pytest.raises(UsageError, match=r"in .*\.my\.cnf cannot be read: Permission denied"):
        completed("mysql:///d/t")


def test_files_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        completed(f"mysql:///d/t?defaults-file={tmp_path}/none.cnf")
    (tmp_path / ".my.cnf").write_text("[client\nuser=a\n")
    with pytest.raises(UsageError, match=r"\.my\.cnf, line 1: '\[client' is no group"):
        completed("mysql:///d/t")
    (tmp_path / ".my.cnf").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read: it is not text"):
        completed("mysql:///d/t")


def test_a_password_that_ends_the_host_is_not_shown() -> None:
    with pytest.raises(UsageError) as error:
        completed("mysql://me:kQ7x/Zw9v@h/db")
    assert "kQ7x" not in f"{error.value}{error.value.hint}"
