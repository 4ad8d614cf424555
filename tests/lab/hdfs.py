"""A real HDFS: NameNode and DataNode of Hadoop, from the packages that ``hadoop/pom.xml`` names."""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import http.client
import json
import os
import shutil
import string
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from lab.process import UNVERIFIED, Service, ServiceError, free_ports, reachable

_POM = Path(__file__).parent / "hadoop" / "pom.xml"
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
# Small, soon warm, and silent: it is started for a handful of files.
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *UNVERIFIED)  # fmt: skip


class _Node(Service):
    """A daemon with the configuration of both."""

    start_seconds = 90.0

    def __init__(self, main: str, lab: Hdfs | NameService) -> None:
        self.name = main.rpartition(".")[2].lower()
        self._main, self._lab = main, lab
        super().__init__()
        for kind in ("name", "data"):
            (self.folder / kind).mkdir()
            self._own(self.folder / kind)

    def command(self) -> Sequence[str | Path]:
        return (*_java(self._lab.packages, self.folder), self._main)

    def healthy(self) -> bool:
        return self._lab.healthy(self)


class Hdfs:
    """One name node and one data node; permissions are checked, blocks are of 1 MiB.

    Attributes:
        rpc, http: ports of the name node.
        superuser: who may do everything.
        uri: ``hdfs://127.0.0.1:port``, to which a path is added; ``query`` ends it.
    """

    def __init__(self) -> None:
        self.packages = reachable(_packages())
        self.rpc, self.http, transfer, web, ipc = free_ports(5)
        self.superuser = "nobody" if os.geteuid() == 0 else getpass.getuser()
        self.uri, self.query = f"hdfs://127.0.0.1:{self.rpc}", f"?http={self.http}"
        self.name_node, self.data_node = _Node(_NAME_NODE, self), _Node(_DATA_NODE, self)
        formatted = self.packages / "formatted"
        shutil.copytree(formatted, self.name_node.folder / "name", dirs_exist_ok=True)
        for path in (self.name_node.folder / "name").rglob("*"):
            self.name_node._own(path)
        settings = {
            "fs.defaultFS": self.uri,
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc}",
            "dfs.namenode.http-address": f"127.0.0.1:{self.http}",
            "dfs.namenode.name.dir": f"file://{self.name_node.folder}/name",
            "dfs.datanode.data.dir": f"file://{self.data_node.folder}/data",
            "dfs.datanode.address": f"127.0.0.1:{transfer}",
            "dfs.datanode.http.address": f"127.0.0.1:{web}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ipc}",
            "dfs.datanode.hostname": "127.0.0.1",
        }
        for node in (self.name_node, self.data_node):
            _configure(node.folder, settings)

    def start(self) -> Self:
        with ThreadPoolExecutor() as pool:  # the data node waits for the name node by itself
            for started in [pool.submit(n.start) for n in (self.name_node, self.data_node)]:
                started.result()
        return self

    def close(self) -> None:
        self.data_node.close()
        self.name_node.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def healthy(self, node: _Node) -> bool:
        try:
            if node is self.name_node:
                return bool(self.ask("GET", "/", "GETFILESTATUS"))
            self.put("/health-probe", b"1")  # proves more than listening
            self.delete("/health-probe")
        except ServiceError as error:
            raise OSError(str(error)) from None
        return True

    def at(self, path: str) -> str:
        """The URI of a path or pattern; the superuser asks."""
        return f"hdfs://{self.superuser}@{self.uri.partition('://')[2]}{path}{self.query}"

    def put(self, path: str, body: bytes) -> None:
        """Write a file; folders are made, and what was there is replaced."""
        self.ask("PUT", path, "CREATE", body, overwrite="true")

    def append(self, path: str, body: bytes) -> None:
        self.ask("POST", path, "APPEND", body)

    def delete(self, path: str) -> None:
        self.ask("DELETE", path, "DELETE", recursive="true")

    def chmod(self, path: str, permission: str) -> None:
        self.ask("PUT", path, "SETPERMISSION", permission=permission)

    @contextmanager
    def writing(self, path: str, body: bytes) -> Iterator[None]:
        """Append without an end: the file stays open for writing until the block ends."""
        where = self._data_node("POST", path, "APPEND", {})
        client = http.client.HTTPConnection(where.netloc, timeout=10)
        client.putrequest("POST", f"{where.path}?{where.query}")
        client.putheader("Content-Type", "application/octet-stream")
        client.putheader("Transfer-Encoding", "chunked")
        client.endheaders(b"%x\r\n%s\r\n" % (len(body), body))
        try:
            yield
        finally:
            client.send(b"0\r\n\r\n")
            client.getresponse().read()
            client.close()

    def ask(
        self, method: str, path: str, operation: str, body: bytes | None = None, **more: str
    ) -> dict[str, Any]:
        """Ask for an operation of WebHDFS; a body goes to the data node.

        Raises:
            ServiceError: it is refused. OSError: nothing answers.
        """
        if body is None:
            text = _answer(method, f"127.0.0.1:{self.http}", self._query(path, operation, more))
        else:
            where = self._data_node(method, path, operation, more)
            text = _answer(method, where.netloc, f"{where.path}?{where.query}", body)
        return dict(json.loads(text)) if text else {}

    def _data_node(self, method: str, path: str, operation: str, more: Mapping[str, str]) -> Any:
        query = self._query(path, operation, {**more, "noredirect": "true"})
        told = json.loads(_answer(method, f"127.0.0.1:{self.http}", query))
        return urlsplit(quote(told["Location"], safe=string.punctuation))

    def _query(self, path: str, operation: str, more: Mapping[str, str]) -> str:
        named = {"op": operation, "user.name": self.superuser, **more}
        query = "&".join(f"{name}={quote(value)}" for name, value in named.items())
        return f"/webhdfs/v1{quote(path)}?{query}"


def _answer(method: str, where: str, query: str, body: bytes | None = None) -> bytes:
    client = http.client.HTTPConnection(where, timeout=20)
    try:
        headers = {} if body is None else {"Content-Type": "application/octet-stream"}
        client.request(method, query, body, headers)
        answer = client.getresponse()
        text = answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        client.close()
    if answer.status >= 300:
        raise ServiceError(f"{method} {query}: {answer.status} {text[:300]!r}")
    return text


def _configure(folder: Path, settings: Mapping[str, str], replication: int = 1) -> None:
    """Write the configuration of a daemon."""
    everything = {
        **settings,
        "dfs.replication": str(replication),
        "dfs.blocksize": str(1 << 20),
        "dfs.namenode.fs-limits.min-block-size": "1024",
        # Nothing waits for nodes that might still come, or for disks that might fill.
        "dfs.namenode.safemode.threshold-pct": "0",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.resource.du.reserved": "0",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.edits.noeditlogchannelflush": "true",
        # A data node that is gone is missed after some 12 s; 10 minutes are the default.
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.heartbeat.recheck-interval": "1000",
        "ipc.client.connect.retry.interval": "200",
        # A writer asks for the end of its file again after 400 ms otherwise.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
        "dfs.namenode.handler.count": "4",
        "dfs.datanode.handler.count": "4",
        "dfs.datanode.directoryscan.interval": "-1",
    }
    conf = folder / "conf"
    conf.mkdir()
    named = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in everything.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (conf / name).write_text(f"<configuration>\n{named}</configuration>\n")


def _java(packages: Path, folder: Path) -> list[str]:
    return [
        _tool("java"), *_JVM, f"-Djava.io.tmpdir={folder}", f"-Dhadoop.log.dir={folder}",
        "-cp", f"{folder}/conf:{packages}/lib/*",
    ]  # fmt: skip


def _packages() -> Path:
    """The packages and an empty file system, made once for all test processes."""
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    pinned = hashlib.sha256(_POM.read_bytes()).hexdigest()
    path = cache / f"hadoop-{pinned[:16]}"
    with (cache / "hadoop.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                made = Path(folder, "made")
                _fetch(made / "lib")
                _format(made, Path(folder))
                made.rename(path)
    return path


def _fetch(lib: Path) -> None:
    _run(
        [_tool("mvn"), "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies",
         f"-DoutputDirectory={lib}"], "fetch Hadoop",
    )  # fmt: skip


def _format(packages: Path, folder: Path) -> None:
    """Make the empty file system that each name node begins with: another start of Java less."""
    _configure(folder, {
        "fs.defaultFS": "hdfs://127.0.0.1:1",
        "dfs.namenode.name.dir": f"file://{packages}/formatted",
    })  # fmt: skip
    _run([*_java(packages, folder), _NAME_NODE, "-format", "-nonInteractive"], "format HDFS")


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        raise ServiceError(f"cannot {what}: {(done.stderr or done.stdout).strip()[-800:]}")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServiceError(f"{name} is not installed; the tests of HDFS need Java 17 and Maven")
    return found


class NameService:
    """Two name nodes with one log of edits, of which one is active, and two data nodes.

    Attributes:
        name: of the service.
        conf: folder with the configuration of clients, for ``HADOOP_CONF_DIR``.
        name_nodes, data_nodes: the daemons.
    """

    name = "lab"

    def __init__(self) -> None:
        self.packages = reachable(_packages())
        self.superuser = "nobody" if os.geteuid() == 0 else getpass.getuser()
        self.name_nodes = [_Node(_NAME_NODE, self), _Node(_NAME_NODE, self)]
        self.data_nodes = [_Node(_DATA_NODE, self), _Node(_DATA_NODE, self)]
        self._ports = [free_ports(2), free_ports(2)]
        edits = self.name_nodes[0].folder / "edits"
        shutil.copytree(self.packages / "formatted" / "current", edits / "current")
        for path in (edits, *edits.rglob("*")):
            self.name_nodes[0]._own(path)
        settings = {
            "fs.defaultFS": f"hdfs://{self.name}",
            "dfs.nameservices": self.name,
            f"dfs.ha.namenodes.{self.name}": "nn0,nn1",
            f"dfs.client.failover.proxy.provider.{self.name}":
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
            "dfs.namenode.shared.edits.dir": f"file://{edits}",
        }  # fmt: skip
        for number, (rpc, web) in enumerate(self._ports):
            settings[f"dfs.namenode.rpc-address.{self.name}.nn{number}"] = f"127.0.0.1:{rpc}"
            settings[f"dfs.namenode.http-address.{self.name}.nn{number}"] = f"127.0.0.1:{web}"
        for number, node in enumerate(self.name_nodes):
            shutil.copytree(self.packages / "formatted", node.folder / "name", dirs_exist_ok=True)
            for path in (node.folder / "name").rglob("*"):
                node._own(path)
            own = {"dfs.ha.namenode.id": f"nn{number}",
                   "dfs.namenode.name.dir": f"file://{node.folder}/name"}  # fmt: skip
            _configure(node.folder, {**settings, **own}, replication=2)
        for node in self.data_nodes:
            transfer, web, ipc = free_ports(3)
            own = {
                "dfs.datanode.data.dir": f"file://{node.folder}/data",
                "dfs.datanode.address": f"127.0.0.1:{transfer}",
                "dfs.datanode.http.address": f"127.0.0.1:{web}",
                "dfs.datanode.ipc.address": f"127.0.0.1:{ipc}",
                "dfs.datanode.hostname": "127.0.0.1",
            }
            _configure(node.folder, {**settings, **own}, replication=2)
        self.conf = self.data_nodes[0].folder / "conf"

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(_Node.start, self.name_nodes))
            self.activate(0)
            with ThreadPoolExecutor() as pool:
                list(pool.map(_Node.start, self.data_nodes))
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for node in (*self.data_nodes, *self.name_nodes):
            node.close()

    def healthy(self, node: _Node) -> bool:
        """A name node answers; of data nodes the active one knows as many as are up."""
        if node in self.name_nodes:
            _answer("GET", f"127.0.0.1:{self._ports[self.name_nodes.index(node)][1]}", "/jmx?qry=x")
            return True
        asked = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        text = _answer("GET", f"127.0.0.1:{self._ports[0][1]}", asked)
        return bool(json.loads(text)["beans"][0]["NumLiveDataNodes"] > self.data_nodes.index(node))

    def activate(self, number: int) -> None:
        """Make one name node the active one, and the other the standby."""
        for at, word in ((1 - number, "-transitionToStandby"), (number, "-transitionToActive")):
            if self.name_nodes[at].pid:
                self._tool("org.apache.hadoop.hdfs.tools.DFSHAAdmin", word, f"nn{at}")

    def put(self, path: str, body: bytes) -> None:
        """Write a file, with a copy on each data node."""
        with tempfile.NamedTemporaryFile(dir=self.conf.parent) as file:
            file.write(body)
            file.flush()
            os.chmod(file.name, 0o644)
            self._tool("org.apache.hadoop.fs.FsShell", "-put", "-f", file.name, path)

    def _tool(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            [*_java(self.packages, self.conf.parent), main, *arguments],
            env={**os.environ, "HADOOP_USER_NAME": self.superuser}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServiceError(f"{main} {arguments}: {(done.stderr or done.stdout)[-800:]}")
