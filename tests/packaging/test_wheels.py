"""Wheels: made by `make wheels`, installed into an empty environment, used there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from rowfall.core.version import __version__

ROOT = Path(__file__).parents[2]


def test_there_is_one_version() -> None:
    crate = ROOT / "crates/rowfall-decode"
    cargo = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))
    wheel = tomllib.loads((crate / "pyproject.toml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cargo["package"]["version"] == wheel["project"]["version"] == __version__
    assert project["optional-dependencies"]["fast"] == [f"rowfall-decode=={__version__}"]


def test_the_image_starts_what_the_wheels_hold() -> None:
    """No image can be built here: its steps are read as a linter would, and run by the other test.

    The context is the folder of the wheels, which `make wheels` makes, and nothing else.
    """
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert text.startswith("# syntax=docker/dockerfile:1\n"), "mounts need BuildKit"
    lines = re.sub(r"^#.*\n|\\\n", "", text, flags=re.M).splitlines()
    steps = [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]
    named = [name for name, _ in steps]
    assert named == ["FROM", "RUN", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"]
    known = dict(steps)
    image, _, tag = known["FROM"].partition(":")
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert image == "python"
    assert re.fullmatch(r"3\.\d+-slim", tag), "a version, and not the latest"
    assert int(tag.split("-")[0].split(".")[1]) >= int(oldest["requires-python"].split(".")[1])
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert kept == ["*", "!dist"], "the context is the wheels and nothing else"
    install = steps[1][1]
    assert "--mount=type=bind,source=dist,target=/wheels" in install
    assert install.count("--no-cache-dir") == install.count("pip install") == 2
    first = install.partition("&&")[0]
    assert first.split("--find-links /wheels")[1].split() == ["rowfall", "rowfall-decode"]
    assert "--no-index --no-deps" in first, "nobody else's package of that name"
    assert f"mkdir {known['WORKDIR']}" in steps[2][1]
    assert f"useradd --uid 1000 --create-home {known['USER']}" in steps[2][1]
    for name in ("ENTRYPOINT", "CMD"):
        assert isinstance(json.loads(known[name]), list), "a shell would take the signals"
    assert json.loads(known["ENTRYPOINT"]) == ["rowfall"]
    assert "rowfall" in oldest["scripts"]


@pytest.mark.long
@pytest.mark.timeout(1800)  # the decoder is compiled, and 300 MB are installed
def test_wheels_work_in_an_empty_environment(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    said = subprocess.run(
        ["make", "wheels", f"DIST={dist}", "WHEELS_FOR=x86_64", "WHEELS_PROFILE=quick"],  # noqa: S607
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    pure, decoder = sorted(dist.glob("*.whl"))
    assert pure.name == f"rowfall-{__version__}-py3-none-any.whl"
    assert re.fullmatch(
        rf"rowfall_decode-{__version__}-py3-none-manylinux.*x86_64\.whl", decoder.name
    )
    packed = zipfile.ZipFile(decoder)
    program = packed.read(
        next(name for name in packed.namelist() if name.endswith("/rowfall-decode"))
    )
    # Servers that it is copied into may be old, and their images without the compiler's library.
    assert max(int(version) for version in re.findall(rb"GLIBC_2\.(\d+)", program)) <= 17
    assert b"libgcc_s" not in program
    held = zipfile.ZipFile(pure).namelist()
    assert "rowfall/py.typed" in held
    assert "rowfall/core/keywords.py" in held
    assert not [name for name in held if name.startswith(("tests", "bench"))]

    python = tmp_path / "empty/bin/python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True)
    own = ["--no-index", "--no-deps", "--find-links", dist, "rowfall", "rowfall-decode"]
    for what in (own, ["rowfall"]):  # as the Dockerfile has it
        subprocess.run([python, "-m", "pip", "install", "-q", *what], check=True)
    (tmp_path / "in.csv").write_text("id,name\n1,a\n2,b\n")
    home = {"HOME": str(tmp_path), "PATH": f"{python.parent}:/usr/bin:/bin"}
    keep = {k: v for k, v in os.environ.items() if k in ("TMPDIR", "LANG")}

    def run(*words: str) -> str:
        return subprocess.run(
            [python.parent / "rowfall", *words], cwd=tmp_path, env=home | keep, check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip

    assert run("--version") == f"rowfall {__version__}\n"
    made = json.loads(run("load", "in.csv", "--decoder", "always", "--json"))
    assert (made["outcome"], made["rows"]) == ("done", 2)
    assert run("query", "SELECT * FROM `in` ORDER BY id", "--format", "CSV") == '1,"a"\n2,"b"\n'
    code = "import rowfall; print(list(rowfall.query('SELECT id FROM `in` ORDER BY id')))"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=home | keep, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout == "[(1,), (2,)]\n"
