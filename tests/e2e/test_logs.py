"""Logs of web servers and programs, and fixed widths: typed columns, lines that are none."""

from __future__ import annotations

import gzip

import pytest

from e2e.tools import Shell, kill_while_it_loads

AGENT = '"https://x.org/\\"q\\"" "Mozilla/5.0 (X11; \\x22)"'


def access(count: int, behind: str = "") -> str:
    return "".join(
        f"10.0.{n // 256}.{n % 256} - {'ann' if n % 3 else '-'} "
        f"[31/Jan/2024:23:{n % 60:02}:07 -0130] "
        f'"GET /p{n % 5}?q=a b HTTP/1.1" {200 + n % 3} {"-" if n % 7 == 0 else n}{behind}\n'
        for n in range(count)
    )


def test_an_access_log_that_is_found(shell: Shell) -> None:
    """Times are moments in UTC, what a log does not know is NULL."""
    (shell.folder / "access.log").write_text(access(1000, f" {AGENT}"))
    done = shell.ok("load", "access.log")
    assert "access.log is read as nginx" in done.talk
    types = dict(shell.rows("SELECT name, type FROM system.columns WHERE table = 'access'"))
    assert list(types) == [
        "remote_addr", "ident", "remote_user", "time", "method", "path", "protocol", "status",
        "bytes", "referer", "user_agent",
    ]  # fmt: skip
    assert "DateTime" in types["time"]
    assert "Int" in types["status"]
    assert shell.rows(
        "SELECT count(), sum(status), sum(bytes), count(bytes), countIf(remote_user = 'ann'), "
        "toString(min(toTimeZone(time, 'UTC'))), any(referer), any(user_agent) FROM access"
    ) == [[
        1000, 200_999, sum(n for n in range(1000) if n % 7), 857, 666, "2024-02-01 00:30:07",
        'https://x.org/"q"', "Mozilla/5.0 (X11; \\x22)",
    ]]  # fmt: skip


@pytest.mark.parametrize("decoder", ["auto", "never"])
@pytest.mark.long
def test_fields_behind_those_of_combined(shell: Shell, decoder: str) -> None:
    """The format main that nginx is packaged with has one more; others have more of them."""
    (shell.folder / "main.log").write_text(access(300, f' {AGENT} "10.0.0.1, ::1"'))
    shell.ok("load", "main.log", "--decoder", decoder)
    assert shell.rows("SELECT count(), uniqExact(user_agent), any(x_forwarded_for) FROM main") == [
        [300, 1, "10.0.0.1, ::1"]]  # fmt: skip
    lines = access(300, f" {AGENT} 0.25 -").splitlines()
    lines[200] = access(1, f" {AGENT}").strip()
    (shell.folder / "more.log").write_text("\n".join(lines) + "\n")
    done = shell.ends(1, "load", "more.log", "--decoder", decoder)
    assert "more.log line 201 is no line of an access log" in done.talk
    shell.ok("load", "more.log", "--decoder", decoder, "--max-errors", "1")
    assert shell.rows("SELECT count(), sum(field_12), count(field_13) FROM more") == [
        [299, 74.75, 0]]  # fmt: skip


@pytest.mark.parametrize("decoder", ["auto", "never"])
@pytest.mark.long
def test_lines_that_are_none(shell: Shell, decoder: str) -> None:
    """They are bad rows by file and line, whoever reads the log."""
    lines = access(500).splitlines()
    lines[100] = "2024/01/31 [error] 7#7: upstream timed out"
    lines[300] = lines[300].replace("Jan", "Jän")
    (shell.folder / "a.log.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    load = ("load", "a.log.gz", "--format", "apache", "--decoder", decoder)
    done = shell.ends(1, *load)
    assert "a.log.gz line 101 is no line of an access log without referer and agent" in done.talk
    shell.ok(*load, "--max-errors", "2", "--rejects", "bad.tsv")
    bad = (shell.folder / "bad.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in bad] == ["101", "301"]
    assert shell.rows("SELECT count(), uniqExact(remote_addr) FROM a") == [[498, 498]]


@pytest.mark.long
def test_logfmt(shell: Shell) -> None:
    (shell.folder / "app.log").write_text(
        'ts=2024-01-31T10:00:00Z level=info msg="started \\"x\\"" dur=1.5\n'
        "ts=2024-01-31T10:00:01Z level=warn dur=2\n"
        'ts=2024-01-31T10:00:02Z level=info msg="" dur=3 retry\n'
    )
    done = shell.ok("load", "app.log")
    assert "app.log is read as logfmt" in done.talk
    assert shell.rows("SELECT level, msg, dur, retry FROM app ORDER BY ts") == [
        ["info", 'started "x"', 1.5, None], ["warn", None, 2, None], ["info", "", 3, True],
    ]  # fmt: skip
    (shell.folder / "late.log").write_text("a=1 b=2\n" * 60_000 + "a=1 c=3\n")
    assert "late.log line 60001 is no line of logfmt" in shell.ends(1, "load", "late.log").talk


@pytest.mark.long
def test_fixed_widths(shell: Shell) -> None:
    """Characters, not bytes; a line that is cut off or too long is no row."""
    head = "id  name      price\n"
    rows = "".join(f"{n:4}{'Zoë' if n % 2 else 'Bo x':10}{n / 4:5.2f}\n" for n in range(1, 200))
    (shell.folder / "a.prn").write_text(head + rows)
    load = ("load", "a.prn", "--widths", "4,10,5")
    shell.ok(*load)
    assert shell.rows("SELECT count(), sum(id), sum(price), uniqExact(name) FROM a") == [
        [199, 19_900, 4975, 2]]  # fmt: skip
    (shell.folder / "b.dat").write_text(rows + " 200Zo\n 201Anna      10.00 and more\n")
    done = shell.ends(1, "load", "b.dat", "--widths", "4,10,5", "--columns", "id,name,price")
    assert "b.dat line 200 is no line of these widths" in done.talk
    shell.ok(
        "load", "b.dat", "--widths", "4,10,5", "--columns", "id,name,price", "--max-errors", "2"
    )
    assert shell.rows("SELECT count() FROM b") == [[199]]
    for options, said in (
        (("--widths", "4,x"), "are no widths"),
        (("--widths", "4,5", "--delimiter", ";"), "--delimiter is for CSV"),
        (("--widths", "4,5", "--format", "nginx"), "--widths is for lines of text"),
        (("--widths", "2,3"), "no rows of these widths"),
    ):
        assert said in shell.run("load", "a.prn", *options).talk


@pytest.mark.long
def test_a_log_that_is_killed_in_the_middle(shell: Shell) -> None:
    """Each line once afterwards, of all files."""
    for n in range(6):
        (shell.folder / f"{n}.log").write_text(access(60_000, f" {AGENT}"))
    kill_while_it_loads(shell, "load", "*.log", "--table", "t", "--threads", "1")
    shell.ok("load", "*.log", "--table", "t")
    assert shell.rows("SELECT count(), sum(bytes) FROM t") == [
        [360_000, 6 * sum(n for n in range(60_000) if n % 7)]]  # fmt: skip
