"""``rowfall lab`` as a user runs it: up, status, down, and what goes wrong."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Done, Shell
from lab.clickhouse import binary
from lab.process import wait_until
from rowfall.lab import cluster
from rowfall.lab.cluster import Lab, LabNode
from rowfall.lab.process import spawn

pytestmark = pytest.mark.xdist_group("own clusters")


class Bench:
    """A folder for a lab, and the command with ``--folder`` pointing at it."""

    def __init__(self, shell: Shell, folder: Path) -> None:
        self.shell, self.folder = shell, folder
        shell.env["ROWFALL_CLICKHOUSE"] = str(binary())

    def ends(self, code: int, action: str, *args: str) -> Done:
        done = self.shell.ends(code, "lab", action, *args, "--folder", str(self.folder))
        if self.folder.exists() and (self.folder / "password").exists():
            assert (self.folder / "password").read_text() not in done.out + done.err
        return done

    def ok(self, action: str, *args: str) -> Done:
        return self.ends(0, action, *args)

    def up(self, shards: int = 1, replicas: int = 1) -> Done:
        return self.ok("up", "--shards", str(shards), "--replicas", str(replicas))

    def states(self) -> list[str]:
        return [node["state"] for node in self.ok("status", "--json").document["nodes"]]

    def pids(self) -> list[int]:
        """Of all processes that were started with a file of this folder."""
        found = []
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if f"--config-file={self.folder}/" in line.read_text(errors="replace"):
                    found.append(int(line.parent.name))
            except OSError:  # has ended since
                continue
        return found


def listening(pids: list[int]) -> set[tuple[str, int]]:
    """Addresses and ports at which processes wait for connections."""
    own, found = set(), set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since
                own.add(os.readlink(link))
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in own:
                address, _, port = local.partition(":")
                # Words of 32 bits in the order of this machine.
                words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
                packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
                found.add((socket.inet_ntop(family, packed), int(port, 16)))
    return found


@pytest.fixture
def bench(shell: Shell) -> Iterator[Bench]:
    # Not below pytest's tmp_path: that is closed to the user whom servers of root run as.
    home = Path(tempfile.mkdtemp(prefix="rowfall-lab-e2e-"))
    home.chmod(0o711)
    bench = Bench(shell, home / "lab")
    yield bench
    for pid in bench.pids():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home)


def test_from_up_to_down(bench: Bench) -> None:
    said = bench.up(2, 2)
    assert ": 2 shards with 2 replicas each" in said.talk
    export, load, down = (x.strip() for x in said.out.splitlines() if x.startswith("  "))
    assert load.startswith("rowfall load ... --to 'clickhouse://lab@127.0.0.1:")
    assert down == f"rowfall lab down --folder {bench.folder}"

    # What is printed works in a shell.
    bench.shell.write("a.csv", "a\n1\n2\n")
    bench.shell.write("b.csv", "a\n3\n")
    rowfall = f'rowfall() {{ {sys.executable} -m rowfall "$@"; }}'
    lines = [rowfall, export, load.replace("...", "?.csv --table t")]
    lines += [load.replace("load ...", "query 'SELECT sum(a) FROM t' --format TSV")]
    done = subprocess.run(
        ["/bin/sh", "-ec", "\n".join(lines)], cwd=bench.shell.folder, check=False,
        env={**os.environ, "ROWFALL_HOME": str(bench.shell.cli.home)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "6\n", done.stderr

    shown = bench.ok("status")
    assert shown.out.count(" up\n") == 4
    document = bench.ok("status", "--json").document
    assert [(x["shard"], x["replica"]) for x in document["nodes"]] == [
        (1, 1), (1, 2), (2, 1), (2, 2),
    ]  # fmt: skip
    assert document["to"] == load.split("'")[1]
    assert all(20e6 < x["memory_bytes"] < 500e6 for x in document["nodes"])
    assert sorted(x["pid"] for x in document["nodes"]) == sorted(bench.pids())
    ports = listening(bench.pids())
    assert len(ports) == 4 * 3 + 2  # HTTP, TCP, interserver; the Keeper's own, and its raft port
    assert {address for address, _ in ports} == {"127.0.0.1"}

    assert "stopped 4 servers" in bench.ok("down").talk
    assert not bench.pids()
    assert bench.states() == ["down"] * 4
    assert bench.ok("down", "--remove", "--json").document == {
        "rowfall_lab_down": 1, "ended": 0, "removed": True,
    }  # fmt: skip
    assert not bench.folder.exists()


@pytest.mark.long
def test_data_and_addresses_stay(bench: Bench) -> None:
    csv = bench.shell.write("a.csv", "a\n1\n2\n")

    def to(said: Done) -> tuple[str, str, dict[str, str]]:
        password = (bench.folder / "password").read_text()
        address = re.sub(r"\?.*", "", json.loads(said.out)["to"])
        return "--to", address, {"ROWFALL_PASSWORD": password}

    flag, first, env = to(bench.ok("up", "--shards", "1", "--replicas", "1", "--json"))
    bench.shell.ok("load", str(csv), "--table", "t", flag, first, env=env)
    bench.ok("down")
    flag, second, env = to(bench.ok("up", "--json"))
    assert second == first
    query = ("query", "SELECT sum(a) FROM t", "--format", "TSV", flag, second)
    assert bench.shell.ok(*query, env=env).out == "3\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to give up")
def test_servers_of_root_are_unprivileged(bench: Bench) -> None:
    bench.up()
    (pid,) = bench.pids()
    assert Path(f"/proc/{pid}").stat().st_uid != 0
    tables = Path(f"/proc/{pid}/net/tcp").read_text() + Path(f"/proc/{pid}/net/tcp6").read_text()
    port = bench.ok("status", "--json").document["nodes"][0]["http_port"]
    listening = re.findall(rf"\d+: ([0-9A-F]+):{port:04X} 0+:0000 0A", tables)
    assert listening == ["0100007F"]


@pytest.mark.long
def test_up_brings_back_what_has_died(bench: Bench) -> None:
    bench.up(1, 2)
    document = bench.ok("status", "--json").document
    os.kill(document["nodes"][1]["pid"], signal.SIGKILL)
    wait_until(lambda: bench.states() == ["up", "down"], 20, "the node to end")
    assert bench.ok("up", "--json").document["nodes"][0]["pid"] == document["nodes"][0]["pid"]
    assert bench.states() == ["up", "up"]
    assert len(bench.pids()) == 2


@pytest.mark.long
def test_a_server_that_hangs_is_silent(bench: Bench) -> None:
    bench.up()
    (pid,) = bench.pids()
    os.kill(pid, signal.SIGSTOP)
    assert bench.states() == ["silent"]
    assert "stopped 1 server" in bench.ok("down").talk
    assert not bench.pids()


def test_the_process_of_another_is_left_alone(bench: Bench) -> None:
    bench.up()
    bench.ok("down")
    with subprocess.Popen(["sleep", "100"]) as other:  # noqa: S607
        (bench.folder / "node1/pid").write_text(f"{other.pid}\n")
        assert bench.states() == ["down"]
        assert "stopped 0 servers" in bench.ok("down").talk
        assert other.poll() is None
        other.kill()


def test_a_running_lab_is_not_started_again(bench: Bench) -> None:
    bench.up()
    done = bench.ends(2, "up")
    assert f"start the lab in {bench.folder}: it is running" in done.talk
    assert "rowfall lab down" in done.talk
    done = bench.ends(2, "up", "--shards", "3")
    assert "it has 1 shard with 1 replica" in done.talk
    assert len(bench.pids()) == 1


@pytest.mark.long
def test_a_port_that_is_taken(bench: Bench) -> None:
    bench.up(1, 2)
    port = bench.ok("status", "--json").document["nodes"][1]["tcp_port"]
    bench.ok("down")
    with socket.create_server(("127.0.0.1", port)):
        done = bench.ends(6, "up")
    assert f"start node 2 (shard 1, replica 2): port {port} of 127.0.0.1 is taken" in done.talk
    assert not bench.pids()
    bench.ok("up")


@pytest.mark.long
def test_a_server_that_does_not_come_up(bench: Bench) -> None:
    bench.up(1, 2)
    bench.ok("down")
    data = bench.folder / "node2/data"
    shutil.rmtree(data)
    data.write_text("no folder")
    done = bench.ends(6, "up")
    assert "start node 2 (shard 1, replica 2): it has ended" in done.talk
    assert "node2/service.log ends:" in done.talk
    assert "node2/data" in done.err.partition("ends:")[2]
    assert " @ 0x" not in done.err  # stack traces say nothing to a user
    assert not bench.pids()  # node 1 was ended again


def test_ctrl_c_leaves_no_server(bench: Bench) -> None:
    folder = ["--folder", str(bench.folder)]
    process = bench.shell.cli.start("lab", "up", *folder, env=bench.shell.env)
    wait_until(lambda: bool(bench.pids()), 20, "the first server")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.splitlines()[-1]) == (130, "rowfall: interrupted")
    assert not bench.pids()
    assert bench.states() == ["down"] * 4


def test_ctrl_c_while_a_server_starts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs already, and the command has not written its process id yet."""

    def interrupted(*given: Any) -> subprocess.Popen[bytes]:
        process = spawn(*given)
        wait_until(lambda: bool(bench.pids()), 20, "the server")
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(cluster, "spawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Lab.make(bench.folder, 1, 1).up(binary())
    assert not bench.pids()


def test_ctrl_c_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one while the servers are being ended because of the first."""

    def interrupted(self: LabNode, number: signal.Signals) -> None:
        signal.raise_signal(signal.SIGINT)
        end(self, number)

    end = LabNode.end
    monkeypatch.setattr(LabNode, "end", interrupted)
    monkeypatch.setattr(LabNode, "wait", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        Lab.make(bench.folder, 2, 1).up(binary())
    assert not bench.pids()


def test_a_server_is_up_before_the_kernel_shows_its_command_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is empty while the program is read from a slow disk: such a server has not ended."""
    (node,) = Lab.make(bench.folder, 1, 1).nodes
    program = bench.folder / "clickhouse"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(cluster, "command_of", lambda _: "")
    node.begin(program)
    try:
        assert node.pid is not None
    finally:
        node.end(signal.SIGKILL)
    assert node.pid is None


def test_one_command_at_a_time(bench: Bench) -> None:
    bench.up()
    with (bench.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for action in ("up", "down"):
            assert "another command" in bench.ends(2, action).talk
    assert len(bench.pids()) == 1


class TestWithoutServers:
    def test_no_clickhouse(self, bench: Bench) -> None:
        bench.shell.env = {"ROWFALL_CLICKHOUSE": "", "PATH": "/nowhere"}
        done = bench.ends(2, "up")
        assert "there is no program clickhouse on PATH" in done.talk
        assert "hint: Name one with --clickhouse or ROWFALL_CLICKHOUSE" in done.talk
        assert not bench.folder.exists()

    def test_the_named_one_comes_first(self, bench: Bench) -> None:
        done = bench.ends(2, "up", "--clickhouse", "/no/clickhouse")
        assert "--clickhouse /no/clickhouse is not a program" in done.talk
        bench.shell.env["ROWFALL_CLICKHOUSE"] = str(bench.shell.folder)
        assert "ROWFALL_CLICKHOUSE=" in bench.ends(2, "up").talk

    def test_another_program(self, bench: Bench) -> None:
        done = bench.ends(2, "up", "--clickhouse", shutil.which("cat") or "")
        assert "cat is not a ClickHouse server: " in done.talk
        script = bench.shell.write("clickhouse", "no program")
        script.chmod(0o755)
        assert f"run {script}: " in bench.ends(2, "up", "--clickhouse", str(script)).talk

    def test_a_folder_of_something_else(self, bench: Bench) -> None:
        bench.folder.mkdir()
        (bench.folder / "thesis.tex").touch()
        assert "it holds other files" in bench.ends(2, "up").talk
        for command in (["status"], ["down", "--remove"]):
            done = bench.ends(2, *command)
            assert f"open the lab in {bench.folder}: there is no lab" in done.talk
        assert [x.name for x in bench.folder.iterdir()] == ["thesis.tex"]

    def test_a_file(self, bench: Bench) -> None:
        bench.folder.touch()
        assert "File exists" in bench.ends(2, "up").talk
        assert "there is no lab" in bench.ends(2, "down").talk

    @pytest.mark.parametrize("text", ["{", "[]", '{"rowfall_lab": 1}'])
    def test_a_damaged_lab(self, bench: Bench, text: str) -> None:
        bench.folder.mkdir()
        (bench.folder / "lab.json").write_text(text)
        (bench.folder / "password").write_text("secret-0123456789")
        assert "lab.json is damaged" in bench.ends(2, "status").talk

    def test_a_lab_of_another_version(self, bench: Bench) -> None:
        bench.folder.mkdir()
        (bench.folder / "lab.json").write_text('{"rowfall_lab": 2}')
        assert "another version of rowfall made it" in bench.ends(2, "up").talk

    @pytest.mark.skipif(os.geteuid() != 0, reason="servers of a user run as that user")
    def test_a_folder_that_is_closed_to_the_servers(self, bench: Bench) -> None:
        bench.folder.parent.chmod(0o700)
        done = bench.ends(2, "up")
        assert f"may not enter {bench.folder.parent} hint: Choose another folder" in done.talk


def test_a_link_in_the_folder_of_a_server_is_not_followed(bench: Bench) -> None:
    """That folder belongs to the user whom servers of root run as."""
    precious = bench.folder.with_name("precious")
    precious.write_text("kept")
    lab = Lab.make(bench.folder, 1, 1)
    (node,) = lab.nodes
    node.config.folder.mkdir()
    for name in ("config.new", "service.log"):
        (node.config.folder / name).symlink_to(precious)
    done = bench.ends(2, "up")
    assert "service.log is a symbolic link" in done.talk
    assert precious.read_text() == "kept"
    assert precious.stat().st_uid == os.geteuid()
    assert not bench.pids()
