"""Values of options as files and the environment write them, and their JSON Schema. Pure.

The command line has click for it, and the library Python's own types; both end in the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any

from rowfall.core.options import Flag, several
from rowfall.core.patterns import regex

# Metavars that list all words there are; others name what stands there (``ID|TIME``).
_WORDS = regex(r"[a-z0-9]+(\|[a-z0-9]+)+")
YES_NO = "yes|no"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def words_of(flag: Flag) -> tuple[str, ...]:
    """Return the words that an option takes; () where it takes more than words."""
    return tuple(flag.metavar.split("|")) if _WORDS.fullmatch(flag.metavar) else ()


def from_text(item: Field[Any], text: str) -> Any:
    """Return the value of an option that a variable of the environment gives.

    Args:
        text: of what may be given more than once, a line each.

    Raises:
        ValueError: what it should be.
    """
    flag: Flag = item.metadata["flag"]
    if item.default is False:
        word = text.strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise ValueError("it is a switch: 1 or 0")
    if flag.many:
        return tuple(filter(None, map(str.strip, text.splitlines())))
    kind = str(item.type)
    if kind.startswith(("int", "float")):
        number: int | float | None = None
        try:
            number = int(text) if kind.startswith("int") else float(text)
        except ValueError:
            raise ValueError(_expected(item)) from None
        return from_value(item, number)
    return from_value(item, text)


def from_value(item: Field[Any], value: Any) -> Any:
    """Return the value of an option that a TOML file gives.

    Numbers stand for their text (``memory = 4294967296``), and true and false for yes and no. What
    may be given more than once is one text, a list of texts, or a table (``{ id = "UInt64" }``).

    Raises:
        ValueError: what it should be.
    """
    flag: Flag = item.metadata["flag"]
    kind = str(item.type)
    if item.default is False:
        if not isinstance(value, bool):
            raise ValueError("it is a switch: true or false")
        return value
    if flag.many:
        return _many(item, value)
    if kind.startswith("int"):
        least = 0 if item.default == 0 else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(_expected(item))
        return value
    if kind.startswith("float"):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError(_expected(item))
        return float(value)
    words = words_of(flag)
    if isinstance(value, bool):
        if flag.metavar != YES_NO:
            raise ValueError(_expected(item))
        return "yes" if value else "no"
    if isinstance(value, int | float) and not words:
        return str(value)
    if not isinstance(value, str) or (words and value not in words):
        raise ValueError(_expected(item))
    return value


def _many(item: Field[Any], value: Any) -> tuple[str, ...]:
    flag: Flag = item.metadata["flag"]
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if isinstance(value, Mapping) and takes_table(flag):
        plain = {k: str(v).lower() if isinstance(v, bool) else v for k, v in value.items()}
        if all(isinstance(one, str | int | float) for one in plain.values()):
            return several(plain, joint(item))
    raise ValueError(_expected(item))


def takes_table(flag: Flag) -> bool:
    """Tell whether an option that may be given more than once pairs a name with a value."""
    return flag.many and flag.metavar != "NAME"


def joint(item: Field[Any]) -> str:
    """Return what stands between the name and the value of an option's pairs."""
    return " " if item.name == "type" else "="


def _expected(item: Field[Any]) -> str:
    """Say what an option takes."""
    flag: Flag = item.metadata["flag"]
    if flag.many:
        pairs = f", or a table of {flag.metavar}" if takes_table(flag) else ""
        return f"it is a text or a list of texts{pairs}"
    if words := words_of(flag):
        either = ", ".join(words[:-1]) + f" or {words[-1]}"
        return f"it is {either}" + (", or true or false" if flag.metavar == YES_NO else "")
    kind = str(item.type)
    if kind.startswith("int"):
        return f"it is a whole number of {0 if item.default == 0 else 1} or more"
    if kind.startswith("float"):
        return "it is a number from 0 to 1"
    return "it is a text" + (" or a number" if flag.metavar in ("SIZE", "N") else "")


def schema_of(item: Field[Any]) -> dict[str, Any]:
    """Return the JSON Schema of what :func:`from_value` takes."""
    flag: Flag = item.metadata["flag"]
    kind = str(item.type)
    found: dict[str, Any] = {"description": flag.help}
    if item.default is False:
        return found | {"type": "boolean"}
    if flag.many:
        text = {"type": "string"}
        kinds: list[dict[str, Any]] = [text, {"type": "array", "items": text}]
        if takes_table(flag):
            values = {"type": ["string", "number", "boolean"]}
            kinds.append({"type": "object", "additionalProperties": values})
        return found | {"anyOf": kinds}
    if kind.startswith("int"):
        return found | {"type": "integer", "minimum": 0 if item.default == 0 else 1}
    if kind.startswith("float"):
        return found | {"type": "number", "minimum": 0, "maximum": 1}
    if words := words_of(flag):
        return found | {"enum": [*words, *((True, False) if flag.metavar == YES_NO else ())]}
    return found | {"type": ["string", "number"]}
