"""All files of a project together: layers of values, connections by name, the order of loads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rowfall.core import passwords, uri
from rowfall.core.config_files import NAME, find_files, user_file
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.nearest import did_you_mean, nearest
from rowfall.core.options import Options
from rowfall.project import environment, params
from rowfall.project.file import (
    CONNECTION,
    CONNECTIONS,
    DEFAULTS,
    HOOKS,
    LOADS,
    NEEDS,
    PARAMS,
    PASSWORD,
    PASSWORD_ENV,
    PASSWORD_FILE,
    PIPELINES,
    PROFILES,
    SOURCE,
    TABLE,
    TO,
    URI,
    WORD,
    ForeignFileError,
    ProjectFile,
    Section,
    option_keys,
)
from rowfall.project.references import resolve, resolve_address
from rowfall.project.values import (
    ENVIRONMENT,
    FLAG,
    PROJECT,
    USER,
    Hooks,
    NamedConnection,
    NamedLoad,
    Origin,
)

Layered = Mapping[str, tuple[Any, Origin]]
"""Values by their names, each with where it comes from."""


def find_project(config: str | None = None, *, needed: bool = True) -> Project:
    """Find and read the files of the current folder; without any of them it is empty.

    Args:
        config: the file to take in place of the one that is found upwards.
        needed: something of the files is named; else those of other users are left out, which
            anybody may put into a folder of everybody.

    Raises:
        UsageError: a file that was named is not there, or a file holds a mistake.
    """
    read, foreign = [], []
    for path in find_files(config):
        try:
            read.append(ProjectFile(Path(path)))
        except ForeignFileError as error:
            if needed or config:
                raise
            foreign.append(error)
    return Project(tuple(read), tuple(foreign))


def connection_names() -> list[str]:
    """Return the names of all connections; of files that cannot be read none."""
    found: list[str] = []
    for path in find_files():
        try:
            found += Project((ProjectFile(Path(path)),)).names(CONNECTIONS)
        except UsageError:
            continue
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class LayeredLoad:
    """A load as all layers say it, its references not resolved.

    Attributes:
        values: of all keys that are set; options and ``table`` by their names in Python.
        connection: of its target; None where it names none.
    """

    file: ProjectFile
    section: Section
    values: Layered
    connection: NamedConnection | None


class Project:
    """The files of a project and of its user.

    Args:
        files: those that win first.
        foreign: errors of files that were left out.
    """

    def __init__(
        self, files: tuple[ProjectFile, ...], foreign: tuple[UsageError, ...] = ()
    ) -> None:
        self.files = files
        self.foreign = foreign
        self.user_path = Path(user_file())

    # --- names ------------------------------------------------------------------------------------

    def names(self, kind: str) -> list[str]:
        """Return the names of connections, loads or pipelines; of one name the first wins."""
        kinds = (CONNECTIONS, PROFILES) if kind == CONNECTIONS else (kind,)
        found = [name for file in self.files for one in kinds for name in file.named(one)]
        return list(dict.fromkeys(found))

    def find(self, kind: str, name: str) -> tuple[ProjectFile, Section] | None:
        """Return a table of one kind and the file that it is in; None where there is none."""
        kinds = (CONNECTIONS, PROFILES) if kind == CONNECTIONS else (kind,)
        for file in self.files:
            for one in kinds:
                if (section := file.sections.get((one, name))) is not None:
                    return file, section
        return None

    def loads_here(self) -> list[str]:
        """Return the names of the loads of the project: of the first file that has some."""
        return next((names for file in self.files if (names := file.named(LOADS))), [])

    # --- values -----------------------------------------------------------------------------------

    def load(self, name: str, flags: Layered | None = None) -> NamedLoad:
        """Return a load with every layer applied and its secrets resolved.

        Args:
            flags: what the command line says, by the names of options, ``to`` and ``params``.

        Raises:
            UsageError: there is no such load, it names a connection that is not there, what it
                needs goes round in a circle, a parameter has no value, or a secret cannot be had.
        """
        made = self.assembled(LOADS, name, flags)
        params.check_given(made.file, made.section, params.given(flags))
        return self._resolved(made)

    def pipeline(self, name: str, flags: Layered | None = None) -> NamedLoad:
        """Return a pipeline, otherwise as :meth:`load`; its options say ``follow``."""
        return self._resolved(self.assembled(PIPELINES, name, flags))

    def connection(self, name: str) -> NamedConnection | None:
        """Return a connection with its secrets resolved; None where there is none of that name.

        Raises:
            UsageError: a secret cannot be had.
        """
        found = self.described_connection(name)
        if found is None:
            return None
        file, section = self.find(CONNECTIONS, name) or (None, None)
        assert file is not None and section is not None  # noqa: S101, PT018 - it was found
        where = f"{file.where(section.kind, name)}, {section.title}"
        address, password = resolve_address(found.uri, file.folder, where)
        if (reference := password_of(section)) is not None:
            password = resolve(reference, file.folder, where)
        return NamedConnection(name, address, password, found.values, file.path, found.legacy)

    def described_connection(self, name: str) -> NamedConnection | None:
        """Return a connection as it stands in its file, its references not resolved."""
        found = self.find(CONNECTIONS, name)
        if found is None:
            return None
        file, section = found
        address = section.values[TO if section.kind == PROFILES else URI]
        if WORD.fullmatch(address):
            address = f"./{address}"
        own = (URI, TO, PASSWORD, PASSWORD_ENV, PASSWORD_FILE)
        values = {key: value for key, value in section.values.items() if key not in own}
        address = seen(file, address)
        return NamedConnection(name, address, None, values, file.path, section.kind == PROFILES)

    def defaults(self, *connections: str | None, names: Iterable[str] | None = None) -> Layered:
        """Return what the files say of options: of connections, then of ``[defaults]``.

        Args:
            connections: names, those that win first: of the target, then of the source.
            names: the options that are asked for; None for all.
        """
        found: dict[str, tuple[Any, Origin]] = {}
        layers = [self.find(CONNECTIONS, name) for name in connections if name is not None]
        for layer in (*layers, *self._default_sections()):
            if layer is None:
                continue
            file, section = layer
            for key in section.values:
                if key in (TO, URI, PASSWORD, PASSWORD_ENV, PASSWORD_FILE):
                    continue
                if key == TABLE and section.name != connections[0]:
                    continue  # of the target
                if names is None or key in names:
                    found.setdefault(key, self._value(file, section, key))
        return found

    def default_target(self) -> tuple[str, Origin] | None:
        """Return the target of ``[defaults]``: the name of a connection, or an address."""
        for file, section in self._default_sections():
            if TO in section.values:
                text, origin = self._value(file, section, TO)
                return self._target(file, section, text), origin
        return None

    def assembled(self, kind: str, name: str, flags: Layered | None = None) -> LayeredLoad:
        """Return a load or pipeline as all layers say it; nothing is resolved.

        Raises:
            UsageError: see :meth:`load`.
        """
        file, section = self._named(kind, name)
        if kind == LOADS:
            self.order([name])
        section = params.filled(section, params.given(flags))
        known = {*option_keys(kind), TABLE, "follow"}
        values: dict[str, tuple[Any, Origin]] = dict(flags or {})
        values.pop(PARAMS, None)
        for key, found in environment.option_values(known).items():
            values.setdefault(key, found)
        if target := os.environ.get(environment.TO):
            values.setdefault(TO, (target, Origin(ENVIRONMENT, environment.TO)))
        for key in section.values:
            values.setdefault(key, self._value(file, section, key))
        if kind == PIPELINES:
            values["follow"] = True, Origin(PROJECT, file.place(section, SOURCE))
        if TO not in values and (default := self.default_target()) is not None:
            values[TO] = default
        connection = self._connect(file, section, values)
        source = section.values.get(CONNECTION)
        if source is not None and self.find(CONNECTIONS, source) is None:
            raise self._no_connection(file, section, CONNECTION, source)
        for key, found in self.defaults(connection, source, names=known).items():
            values.setdefault(key, found)
        described = None if connection is None else self.described_connection(connection)
        return LayeredLoad(file, section, values, described)

    def check_params(self, loads: Sequence[str], values: Mapping[str, str]) -> None:
        """Check that a load takes each parameter that is given, and gets each that it takes.

        Raises:
            UsageError: none takes it, or a value is missing.
        """
        known: list[str] = []
        for load in loads:
            found = self.find("loads", load)
            if found is not None:
                params.check_given(*found, values)
                known += found[1].values.get(PARAMS, ())
        for name in values:
            if name not in known:
                there = f"There are: {', '.join(dict.fromkeys(known))}."
                if not known:
                    section = f"[loads.{loads[0]}]"
                    there = f'Write params = ["{name}"] below {section}, {{{name}}} into source.'
                raise UsageError(
                    f"--param {name}: {', '.join(loads)} has no parameter of that name",
                    hint=did_you_mean(name, known) + there,
                )

    def order(self, names: Sequence[str]) -> list[str]:
        """Return loads and all that they need, each behind what it needs.

        Raises:
            UsageError: one is not there, or they need each other in a circle.
        """
        done: list[str] = []
        for name in names:
            self._add_needed(name, done, [])
        return done

    def needs(self, name: str) -> tuple[str, ...]:
        """Return what a load needs."""
        _, section = self._named(LOADS, name)
        found: tuple[str, ...] = section.values.get(NEEDS, ())
        return found

    # --- inside -----------------------------------------------------------------------------------

    def _add_needed(self, name: str, done: list[str], above: list[str]) -> None:
        if name in done:
            return
        file, section = self._named(LOADS, name)
        for needed in section.values.get(NEEDS, ()):
            if needed in (*above, name):
                circle = [*above, name]
                circle = [*circle[circle.index(needed) :], needed]
                raise file.wrong(
                    section, NEEDS, f"goes round in a circle: {' needs '.join(circle)}",
                    "Take one of them out of it.",
                )  # fmt: skip
            if self.find(LOADS, needed) is None:
                near = did_you_mean(needed, self.names(LOADS))
                if self.find(PIPELINES, needed) is not None:
                    near = "It is a pipeline, which does not end. "
                raise file.wrong(
                    section, NEEDS, f"names {needed}, which is no load",
                    f"{near}Loads: {', '.join(self.names(LOADS))}.",
                )  # fmt: skip
            self._add_needed(needed, done, [*above, name])
        done.append(name)

    def _named(self, kind: str, name: str) -> tuple[ProjectFile, Section]:
        found = self.find(kind, name)
        if found is not None:
            return found
        what = "pipeline" if kind == PIPELINES else "load"
        names = self.names(kind)
        other = LOADS if kind == PIPELINES else PIPELINES
        if not self.files:
            raise UsageError(
                f"there is no {what} {name}: no {NAME} is here or in a folder above",
                hint="Name it with --config, or run the command in a folder of the project.",
            )
        where = " and ".join(str(file.path) for file in self.files)
        if self.find(other, name) is not None:
            hint = f"It is a load: rowfall run {name}"
            if other == PIPELINES:
                hint = f"It is a pipeline: rowfall watch {name}"
        elif names:
            hint = f"{did_you_mean(name, names)}There are: {', '.join(names)}."
        else:
            hint = f'Write [{kind}.{name}] and source = "..." into it.'
        raise UsageError(f"{where} has no {what} {name}", hint=hint)

    def _default_sections(self) -> list[tuple[ProjectFile, Section]]:
        found = [(file, file.sections.get((DEFAULTS, ""))) for file in self.files]
        return [(file, section) for file, section in found if section is not None]

    def _value(self, file: ProjectFile, section: Section, key: str) -> tuple[Any, Origin]:
        layer = USER if file.path == self.user_path else PROJECT
        return section.values[key], Origin(layer, file.place(section, key))

    def _connect(
        self, file: ProjectFile, section: Section, values: dict[str, tuple[Any, Origin]]
    ) -> str | None:
        """Put the address of the target into the values; return the connection that it is of."""
        if TO not in values:
            return None
        text, origin = values[TO]
        if self.find(CONNECTIONS, text) is not None:
            return str(text)
        if origin.layer in (FLAG, ENVIRONMENT):
            if WORD.fullmatch(text):
                check_target_word(self, text, origin.text)
            if uri.scheme_of(text) == uri.FILE:
                values[TO] = os.path.abspath(os.path.expanduser(text)), origin
        elif TO in section.values:
            values[TO] = self._target(file, section, text), origin
        return None

    def _target(self, file: ProjectFile, section: Section, text: str) -> str:
        """Return the target that a file names, as seen from anywhere.

        Raises:
            UsageError: it looks like a connection, and there is none of that name.
        """
        if self.find(CONNECTIONS, text) is not None:
            return text
        if WORD.fullmatch(text):
            raise self._no_connection(file, section, TO, text)
        return seen(file, text)

    def _no_connection(
        self, file: ProjectFile, section: Section, key: str, name: str
    ) -> UsageError:
        folder = f' A folder of that name: {key} = "./{name}"' if key == TO else ""
        near = did_you_mean(name, self.names(CONNECTIONS))
        hint = f"{near}Write [connections.{name}] with a uri into the file.{folder}"
        return file.wrong(section, key, f"names {name}, and there is no such connection", hint)

    def _resolved(self, made: LayeredLoad) -> NamedLoad:
        file, section, values = made.file, made.section, made.values
        password: Secret | None = None
        to: str | None = None
        if made.connection is not None:
            connection = self.connection(made.connection.name)
            assert connection is not None  # noqa: S101 - it was found a moment ago
            to, password = connection.uri, connection.password
        elif TO in values:
            text, origin = values[TO]
            to, password = resolve_address(text, file.folder, origin.text)
        names = {item.name for item in fields(Options)}
        options = Options(**{key: value for key, (value, _) in values.items() if key in names})
        hooks = Hooks(*(section.values.get(key, ()) for key in HOOKS))
        return NamedLoad(
            section.name, file.path, self._sources(file, section), to,
            values[TABLE][0] if TABLE in values else None, password, options,
            section.values.get(NEEDS, ()), hooks,
            {key: origin for key, (_, origin) in values.items()},
        )  # fmt: skip

    def _sources(self, file: ProjectFile, section: Section) -> tuple[str, ...]:
        """Return the sources of a load in full."""
        texts: tuple[str, ...] = section.values.get(SOURCE, ())
        found = []
        if CONNECTION in section.values:
            base = self.connection(section.values[CONNECTION])
            assert base is not None  # noqa: S101 - assembled has looked
            if base.password is not None:
                passwords.remember(base.uri, base.password)
            texts = tuple(join(base.uri, text) for text in texts) or (base.uri,)
        for text in texts:
            address, password = resolve_address(text, file.folder, file.place(section, SOURCE))
            if password is not None:
                passwords.remember(address, password)
            found.append(os.path.expanduser(address) if address.startswith("~") else address)
        return tuple(found)


def check_target_word(project: Project, to: str, by: str) -> None:
    """Check that a word for a target, which is no connection, is not nearly the name of one.

    Args:
        by: ``--to`` or the variable.

    Raises:
        UsageError: it is, and there is no folder of that name.
    """
    near = nearest(to, project.names(CONNECTIONS))
    if near is not None and not os.path.exists(to):
        raise UsageError(
            f"there is no connection and no folder {to}",
            hint=f"Did you mean --to {near}? A new folder of that name: --to ./{to}"
            if by != environment.TO
            else f"Did you mean {by}={near}? A new folder of that name: {by}=./{to}",
        )


def password_of(section: Section) -> str | None:
    """Return the reference of a connection's password; None where it has none."""
    if PASSWORD in section.values:
        return str(section.values[PASSWORD])
    if PASSWORD_ENV in section.values:
        return f"env:{section.values[PASSWORD_ENV]}"
    if PASSWORD_FILE in section.values:
        return f"file:{section.values[PASSWORD_FILE]}"
    return None


def seen(file: ProjectFile, address: str) -> str:
    """Return an address as seen from anywhere: a path of a file is seen from its folder."""
    if uri.scheme_of(address) != uri.FILE or "://" in address:
        return address
    return file.seen(address)


def join(base: str, source: str) -> str:
    """Return the address of something in a connection: ``s3://bucket/in`` and ``a/*.csv``."""
    head, _, query = base.partition("?") if uri.has_parameters(base) else (base, "", "")
    more, _, other = source.partition("?") if uri.has_parameters(base) else (source, "", "")
    both = "&".join(filter(None, (query, other)))
    return f"{head.rstrip('/')}/{more.lstrip('/')}" + (f"?{both}" if both else "")
