"""Says how to install what rowfall can do without, by the tool that this rowfall came with."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex

# A requirement of an extra: the distribution, and the extra that its marker names.
_REQUIRED = regex(r"""([\w.-]+).*\bextra == ['"]([\w-]+)['"]""")


def command(extra: str) -> str:
    """Return the command that installs one of the optional dependencies of pyproject.toml.

    pipx and uv keep a tool in an environment that pip does not reach, and uv makes environments
    without pip: each is told by the folder, and by ``pyvenv.cfg`` in it. They make that of a tool
    anew, so the command names what is installed, too.
    """
    extras = [extra]
    prefix = Path(sys.prefix)
    folders = prefix.parts[-3:-1]
    if folders == ("uv", "tools"):
        tool, extras = "uv tool install", [extra, *_installed(extra)]
    elif folders == ("pipx", "venvs"):
        tool, extras = "pipx install --force", [extra, *_installed(extra)]
    else:
        try:
            lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        except OSError:
            lines = []
        by_uv = any(line.partition("=")[0].strip() == "uv" for line in lines)
        tool = "uv pip install" if by_uv else "pip install"
    return f"{tool} 'rowfall[{','.join(extras)}]'"


def _installed(besides: str) -> list[str]:
    """Return the extras of which all distributions are installed, but for ``besides``."""
    from importlib import metadata  # 20 ms that only an error takes

    found: dict[str, bool] = {}
    with suppress(metadata.PackageNotFoundError):  # run from its source
        for line in metadata.requires("rowfall") or ():
            if (named := _REQUIRED.match(line)) is None:
                continue
            name, extra = named.groups()
            try:
                metadata.version(name)
            except metadata.PackageNotFoundError:
                found[extra] = False
            else:
                found.setdefault(extra, True)
    return [extra for extra, whole in found.items() if whole and extra != besides]


def driver(what: str, extra: str, *modules: str) -> ModuleType:
    """Return the first of some modules; other commands do without them, and save their time.

    Raises:
        UsageError: one is not installed; see :func:`missing`.
    """
    try:
        first, *_ = [import_module(name) for name in modules]
    except ImportError:
        raise missing(what, extra) from None
    return first


def missing(what: str, extra: str) -> UsageError:
    """Return the error about a library that is not installed.

    Args:
        what: the message, which names the library and what needs it.
        extra: one of the optional dependencies in pyproject.toml.
    """
    return UsageError(what, hint=f"Install it: {command(extra)}")
