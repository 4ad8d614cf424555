"""A project of dbt as dbt itself reads it: its profile, and its sources with what loads them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbt.cli.flags import Flags
from dbt.cli.main import dbtRunner
from dbt.cli.types import Command
from dbt.config.profile import Profile
from dbt.config.renderer import ProfileRenderer
from dbt.config.runtime import load_profile
from dbt.flags import set_flags
from dbt_common.context import set_invocation_context
from dbt_common.exceptions import DbtBaseException

from rowfall_dbt.targets import Relation

META = "rowfall"


class ProjectError(Exception):
    """The project cannot be read, or says what makes no sense."""


@dataclass(frozen=True)
class Choices:
    """What the command line says of a project; "" for what dbt finds.

    Attributes:
        variables: of ``--vars``.
    """

    project_dir: str = ""
    profiles_dir: str = ""
    profile: str = ""
    target: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Folder of the project, absolute."""
        return os.path.abspath(self.project_dir or os.environ.get("DBT_PROJECT_DIR") or ".")

    def arguments(self) -> list[str]:
        """Return them as dbt takes them."""
        named = {
            "--project-dir": self.folder, "--profiles-dir": self.profiles_dir,
            "--profile": self.profile, "--target": self.target,
            "--vars": json.dumps(self.variables) if self.variables else "",
        }  # fmt: skip
        return [word for name, value in named.items() if value for word in (name, value)]


@dataclass(frozen=True)
class SourceTable:
    """A table of a source that has a block ``meta.rowfall``.

    Attributes:
        name: ``SOURCE.TABLE``, as dbt selects it.
        values: of the block.
        file: that it is in, for errors.
    """

    name: str
    relation: Relation
    values: Mapping[str, Any]
    file: str


def credentials_of(choices: Choices) -> Any:
    """Return the credentials of the profile, found and rendered by dbt.

    Raises:
        ProjectError: dbt finds no profile, or it is wrong.
    """
    # A project is where dbt looks for the name of the profile, and for profiles.yml.
    folder = choices.folder  # before the current folder is another one
    inside = Path(folder, "dbt_project.yml").exists()
    given = {
        name: value
        for name, value in (
            ("project_dir", folder if inside else ""),
            ("profiles_dir", choices.profiles_dir and os.path.abspath(choices.profiles_dir)),
        )
        if value
    }
    before = os.getcwd()
    try:
        if inside:
            os.chdir(folder)
        set_invocation_context(os.environ)
        set_flags(Flags.from_dict(Command.PARSE, given))
        variables = dict(choices.variables)
        if inside:
            profile = load_profile(
                folder, variables, choices.profile or None, choices.target or None
            )
        else:
            profile = Profile.render(
                ProfileRenderer(variables), None, choices.profile or None, choices.target or None
            )
    except DbtBaseException as error:
        raise ProjectError(_said(error)) from None
    finally:
        os.chdir(before)
    return profile.credentials


def sources_of(choices: Choices, selection: Sequence[str]) -> list[SourceTable]:
    """Return the tables of sources that rowfall is to load.

    Args:
        selection: ``--select``, ``--exclude`` and ``--selector`` with their values, as dbt takes
            them; empty for all tables.

    Raises:
        ProjectError: dbt cannot read the project, or a block is wrong.
    """
    manifest = _invoke(None, ["parse", *choices.arguments()])
    chosen: set[str] | None = None
    if selection:
        found = _invoke(manifest, [
            "ls", *choices.arguments(), "--resource-type", "source", "--output", "json",
            "--output-keys", "unique_id", *selection,
        ])  # fmt: skip
        chosen = {json.loads(line)["unique_id"] for line in found or ()}
    tables = []
    for unique_id, source in sorted(manifest.sources.items()):
        if chosen is not None and unique_id not in chosen:
            continue
        meta = {**(source.meta or {}), **(source.config.meta or {})}
        if META not in meta:
            continue
        name = f"{source.source_name}.{source.name}"
        where = source.original_file_path
        values = meta[META]
        if not isinstance(values, dict) or not values.get("source"):
            raise ProjectError(
                f"{where}: meta.rowfall of {name} names no source; write what to load: "
                "meta: {rowfall: {source: 'orders/*.csv'}}"
            )
        if wrong := sorted({"to", "table"} & set(values)):
            raise ProjectError(
                f"{where}: meta.rowfall of {name} has {wrong[0]}, which is the place of the source "
                "table itself: database, schema and identifier"
            )
        relation = Relation(source.database or "", source.schema or "", source.identifier)
        tables.append(SourceTable(name, relation, values, where))
    return tables


def _invoke(manifest: Any, arguments: list[str]) -> Any:
    # dbt prints what it lists, and its log on the way.
    with redirect_stdout(io.StringIO()) as printed:
        done = dbtRunner(manifest=manifest).invoke(["--quiet", *arguments])
    if not done.success:
        error = done.exception
        raise ProjectError(_said(error) if error is not None else printed.getvalue().strip())
    return done.result


def _said(error: BaseException) -> str:
    return "dbt: " + " ".join(str(error).split())
