"""Packages of Debian: fetched by apt, unpacked into a cache, not installed; and other Debians."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.process import ServiceError

_FETCH_SECONDS = 600  # 200 MB at a third of a MB a second


def unpacked(
    name: str,
    *packages: str,
    needs: bool = False,
    also: str = "",
    then: Callable[[Path], object] = lambda root: None,
) -> Path:
    """Return the folder of the unpacked packages, fetched once for all test processes.

    Args:
        name: of the folder in the cache.
        needs: fetch what the package needs and this machine lacks, too.
        also: another architecture, of which some packages are (``package:arm64``).
        then: called once, with the folder, before it is taken.

    Raises:
        ServiceError: there is no apt, or it cannot.
    """

    def make(folder: Path) -> None:
        _fetch(folder, packages, needs, also)
        then(folder / "root")

    return _kept(name, make)


def mmdebstrap() -> dict[str, str]:
    """Return the environment in which ``mmdebstrap`` is found, which makes roots of Debian.

    Raises:
        ServiceError: it cannot be had.
    """
    tool = unpacked("mmdebstrap", "mmdebstrap", "libdpkg-perl", "perl", needs=True)
    path = f"{tool / 'usr/bin'}:{os.environ['PATH']}:/usr/sbin:/sbin"
    return {**os.environ, "PATH": path, "PERL5LIB": str(tool / "usr/share/perl5")}


def system(suite: str, *packages: str) -> Path:
    """Return the root of another Debian with some packages, for chroot; made once.

    Raises:
        ServiceError: it cannot be made: its packages cannot be had, or this user is not root.
    """
    env = mmdebstrap()

    def make(folder: Path) -> None:
        # A mirror may be a copy of some weeks ago, whose lists have expired; they are signed still.
        _run(folder, "mmdebstrap", "--quiet", "--variant=minbase",
             "--aptopt=Acquire::Check-Valid-Until false",
             f"--include={','.join(packages)}", suite, str(folder / "root"), env=env)  # fmt: skip

    return _kept("-".join((suite, *packages)), make)


def _kept(name: str, make: Callable[[Path], object]) -> Path:
    """Return what is kept in the cache; where it is not there, it is made as ``root`` in a folder.

    Raises:
        ServiceError: there is no apt, or it cannot.
    """
    if shutil.which("apt-get") is None:
        raise ServiceError(f"{name} comes from apt-get, which is not there")
    cache = Path.home() / ".cache" / "rowfall-lab"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                make(Path(folder))
                Path(folder, "root").rename(path)
    return path


def _fetch(folder: Path, packages: Sequence[str], needs: bool, also: str) -> None:
    apt = ["apt-get"]
    if also:
        # Lists of its own: those of the machine know one architecture, and stay as they are.
        (folder / "lists/partial").mkdir(parents=True)
        apt += ["-o", "APT::Architectures::=amd64", "-o", f"APT::Architectures::={also}",
                "-o", f"Dir::State::Lists={folder}/lists"]  # fmt: skip
        _run(folder, *apt, "update")

    def once() -> None:
        names = list(packages)
        if needs:
            plan = ("install", "--print-uris", "-qq", "-y", "--no-install-recommends", *packages)
            listed = _run(folder, *apt, *plan).splitlines()
            # Names only: what is there already is not fetched.
            files = [line.split()[1] for line in listed if line[:1] == "'"]
            found = [
                name.partition("_")[0] + (f":{also}" if name.endswith(f"_{also}.deb") else "")
                for name in files
            ]
            names = found or names
        _run(folder, *apt, "download", *names)

    try:
        once()
    except ServiceError:  # no lists of packages yet, or old ones
        if also:
            raise
        _run(folder, *apt, "update")
        once()
    (folder / "root").mkdir()
    for file in folder.glob("*.deb"):
        _run(folder, "dpkg", "-x", str(file), "root")


def _run(folder: Path, *command: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=_FETCH_SECONDS, check=False, env={**(env or os.environ), "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode:
        raise ServiceError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return done.stdout
