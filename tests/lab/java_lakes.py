"""Lake tables by the Java libraries: Spark as a writer of both kinds, and Iceberg's REST catalogue.

The catalogue is the Iceberg project's own test server (its adapter over a JDBC catalogue in
SQLite): it speaks the REST protocol, and knows neither tokens nor vended keys.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.process import Service, ServiceError, free_ports, reachable

_HERE = Path(__file__).parent / "lakes"
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# What Spark asks of Java 17: its own start script has the same list.
_OPENED = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in (
        "java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util",
        "java.util.concurrent", "sun.nio.ch", "sun.security.action", "sun.util.calendar",
    )
]  # fmt: skip


def by_spark(folder: Path, *statements: str) -> None:
    """Let Spark run statements: tables are ``delta.`/path` ``, or ``ice.db.name`` below a folder.

    Raises:
        ServiceError: one of them failed.
    """
    command = [
        _tool("java"), "-Xmx700m", *_JVM, *_OPENED, f"-Dwarehouse={folder}",
        "-cp", f"{_packages('spark')}/*", str(_HERE / "spark" / "Writer.java"), *statements,
    ]  # fmt: skip
    _run(command, "write by Spark", folder)


class RestCatalogue(Service):
    """A REST catalogue of Iceberg, whose tables lie in a folder of its own.

    Attributes:
        uri: of the server, for ``PYICEBERG_CATALOG__NAME__URI``.
        warehouse: folder of new tables.
    """

    name = "iceberg-rest"

    def __init__(self) -> None:
        super().__init__()
        (self._port,) = free_ports(1)
        self.uri = f"http://127.0.0.1:{self._port}"
        self.warehouse = self.folder / "warehouse"
        self.warehouse.mkdir()
        self.warehouse.chmod(0o777)  # the tables' writer is another user
        source = self.folder / "Catalogue.java"
        shutil.copy(_HERE / "catalogue" / "Catalogue.java", source)
        source.chmod(0o644)

    def command(self) -> Sequence[str | Path]:
        return (
            _tool("java"), "-Xmx256m", *_JVM, f"-Djava.io.tmpdir={self.folder}",
            f"-Dorg.sqlite.tmpdir={self.folder}", "-cp",
            f"{reachable(_packages('catalogue'))}/*", self.folder / "Catalogue.java",
            str(self._port), self.warehouse,
        )  # fmt: skip

    def healthy(self) -> bool:
        client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            client.request("GET", "/v1/config")
            return client.getresponse().status == 200
        finally:
            client.close()


def _packages(name: str) -> Path:
    """The packages that a ``pom.xml`` names, fetched once for all test processes."""
    pom = _HERE / name / "pom.xml"
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                made = Path(folder, "made")
                command = [
                    _tool("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
                    f"-DoutputDirectory={made}",
                ]  # fmt: skip
                _run(command, f"fetch what {pom} names", Path(folder))
                made.rename(path)
    return path


def _run(command: Sequence[str], what: str, folder: Path) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        check=False, cwd=folder,
    )  # fmt: skip
    if done.returncode != 0:
        raise ServiceError(f"cannot {what}: {(done.stderr or done.stdout).strip()[-1500:]}")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServiceError(f"{name} is not installed; these tests need Java 17 and Maven")
    return found
