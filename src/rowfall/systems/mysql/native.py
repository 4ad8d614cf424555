"""Tables of MySQL and MariaDB in the words of SHOW CREATE TABLE, for a new one like them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rowfall.core.native import NativeKey, NativeTable, NativeType
from rowfall.systems.mysql.catalogue import MySQLColumn

_NAME = r"`((?:[^`]|``)*)`"
_COLUMN = re.compile(rf"\A  {_NAME} (.*?),?\Z", re.S)
_KEY = re.compile(
    r"\A  ((?:(PRIMARY|UNIQUE|FULLTEXT|SPATIAL) )?KEY (?:`(?:[^`]|``)*` )?(\(.*\).*?)),?\Z", re.S
)
_PART = re.compile(rf"{_NAME}(\(\d+\))?")
_CHECK = re.compile(r"\A  (CONSTRAINT `(?:[^`]|``)*` )(CHECK .*?),?\Z", re.S)
_FOREIGN = re.compile(r"\A  CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY ")
# A default that takes numbers of a sequence, which may be missing where the new table is.
_SEQUENCE = re.compile(r"\b(?:next|last)val\(")
_TAIL = re.compile(r"\A\) ENGINE=")
_CHARSET = re.compile(r"DEFAULT CHARSET=(\w+)(?: COLLATE=(\w+))?")
_COMMENT = re.compile(r" COMMENT='((?:[^']|'')*)'")
_WORDS = re.compile(r"(?: CHARACTER SET \w+)?(?: COLLATE \w+)?")
_GENERATED = "GENERATED ALWAYS AS"
AUTO_INCREMENT = " AUTO_INCREMENT"


def family(version: str) -> str:
    """Return whose words a server of a version speaks."""
    return "mariadb" if "mariadb" in version.lower() else "mysql"


def number(version: str) -> tuple[int, ...]:
    """Return the version that decides which words a server knows."""
    found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def native_table(version: str, columns: Sequence[MySQLColumn], text: str) -> NativeTable:
    """Return a table in the words of its server.

    Foreign keys are left out: the tables that they refer to may come later, or not at all. Where
    the server writes something that is not known here, there are no types.

    Args:
        text: of SHOW CREATE TABLE.
    """
    nothing = NativeTable(family(version))
    lines = text.split("\n")
    tails = [line for line in lines if _TAIL.match(line)]
    if not tails or f"{_GENERATED} ROW " in text:
        return nothing
    charset = _CHARSET.search(tails[-1])
    default = "" if charset is None else f" CHARACTER SET {charset[1]}" + (
        f" COLLATE {charset[2]}" if charset[2] else ""
    )  # fmt: skip
    comment = _COMMENT.search(tails[-1])
    texts: dict[str, str] = {}
    keys: list[NativeKey] = []
    primary: tuple[str, ...] = ()
    for line in lines[1:]:
        if _TAIL.match(line):
            break
        if column := _COLUMN.match(line):
            texts[column[1].replace("``", "`")] = column[2]
        elif key := _KEY.match(line):
            parts = _PART.findall(key[3])
            if key[2] == "PRIMARY" and not any(part for _, part in parts):
                primary = tuple(one.replace("``", "`") for one, _ in parts)
            else:
                keys.append(NativeKey(key[1], unique=key[2] in ("PRIMARY", "UNIQUE")))
        elif check := _CHECK.match(line):
            # Names of them are of one table in MariaDB, and of the whole schema in MySQL.
            own = check[1] if family(version) == "mariadb" else ""
            keys.append(NativeKey(own + check[2], check=True))
        elif not _FOREIGN.match(line):
            return nothing
    types = {}
    # Of what is left out (it is invisible) nothing may be told that refers to it.
    lacks = bool(texts.keys() - {one.name for one in columns})
    for one in columns:
        declared = texts.get(one.name)
        if declared is None or not declared.lower().startswith(one.whole.lower()):
            return nothing
        words = _WORDS.match(declared[len(one.whole) :])
        own = (words[0] if words else "") or (default if one.charset else "")
        plain = f"{one.whole}{own if one.charset else ''} {'NULL' if one.nullable else 'NOT NULL'}"
        kept = plain if lacks or _SEQUENCE.search(declared) else declared
        types[one.name] = NativeType(
            kept, one.kind, one.nullable, plain, computed=_GENERATED in declared
        )
    options = [default.strip(), f"COMMENT='{comment[1]}'" if comment else ""]
    return NativeTable(
        family(version), types, primary, () if lacks else tuple(keys),
        " ".join(filter(None, options)), number(version),
    )  # fmt: skip
