"""Make what a release needs, from a commit and nothing else: ``make release``.

Wheels and sdists of both packages, what they require with hashes (the small installation, all
extras), two bills of materials (CycloneDX: Python packages, Rust crates), the recipe of the image,
a Homebrew formula and a conda recipe with version and checksums in them, and SHA256SUMS over all.

The same commit gives the same bytes: times are that of the commit, and paths of this machine are
kept out of the program. ``--twice`` builds it a second time and compares.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CRATE = "crates/rowfall-decode"
RECIPES = {
    "homebrew/rowfall.rb.in": "rowfall.rb", "conda/recipe.yaml.in": "recipe.yaml",
    "image.sh": "image.sh",
}  # fmt: skip
# Names of conda-forge, where they differ from those of PyPI.
_CONDA = {"inotify-simple": "inotify_simple"}


class ReleaseError(Exception):
    """What keeps a release from being made, one sentence."""


@dataclass(frozen=True)
class Wanted:
    """What to make.

    Attributes:
        commit: what is released. ``url``: where its files will lie. ``homepage``: of the project.
        cpus: processors of rowfall-decode's wheels. ``profile``: of cargo.
        env: the environment of requirements-wheels.lock.
    """

    commit: str
    url: str
    homepage: str
    cpus: tuple[str, ...]
    profile: str
    env: Path


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed.

    Raises:
        ReleaseError: it failed.
    """
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, words))}:\n{done.stdout.strip()}")
    return done.stdout


def version_of(source: Path) -> str:
    """Return the version of a checkout, which has to be the same everywhere in it.

    Raises:
        ReleaseError: it is not, or the changelog does not know it.
    """
    text = (source / "src/rowfall/core/version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)"$', text, re.M)
    if not found:
        raise ReleaseError("src/rowfall/core/version.py: no version like 1.2.3 or 1.2.3rc1")
    version = found[1]
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    others = {f"{CRATE}/{name}": re.search(r'^version = "(.*)"$', (source / CRATE / name).read_text(
        encoding="utf-8"), re.M) for name in ("Cargo.toml", "pyproject.toml")}  # fmt: skip
    for where, other in others.items():
        if other is None or other[1] != version:
            raise ReleaseError(f"{where} is not of version {version}")
    if not any(f"rowfall-decode=={version}" in line for line in project["dependencies"]):
        raise ReleaseError(f"pyproject.toml does not ask for rowfall-decode=={version}")
    changes = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"## [{version}]" not in changes:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]")
    return version


def needed(lock: str, roots: Sequence[str]) -> str:
    """Return the part of a lock file that some packages need, themselves among it.

    uv writes below each package who asked for it.
    """
    blocks: dict[str, list[str]] = {}
    asked: dict[str, set[str]] = {}
    for block in re.findall(r"^(?![#\s]).*\n(?:[ ]+.*\n)*", lock, re.M):
        name = re.split(r"[=\s]", block, maxsplit=1)[0]
        blocks.setdefault(name, []).append(block)
        via = re.findall(r"^ +# +(?:via )?([a-z0-9-]+)$", block, re.M)
        asked.setdefault(name, set()).update(via)
    wanted = {name for name in roots if name in blocks}
    if missing := sorted(set(roots) - wanted):
        raise ReleaseError(f"requirements-dev.lock does not have {', '.join(missing)}")
    while more := {name for name, by in asked.items() if by & wanted} - wanted:
        wanted |= more
    kept = "".join(block for name in blocks if name in wanted for block in blocks[name])
    return re.sub(r"^ +#.*\n", "", kept, flags=re.M)


def roots_of(project: dict[str, Any], *extras: str) -> list[str]:
    """Return the names of what the project and some of its extras ask for, but rowfall-decode."""
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    names = [re.split(r"[\[<>=!;\s]", line, maxsplit=1)[0] for line in lines]
    return sorted({name for name in names if name != "rowfall-decode"})


def locked(project: dict[str, Any], lock: str) -> list[str]:
    """Return the extras that the lock file pins; Ray, which users bring themselves, is in none."""
    names = set(re.findall(r"^([\w.-]+)==", lock, re.M))
    own = set(roots_of(project))
    return [
        extra
        for extra in project["optional-dependencies"]
        if set(roots_of(project, extra)) - own <= names
    ]


def build(wanted: Wanted, folder: Path) -> Path:
    """Build everything from a commit in a folder of its own; return the folder of the results."""
    source, out = folder / "source", folder / "release"
    source.mkdir(parents=True)
    out.mkdir()
    packed = folder / "source.tar"
    run("git", "archive", "-o", packed, wanted.commit)
    run("tar", "xf", packed, "-C", source)
    packed.unlink()
    version = version_of(source)
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    # Compilers write the paths of sources into messages of the program.
    same = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct", wanted.commit).strip(),
            "RUSTFLAGS": f"--remap-path-prefix={cargo}=/cargo --remap-path-prefix={folder}=/build",
            "CFLAGS": f"-ffile-prefix-map={cargo}=/cargo -ffile-prefix-map={folder}=/build",
            "CARGO_TARGET_DIR": str(folder / "target"), "TZ": "UTC", "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": "0"}  # fmt: skip
    python = wanted.env / "bin/python"
    print(f"rowfall {version}: packages, {', '.join(wanted.cpus)}", flush=True)
    run("make", "wheels", "-o", wanted.env, f"DIST={out}", f"WHEELS_ENV={wanted.env}",
        f"WHEELS_FOR={' '.join(wanted.cpus)}", f"WHEELS_PROFILE={wanted.profile}",
        cwd=source, env=same)  # fmt: skip
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=source, env=same)
    run(python, "-m", "maturin", "sdist", "-m", f"{CRATE}/Cargo.toml", "-o", out,
        cwd=source, env=same)  # fmt: skip
    shutil.rmtree(folder / "target")
    print("requirements, bills of materials, recipes", flush=True)
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (source / "requirements-dev.lock").read_text(encoding="utf-8")
    small = out / f"requirements-{version}.txt"
    small.write_text(needed(lock, roots_of(project)), encoding="utf-8")
    whole = out / f"requirements-all-{version}.txt"
    whole.write_text(needed(lock, roots_of(project, *locked(project, lock))), encoding="utf-8")
    write_bills(wanted, source, out, version, same)
    fill_recipes(wanted, source, out, version, same["SOURCE_DATE_EPOCH"])
    write_sums(out)
    return out


def write_bills(
    wanted: Wanted, source: Path, out: Path, version: str, same: dict[str, str]
) -> None:
    """Write two bills of materials: the Python packages and the Rust crates of a release.

    That of the crates is in each wheel, written by maturin; that of the first one is taken.
    """
    run(wanted.env / "bin/python", "-m", "cyclonedx_py", "requirements",
        out / f"requirements-all-{version}.txt", "--pyproject",
        source / "pyproject.toml", "--output-reproducible", "--output-format", "JSON",
        "--output-file", out / f"rowfall-{version}.cdx.json", env=same)  # fmt: skip
    wheel = sorted(out.glob(f"rowfall_decode-{version}-*.whl"))[0]
    with zipfile.ZipFile(wheel) as packed:
        bills = [name for name in packed.namelist() if re.search(r"/sboms/.*\.json$", name)]
        if len(bills) != 1:
            raise ReleaseError(f"{wheel.name} holds {len(bills)} bills of materials instead of one")
        bill = packed.read(bills[0])
    (out / f"rowfall-decode-{version}.cdx.json").write_bytes(bill)


def fill_recipes(wanted: Wanted, source: Path, out: Path, version: str, epoch: str) -> None:
    """Write the recipes of other installers, with version, addresses and checksums in them."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for line in project["dependencies"]:
        (name, limit), *_ = re.findall(r"^([\w-]+)([^;]*)", line)
        if name != "rowfall-decode":
            lines.append(f"        - {_CONDA.get(name, name)} {limit.strip()}".rstrip())
    filled = {"VERSION": version, "URL": wanted.url.rstrip("/"), "HOMEPAGE": wanted.homepage,
              "EPOCH": epoch, "CONDA_DEPENDENCIES": "\n".join(lines)}  # fmt: skip
    for recipe, name in RECIPES.items():
        path = source / "packaging" / recipe
        text = path.read_text(encoding="utf-8")
        for word, value in filled.items():
            text = text.replace(f"@{word}@", value)
        text = re.sub(r"@SHA256:([^@\n]+)@", lambda found: sha256(out / found[1]), text)
        if left := re.search(r"@[A-Z_]+[@:]", text):
            raise ReleaseError(f"packaging/{recipe}: nobody knows what {left[0]} is")
        (out / name).write_text(text, encoding="utf-8")
        (out / name).chmod(path.stat().st_mode & 0o777)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits.

    Raises:
        ReleaseError: there is no such file.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise ReleaseError(
            f"{path.name} was not built, and a recipe asks for its checksum"
        ) from None


def write_sums(out: Path) -> None:
    """Write SHA256SUMS, as ``sha256sum --check`` reads it."""
    files = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")
    text = "".join(f"{sha256(path)}  {path.name}\n" for path in files)
    (out / "SHA256SUMS").write_text(text, encoding="ascii")


def compare(first: Path, second: Path) -> None:
    """Check that two builds are the same bytes.

    Raises:
        ReleaseError: they are not; it names the files that differ.
    """
    one, two = (
        dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
        for out in (first, second)
    )
    if differ := sorted(name for name in {*one, *two} if one.get(name) != two.get(name)):
        raise ReleaseError(f"the second build is not the same: {', '.join(differ)}")


@contextmanager
def _place() -> Iterator[Path]:
    """Make the folder to build in: always of one name, as bills of materials have it in them.

    Raises:
        ReleaseError: it is there.
    """
    place = Path(tempfile.gettempdir(), "rowfall-release")
    try:
        place.mkdir(0o700)
    except FileExistsError:
        raise ReleaseError(f"{place} is there: another release is made, or remove it") from None
    try:
        yield place
    finally:
        shutil.rmtree(place)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="make release", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the results; replaced")
    parser.add_argument("--env", type=Path, required=True, help="of requirements-wheels.lock")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--url", default="", help="address below which the files will be published")
    parser.add_argument("--homepage", default="")
    parser.add_argument("--cpus", default="x86_64 aarch64")
    parser.add_argument("--profile", default="release")
    parser.add_argument("--twice", action="store_true", help="build again, and compare")
    given = parser.parse_args(words)
    try:
        if given.commit == "HEAD" and (changed := run("git", "status", "--porcelain").strip()):
            raise ReleaseError(
                f"a release is made from a commit, and these are in none:\n{changed}"
            )
        url = given.url or "https://example.com/rowfall"
        # By its id: HEAD may be another one when it is built for the second time.
        commit = run("git", "rev-parse", "--verify", f"{given.commit}^{{commit}}").strip()
        wanted = Wanted(
            commit, url, given.homepage or url, tuple(given.cpus.split()), given.profile,
            given.env.absolute(),
        )  # fmt: skip
        with _place() as place:
            made = build(wanted, place / "build").rename(place / "made")
            shutil.rmtree(place / "build")
            if given.twice:
                print("the same again", flush=True)
                compare(made, build(wanted, place / "build"))
            shutil.rmtree(given.out, ignore_errors=True)
            shutil.copytree(made, given.out)
    except ReleaseError as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    for path in sorted(given.out.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    if not given.url:
        print("The recipes lead to example.com: give --url where the files will be published.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
