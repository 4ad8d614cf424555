"""What `make release` makes: packages, bills of materials, recipes and an image that runs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lab import debian
from rowfall.core.version import __version__

# Built once, and by one at a time: both kinds of builds make their environment in build/.
pytestmark = pytest.mark.xdist_group("packaging")
ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "packaging/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


release: Any = _program()
LOCK = """\
# made by uv
click==8.5.1 \\
    --hash=sha256:aa
    # via rowfall (pyproject.toml)
mdurl==0.1.2 \\
    --hash=sha256:bb
    # via markdown-it-py
markdown-it-py==4.3.0 \\
    --hash=sha256:cc
    # via rich
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:dd
    # via
    #   pandas
    #   rich
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:ee
    # via
    #   pandas
    #   rich
pytest==9.0 \\
    --hash=sha256:ff
    # via rowfall (pyproject.toml:dev)
rich==15.0.0 \\
    --hash=sha256:00
    # via rowfall (pyproject.toml)
"""


def test_what_is_needed_comes_out_of_the_lock_file() -> None:
    kept = release.needed(LOCK, ["rich"])
    assert re.findall(r"^([\w-]+)==", kept, re.M) == [
        "mdurl",
        "markdown-it-py",
        "numpy",
        "numpy",
        "rich",
    ]
    assert kept.count("--hash=sha256:") == 5
    with pytest.raises(release.ReleaseError, match="does not have polars"):
        release.needed(LOCK, ["polars"])
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    small = release.needed(lock, release.roots_of(EXTRAS))
    assert "\nrich==" in small
    assert "chdb" not in small
    extras = release.locked(EXTRAS, lock)
    assert {"embedded", "kafka", "iceberg", "duckdb"} <= set(extras)
    everything = release.needed(lock, release.roots_of(EXTRAS, *extras))
    assert set(re.findall(r"^([\w-]+)==", everything, re.M)) >= {
        "chdb",
        "six",
        "protobuf",
        "duckdb",
    }
    assert "pytest" not in everything


def _checkout(folder: Path, **changed: str) -> Path:
    """Write the files that say a version, one of them otherwise."""
    crate = folder / "crates/rowfall-decode"
    (folder / "src/rowfall/core").mkdir(parents=True)
    crate.mkdir(parents=True)
    texts = {
        "src/rowfall/core/version.py": '__version__ = "1.2.3"\n',
        "pyproject.toml": '[project]\ndependencies = ["rowfall-decode==1.2.3"]\n',
        "crates/rowfall-decode/Cargo.toml": '[package]\nversion = "1.2.3"\n',
        "crates/rowfall-decode/pyproject.toml": '[project]\nversion = "1.2.3"\n',
        "CHANGELOG.md": "## [1.2.3] - 2026-11-27\n",
    }
    for name, text in (texts | changed).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_release_has_one_version(tmp_path: Path) -> None:
    assert release.version_of(_checkout(tmp_path / "right")) == "1.2.3"
    for number, (name, text, said) in enumerate((
        ("src/rowfall/core/version.py", '__version__ = "1.2.3+x"', "no version like 1.2.3"),
        ("pyproject.toml", "[project]\ndependencies = ['rowfall-decode==1.2.2']", "==1.2.3"),
        ("crates/rowfall-decode/Cargo.toml", 'version = "1.2.4"', "Cargo.toml is not of version"),
        ("CHANGELOG.md", "## [1.2.2]\n", r"CHANGELOG.md has no section \[1.2.3\]"),
    )):  # fmt: skip
        with pytest.raises(release.ReleaseError, match=said):
            release.version_of(_checkout(tmp_path / str(number), **{name: text}))


def test_two_builds_that_differ_are_named(tmp_path: Path) -> None:
    for name, text in (("one", "1"), ("two", "1"), ("three", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.whl").write_text(text)
        (tmp_path / name / "b.txt").write_text("same")
        release.write_sums(tmp_path / name)
    release.compare(tmp_path / "one", tmp_path / "two")
    with pytest.raises(release.ReleaseError, match=r"not the same: a\.whl$"):
        release.compare(tmp_path / "one", tmp_path / "three")


def test_a_commit_that_comes_meanwhile_is_in_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, built = ["a" * 40, "b" * 40], []

    def run(*words: str, **_: Any) -> str:
        if words[1] == "rev-parse":
            return f"{heads.pop(0)}\n"
        return ""

    def build(wanted: Any, folder: Path) -> Path:
        built.append(wanted.commit)
        (folder / "release").mkdir(parents=True)
        (folder / "release/SHA256SUMS").write_text("")
        return folder / "release"

    monkeypatch.setattr(release, "run", run)
    monkeypatch.setattr(release, "build", build)
    monkeypatch.setattr(release.tempfile, "gettempdir", lambda: str(tmp_path))
    words = ["--out", str(tmp_path / "out"), "--env", str(tmp_path), "--twice"]
    assert release.main(words) == 0
    assert built == ["a" * 40] * 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of this commit for this processor, built twice; or that of $ROWFALL_RELEASE.

    With the profile of the demo: it takes a fifth of the time, and is as reproducible.
    """
    if "ROWFALL_RELEASE" in os.environ:
        return Path(os.environ["ROWFALL_RELEASE"])
    out = tmp_path_factory.mktemp("release")
    said = subprocess.run(
        ["make", "release", f"DIST={out}", f"WHEELS_FOR={platform.machine()}",  # noqa: S607
         "WHEELS_PROFILE=demo", "RELEASE_URL=https://files.example.org/0"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    return out / "release"


@pytest.mark.long
@pytest.mark.timeout(3600)  # the decoder is compiled twice
def test_a_release_is_whole(made: Path) -> None:
    v = __version__
    names = {path.name for path in made.iterdir()}
    assert names >= {
        f"rowfall-{v}-py3-none-any.whl", f"rowfall-{v}.tar.gz", f"rowfall_decode-{v}.tar.gz",
        f"requirements-{v}.txt", f"requirements-all-{v}.txt", f"rowfall-{v}.cdx.json",
        f"rowfall-decode-{v}.cdx.json", "rowfall.rb", "recipe.yaml", "image.sh", "SHA256SUMS",
    }  # fmt: skip
    sums = (made / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    assert {line.split("  ")[1] for line in sums} == names - {"SHA256SUMS"}
    for line in sums:
        digest, name = line.split("  ")
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    # Each dependency has a version and hashes, and both bills of materials are there.
    bill = json.loads((made / f"rowfall-{v}.cdx.json").read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "rowfall"
    listed = {part["name"]: part for part in bill["components"]}
    assert listed["chdb"]["version"]
    wanted = (made / f"requirements-all-{v}.txt").read_text(encoding="utf-8")
    assert set(listed) == set(re.findall(r"^([\w.-]+)==", wanted, re.M))
    crates = json.loads((made / f"rowfall-decode-{v}.cdx.json").read_text(encoding="utf-8"))
    assert {"parquet", "zstd", "ureq"} <= {part["name"] for part in crates["components"]}
    with tarfile.open(made / f"rowfall_decode-{v}.tar.gz") as packed:
        assert f"rowfall_decode-{v}/Cargo.lock" in packed.getnames()
    # The recipes name what is there with its checksum.
    for recipe in ("rowfall.rb", "recipe.yaml"):
        text = (made / recipe).read_text(encoding="utf-8").replace("${{ version }}", v)
        addresses = re.findall(r"https?://\S+/([\w.-]+\.(?:gz|whl|txt))", text)
        checksums = re.findall(r"sha256:? \"?([0-9a-f]{64})", text)
        assert [hashlib.sha256((made / a).read_bytes()).hexdigest() for a in addresses] == checksums
        assert len(checksums) >= 2


@pytest.mark.long
@pytest.mark.timeout(3600)  # 600 MB of packages
def test_the_image_is_built_and_runs(made: Path, tmp_path: Path) -> None:
    """From Debian's packages, in a chroot: there is no Docker here."""
    image = tmp_path / "image.tar"
    said = subprocess.run(
        ["bash", made / "image.sh", made, image],  # noqa: S607
        env=debian.mmdebstrap(), check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(image) as packed:
        (held,) = json.loads(packed.extractfile("manifest.json").read())  # type: ignore[union-attr]
        config = json.loads(packed.extractfile(held["Config"]).read())  # type: ignore[union-attr]
        packed.extract("layer.tar", tmp_path, filter="data")
    layer = tmp_path / "layer.tar"
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert held["RepoTags"] == [f"rowfall:{__version__}"]
    started = config["config"]
    subprocess.run(["tar", "xf", layer, "-C", root], check=True)  # noqa: S607
    layer.unlink()
    (root / "work/in.csv").write_text("id,name\n1,a\n2,b\n")
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)  # noqa: S607

    def run(*words: str) -> str:
        done = subprocess.run(
            ["chroot", f"--userspec={started['User']}", root, "env", "-i", *started["Env"],  # noqa: S607
             "sh", "-c", f'cd {started["WorkingDir"]} && exec "$@"', "sh",
             *started["Entrypoint"], *words],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert run("--version") == f"rowfall {__version__}\n"
        loaded = json.loads(run("load", "in.csv", "--decoder", "always", "--json"))
        assert (loaded["outcome"], loaded["rows"]) == ("done", 2)
        assert run("query", "SELECT sum(id) FROM `in`", "--format", "CSV") == "3\n"
        assert json.loads(run("load", "in.csv", "--to", "a.duckdb", "--json"))["rows"] == 2
    finally:
        subprocess.run(["umount", "-l", root / "proc"], check=True)  # noqa: S607
