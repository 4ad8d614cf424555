"""One ``rowfall.toml``: found, read and checked as a whole, with the line of every key."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.option_values import from_value
from rowfall.core.options import ANSWERS, FOLLOW, FOLLOW_ONLY, LOAD, Options, flags_of
from rowfall.core.patterns import regex
from rowfall.core.units import parse_duration
from rowfall.project.references import HOW, find_secret, is_reference
from rowfall.project.values import HOOK_SECONDS, Hook

CONNECTIONS, LOADS, PIPELINES, DEFAULTS = "connections", "loads", "pipelines", "defaults"
PROFILES = "profiles"
"""The name that connections had first; ``rowfall config --migrate`` renames it."""
SECTIONS = (DEFAULTS, CONNECTIONS, LOADS, PIPELINES)

URI, PASSWORD, SOURCE, CONNECTION, TO, TABLE, NEEDS, PARAMS = (
    "uri", "password", "source", "connection", "to", "table", "needs", "params",
)  # fmt: skip
BEFORE, AFTER, ON_ERROR = HOOKS = ("before", "after", "on_error")
SQL, COMMAND, TIMEOUT = "sql", "command", "timeout"
PASSWORD_FILE, PASSWORD_ENV = "password_file", "password_env"

OWN_KEYS: dict[str, tuple[str, ...]] = {
    DEFAULTS: (TO,),
    CONNECTIONS: (URI, PASSWORD, TABLE),
    PROFILES: (TO, PASSWORD_FILE, PASSWORD_ENV, TABLE),
    LOADS: (SOURCE, CONNECTION, TO, TABLE, NEEDS, PARAMS, *HOOKS),
    PIPELINES: (SOURCE, CONNECTION, TO, TABLE, *HOOKS),
}
"""Keys of a section besides options."""

NAMES = r"[A-Za-z][A-Za-z0-9_-]*"
"""Names that may stand in a file; every other text of a target is a path or a URI."""
WORD = regex(NAMES)

EXAMPLE = """\
[connections.prod]
uri = "clickhouse://me@host:8123/db"

[loads.orders]
source = "orders/*.csv"
to = "prod\""""

_OPTIONS = "Options: rowfall help load."
_ONE = {CONNECTIONS: "a connection", LOADS: "a load", PIPELINES: "a pipeline",
        PROFILES: "a profile", DEFAULTS: "[defaults]"}  # fmt: skip


def option_keys(section: str) -> Iterator[str]:
    """Give the names of the options that a section takes, as they are called in Python."""
    if section in (LOADS, PIPELINES):
        names = [item.name for item, _ in flags_of(LOAD)]
        if section == PIPELINES:
            names += [item.name for item, _ in flags_of(FOLLOW)]
        # A load of a file comes to an end, and a pipeline follows anyway.
        left_out: tuple[str, ...] = (*ANSWERS, "follow", *(FOLLOW_ONLY if section == LOADS else ()))
    else:
        names = [item.name for item in fields(Options)]
        left_out = () if section == PROFILES else ANSWERS
    yield from dict.fromkeys(name for name in names if name not in left_out)


def spellings() -> dict[str, str]:
    """Return the name in Python of every spelling of an option in a file.

    ``order_by``, ``order-by`` as on the command line, and ``from`` for ``--from``.
    """
    found = {}
    for item in fields(Options):
        flag = next(f for f in item.metadata["flag"].flags if f.startswith("--"))[2:]
        for spelled in (item.name, item.name.replace("_", "-"), flag):
            found[spelled] = item.name
    return found


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a file, checked: values by the names of keys as they are in Python.

    Attributes:
        spelled: key as it stands in the file, by its name here.
    """

    kind: str
    name: str
    values: Mapping[str, Any]
    spelled: Mapping[str, str]

    @property
    def title(self) -> str:
        """Return ``[loads.orders]``."""
        return f"[{self.kind}.{self.name}]" if self.name else f"[{self.kind}]"


class ProjectFile:
    """A file that was read and holds no mistake.

    Args:
        path: absolute. ``text``: in place of what the file holds now.

    Attributes:
        sections: by kind and name; that of ``[defaults]`` is "".

    Raises:
        UsageError: it cannot be read, is another user's, or says something that means nothing.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = _text_of(path) if text is None else text
        self.document = self._parsed()
        self.sections: dict[tuple[str, str], Section] = {}
        for kind, content in self.document.items():
            self._read(kind, content)
        self._check_names()

    @property
    def folder(self) -> Path:
        """Return the folder that relative names are seen from."""
        return self.path.parent

    def named(self, kind: str) -> list[str]:
        """Return the names of one kind, in the order of the file."""
        return [name for one, name in self.sections if one == kind]

    def where(self, *keys: str) -> str:
        """Return ``rowfall.toml line 3``; without the line where it is not known."""
        for length in range(len(keys), 0, -1):
            if (line := self._lines.get(keys[:length])) is not None:
                return f"{self.path} line {line}"
        return str(self.path)

    def place(self, section: Section, key: str) -> str:
        """Return file, line and table of a key."""
        return f"{self.where(*self._keys(section, key))}, {section.title}"

    def wrong(self, section: Section, key: str, says: str, hint: str | None = None) -> UsageError:
        """Return an error about one key, which names file, line, table, key and ``says``."""
        spelled = section.spelled.get(key, key)
        return UsageError(f"{self.place(section, key)}: {spelled} {says}", hint=hint)

    # --- reading ----------------------------------------------------------------------------------

    def _parsed(self) -> dict[str, Any]:
        import tomllib  # 5 ms that only files need

        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(
                f"{self.path} is not TOML: {str(error)[:1].lower()}{str(error)[1:]}",
                hint=f"It looks like this:\n{EXAMPLE}",
            ) from None

    @cached_property
    def _lines(self) -> dict[tuple[str, ...], int]:
        """Return the line of each key."""
        return lines_of(self.text)

    def _keys(self, section: Section, key: str) -> tuple[str, ...]:
        head = (section.kind, section.name) if section.name else (section.kind,)
        return (*head, section.spelled.get(key, key))

    def _read(self, kind: str, content: Any) -> None:
        if kind not in (*SECTIONS, PROFILES):
            raise UsageError(
                f"{self.where(kind)}: {kind!r} means nothing here",
                hint=f"{did_you_mean(kind, SECTIONS)}Tables are [defaults], [connections.NAME], "
                f"[loads.NAME] and [pipelines.NAME]:\n{EXAMPLE}",
            )
        if kind == DEFAULTS:
            content = {"": content}
        if not isinstance(content, dict):
            raise UsageError(
                f"{self.where(kind)}: {kind} is no table", hint=f"Write [{kind}.NAME]:\n{EXAMPLE}"
            )
        for name, values in content.items():
            if name and not WORD.fullmatch(name):
                raise UsageError(
                    f"{self.where(kind, name)}: {name!r} is not a name for {_ONE[kind]}",
                    hint="Names begin with a letter and hold letters, digits, '-' and '_'.",
                )
            if not isinstance(values, dict):
                title = f"[{kind}.{name}]" if name else f"[{kind}]"
                raise UsageError(
                    f"{self.where(kind, name)}: {name or kind} = {_shown(values)} is no table",
                    hint=f"Write {title} above its keys:\n{EXAMPLE}",
                )
            self.sections[kind, name] = self._section(kind, name, values)

    def _section(self, kind: str, name: str, values: Mapping[str, Any]) -> Section:
        own, options = OWN_KEYS[kind], set(option_keys(kind))
        by_spelling = spellings()
        spelled: dict[str, str] = {}
        section = Section(kind, name, {}, spelled)
        found: dict[str, Any] = {}
        items = {item.name: item for item in fields(Options)}
        for key, value in values.items():
            known = key if key in own else by_spelling.get(key, "")
            plain = key.replace("-", "_")
            known = plain if not known and plain in own else known
            if known not in own and known not in options:
                spelled[key] = key
                raise self._unknown(section, key, known, (*own, *sorted(options)))
            if known in spelled:
                raise self.wrong(section, key, f"says the same as {spelled[known]}, which is there")
            spelled[known] = key
            if known in own:
                found[known] = self._own(section, known, value)
                continue
            try:
                found[known] = from_value(items[known], value)
            except ValueError as error:
                raise self.wrong(section, known, f"= {_shown(value)}: {error}") from None
            if items[known].metadata["flag"].metavar == "FILE":
                found[known] = self.seen(found[known])
        made = Section(kind, name, found, spelled)
        self._complete(made)
        return made

    def _unknown(self, section: Section, key: str, known: str, keys: tuple[str, ...]) -> UsageError:
        if known == "follow" or known in FOLLOW_ONLY:
            hint = "Loads of [pipelines.NAME] follow their source, those of [loads.NAME] end."
        elif known in ANSWERS:
            flag = f"--{known.replace('_', '-')}"
            hint = f"It answers what one load has asked: give {flag} on the command line."
        elif key in ("sources", "from_connection"):
            hint = "Did you mean source? It takes one text or a list."
        elif section.kind in (LOADS, PIPELINES) and key in (PASSWORD, "password_env"):
            hint = "A password is part of a connection: [connections.NAME] has uri and password."
        elif section.kind == CONNECTIONS and key == TO:
            hint = "Did you mean uri?"
        else:
            hint = did_you_mean(key.replace("-", "_"), keys) + _OPTIONS
        return self.wrong(section, key, f"is no key of {_ONE[section.kind]}", hint)

    def _own(self, section: Section, key: str, value: Any) -> Any:
        """Return the value of a key that is no option."""
        if key in HOOKS:
            return self._hooks(section, key, value)
        if key in (SOURCE, NEEDS, PARAMS):
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, list) or not texts or not all(
                isinstance(each, str) and each for each in texts
            ):  # fmt: skip
                says = f"= {_shown(value)}: it is a text or a list of texts"
                raise self.wrong(section, key, says)
            if key == SOURCE:
                if "-" in texts:
                    raise self.wrong(
                        section, key, '= "-": stdin is not there when the load is run again',
                        "Pipe it into a load that is typed, or name a file.",
                    )  # fmt: skip
                for each in texts:
                    self._check_address(section, key, each)
            if key == PARAMS:
                for each in texts:
                    if not WORD.fullmatch(each):
                        raise self.wrong(
                            section, key, f"names {_shown(each)}",
                            f"Names begin with a letter and hold letters, digits, '-' and '_'; "
                            f'{{day}} in source is filled by {key} = ["day"].',
                        )  # fmt: skip
            return tuple(texts)
        if not isinstance(value, str) or not value:
            says = "is no text" if key == PASSWORD else f"= {_shown(value)}: it is a text"
            raise self.wrong(section, key, says)
        if key == PASSWORD and not is_reference(value):
            raise self._holds_secret(section, key, "the password itself")
        if key in (URI, TO):
            self._check_address(section, key, value)
        return value

    def _check_address(self, section: Section, key: str, address: str) -> None:
        if what := find_secret(address):
            raise self._holds_secret(section, key, f"a secret: {what}")

    def _holds_secret(self, section: Section, key: str, what: str) -> UsageError:
        """Return the error about a secret in the file, which it does not repeat."""
        variable = f"{(section.name or 'rowfall').upper().replace('-', '_')}_PASSWORD"
        return self.wrong(
            section, key, f"holds {what}", f"This file is copied and shown. {HOW.format(variable)}"
        )

    def _hooks(self, section: Section, key: str, value: Any) -> tuple[Hook, ...]:
        some = value if isinstance(value, list) else [value]
        example = f'Write {key} = {{ sql = "..." }} or {key} = {{ command = ["PROGRAM", "..."] }}.'
        hooks = []
        for one in some:
            if not isinstance(one, dict):
                raise self.wrong(section, key, f"= {_shown(one)}: it is no hook", example)
            for name in one:
                if name not in (SQL, COMMAND, TIMEOUT):
                    near = did_you_mean(name, (SQL, COMMAND, TIMEOUT))
                    raise self.wrong(section, key, f"holds {name!r}", near + example)
            if (SQL in one) == (COMMAND in one):
                raise self.wrong(section, key, "needs one of sql and command", example)
            sql = one.get(SQL, [])
            sql = [sql] if isinstance(sql, str) else sql
            command = one.get(COMMAND, [])
            for name, texts in ((SQL, sql), (COMMAND, command)):
                if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
                    hint = example
                    if name == COMMAND:
                        hint = f'No shell runs it: {key} = {{ command = ["sh", "-c", "..."] }}'
                    says = f"{name} = {_shown(one[name])}: it is a list of texts"
                    raise self.wrong(section, key, says, hint)
            if not any((*sql, *command)) or not all(text.strip() for text in sql):
                raise self.wrong(section, key, "is empty", example)
            seconds = HOOK_SECONDS
            if TIMEOUT in one:
                try:
                    seconds = parse_duration(str(one[TIMEOUT]))
                except UsageError as error:
                    says = f"timeout = {_shown(one[TIMEOUT])}: it is no duration"
                    raise self.wrong(section, key, says, error.hint) from None
            place = self.place(section, key)
            hooks.append(Hook(tuple(sql), tuple(command), seconds, place))
        return tuple(hooks)

    def _complete(self, section: Section) -> None:
        """Check that a table has what it needs."""
        values, title = section.values, section.title
        where = self.where(section.kind, section.name)
        needed = {CONNECTIONS: URI, PROFILES: TO}.get(section.kind)
        if needed and needed not in values:
            raise UsageError(
                f"{where}: {title} names no target",
                hint=f'Write {needed} = "clickhouse://me@host:8123/db" below it.',
            )
        if section.kind in (LOADS, PIPELINES) and not {SOURCE, CONNECTION} & set(values):
            raise UsageError(
                f"{where}: {title} names no source", hint='Write source = "orders/*.csv" below it.'
            )
        if PASSWORD_FILE in values and PASSWORD_ENV in values:
            raise UsageError(
                f"{where}: {title} has {PASSWORD_FILE} and {PASSWORD_ENV}", hint="Keep one of them."
            )

    def _check_names(self) -> None:
        """Check that a name means one thing, and that what loads need is there and can be done."""
        for one, other in ((PROFILES, CONNECTIONS), (PIPELINES, LOADS)):
            for name in self.named(one):
                if (other, name) in self.sections:
                    raise UsageError(
                        f"{self.where(one, name)}: {name} is {_ONE[one]} and {_ONE[other]}",
                        hint=f"Rename one of them; the other is at "
                        f"{self.where(other, name).rpartition('/')[2]}.",
                    )

    def seen(self, path: str) -> str:
        """Return a path that stands in this file, wherever the command runs."""
        return str((self.folder / os.path.expanduser(path)).absolute())


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each key of TOML, from 1: statements are found by parsing each alone."""
    import tomllib

    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        for end in range(at + 1, len(lines) + 1):
            try:
                said = tomllib.loads("\n".join(lines[at:end]))
            except tomllib.TOMLDecodeError:
                continue
            break
        else:
            break
        paths = list(_paths(said))
        if lines[at].lstrip().startswith("["):
            # A header ends in an empty table, which is its path.
            table = max(paths, key=len, default=())
            paths, under = [table], tuple[str, ...]()
        else:
            under = table
        for path in paths:
            for length in range(1, len(path) + 1):
                found.setdefault((*under, *path[:length]), at + 1)
        at = end
    return found


def _paths(said: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the path of every key of a statement."""
    for key, value in said.items():
        path = (*above, key)
        yield path
        if isinstance(value, dict):
            yield from _paths(value, path)


def _shown(value: Any) -> str:
    """Return a value about as the file has it, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:  # a date
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text_of(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it is not there, another user's, or no text.
    """
    try:
        # In a folder of everybody, as /tmp, anybody could say where the rows go.
        found = path.stat()
        if (owner := found.st_uid) not in (0, os.geteuid()):
            raise ForeignFileError(
                f"{path} belongs to another user ({owner}) and is not read",
                hint="Make it yours, or write sources and targets in full.",
            )
        if found.st_mode & stat.S_IWOTH:
            quoted = shlex.quote(str(path))
            raise ForeignFileError(
                f"everybody may write to {path}, and it is not read",
                hint=f"It says where rows go and which programs run: chmod o-w {quoted}",
            )
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}",
            hint="Name a file that is there with --config, or leave it out.",
        ) from None
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path} line {line} is not UTF-8: byte {raw[error.start]:#04x}",
            hint="TOML files are UTF-8: save it as that.",
        ) from None


class ForeignFileError(UsageError):
    """Others may say what a file holds; commands that do not name anything of it go on without."""
