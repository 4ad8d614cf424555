"""Servers are found as people have them: services, variables, option files, sockets, hosts."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from e2e.tools import Shell
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from rowfall.lab.process import free_ports

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.long]


def test_a_service_and_variables_of_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(
        "DROP SCHEMA IF EXISTS conn CASCADE", "CREATE SCHEMA conn",
        "CREATE TABLE conn.t (id int PRIMARY KEY)", "INSERT INTO conn.t VALUES (1), (2)",
    )  # fmt: skip
    services = shell.write(
        "services.conf",
        f"[lab]\nhost=127.0.0.1,127.0.0.1\nport={free_ports(1)[0]},{postgresql.port}\n"
        f"user={postgresql.user}\ndbname={postgresql.database}\n"
        "target_session_attrs=read-write\n",
    )
    shell.env["PGSERVICEFILE"] = str(services)
    source = "postgresql:///?service=lab&table=t&schema=conn"
    done = shell.ok("load", source, "--to", "postgresql:///?service=lab&schema=conn",
                    "--table", "copy", "--json")  # fmt: skip
    assert done.document["rows"] == 2
    assert shell.ok("load", source, "--json").document["rows"] == 2
    assert shell.ok("load", source, "--decoder", "never", "--table", "u", "--json").document[
        "rows"
    ] == 2  # fmt: skip
    said = shell.ok("plan", "-v", source).out
    assert "host 127.0.0.1,127.0.0.1 by the service lab" in " ".join(said.split())
    missing = shell.ends(2, "load", "postgresql:///?service=lap&table=t")
    assert "there is no service lap in" in missing.talk
    assert "Did you mean lab?" in missing.talk
    del shell.env["PGSERVICEFILE"]
    shell.env |= {"PGHOST": "127.0.0.1", "PGPORT": str(postgresql.port), "PGUSER": postgresql.user,
                  "PGDATABASE": postgresql.database}  # fmt: skip
    del shell.env["PGPASSWORD"]
    passes = shell.write("pass", f"127.0.0.1:*:*:*:{postgresql.password}\n")
    passes.chmod(0o600)
    shell.env["PGPASSFILE"] = str(passes)
    source = "postgresql:///?table=t&schema=conn"
    assert shell.ok("load", source, "--table", "v", "--json").document["rows"] == 2
    assert postgresql.password not in shell.ok("status", "--json").out


def test_a_socket_of_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    ((folders,),) = postgresql.ask("SHOW unix_socket_directories")
    folder = str(folders).split(",")[0].strip()
    if not folder:
        pytest.skip("the server has no socket")
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(
        "DROP SCHEMA IF EXISTS sock CASCADE", "CREATE SCHEMA sock",
        "CREATE TABLE sock.t (id int PRIMARY KEY)", "INSERT INTO sock.t VALUES (1), (2)",
    )  # fmt: skip
    where = f"host={quote(folder, safe='')}&port={postgresql.port}&schema=sock"
    base = f"postgresql://{postgresql.user}@/{postgresql.database}"
    done = shell.ok("load", f"{base}/t?{where}", "--to", f"{base}?{where}", "--table", "copy",
                    "--json")  # fmt: skip
    assert done.document["rows"] == 2
    assert shell.ok("load", f"{base}/t?{where}", "--json").document["rows"] == 2


def test_the_options_of_the_client_of_mysql(shell: Shell, mariadb: MariaDB) -> None:
    mariadb.query(
        "DROP DATABASE IF EXISTS conn", "CREATE DATABASE conn",
        "CREATE TABLE conn.t (id INT PRIMARY KEY)", "INSERT INTO conn.t VALUES (1), (2)",
    )  # fmt: skip
    ((path,),) = mariadb.query("SELECT @@socket")
    own = shell.folder / "my.cnf"
    login = f"[client]\nuser={mariadb.user}\npassword='{mariadb.password}'\n"
    for number, where in enumerate((f"host=127.0.0.1\nport={mariadb.port}\n", f"socket={path}\n")):
        own.write_text(login + where)
        source = f"mysql:///conn/t?defaults-file={own}"
        target = ["--to", f"mysql:///conn?defaults-file={own}", "--table", f"copy{number}"]
        done = shell.ok("load", source, *target, "--json")
        assert done.document["rows"] == 2
        for more in ([], ["--decoder", "never"]):
            done = shell.ok("load", source, "--force", *more, "--json")
            assert done.document["rows"] == 2
        for ledger in shell.folder.rglob("*.ledger*"):
            assert mariadb.password.encode() not in ledger.read_bytes()
