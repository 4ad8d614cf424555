"""Strict reading of nested values: each element is checked as a column of its type would be. Pure.

The reader of the engine checks as little inside of arrays, maps and tuples as outside. So they are
read as a *mirror*: the same brackets around elements in which nothing can go wrong (text, but for
formats with types), and an expression converts and checks every element: :func:`convert`. The
reader of JSON takes a mirror of strings for whatever stands there. That of CSV wants numbers
without quotes; so such fields are read as text, written anew as JSON whose every element is a
string (:func:`json_of_text`), and taken apart by :func:`extract`, which may not leave anything out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rowfall.core import sql
from rowfall.core.sqltext import quote, quoted_list
from rowfall.core.type_names import Type, arguments, element_names, elements, parse_type
from rowfall.schema.types.nested_nulls import without_value

Leaf = Callable[[str, Type], tuple[str, str]]
"""Returns (value, "is wrong" as 0/1) of an element as SQL, from the SQL of its mirror."""

# What these names stand for.
_ALIASES = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Tuple(Float64, Float64))",
    "LineString": "Array(Tuple(Float64, Float64))",
    "MultiLineString": "Array(Array(Tuple(Float64, Float64)))",
    "Polygon": "Array(Array(Tuple(Float64, Float64)))",
    "MultiPolygon": "Array(Array(Array(Tuple(Float64, Float64))))",
}
_NESTED = frozenset({"Array", "Map", "Tuple"})
# Pieces of a nested field as the engine writes it: strings, brackets and what is between them.
_PIECES = r"'(?:[^'\\]|\\.|'')*'|[\[\](){},:]|\s+|[^\[\](){},:\s']+|'"
# A string with the escapes that are written, and a word.
_STRING = r"'(?:[^'\\]|\\[\\'\"nrtbf/]|'')*'"
_WORD = r"[^\[\](){},:\s'\"]+"
_ESCAPES = (("''", "'"), ("\\'", "'"), ('\\"', '"'), ("\\/", "/"), ("\\n", "\n"), ("\\r", "\r"),
            ("\\t", "\t"), ("\\b", "\b"), ("\\f", "\f"), ("\\\\", "\\"))  # fmt: skip
_STRING_PIECES, _ESCAPED = r"(?s)\\.|''|[^\\']+", r"[\\']"
# Types that the engine writes, and reads, without quotes.
_WORDS = frozenset({"Bool", "Decimal"})
_JSON_PIECES = r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+'


def shape_of(type_: str) -> Type:
    """Return a type taken apart, the names of geometries as what they stand for."""
    kind = parse_type(type_)
    return parse_type(_ALIASES[kind.base]) if kind.base in _ALIASES else kind


def is_nested(type_: str) -> bool:
    """Tell whether a value of a type holds others."""
    return shape_of(type_).base in _NESTED


def parts(kind: Type) -> list[str]:
    """Return the types of the elements of a nested type."""
    return elements(kind.args) if kind.base == "Tuple" else arguments(kind.args)


def leaves(type_: str) -> list[Type]:
    """Return the types that the values of a type consist of."""
    kind = shape_of(type_)
    if kind.base not in _NESTED or not kind.args:
        return [kind]
    return [leaf for part in parts(kind) for leaf in leaves(part)]


def is_checkable(type_: str, *, null_tuples: bool) -> bool:
    """Tell whether each element can be checked: the engine alone knows what other types hold.

    Args:
        null_tuples: tuples may be NULL.
    """
    kind = shape_of(type_)
    if kind.base not in _NESTED or not kind.args:
        return (kind.known and kind.base not in _NESTED) or bool(variants(kind))
    if kind.nullable and not null_tuples:
        return False
    return all(is_checkable(part, null_tuples=null_tuples) for part in parts(kind))


def variants(kind: Type) -> list[Type]:
    """Return the types of a Variant whose values can all be checked, strings last; [] for others.

    In the order in which a text is tried as one of them: ``5`` is a number before it is a text.
    """
    if kind.base != "Variant":
        return []
    found = [parse_type(part) for part in arguments(kind.args)]
    known = all(one.known and not one.nullable for one in found)
    return sorted(found, key=_rank) if known else []


def _rank(kind: Type) -> tuple[int, int]:
    order = ("Bool", "", "Decimal", "BFloat16", "Float32", "Float64", "UUID", "IPv4", "IPv6",
             "Enum8", "Enum16", "Date", "Date32", "DateTime", "DateTime64", "Time", "Time64",
             "FixedString", "String")  # fmt: skip
    base = "" if kind.bits else kind.base
    return (order.index(base) if base in order else len(order) - 2, kind.bits)


def mirror(type_: str, leaf: Callable[[Type], str], *, named: bool = True) -> str:
    """Return a type with the same brackets.

    Args:
        leaf: the type of an element. Keys of maps are strings.
        named: elements of tuples keep their names.
    """
    kind = shape_of(type_)
    if kind.base not in _NESTED:
        return leaf(kind)
    if kind.base == "Array":
        return f"Array({mirror(kind.args, leaf, named=named)})"
    if kind.base == "Map":
        return f"Map(String, {mirror(arguments(kind.args)[1], leaf, named=named)})"
    inner = [mirror(part, leaf, named=named) for part in elements(kind.args)]
    if named and _has_names(kind):
        names = element_names(kind.args)
        inner = [f"{sql.name(n)} {t}" for n, t in zip(names, inner, strict=True)]
    made = f"Tuple({', '.join(inner)})"
    return f"Nullable({made})" if kind.nullable else made


def _has_names(kind: Type) -> bool:
    return element_names(kind.args) != [str(n + 1) for n in range(len(elements(kind.args)))]


def convert(x: str, type_: str, leaf: Leaf, depth: int = 0) -> tuple[str, str]:
    """Return (value, "is wrong" as 0/1) of a mirror ``x``, element by element."""
    kind = shape_of(type_)
    if kind.base not in _NESTED:
        return leaf(x, kind)
    if kind.base == "Array":
        return _convert_array(x, kind.args, leaf, depth)
    if kind.base == "Map":
        pairs = zip(("mapKeys", "mapValues"), arguments(kind.args), strict=True)
        found = [_convert_array(f"{name}({x})", part, leaf, depth) for name, part in pairs]
        same = found[0][0] == f"mapKeys({x})" and found[1][0] == f"mapValues({x})"
        value = x if same else f"CAST(({found[0][0]}, {found[1][0]}), {quote(kind.bare)})"
        return value, _any(wrong for _, wrong in found)
    whole = f"assumeNotNull({x})" if kind.nullable else x
    found = [
        convert(f"tupleElement({whole}, {n})", part, leaf, depth)
        for n, part in enumerate(elements(kind.args), 1)
    ]
    same = all(value == f"tupleElement({whole}, {n})" for n, (value, _) in enumerate(found, 1))
    value = x if same else f"CAST(tuple({', '.join(v for v, _ in found)}), {quote(kind.bare)})"
    wrong = _any(wrong for _, wrong in found)
    if not kind.nullable:
        return value, wrong
    if not same:
        value = f"if(isNull({x}), NULL, CAST({value}, {quote(kind.full)}))"
    return value, wrong if wrong == "0" else f"isNotNull({x}) AND ({wrong})"


def _convert_array(x: str, element: str, leaf: Leaf, depth: int) -> tuple[str, str]:
    e = f"e{depth}"
    value, wrong = convert(e, element, leaf, depth + 1)
    value = x if value == e else f"arrayMap({e} -> {value}, {x})"
    return value, "0" if wrong == "0" else f"arrayExists({e} -> {wrong}, {x})"


def _any(wrongs: Iterable[str]) -> str:
    found = [f"({wrong})" for wrong in wrongs if wrong != "0"]
    return " OR ".join(found) or "0"


# --- nested values of text -----------------------------------------------------------------------


def is_written(x: str, type_: str) -> str:
    """Return SQL that is 1 where a text has the brackets of a type, as the engine writes them."""
    return f"match({x}, {quote('^' + _pattern(type_) + '$')})"


def _pattern(type_: str) -> str:
    kind = shape_of(type_)
    if kind.base not in _NESTED:
        words = kind.bits or kind.base in _WORDS or "Float" in kind.base or kind.base == "DateTime"
        return f"(?:{_STRING}|{_WORD if words else 'NULL'})"
    inner = [_pattern(part) for part in parts(kind)]
    if kind.base == "Tuple":
        return r"\(\s*" + r"\s*,\s*".join(inner) + r"\s*\)"
    one = inner[0] if kind.base == "Array" else r"\s*:\s*".join(inner)
    opened, closed = (r"\[", r"\]") if kind.base == "Array" else (r"\{", r"\}")
    return rf"{opened}\s*(?:{one}(?:\s*,\s*{one})*)?\s*{closed}"


def json_of_text(x: str) -> str:
    """Return SQL for the JSON of a nested text that :func:`is_written`; its elements are strings.

    Tuples are arrays there.
    """
    inner = "substring(t, 2, length(t) - 2)"
    marks, chars = zip(*_ESCAPES, strict=True)
    known = f"[{quoted_list(marks)}], [{quoted_list(chars)}]"
    pieces = f"extractAll({inner}, {quote(_STRING_PIECES)})"
    text = f"arrayStringConcat(arrayMap(p -> transform(p, {known}, p), {pieces}))"
    text = f"if(match({inner}, {quote(_ESCAPED)}), {text}, {inner})"
    one = (
        f"multiIf(t = '(', '[', t = ')', ']', startsWith(t, '\\''), toJSONString({text}), "
        "t = 'NULL', 'null', match(t, '^[\\\\[\\\\]{},:\\\\s]'), t, toJSONString(t))"
    )
    return f"arrayStringConcat(arrayMap(t -> {one}, extractAll({x}, {quote(_PIECES)})))"


def extract(json: str, type_: str) -> str:
    """Return SQL for the mirror of strings of JSON whose elements are strings.

    Where it has other brackets, something is left out or NULL: see :func:`is_whole`.
    """
    return f"JSONExtract({json}, {quote(type_)})"


def is_whole(json: str, found: str) -> str:
    """Return SQL that is 1 where ``found`` holds all that stands in ``json``, and nothing else."""

    def pieces(text: str) -> str:
        decoded = (
            "if(startsWith(t, '\"'), concat('\"', JSONExtractString(concat('[', t, ']'), 1)), t)"
        )
        return f"arraySort(arrayMap(t -> {decoded}, extractAll({text}, {quote(_JSON_PIECES)})))"

    return f"(isValidJSON({json}) AND {pieces(json)} = {pieces(f'toJSONString({found})')})"


def with_numbers_as_strings(line: str) -> str:
    """Return SQL for JSON whose numbers, true and false stand in quotes, as they are written."""
    pattern = r'("(?:[^"\\]|\\.)*")|(-?[0-9][0-9.eE+-]*|true|false)'
    marked = f"replaceRegexpAll({line}, {quote(pattern)}, '\\\\1\\x01\\\\2\\x01')"
    return f"replaceAll(replaceAll({marked}, '\\x01\\x01', ''), '\\x01', '\"')"


def is_json(line: str, written: str) -> str:
    """Return SQL that is 1 where a line is JSON.

    Args:
        written: see :func:`with_numbers_as_strings`: the engine's own test refuses large numbers.
    """
    number = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
    word = quote(rf'(?s)^(?:{number}|true|false|null|["{{}}\[\],:].*)$')
    words = f"extractAll({line}, {quote(_JSON_PIECES)})"
    # The mark between the numbers.
    plain = f"isValidJSON({written}) AND position({line}, '\\x01') = 0"
    return f"({plain} AND NOT arrayExists(t -> NOT match(t, {word}), {words}))"


def is_row(line: str, written: str) -> str:
    """Return SQL that is 1 where a line is a JSON object that has each of its keys once.

    Args:
        written: see :func:`is_json`.
    """
    keys = f"JSONExtractKeys({written})"
    once = f"length({keys}) = length(arrayDistinct({keys}))"
    return f"({is_json(line, written)} AND JSONType({written}) = 'Object' AND {once})"


def member_as_written(line: str, key: str) -> str:
    """Return SQL for the text of a member of a JSON object, every blank of it."""
    all_pieces = quote(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\s+|[^\s"{}\[\],:]+')
    tokens = f"extractAll({line}, {all_pieces})"
    depth = f"arrayCumSum(t -> (t IN ('{{', '[')) - (t IN ('}}', ']')), {tokens})"
    inside = f"arraySlice(arrayFilter((t, d) -> d > 0, {tokens}, {depth}), 2)"
    depths = f"arraySlice(arrayFilter(d -> d > 0, {depth}), 2)"
    members = f"arraySplit((t, d) -> t = ',' AND d = 1, {inside}, {depths})"
    first = "arrayFirst(t -> startsWith(t, '\"'), m)"
    own = f"JSONExtractString(concat('[', {first}, ']'), 1) = {quote(key)}"
    member = f"arrayFirst(m -> {own}, {members})"
    text = f"arrayStringConcat(arraySlice({member}, indexOf({member}, ':') + 1))"
    return f"trimBoth({text})"


# --- nested values of formats with types ---------------------------------------------------------


def convert_typed(
    x: str, source: str, target: str,
    leaf: Callable[[str, Type, Type], tuple[str, str] | None], depth: int = 0,
) -> tuple[str, str] | None:  # fmt: skip
    """Return (value, "is wrong") of a nested value of another type, element by element.

    None where the brackets differ, or an element is of a type that is not known.
    """
    own, wanted = shape_of(source), shape_of(target)
    if own.base not in _NESTED and wanted.base not in _NESTED:
        return leaf(x, wanted, own)
    if own.base != wanted.base:
        return None
    if wanted.nullable:
        plain = own.full.removeprefix("Nullable(").removesuffix(")") if own.nullable else own.full
        whole = f"assumeNotNull({x})" if own.nullable else x
        inner = convert_typed(whole, plain, wanted.bare, leaf, depth)
        if inner is None:
            return None
        value = f"CAST({inner[0]}, {quote(wanted.full)})"
        if not own.nullable:
            return value, inner[1]
        wrong = "0" if inner[1] == "0" else f"(isNotNull({x}) AND ({inner[1]}))"
        return f"if(isNull({x}), NULL, {value})", wrong
    if own.nullable:
        plain = own.full.removeprefix("Nullable(").removesuffix(")")
        inner = convert_typed(f"assumeNotNull({x})", plain, target, leaf, depth)
        if inner is None:
            return None
        nothing = without_value(wanted)
        if nothing is None:
            return inner[0], _any((f"isNull({x})", f"isNotNull({x}) AND ({inner[1]})"))
        value = f"if(isNull({x}), CAST({nothing}, {quote(wanted.bare)}), {inner[0]})"
        return value, "0" if inner[1] == "0" else f"(isNotNull({x}) AND ({inner[1]}))"
    if own.base == "Array":
        return _typed_array(x, own.args, wanted.args, leaf, depth)
    ours, theirs = parts(own), parts(wanted)
    if len(ours) != len(theirs):
        return None
    if own.base == "Map":
        arrays = [
            _typed_array(f"{name}({x})", a, b, leaf, depth)
            for name, a, b in zip(("mapKeys", "mapValues"), ours, theirs, strict=True)
        ]
        keys, values = arrays
        if keys is None or values is None:
            return None
        value = f"CAST(({keys[0]}, {values[0]}), {quote(wanted.bare)})"
        return value, _any((keys[1], values[1]))
    order = list(range(1, len(ours) + 1))
    if _has_names(own) and _has_names(wanted):
        names, asked = element_names(own.args), element_names(wanted.args)
        if sorted(names) != sorted(asked):
            return None
        order = [names.index(name) + 1 for name in asked]
    found = [
        convert_typed(f"tupleElement({x}, {n})", ours[n - 1], part, leaf, depth)
        for n, part in zip(order, theirs, strict=True)
    ]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    value = f"CAST(tuple({', '.join(v for v, _ in known)}), {quote(wanted.bare)})"
    return value, _any(wrong for _, wrong in known)


def _typed_array(
    x: str, source: str, target: str,
    leaf: Callable[[str, Type, Type], tuple[str, str] | None], depth: int,
) -> tuple[str, str] | None:  # fmt: skip
    e = f"e{depth}"
    found = convert_typed(e, source, target, leaf, depth + 1)
    if found is None:
        return None
    value, wrong = found
    value = x if value == e else f"arrayMap({e} -> {value}, {x})"
    return value, "0" if wrong == "0" else f"arrayExists({e} -> {wrong}, {x})"
