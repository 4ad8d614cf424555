"""Chooses types for sampled JSON objects, in Python: which keys are stable, which values mix. Pure.

The engine's DESCRIBE refuses columns of mixed types, makes a Tuple of keys that are not always
there, and takes twice as long with each level (22 levels: minutes). Here each value is looked at
once, and at most :data:`NODES` of them.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from math import isinf
from typing import Any

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.core.type_names import element_names
from rowfall.schema.types import nested_reading
from rowfall.schema.types.strict_reading import has_spellings

DEEPEST = 12
"""Levels of a Tuple, Map or Array that anybody would write as a type; what is deeper is JSON."""
WIDEST = 200
"""Elements of a Tuple; objects of more keys are JSON."""
NODES = 400_000
"""Nested values that are looked at, all columns together: a second of Python."""
DEEPEST_JSON = 100
"""Levels that the engine's JSON type is trusted with; it was seen to refuse 1,500."""

JSON, TEXT = "JSON", "String"


@dataclass(slots=True)
class JsonColumn:
    """A key of the sampled objects.

    Attributes:
        type: of its values, never NULL; numbers are ``Int64`` or ``Float64``.
        nested: some values are objects or arrays.
        reason: why it has a nested type, or text; "" for values of one plain kind.
        nullable: the type for nested values of which some are NULL or missing.
        texts: of a column whose nested type is known: texts stand where it has numbers or Bools.
    """

    name: str
    type: str = TEXT
    nested: bool = False
    reason: str = ""
    nullable: str = TEXT
    texts: bool = False


def columns_of(
    objects: Iterable[str], typed: Collection[str] = (), nested: Mapping[str, str] | None = None
) -> list[JsonColumn]:
    """Return the keys of objects, in the order in which they come, with types for their values.

    Args:
        objects: their text. What is no JSON object is left out; the caller has checked it.
        typed: keys whose values need no look. ``nested``: types of those whose elements are
            compared with it.
    """
    nested = nested or {}
    roots: dict[str, _Node] = {}
    budget = _Budget()
    for text in objects:
        try:
            found = json.loads(text, object_pairs_hook=_Pairs, strict=False)
        except (ValueError, RecursionError):
            continue
        if not isinstance(found, _Pairs):
            continue
        for name, value in found:
            root = roots.get(name)
            if root is None:
                root = roots[name] = _Node()
            if name not in typed or name in nested:
                root.add(value, 0, budget)
    return [
        JsonColumn(name, texts=_has_texts(root, nested[name]))
        if name in nested
        else _column(name, root)
        for name, root in roots.items()
    ]


def _has_texts(node: _Node, type_: str) -> bool:
    """Tell whether a place shows what inference would not take for a type with other spellings."""
    kind = nested_reading.shape_of(type_)
    inner = [node.elements] if node.elements is not None else []
    if kind.base == "Array":
        return any(_has_texts(one, kind.args) for one in inner)
    if kind.base == "Map":
        return any(_has_texts(one, nested_reading.parts(kind)[1]) for one in node.keys.values())
    if kind.base != "Tuple":
        plain = {bool} if kind.base == "Bool" else {int, float}
        rounded = kind.base == "Float64" and int in node.scalars and _beyond(node, 2**53)
        return has_spellings(kind) and (rounded or not node.scalars <= plain)
    types = nested_reading.parts(kind)
    named = zip(element_names(kind.args), types, strict=True)
    return any(
        name in node.keys and _has_texts(node.keys[name], part) for name, part in named
    ) or any(_has_texts(one, part) for one in inner for part in types)


def is_object(text: str) -> bool:
    """Tell whether a text is one JSON object, each key of it once."""
    return find_fault(text) is None


def find_fault(text: str) -> str | None:
    """Return the fault of a line, as "is not a JSON object"; None where it is a row."""
    try:
        found = json.loads(
            text, object_pairs_hook=_Pairs, parse_constant=_refuse_constant, strict=False
        )
    except RecursionError:
        return None  # the engine's reader will say
    except _ConstantError as error:
        return f"holds {error}, which JSON does not have"
    except ValueError:
        return _NO_OBJECT
    if not isinstance(found, _Pairs):
        return _NO_OBJECT
    if len({key for key, _ in found}) < len(found):
        counts = Counter(key for key, _ in found)
        return f"has the key {counts.most_common(1)[0][0]} twice"
    # Few texts have escapes at all.
    if "\\u" in text and (half := _half_of_a_pair(text)):
        return f"holds {half}, half of a character whose other half is missing"
    return None


_NO_OBJECT = "is not a JSON object"


def are_together(objects: Iterable[str], names: Collection[str]) -> bool:
    """Tell whether an object has several of these keys at its top."""
    for text in objects:
        with suppress(ValueError, RecursionError):
            found = json.loads(text, strict=False)
            if isinstance(found, dict) and sum(name in found for name in names) > 1:
                return True
    return False


def is_no_object(fault: str) -> bool:
    """Tell whether what :func:`find_fault` says is about the whole line."""
    return fault == _NO_OBJECT


class _ConstantError(Exception):
    """Names NaN, Infinity or -Infinity, which Python writes and no JSON has."""


def _refuse_constant(name: str) -> None:
    raise _ConstantError(name)


# An escaped backslash, a whole pair, or half of one.
_ESCAPES = regex(r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
                 r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")  # fmt: skip


def _half_of_a_pair(text: str) -> str | None:
    return next((m[1] for m in _ESCAPES.finditer(text) if m[1]), None)


def with_nulls(text: str) -> str:
    """Return JSON with null for the constants that it does not have, as :data:`NULLS` does."""
    return _CONSTANTS.sub(r"\1null", text)


def keys_of_constants(text: str) -> list[str]:
    """Return the keys of an object whose values are such constants."""
    found = json.loads(text, parse_constant=_Constant, strict=False)
    return [key for key, value in found.items() if isinstance(value, _Constant)]


class _Constant(str):
    """NaN, Infinity or -Infinity as they are written."""

    __slots__ = ()


NULLS = r"s/([:[,] *)(NaN|-?Infinity)/\1null/g"
"""Script for ``sed -E`` that writes null for them. It also changes text that looks so."""
_CONSTANTS = regex(r"([:[,] *)(NaN|-?Infinity)")


def rows_inside(objects: Sequence[str], uris: Sequence[str]) -> str | None:
    """Return a sentence, with a command, for files that are each one object around their rows.

    None where they are not.

    Answers of services are written so: ``{"status": "ok", "data": [{...}, {...}]}``.

    Args:
        objects: of the sample, ``uris`` its files.
    """
    # More are rows of their own, and a large one is hardly an answer of a service.
    if len(objects) > len(uris) or sum(map(len, objects)) > _MOST_AROUND:
        return None
    values: list[dict[str, Any]] = []
    for text in objects:
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        values.append(value)
    names = "FILE..." if len(uris) > 1 else shlex.quote(uris[0])
    load = f"{names} | rowfall load - --format JSONEachRow --table NAME"
    if values and all(map(_are_columns, values)):
        return "one object a file, whose keys hold columns; --format JSONColumns reads their rows"
    if values and all(map(_are_members, values)):
        return (
            f"one object a file, whose {sum(map(len, values))} keys hold objects with the same "
            f"keys; to load those: jq -c '.[]' {load}"
        )
    for depth in range(1, _DEEPEST + 1):
        found: dict[tuple[str, ...], int] | None = None
        for value in values:
            own = _lists_of(value, depth)
            found = own if found is None else {k: n + own[k] for k, n in found.items() if k in own}
        if found and len(found) > 1:
            return None
        if found:
            ((path, count),) = found.items()
            return (
                f"one object a file, with {count} objects in its key {'.'.join(path)}; to load "
                f"those: jq -c {shlex.quote(_query(path))} {load}"
            )
    return None


_DEEPEST = 3  # {"response": {"result": {"items": [...]}}}


def _lists_of(value: Mapping[str, Any], depth: int) -> dict[tuple[str, ...], int]:
    """Return the paths of so many keys that lead to lists of objects, and how many they hold."""
    if depth == 1:
        return {
            (key,): len(member) for key, member in value.items()
            if isinstance(member, list) and member and all(isinstance(m, dict) for m in member)
        }  # fmt: skip
    return {
        (key, *path): count for key, member in value.items() if isinstance(member, dict)
        for path, count in _lists_of(member, depth - 1).items()
    }  # fmt: skip


def _query(path: Sequence[str]) -> str:
    """Return the jq expression for the elements of the list at a path of keys."""
    if all(key.isidentifier() and key.isascii() for key in path):
        return "".join(f".{key}" for key in path) + "[]"
    return "." + "".join(f"[{json.dumps(key)}]" for key in path) + "[]"


def _are_columns(value: Mapping[str, Any]) -> bool:
    """Tell whether all members are lists of the same length, two at least, of plain values."""
    members = list(value.values())
    return (
        len(members) > 1
        and all(isinstance(m, list) and len(m) > 1 for m in members)
        and len({len(m) for m in members}) == 1
        and not any(isinstance(x, dict | list) for m in members for x in m)
    )


def _are_members(value: Mapping[str, Any]) -> bool:
    """Tell whether all members, two at least, are objects with the same keys."""
    members = list(value.values())
    if len(members) < 2 or not all(isinstance(m, dict) and m for m in members):
        return False
    return len({frozenset(m) for m in members}) == 1


_MOST_AROUND = 16 << 20
"""Bytes of objects that are parsed once more, 0.2 s of Python."""


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, doubled keys among them; an array is a plain list."""


@dataclass(slots=True)
class _Budget:
    nodes: int = NODES


@dataclass(slots=True)
class _Node:
    """Types and keys that were seen at one place of the objects.

    Attributes:
        scalars: kinds of plain values: ``int``, ``float``, ``bool``, ``str``.
        keys: of the objects here, each with how many had it.
        lossy: what the engine's JSON type would not keep, "" for nothing.
    """

    scalars: set[type] = field(default_factory=set)
    low: int = 0
    high: int = 0
    objects: int = 0
    arrays: int = 0
    keys: dict[str, _Node] = field(default_factory=dict)
    count: int = 0
    elements: _Node | None = None
    deep: bool = False
    lossy: str = ""

    def add(self, value: Any, depth: int, budget: _Budget) -> None:
        kind = type(value)
        if kind is _Pairs or kind is list:
            if depth == 0 and budget.nodes <= 0:
                return
            self.count += 1
            if depth >= DEEPEST_JSON:
                self.deep, self.lossy = True, f"more than {DEEPEST_JSON} levels"
            elif kind is _Pairs:
                self._add_object(value, depth, budget)
            else:
                self._add_array(value, depth, budget)
            return
        self.count += 1
        budget.nodes -= depth > 0
        if value is None:
            return
        self.scalars.add(kind)
        if kind is int:
            self.low, self.high = min(self.low, value), max(self.high, value)
        elif kind is float and isinf(value):
            self.lossy = "numbers beyond 1.8e308"

    def _add_object(self, members: _Pairs, depth: int, budget: _Budget) -> None:
        self.objects += 1
        self.deep = self.deep or depth >= DEEPEST
        known: set[str] = set()
        for name, value in members:
            if name in known:
                self.lossy = f"the key {name} twice"
            elif "." in name:
                self.lossy = f"a dot in the key {name}"
            known.add(name)
            node = self.keys.get(name)
            if node is None:
                node = self.keys[name] = _Node()
            node.add(value, depth + 1, budget)

    def _add_array(self, values: list[Any], depth: int, budget: _Budget) -> None:
        self.arrays += 1
        self.deep = self.deep or depth >= DEEPEST
        if self.elements is None:
            self.elements = _Node()
        kinds = {type(value) for value in values}
        if bool in kinds and kinds & {int, float, str}:
            self.lossy = "true or false beside other values in an array"
        elif (
            int in kinds
            and float in kinds
            and any(type(v) is int and abs(v) > 2**53 for v in values)
        ):
            self.lossy = "integers of more than 53 bits beside fractions in an array"
        for value in values:
            self.elements.add(value, depth + 1, budget)

    def children(self) -> list[_Node]:
        return [*self.keys.values(), *([self.elements] if self.elements is not None else [])]


def _column(name: str, root: _Node) -> JsonColumn:
    if not (root.objects or root.arrays):
        type_ = "Float64" if root.scalars == {int} else _scalar(root)
        why = "" if type_ else f"{_kinds(root)} mixed: kept as text"
        return JsonColumn(name, type_ or TEXT, reason=why)
    made = JsonColumn(name, nested=True)
    lossy = next(_losses(root), "")
    if root.scalars or root.arrays:
        loss = f"{_kinds(root)} mixed" if root.scalars or root.objects else "an array"
    else:
        loss = lossy
        made.nullable = TEXT if lossy else JSON
    type_, why = _nested(root, 0)
    if type_ is not None:
        made.type, made.reason = type_, why
    elif made.nullable == JSON:
        made.type = JSON
        made.reason = f"{why}: null members and the order of keys are not kept"
    else:
        said = why if loss in ("an array", why) else f"{why}; {loss}" if loss else why
        made.reason = f"{said}: kept as JSON text"
    return made


def _losses(node: _Node) -> Iterator[str]:
    """Give what the JSON type would not keep of a place and all below it."""
    places = [node]
    while places:
        place = places.pop()
        if place.lossy:
            yield place.lossy
        if place.low < -(2**63) or place.high >= 2**64:
            yield "integers of more than 64 bits"
        places += place.children()


_NAMES: dict[type, str] = {int: "integers", float: "fractions", bool: "true or false", str: "text"}


def _kinds(node: _Node) -> str:
    kinds = [name for kind, name in _NAMES.items() if kind in node.scalars]
    kinds += ["objects"] if node.objects else []
    kinds += ["arrays"] if node.arrays else []
    return " and ".join(kinds)


def _scalar(node: _Node) -> str | None:
    """Return the type of plain values; None where they mix or do not fit one type."""
    if node.scalars <= {str}:
        return TEXT
    if node.scalars == {bool}:
        return "Bool"
    if node.scalars == {int} or (node.scalars == {int, float} and not _beyond(node, 2**53)):
        if float in node.scalars:
            return "Float64"
        if not _beyond(node, 2**63 - 1):
            return "Int64"
        return "UInt64" if node.low >= 0 and node.high < 2**64 else None
    return "Float64" if node.scalars == {float} else None


def _beyond(node: _Node, most: int) -> bool:
    return node.high > most or node.low < -most


def _nested(node: _Node, depth: int) -> tuple[str | None, str]:
    """Return (type or None, reason) of nested values; elements that are plain may be NULL."""
    if node.deep:
        return None, f"more than {DEEPEST} levels"
    if sum(map(bool, (node.scalars, node.objects, node.arrays))) > 1:
        return None, f"{_kinds(node)} mixed"
    if node.arrays:
        return _array(node, depth)
    if node.objects:
        return _object(node, depth)
    type_ = _scalar(node)
    return (f"Nullable({type_})", "") if type_ else (None, f"{_kinds(node)} mixed")


def _inner(node: _Node, depth: int) -> tuple[str | None, str]:
    """Return :func:`_nested` of an element; NULL has no place in arrays, maps and tuples."""
    if node.objects + node.arrays and node.count > node.objects + node.arrays:
        return None, "null beside nested values" if not node.scalars else f"{_kinds(node)} mixed"
    return _nested(node, depth + 1)


def _array(node: _Node, depth: int) -> tuple[str | None, str]:
    elements = node.elements or _Node()
    type_, why = _inner(elements, depth)
    if type_ is None:
        return None, why
    return f"Array({type_})", "arrays of one type"


def _object(node: _Node, depth: int) -> tuple[str | None, str]:
    keys = node.keys
    if not keys:
        return None, "objects without keys"
    stable = all(child.count == node.objects for child in keys.values())
    if stable and len(keys) <= WIDEST and "" not in keys and not node.lossy.startswith("the key"):
        parts = []
        for name, child in keys.items():
            type_, why = _inner(child, depth)
            if type_ is None:
                return None, why
            parts.append(f"{sql.bare_name(name)} {type_}")
        return f"Tuple({', '.join(parts)})", f"the same keys in all {node.objects:,} objects seen"
    used = [child for child in keys.values() if child.scalars or child.objects or child.arrays]
    types = {_inner(child, depth)[0] for child in used} or {"Nullable(String)"}
    if len(types) == 1 and (type_ := types.pop()) is not None:
        return f"Map(String, {type_})", "keys vary, their values have one type"
    return None, "keys vary and their values differ in type"
