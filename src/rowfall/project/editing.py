"""Change ``rowfall.toml`` and keep what people have written: comments, order, blanks.

``rowfall init`` adds a load that has worked; ``rowfall config --migrate`` renames what older
versions called otherwise. The only files that import tomlkit, which takes 30 ms.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowfall.core import uri
from rowfall.core.config_files import NAME
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.masked import MASK
from rowfall.core.options import ANSWERS, LOAD, flags_of
from rowfall.core.patterns import regex
from rowfall.project.file import (
    CONNECTIONS,
    LOADS,
    PASSWORD,
    PASSWORD_ENV,
    PASSWORD_FILE,
    PROFILES,
    SOURCE,
    TABLE,
    TO,
    URI,
    WORD,
    ProjectFile,
    lines_of,
)
from rowfall.project.project import Project
from rowfall.project.schema import NAME as SCHEMA
from rowfall.project.schema import json_schema

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

_HEAD = f"#:schema ./{SCHEMA}\n"
_NOT_A_NAME = regex(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Written:
    """A change of a file.

    Attributes:
        did: a sentence for each change; () where there was nothing to do.
        to_set: variables that have to be set before the load can run, with what they hold.
        name: of the load that was added; "" for none.
    """

    path: Path
    did: tuple[str, ...]
    to_set: tuple[tuple[str, str], ...] = ()
    name: str = ""


# --- migration ------------------------------------------------------------------------------------


def migrate(file: ProjectFile) -> Written:
    """Make connections of the profiles of a file, and write it; comments stay where they are."""
    import tomlkit

    document = tomlkit.parse(file.text)
    profiles = document.get(PROFILES)
    if not profiles:
        return Written(file.path, ())
    did = []
    for name in list(profiles):
        table = profiles[name]
        renamed = []
        for old, new, kind in ((TO, URI, ""), (PASSWORD_ENV, PASSWORD, "env:"),
                               (PASSWORD_FILE, PASSWORD, "file:")):  # fmt: skip
            if old in table:
                value = table[old]
                _rename(table, old, new)
                if kind:
                    table[new] = f"{kind}{value}"
                renamed.append(f"{old} is {new}" + (f' = "{kind}..."' if kind else ""))
        for key in list(table):
            if "-" in key:
                _rename(table, key, key.replace("-", "_"))
        more = f", {', '.join(renamed)}" if renamed else ""
        did.append(f"[{PROFILES}.{name}] is [{CONNECTIONS}.{name}]{more}")
    # Headers are renamed one by one: tables of both kinds may stand between each other.
    text = tomlkit.dumps(document).replace("\r\n", "\n")
    lines = text.split("\n")
    for line in {line for keys, line in lines_of(text).items() if keys[0] == PROFILES}:
        if lines[line - 1].lstrip().startswith("["):
            lines[line - 1] = lines[line - 1].replace(PROFILES, CONNECTIONS, 1)
    text = "\n".join(lines)
    try:
        left = ProjectFile(file.path, text).named(PROFILES)
    except UsageError:
        left = [PROFILES]
    if left:
        raise UsageError(
            f"{file.path} has profiles that are written in one piece with other tables",
            hint=f"Write [{CONNECTIONS}.{left[0]}] with uri and password in their place.",
        )
    _write(file.path, text)
    return Written(file.path, tuple(did))


def _rename(table: Table, old: str, new: str) -> None:
    """Rename a key in its place, with its comment."""
    import tomlkit

    container: Any = table.value
    # tomlkit has no public way that keeps the place of a key.
    container._replace(old, tomlkit.key(new), container.item(old))


# --- a load that has worked -----------------------------------------------------------------------


def add_load(project: Project, path: Path, name: str, asked: Mapping[str, Any]) -> Written:
    """Add a load to a file, which is made where it is not there, with its connections.

    Args:
        name: of the new load; "" for one by its table.
        asked: what the ledger has of its request.

    Raises:
        UsageError: a load of that name is there, or nothing can be read again.
        TargetError: the file cannot be written.
    """
    import tomlkit

    is_new = not path.exists()
    document = tomlkit.parse(_HEAD if is_new else path.read_text(encoding="utf-8"))
    made = _Adding(project, document, path.parent)
    sources = [made.source(str(text)) for text in asked["sources"]]
    name = name or _name_of(asked)
    if not WORD.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a load",
            hint="Take letters, digits, '-' and '_': rowfall init --name orders",
        )
    if any(project.find(kind, name) is not None for kind in (LOADS, "pipelines")):
        raise UsageError(
            f"{path} has {name} already",
            hint=f"Take another name: rowfall init --name {_free(project, name)}",
        )
    table = tomlkit.table()
    table[SOURCE] = sources[0] if len(sources) == 1 else sources
    if (to := made.target(asked)) is not None:
        table[TO] = to
    if asked["table"]:
        folder = uri.scheme_of(str(asked["to"])) == uri.FILE
        table[TABLE] = str(asked["table"]).removeprefix("default." if folder else "")
    given = asked["options"]
    for item, _ in flags_of(LOAD):
        if item.name in given and item.name not in (*ANSWERS, "follow"):
            table[item.name] = given[item.name]
    made.add(LOADS, name, table)
    _write(path, tomlkit.dumps(document))
    ProjectFile(path)
    did = [f"{'written' if is_new else 'added'}: [{LOADS}.{name}]", *made.did]
    if is_new:
        write_schema(path.parent / SCHEMA)
        did.append(f"{SCHEMA}: what an editor completes and checks the file by")
    return Written(path, tuple(did), tuple(made.to_set), name)


def write_schema(path: Path) -> None:
    """Write the JSON Schema of project files."""
    import json

    _write(path, json.dumps(json_schema(), indent=1) + "\n")


class _Adding:
    """A document that gets a load and what it needs."""

    def __init__(self, project: Project, document: TOMLDocument, folder: Path) -> None:
        self._project, self._document, self._folder = project, document, folder
        self.did: list[str] = []
        self.to_set: list[tuple[str, str]] = []

    def add(self, kind: str, name: str, table: Table) -> None:
        """Add a table behind those of its kind."""
        import tomlkit

        if kind not in self._document:
            self._document[kind] = tomlkit.table(is_super_table=True)
        parent: Any = self._document[kind]
        parent[name] = table

    def source(self, text: str) -> str:
        """Return a source as the file names it: a path from its folder, secrets as references.

        Raises:
            UsageError: it cannot be read again.
        """
        if text == "-":
            raise UsageError(
                "the load read stdin, which cannot be read again",
                hint="Name one of files: rowfall status lists the loads.",
            )
        if uri.scheme_of(text) == uri.FILE and "://" not in text:
            return self._near(text)
        return self._referenced(text)

    def target(self, asked: Mapping[str, Any]) -> str | None:
        """Return the target of a load: a folder, or a connection, which is added for a server."""
        import tomlkit

        to = str(asked["to"])
        is_path = uri.scheme_of(to) == uri.FILE and "://" not in to
        if is_path:
            to = os.path.join(asked.get("folder") or "", to)
        for name in self._project.names(CONNECTIONS):
            known = self._project.described_connection(name)
            if known is not None and known.uri == to:
                return name
        if is_path:
            near = self._near(to)
            if near == "rowfall-data":
                return None
            return near if near.startswith(("/", "./", "../")) else f"./{near}"
        if not (uri.parse(to).host if "," not in to else to):
            return to
        name = _free_name(self._project, to)
        table = tomlkit.table()
        table[URI] = self._referenced(to)
        if asked.get("password"):
            variable = f"{name.upper()}_PASSWORD"
            if os.environ.get("ROWFALL_PASSWORD"):
                variable = "ROWFALL_PASSWORD"
            else:
                self.to_set.append((variable, f"the password of {to}"))
            table[PASSWORD] = f"env:{variable}"
        self.add(CONNECTIONS, name, table)
        self.did.append(f"added: [{CONNECTIONS}.{name}]")
        return name

    def _near(self, path: str) -> str:
        """Return a path below the folder of the file as seen from there; others in full."""
        folder = f"{self._folder}{os.sep}"
        return path.removeprefix(folder) if path.startswith(folder) else path

    def _referenced(self, text: str) -> str:
        """Return an address with a variable in place of each secret that is not kept."""
        while MASK in text:
            variable = (
                f"{_word(uri.parse(text.replace(MASK, 'x')).host or 'source').upper()}_SECRET"
            )
            number = sum(name.startswith(variable) for name, _ in self.to_set)
            variable += f"_{number + 1}" if number else ""
            self.to_set.append((variable, f"what is hidden in {text}"))
            text = text.replace(MASK, f"env:{variable}", 1)
        return text


def _name_of(asked: Mapping[str, Any]) -> str:
    """Return a name for a load: that of its table, or of its source."""
    source = str(asked["sources"][0])
    text = str(asked["table"] or Path(uri.parse(source).path if "," not in source else source).stem)
    return _word(text.rpartition(".")[2])


def _word(text: str) -> str:
    name = _NOT_A_NAME.sub("_", text).strip("_")
    return name if name[:1].isalpha() else f"load_{name}".rstrip("_")


def _free(project: Project, name: str) -> str:
    taken = {*project.names(LOADS), *project.names("pipelines"), *project.names(CONNECTIONS)}
    return next(found for n in range(2, 1000) if (found := f"{name}{n}") not in taken)


def _free_name(project: Project, to: str) -> str:
    """Return a name for the connection of a server that no other has."""
    scheme = uri.scheme_of(to)
    hosts = to.partition("://")[2].rpartition("@")[2].partition("/")[0]
    host = hosts.partition(":")[0]
    plain = host.replace(".", "").isdigit() or host == "localhost"
    name = _word(scheme if plain else host.partition(".")[0])
    return name if name not in project.names(CONNECTIONS) else _free(project, name)


# --- files ----------------------------------------------------------------------------------------


def _write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all, with the mode that it has.

    Raises:
        TargetError: that is not possible.
    """
    name = ""
    path = Path(os.path.realpath(path))  # a link stays one
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".rowfall-")
        with os.fdopen(handle, "w", encoding="utf-8") as made:
            made.write(text)
            made.flush()
            os.fchmod(made.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o644)
            os.fsync(made.fileno())
        os.replace(name, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(name)
        raise TargetError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}",
            hint=f"Write to another folder, or name a file with --config: {NAME}",
        ) from None
