"""Answers SELECTs over tables in memory: the part of the language that the protocol asks in.

The text that is sent is parsed and evaluated, so its conditions are tested as they are, and a new
question needs nothing here as long as its functions are known. A text is compiled once for all
values of its literals. What is not known is an error, never an empty answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Protocol
from zlib import crc32

Row = dict[str, Any]
Compiled = Callable[["Catalogue", list[Any]], list[list[Any]]]


class Catalogue(Protocol):
    """The tables that a SELECT may name."""

    @property
    def now(self) -> float: ...

    def rows_of(self, database: str, table: str) -> list[Row]:
        """Return the rows of a table; each is a dictionary of its columns."""

    def function(self, name: str, values: list[Any]) -> Any:
        """Return the value of a function that asks the server itself (``getSetting``)."""


_LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'")
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_compiled: dict[str, Compiled] = {}


def answer(catalogue: Catalogue, text: str) -> list[list[Any]]:
    """Return the rows of a SELECT."""
    if "\\'" in text:
        shape, values = _LITERAL.sub("?", text), [unescape(v) for v in _LITERAL.findall(text)]
    else:
        pieces = text.split("'")
        shape, values = "?".join(pieces[::2]), pieces[1::2]
        if "\\" in text:
            values = [unescape(v) for v in values]
    found = _compiled.get(shape)
    if found is None:
        found = _compiled[shape] = compile_select(shape)
    return found(catalogue, values)


def unescape(text: str) -> str:
    """Return the value of a quoted string."""
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda m: _UNESCAPED.get(m[1], m[1]), text)


# --- functions ------------------------------------------------------------------------------------


def _like(value: str, pattern: str) -> bool:
    signs = {"%": ".*", "_": "."}
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    text = "".join(signs.get(p) or re.escape(p[-1]) for p in pieces)
    return re.fullmatch(text, value, re.DOTALL) is not None


def _json(text: str, *path: Any) -> Any:
    """Return a value inside JSON; numbers count from 1."""
    found = json.loads(text) if text else None
    for step in path:
        if isinstance(step, int) and isinstance(found, list):
            found = found[step - 1] if 0 < step <= len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def _hash(*values: Any) -> int:
    text = json.dumps(values, default=str).encode()
    return crc32(text) << 32 | crc32(text[::-1])


UNITS = {"millisecond": 1000, "second": 1}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tostring": str,
    "touuid": str,
    "startswith": lambda a, b: a.startswith(b),
    "endswith": lambda a, b: a.endswith(b),
    "match": lambda a, b: re.search(b, a) is not None,
    "like": _like,
    "position": lambda a, b: a.find(b) + 1,
    "concat": lambda *a: "".join(map(str, a)),
    "substring": lambda a, b, n=None: a[b - 1 :] if n is None else a[b - 1 : b - 1 + n],
    "has": lambda a, b: b in a,
    "hasany": lambda a, b: not set(a).isdisjoint(b),
    "arrayintersect": lambda a, b: [x for x in a if x in b],
    "arrayelement": lambda a, n: a[n - 1] if 0 < n <= len(a) else "",
    "length": len,
    "empty": lambda a: not a,
    "notempty": bool,
    "ifnull": lambda a, b: b if a is None else a,
    "coalesce": lambda *a: next((x for x in a if x is not None), None),
    "if": lambda c, a, b: a if c else b,
    "tounixtimestamp": lambda a: a,
    "todate": lambda a, zone: float(a) // 86_400,
    "todatetime64": lambda a, digits, zone: float(a),
    "touint8": int, "touint16": int, "touint32": int, "touint64": int, "toint32": int,
    "toint64": int,
    "datediff": lambda unit, a, b: int((b - a) * UNITS[unit]),
    "least": min,
    "greatest": max,
    "tuple": lambda *a: list(a),
    "array": lambda *a: list(a),
    "cast": lambda a, kind: a,
    "cityhash64": _hash,
    "isnull": lambda a: a is None,
    "assumenotnull": lambda a: a,
    "splitbychar": lambda c, a: a.split(c),
    "not": lambda a: not a,
    "arraymap": lambda f, *a: [f(*x) for x in zip(*a, strict=True)],
    "arrayfilter": lambda f, a: [x for x in a if f(x)],
    "arraycount": lambda f, a: sum(bool(f(x)) for x in a),
    "arrayexists": lambda f, a: any(f(x) for x in a),
    "arraysort": lambda a: sorted(a, key=_key),
    "arraydistinct": lambda a: [list(x) if isinstance(x, tuple) else x
                                for x in dict.fromkeys(map(_key, a))],
    "jsonextractstring": lambda a, *p: str(_json(a, *p) or ""),
    "jsonextractint": lambda a, *p: int(_json(a, *p) or 0),
    "jsonextractuint": lambda a, *p: int(_json(a, *p) or 0),
    "jsonextractarrayraw": lambda a, *p: [json.dumps(x) for x in _json(a, *p) or []],
}  # fmt: skip

AGGREGATES: dict[str, Callable[..., Any]] = {
    "count": lambda *a: len(a[0]) if a else 0,
    "sum": sum,
    "max": lambda a: max(a, default=0),
    "min": lambda a: min(a, default=0),
    "any": lambda a: a[0] if a else "",
    "uniqexact": lambda a: len(set(map(_key, a))),
    "uniq": lambda a: len(set(map(_key, a))),
    "sumif": lambda a, c: sum(x for x, y in zip(a, c, strict=True) if y),
    "countif": lambda c: sum(map(bool, c)),
    "maxif": lambda a, c: max((x for x, y in zip(a, c, strict=True) if y), default=0),
    "grouparrayif": lambda a, c: [x for x, y in zip(a, c, strict=True) if y],
    "minif": lambda a, c: min((x for x, y in zip(a, c, strict=True) if y), default=0),
    "argmax": lambda a, b: max(zip(b, range(len(b)), a, strict=True))[2] if a else 0,
    "argmin": lambda a, b: min(zip(b, range(len(b)), a, strict=True))[2] if a else 0,
    "argminif": lambda a, b, c: _arg(min, a, b, c),
    "argmaxif": lambda a, b, c: _arg(max, a, b, c),
    "anyif": lambda a, c: next((x for x, y in zip(a, c, strict=True) if y), ""),
    "grouparray": list,
    "groupuniqarray": lambda a: list(dict.fromkeys(a)),
    "groupuniqarrayarrayif": lambda a, c: list(
        dict.fromkeys(v for x, y in zip(a, c, strict=True) if y for v in x)
    ),
}


def _arg(which: Any, values: Any, by: Any, conditions: Any) -> Any:
    """Return the value at the least or greatest of those for which a condition holds."""
    found = [(b, n) for n, (b, c) in enumerate(zip(by, conditions, strict=True)) if c]
    return values[which(found)[1]] if found else ("" if values and values[0] == "" else 0)


def _key(value: Any) -> Any:
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else value


# --- parsing --------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(`(?:[^`\\]|\\.)*`|\w+|\?|->|<=|>=|!=|<>|\|\||::|.)", re.DOTALL)
_BINARY = {
    "or": 1, "and": 2, "=": 4, "==": 4, "!=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "in": 4, "like": 4, "not": 4, "is": 4, "between": 4, "||": 5, "+": 6, "-": 6, "*": 7, "/": 7,
    "%": 7, "[": 9,
}  # fmt: skip
_STOP = frozenset({
    "from", "where", "group", "order", "limit", "union", "as", "having", "settings", "format", "on",
    "using", "left", "inner", "join", "by", "desc", "asc", "and", "or", "not", "in", "like", "is",
    "prewhere", "global", "with", "over",
})  # fmt: skip


class UnknownSqlError(AssertionError):
    """A text that the model cannot answer: teach it, do not guess."""


class _Parser:
    """Compiles one text into the source of a function."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = _TOKEN.findall(text.strip())
        self.at = 0
        self.params = 0
        self.names = 0
        self.arguments: list[str] = []
        self.aliases: dict[str, Any] = {}
        self.named: dict[str, Any] = {}
        self.env: dict[str, Any] = {"A": AGGREGATES, "K": _key, "UNITS": UNITS}

    # tokens

    def peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.words[place].lower() if place < len(self.words) else ""

    def take(self, *wanted: str) -> bool:
        if [self.peek(i) for i in range(len(wanted))] != list(wanted):
            return False
        self.at += len(wanted)
        return True

    def need(self, *wanted: str) -> None:
        if not self.take(*wanted):
            raise self.unknown()

    def unknown(self) -> UnknownSqlError:
        rest = " ".join(self.words[self.at : self.at + 12])
        return UnknownSqlError(f"the model does not know {rest!r} in: {self.text}")

    def name(self) -> str:
        word = self.words[self.at] if self.at < len(self.words) else ""
        if not re.match(r"[`\w]", word):
            raise self.unknown()
        self.at += 1
        return word[1:-1].replace("\\`", "`") if word.startswith("`") else word

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # expressions: nested tuples

    def expression(self, least: int = 0) -> Any:
        left = self.primary()
        while (power := _BINARY.get(word := self.peek(), 0)) > least:
            if word == "not" and self.peek(1) not in ("in", "like", "between"):
                break
            self.at += 1
            negated = word == "not"
            if negated:
                word = self.peek()
                self.at += 1
            if word == "is":
                negated = self.take("not")
                self.need("null")
                left = ("call", "isnull", [left])
            elif word == "in":
                left = self.inside(left)
            elif word == "like":
                left = ("call", "like", [left, self.expression(power)])
            elif word == "between":
                low = self.expression(power)
                self.need("and")
                left = ("between", left, low, self.expression(power))
            elif word == "[":
                left = ("call", "arrayelement", [left, self.expression()])
                self.need("]")
            else:
                left = ("binary", word, left, self.expression(power))
            if negated:
                left = ("call", "not", [left])
        return left

    def inside(self, left: Any) -> Any:
        if self.peek() == "(" and self.peek(1) in ("select", "with"):
            self.need("(")
            select = self.select()
            self.need(")")
            return ("insub", left, select)
        if self.take("("):
            return ("in", left, self.values(")"))
        return ("binary", "in", left, self.primary())

    def values(self, end: str) -> list[Any]:
        found: list[Any] = []
        while not self.take(end):
            if found:
                self.need(",")
            found.append(self.aliased()[0])
        return found

    def aliased(self) -> tuple[Any, str]:
        expression = self.expression()
        if self.take("as"):
            alias = self.name()
            self.aliases[alias] = expression
            return expression, alias
        return expression, ""

    def primary(self) -> Any:
        word = self.peek()
        if word == "?":
            self.at += 1
            self.params += 1
            return ("param", self.params - 1)
        if word.isdigit():
            self.at += 1
            return ("number", word)
        if word == "not":
            self.at += 1
            return ("call", "not", [self.expression(3)])
        if word == "-":
            self.at += 1
            return ("negative", self.expression(8))
        if word == "*":
            self.at += 1
            return ("star",)
        if word == "[":
            self.at += 1
            return ("call", "array", self.values("]"))
        if word == "(":
            self.at += 1
            if self.peek() in ("select", "with"):
                select = self.select()
                self.need(")")
                return ("scalar", select)
            found = self.values(")")
            return found[0] if len(found) == 1 else ("call", "tuple", found)
        if word in _STOP:
            raise self.unknown()
        name = self.name()
        if self.peek() == "(":
            return self.call(name.lower())
        if self.take("->"):
            return ("lambda", name, self.expression())
        path = [name]
        while self.take("."):
            path.append(self.name())
        return ("column", path)

    def call(self, name: str) -> Any:
        self.need("(")
        self.take("distinct")
        values = self.values(")")
        if self.take("over"):
            self.need("(", "partition", "by")
            by = [self.expression()]
            while self.take(","):
                by.append(self.expression())
            self.need(")")
            return ("window", name, values, by)
        return ("call", name, values)

    # statements

    def select(self) -> Any:
        """Parse a SELECT with its UNIONs."""
        parts = [self.one_select()]
        while self.take("union", "all"):
            self.take("(")
            parts.append(self.one_select())
            self.take(")")
        return ("union", parts)

    def one_select(self) -> Any:
        # What WITH names is known in every SELECT inside.
        outer, outer_named = self.aliases, self.named
        self.aliases = dict(self.named)
        if self.take("with"):
            self.aliased()
            while self.take(","):
                self.aliased()
        self.named = dict(self.aliases)
        self.need("select")
        distinct = self.take("distinct")
        columns = [self.aliased()]
        while self.take(","):
            columns.append(self.aliased())
        source: Any = None
        join: Any = None
        where: list[Any] = []
        group: list[Any] = []
        order: list[Any] = []
        having = limit = None
        if self.take("from"):
            source = self.source()
            kind = "left" if self.take("left", "join") else ""
            kind = kind or ("inner" if self.take("inner", "join") or self.take("join") else "")
            if kind:
                right = self.source()
                self.need("using")
                paren = self.take("(")
                keys = [self.name()]
                while self.take(","):
                    keys.append(self.name())
                if paren:
                    self.need(")")
                join = (kind, right, keys)
        if self.take("where"):
            where = [self.expression()]
        if self.take("group", "by"):
            group = [self.expression()]
            while self.take(","):
                group.append(self.expression())
        if self.take("having"):
            having = self.expression()
        if self.take("order", "by"):
            while True:
                by = self.expression()
                order.append((by, self.take("desc")))
                self.take("asc")
                if not self.take(","):
                    break
        if self.take("limit"):
            limit = self.expression()
        if self.take("settings"):
            while self.peek() and self.peek() != ")":
                self.params += self.peek() == "?"
                self.at += 1
        found = (
            "select", dict(self.aliases), distinct, columns, source, join, where, group, having,
            order, limit,
        )  # fmt: skip
        self.aliases, self.named = outer, outer_named
        return found

    def source(self) -> Any:
        if self.take("("):
            found: Any = self.select()
            self.need(")")
        else:
            path = [self.name()]
            while self.take("."):
                path.append(self.name())
            if self.peek() == "(":
                raise self.unknown()
            found = ("table", path)
        alias = ""
        if self.take("as") or (self.peek() and self.peek() not in (*_STOP, ")", ",")):
            alias = self.name()
        return found, alias

    # code

    def output(self, tree: Any, alias: str, kind: str) -> str:
        """Return source of a column; inside of it, its own alias means what it is made of."""
        inside = bool(alias) and alias not in self.expanding
        if inside:
            self.expanding.add(alias)
        found = self.code(tree, kind)
        if inside:
            self.expanding.discard(alias)
        return found

    def code(self, tree: Any, kind: str) -> str:
        """Return source of a value; ``kind``: of one row ``r`` or of a group of rows ``g``."""
        what = tree[0]
        if what == "param":
            return f"P[{tree[1]}]"
        if what == "number":
            return str(tree[1])
        if what == "star":
            return "1"
        if what == "column":
            return self.column(tree[1], kind)
        if what == "negative":
            return f"(-{self.code(tree[1], kind)})"
        if what == "between":
            low, value, high = (self.code(tree[i], kind) for i in (2, 1, 3))
            return f"({low} <= {value} <= {high})"
        if what == "binary":
            return self.binary(tree, kind)
        if what == "in":
            constant = all(x[0] in ("param", "number") for x in tree[2])
            values = ", ".join(self.code(x, kind) for x in tree[2])
            members = f"{{{values}}}" if values else "()"
            return f"({self.code(tree[1], kind)} in {self.hoist(members) if constant else members})"
        if what == "insub":
            rows = self.hoist(f"{{K(x[0]) for x in {self.sub(tree[2])}(C, P)}}")
            return f"({self.code(tree[1], kind)} in {rows})"
        if what == "scalar":
            rows = self.hoist(f"{self.sub(tree[1])}(C, P)")
            return f"{rows}[0][0]"
        if what == "window":
            return self.window(tree)
        if what == "lambda":
            self.arguments.append(tree[1])
            body = self.code(tree[2], kind)
            self.arguments.pop()
            return f"(lambda {tree[1]}: {body})"
        if what == "call":
            return self.called(tree, kind)
        raise UnknownSqlError(f"{tree} in {self.text}")

    def binary(self, tree: Any, kind: str) -> str:
        left, right = self.code(tree[2], kind), self.code(tree[3], kind)
        operator = {"=": "==", "<>": "!="}.get(tree[1], tree[1])
        if operator == "||":
            return f"(str({left}) + str({right}))"
        return f"({left} {operator} {right})"

    def called(self, tree: Any, kind: str) -> str:
        name, values = tree[1], tree[2]
        if name in AGGREGATES and kind == "g":
            if name == "count" and (not values or values[0] == ("star",)):
                return "len(g)"
            lists = [f"[{self.code(v, 'r')} for r in g]" for v in values]
            return f"A[{name!r}]({', '.join(lists)})"
        arguments = ", ".join(self.code(v, kind) for v in values)
        if name == "if":
            c, a, b = (self.code(v, kind) for v in values)
            return f"({a} if {c} else {b})"
        if name in ("now64", "now"):
            return self.hoist("C.now")
        if name in ("getsetting", "throwif", "version", "timezone", "getserverport", "serveruuid",
                    "uptime"):  # fmt: skip
            return f"C.function({name!r}, [{arguments}])"
        if name == "array" and all(v[0] == "param" for v in values):
            return self.hoist(f"[{arguments}]")
        if name == "not":
            return f"(not {arguments})"
        if name == "tostring" and values[0][0] == "column":
            return f"str({arguments})"
        if name not in FUNCTIONS:
            raise UnknownSqlError(f"the model does not know the function {name}() of {self.text}")
        if name == "datediff" and values[0][0] == "param":
            unit = self.hoist(f"UNITS[P[{values[0][1]}]]")
            return f"int(({self.code(values[2], kind)} - {self.code(values[1], kind)}) * {unit})"
        self.env[f"f_{name}"] = FUNCTIONS[name]
        found = f"f_{name}({arguments})"
        # Once, and not for each row.
        return self.hoist(found) if all(v[0] in ("param", "number") for v in values) else found

    def column(self, path: list[str], kind: str) -> str:
        name = path[-1]
        if path[0] in self.arguments:
            return path[0]
        row = "g[0]" if kind == "g" else "r"
        if len(path) == 1 and name in self.aliases and name not in self.expanding:
            self.expanding.add(name)
            found = self.code(self.aliases[name], kind)
            self.expanding.discard(name)
            return found
        if len(path) > 1 and self.joined:
            return f"{row}[{'.'.join(path[-2:])!r}]"
        return f"{row}[{name!r}]"

    def window(self, tree: Any) -> str:
        name, values, by = tree[1:]
        groups, answers = self.fresh("g"), self.fresh("w")
        key = f"({', '.join(self.code(b, 'r') for b in by)},)"
        lists = ", ".join(f"[{self.code(v, 'r')} for r in rs]" for v in values)
        self.windows += [
            f"{groups} = {{}}",
            f"for r in rows: {groups}.setdefault({key}, []).append(r)",
            f"{answers} = {{k: A[{name!r}]({lists}) for k, rs in {groups}.items()}}",
        ]
        return f"{answers}[{key}]"

    def hoist(self, source: str) -> str:
        name = self.fresh("h")
        self.before.append(f"{name} = {source}")
        return name

    def sub(self, tree: Any) -> str:
        name = self.fresh("sub")
        self.env[name] = self.build(tree)
        return name

    def build(self, tree: Any) -> Compiled:
        """Return the function of a SELECT with UNIONs."""
        saved = {k: getattr(self, k, None) for k in (
            "aliases", "expanding", "joined", "windows", "before",
        )}  # fmt: skip
        parts = [self.build_one(part) for part in tree[1]]
        for key, value in saved.items():
            setattr(self, key, value)
        if len(parts) == 1:
            return parts[0]
        return lambda catalogue, values: [row for p in parts for row in p(catalogue, values)]

    def has_aggregate(self, tree: Any) -> bool:
        if not isinstance(tree, tuple | list):
            return False
        if tree and tree[0] == "call" and tree[1] in AGGREGATES:
            return True
        if tree and tree[0] in ("window", "scalar", "insub"):
            return False
        if tree and tree[0] == "column" and len(tree[1]) == 1:
            name = tree[1][0]
            inner = self.aliases.get(name)
            return inner is not None and inner != tree and self.has_aggregate(inner)
        return any(self.has_aggregate(one) for one in tree)

    def build_one(self, tree: Any) -> Compiled:
        (_, self.aliases, distinct, columns, source, join, where, group, having, order,
         limit) = tree  # fmt: skip
        self.expanding: set[str] = set()
        self.windows: list[str] = []
        self.before: list[str] = []
        self.joined = join is not None
        body = [f"rows = {self.rows(source)}"]
        if join is not None:
            body.append(f"rows = {self.join(source, join)}")
        aggregates = bool(group) or any(self.has_aggregate(c) for c, _ in columns)
        body += [f"rows = [r for r in rows if {self.code(c, 'r')}]" for c in where]
        kind = "r"
        if aggregates:
            kind = "g"
            if group:
                key = ", ".join(f"K({self.code(g, 'r')})" for g in group)
                body += ["groups = {}",
                         f"for r in rows: groups.setdefault(({key},), []).append(r)",
                         "groups = list(groups.values())"]  # fmt: skip
            else:
                body.append("groups = [rows]")
            if having:
                body.append(f"groups = [g for g in groups if {self.code(having, 'g')}]")
        each = "for g in groups" if aggregates else "for r in rows"
        for by, descending in reversed(order):
            value = self.code(by, kind)
            items = "groups" if aggregates else "rows"
            body.append(f"{items} = sorted({items}, key=lambda {kind}: {value}, "
                        f"reverse={descending})")  # fmt: skip
        joined = [c for c, _ in columns if c[0] == "call" and c[1] == "arrayjoin"]
        if joined and len(columns) == 1:
            body.append(f"found = [[x] {each} for x in {self.code(joined[0][2][0], kind)}]")
        elif columns[0][0] == ("star",):
            body.append("found = [list(r.values()) for r in rows]")
        else:
            made = ", ".join(self.output(c, alias, kind) for c, alias in columns)
            body.append(f"found = [[{made}] {each}]")
        if distinct:
            body.append("found = [list(x) for x in dict.fromkeys(K(x) for x in found)]")
        if limit is not None:
            body.append(f"found = found[:{self.code(limit, 'r')}]")
        # Windows see the rows after WHERE and before they are projected.
        at = next(i for i, line in enumerate(body) if line.startswith("found ="))
        at = min([at, *(i for i, x in enumerate(body) if x.startswith("groups ="))])
        lines = [*self.before, *body[:at], *self.windows, *body[at:], "return found"]
        text = "def made(C, P):\n" + "".join(f"    {line}\n" for line in lines)
        scope: dict[str, Any] = self.env
        exec(text, scope)  # noqa: S102 - made of our own text, for speed
        made_function: Compiled = scope["made"]
        return made_function

    def rows(self, source: Any) -> str:
        if source is None:
            return "[{}]"
        (what, *rest), _ = source
        if what == "table":
            path = rest[0]
            database, table = path if len(path) == 2 else ("", path[0])
            return f"C.rows_of({database!r}, {table!r})"
        names = self.output_names((what, *rest))
        return f"[dict(zip({names!r}, x)) for x in {self.sub((what, *rest))}(C, P)]"

    def output_names(self, tree: Any) -> tuple[str, ...]:
        first = tree[1][0]
        return tuple(
            alias or (c[1][-1] if c[0] == "column" else f"_{i}")
            for i, (c, alias) in enumerate(first[3])
        )

    def join(self, source: Any, join: Any) -> str:
        kind, right, keys = join
        name = self.fresh("join")
        left_alias, right_alias = source[1], right[1]
        right_names = self.output_names(right[0]) if right[0][0] != "table" else ()

        def carry_out(left: list[Row], others: list[Row]) -> list[Row]:
            by_key: dict[Any, list[Row]] = {}
            for r in others:
                by_key.setdefault(tuple(r[k] for k in keys), []).append(r)
            missing = dict.fromkeys(right_names or (others[0] if others else ()), 0)
            found = []
            for r in left:
                fits = by_key.get(tuple(r[k] for k in keys))
                found += [
                    {
                        **other, **r,
                        **{f"{left_alias}.{k}": v for k, v in r.items()},
                        **{f"{right_alias}.{k}": v for k, v in other.items()},
                    }
                    for other in fits or ([missing] if kind == "left" else [])
                ]  # fmt: skip
            return found

        self.env[name] = carry_out
        return f"{name}(rows, {self.rows(right)})"


def compile_select(shape: str) -> Compiled:
    """Return the function that answers a SELECT whose literals are ``?``."""
    parser = _Parser(shape)
    tree = parser.select()
    if parser.at != len(parser.words):
        raise parser.unknown()
    return parser.build(tree)
