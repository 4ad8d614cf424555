"""The JSON Schema of ``rowfall.toml``, for editors; made from the table of options.

An editor that knows ``#:schema`` (taplo, Even Better TOML) completes keys and marks mistakes by it.
It refuses what the reader refuses, but for what only a whole file shows: circles, names that are
not there, one key spelled in two ways.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rowfall.core.option_values import schema_of
from rowfall.core.options import Options
from rowfall.project.file import (
    AFTER,
    BEFORE,
    COMMAND,
    CONNECTION,
    CONNECTIONS,
    DEFAULTS,
    LOADS,
    NAMES,
    NEEDS,
    ON_ERROR,
    PARAMS,
    PASSWORD,
    PASSWORD_ENV,
    PASSWORD_FILE,
    PIPELINES,
    PROFILES,
    SOURCE,
    SQL,
    TABLE,
    TIMEOUT,
    TO,
    URI,
    option_keys,
    spellings,
)
from rowfall.project.references import REFERENCE

NAME = "rowfall.schema.json"
"""The file that ``rowfall init`` writes beside ``rowfall.toml``."""

# A user with a password that is no reference.
_NO_REFERENCE_IN_URI = r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@:]*:(?!(env|file|cmd)(:|%3[aA]))[^/?#]*@"


def json_schema() -> dict[str, Any]:
    """Return the schema of a project file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rowfall.toml",
        "description": "Connections, loads and pipelines of rowfall.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            DEFAULTS: _table(
                DEFAULTS, {TO: _address("Target of loads that name none: a connection or a URI.")},
                "Options of every command and load that do not say otherwise.",
            ),
            CONNECTIONS: _named(_table(CONNECTIONS, {
                URI: _address("Address of a target, or of what sources are in."),
                PASSWORD: _reference(),
                TABLE: _text("Table of loads into it that name none."),
            }, "A target, or a place that sources are in.", [URI])),
            LOADS: _named(_load(LOADS, {
                NEEDS: _texts("Loads that have to be done before."),
                PARAMS: _names(
                    "Names that --param gives values for: {day} in the texts of this load."
                ),
            }, "A load, which comes to an end.")),
            PIPELINES: _named(_load(PIPELINES, {}, "A load that follows its source.")),
            PROFILES: _named(_table(PROFILES, {
                TO: _address("Address of a target."),
                PASSWORD_FILE: _text("File that holds the password."),
                PASSWORD_ENV: _text("Variable that holds the password."),
                TABLE: _text("Table of loads into it that name none."),
            }, "The former name of connections.", [TO])),
        },
    }  # fmt: skip


def _load(kind: str, more: dict[str, Any], says: str) -> dict[str, Any]:
    own = {
        SOURCE: _sources(),
        CONNECTION: _text("Connection that the source is in."),
        TO: _address("A connection, or the address of a target. Default: ./rowfall-data."),
        TABLE: _text("Table to load into. Default: by the name of the source."),
        BEFORE: _hook("Runs before the load; where it fails, nothing is loaded."),
        AFTER: _hook("Runs when everything is loaded."),
        ON_ERROR: _hook("Runs when something could not be loaded."),
    }
    found = _table(kind, own | more, says)
    found["anyOf"] = [{"required": [SOURCE]}, {"required": [CONNECTION]}]
    return found


def _table(
    kind: str, own: dict[str, Any], says: str, required: list[str] | None = None
) -> dict[str, Any]:
    items = {item.name: item for item in fields(Options)}
    taken = set(option_keys(kind))
    options = {
        spelled: schema_of(items[name]) for spelled, name in spellings().items()
        if name in taken and spelled not in own
    }  # fmt: skip
    found = {
        "description": says, "type": "object", "additionalProperties": False,
        "properties": own | options,
    }  # fmt: skip
    return found | ({"required": required} if required else {})


def _named(table: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object", "additionalProperties": False,
        "patternProperties": {f"^{NAMES}$": table},
    }  # fmt: skip


def _text(says: str) -> dict[str, Any]:
    return {"description": says, "type": "string", "minLength": 1}


def _address(says: str) -> dict[str, Any]:
    return _text(says) | {"not": {"pattern": _NO_REFERENCE_IN_URI}}


def _texts(says: str) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    return {
        "description": says, "anyOf": [text, {"type": "array", "items": text, "minItems": 1}],
    }  # fmt: skip


def _names(says: str) -> dict[str, Any]:
    text = {"type": "string", "pattern": f"^{NAMES}$"}
    return {
        "description": says, "anyOf": [text, {"type": "array", "items": text, "minItems": 1}],
    }  # fmt: skip


def _sources() -> dict[str, Any]:
    found = _texts("What to load: a path, a pattern or a URI, or a list of them.")
    text = {
        "type": "string", "minLength": 1, "not": {"pattern": f"{_NO_REFERENCE_IN_URI}|^-$"},
    }  # fmt: skip
    found["anyOf"] = [text, {"type": "array", "items": text, "minItems": 1}]
    return found


def _reference() -> dict[str, Any]:
    return _text("Where the password is: env:NAME, file:PATH or cmd:PROGRAM ARGUMENTS.") | {
        "pattern": f"^{REFERENCE}$"
    }


def _hook(says: str) -> dict[str, Any]:
    text = {"type": "string", "pattern": r"\S"}
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    one = {
        "type": "object", "additionalProperties": False,
        "properties": {
            SQL: {
                "description": "Statements that run in the target, one after the other.",
                "anyOf": [text, {"type": "array", "items": text, "minItems": 1}],
            },
            COMMAND: {"description": "A program and its arguments; no shell runs it."} | words,
            TIMEOUT: {
                "description": "Time after which it is stopped, as 30s or 1h. Default: 10m.",
                "anyOf": [
                    {"type": "string", "pattern": r"^\s*[0-9][0-9_.]*\s*(s|m|h|d)?\s*$"},
                    {"type": "number", "exclusiveMinimum": 0},
                ],
            },
        },
        "oneOf": [{"required": [SQL]}, {"required": [COMMAND]}],
    }  # fmt: skip
    return {"description": says, "anyOf": [one, {"type": "array", "items": one}]}
