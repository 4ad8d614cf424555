"""Jars of Maven Central, fetched once for a machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.process import ServiceError

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>lab</groupId><artifactId>lab</artifactId>
<version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def jars(name: str, *artifacts: str) -> Path:
    """Return the folder of some jars and of all that they need.

    Args:
        name: of the folder. ``artifacts``: ``group:artifact:version``.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rowfall-lab")
    cache.mkdir(parents=True, exist_ok=True)
    found = cache / name
    with (cache / f"{name.partition('-')[0]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found.exists():
            return found
        maven = shutil.which("mvn")
        if maven is None or shutil.which("java") is None:
            raise ServiceError(f"{name} needs java and mvn: apt-get install maven")
        dependencies = "".join(_DEPENDENCY.format(*one.split(":")) for one in artifacts)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            Path(folder, "pom.xml").write_text(_POM.format(dependencies=dependencies))
            done = subprocess.run(
                [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise ServiceError(f"mvn cannot fetch {name}: {done.stdout[-1000:]}")
            Path(folder, "jars").rename(found)
    return found
