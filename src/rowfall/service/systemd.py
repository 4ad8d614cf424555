"""The unit of a pipeline for systemd, run by the user who has installed it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rowfall.core import disk
from rowfall.core.errors import LedgerError, UsageError
from rowfall.service.pipeline import Pipeline


def unit_name(name: str) -> str:
    """Return the name of a pipeline's unit."""
    return f"rowfall-{name}.service"


def unit_path(name: str) -> Path:
    """Return the file of a unit of this user."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "systemd/user" / unit_name(name)


def unit(pipeline: Pipeline) -> str:
    """Return the text of a unit.

    Raises:
        UsageError: a path cannot stand in a unit.
    """
    folder, config = pipeline.named.folder, pipeline.named.path
    command = [sys.executable, "-m", "rowfall", "watch", pipeline.name, "--config", str(config)]
    # What lasts needs somebody: a wrong option (2), a record that contradicts its table (3), a
    # table that was dropped or altered (5). Everything else is tried again.
    return f"""\
# Written by 'rowfall pipeline install {pipeline.name}'; run that again after a change of the paths.
[Unit]
Description=rowfall pipeline {pipeline.name}
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
WorkingDirectory={_path(folder)}
ExecStart={" ".join(map(_quoted, command))}
EnvironmentFile=-{_path(folder / (pipeline.name + ".env"))}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 3 5
# A batch ends or is taken back within 10 s of SIGTERM; what is killed loses nothing.
TimeoutStopSec=15
KillMode=mixed
KillSignal=SIGTERM
# Exit code 130 is a batch that SIGTERM has interrupted.
SuccessExitStatus=130
NoNewPrivileges=yes
# What else there is needs namespaces, which the manager of a user may not make everywhere.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=default.target
"""


def install(pipeline: Pipeline) -> Path:
    """Write the unit of a pipeline for this user.

    Raises:
        LedgerError: the file cannot be written.
    """
    path = unit_path(pipeline.name)
    try:
        disk.make_folder(path.parent)
        path.write_text(unit(pipeline), encoding="utf-8")
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {(error.strerror or '').lower()}",
            hint="Print it with --print, and put it where systemd looks.",
        ) from None
    return path


def _path(path: Path) -> str:
    """Return the path of a setting that is one: such a value has specifiers, and no quotes."""
    text = _one_line(str(path))
    if text != text.rstrip() or text.endswith("\\"):  # stripped, or taken for a line that goes on
        raise UsageError(f"{text!r} cannot stand in a unit of systemd")
    return text.replace("%", "%%")


def _one_line(text: str) -> str:
    if "\n" in text:
        raise UsageError(f"{text!r} cannot stand in a unit of systemd")
    return text


def _quoted(text: str) -> str:
    """Return a word of a command: systemd knows specifiers, variables and quotes of its own."""
    text = _one_line(text).replace("%", "%%").replace("$", "$$")
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if set(text) & set(" '\"\t;") else text
