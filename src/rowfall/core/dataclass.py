"""Make dataclasses in a tenth of the time: a load defines 170 and makes objects of a third of them.

The standard library compiles five functions for each class, 0.6 ms, which was half of the time that
a command took to import itself. Here ``__init__`` is compiled when some objects have been made, and
what it is compared, shown and copied by needs no compiling. Type checkers see the standard one, and
``replace``, ``fields`` and ``asdict`` of the standard library work on both.
"""

# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204 - type checkers see another one

from __future__ import annotations

import dataclasses
from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    _MISSING = dataclasses.MISSING
    _GIVEN = "__dataclass_given__"  # name -> annotation and default, those of bases first
    # To compile __init__ takes 0.2 ms, and saves 3 us of each object after that; of most classes
    # a load makes one or two.
    _COMPILED_FROM = 32

    def dataclass(*, frozen=False, slots=False, eq=True):
        """Make a dataclass as :func:`dataclasses.dataclass` does, of what rowfall uses of it.

        Not known: ``order``, ``kw_only``, ``InitVar``, and ``hash`` of a field.
        """
        return lambda cls: _made(cls, frozen, slots, eq)

    def _made(cls, frozen, slots, eq):
        namespace = dict(cls.__dict__)
        own = {
            name: (annotation, namespace.get(name, _MISSING))
            for name, annotation in namespace.get("__annotations__", {}).items()
            if not annotation.startswith("ClassVar")
        }
        given, slotted = {}, set()
        for base in reversed(cls.__mro__[1:]):
            given |= base.__dict__.get(_GIVEN, {})
            slotted.update(base.__dict__.get("__slots__", ()))
        given |= own
        namespace[_GIVEN] = given
        for name, (_, default) in own.items():
            if slots:
                namespace.pop(name, None)
            elif isinstance(default, dataclasses.Field):
                del namespace[name]
                if default.default is not _MISSING:
                    namespace[name] = default.default
        if slots:
            namespace["__slots__"] = tuple(name for name in own if name not in slotted)
        namespace.pop("__dict__", None)
        namespace.pop("__weakref__", None)
        namespace["__dataclass_fields__"] = _Late(_fields)
        namespace["__dataclass_params__"] = _Late(_params, frozen, eq)
        namespace.setdefault("__match_args__", tuple(n for n, g in given.items() if _is(g, "init")))
        namespace.setdefault("__repr__", _repr)
        compared = [name for name, one in given.items() if _is(one, "compare")]
        if eq:
            _add_comparison(namespace, compared, frozen=frozen)
        if frozen:
            _add_refusal(namespace, given)
            if slots:
                namespace.setdefault("__getstate__", _get_state)
                namespace.setdefault("__setstate__", _set_state)
        late = "__init__" not in namespace
        if late:
            left = _COMPILED_FROM

            def __init__(self, /, *args, **values):  # noqa: N807 - it is one
                nonlocal left
                left -= 1
                # What does not fit is said by the compiled one, in Python's own words.
                if left < 0 or not _fill(self, given, args, values):
                    _compile_init(made, frozen)(self, *args, **values)

            namespace["__init__"] = __init__
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        return made

    def _is(given, what):
        """Tell whether a field takes part in what; fields do unless they say otherwise."""
        default = given[1]
        return getattr(default, what) if isinstance(default, dataclasses.Field) else True

    class _Late:
        """An attribute of a class that is made when it is asked for."""

        def __init__(self, make, *more):
            self._make, self._more = make, more

        def __set_name__(self, owner, name):
            self._owner, self._name = owner, name

        def __get__(self, instance, owner):
            made = self._make(self._owner, *self._more)
            setattr(self._owner, self._name, made)
            return made

    def _fields(cls):
        found = {}
        for name, (annotation, default) in getattr(cls, _GIVEN).items():
            if not isinstance(default, dataclasses.Field):
                default = dataclasses.field(default=default)
            default.name, default.type, default.kw_only = name, annotation, False
            default._field_type = dataclasses._FIELD
            found[name] = default
        return found

    def _params(_, frozen, eq):
        asked = {"init": True, "repr": True, "eq": eq, "order": False, "unsafe_hash": False}
        probe = dataclasses.dataclass(**asked, frozen=frozen)(type("probe", (), {"__doc__": "."}))
        return probe.__dataclass_params__

    def _fill(self, given, args, values):
        """Set the fields of a new object as ``__init__`` does; return False for other arguments."""
        found, at, used = [], 0, 0
        for name, (_, default) in given.items():
            field = default if isinstance(default, dataclasses.Field) else None
            if field is None or field.init:
                if at < len(args):
                    if name in values:
                        return False
                    found.append((name, args[at]))
                    at += 1
                    continue
                if name in values:
                    found.append((name, values[name]))
                    used += 1
                    continue
            value = field.default if field else default
            if field and field.default_factory is not _MISSING:
                value = field.default_factory()
            if value is not _MISSING:
                found.append((name, value))
            elif field is None or field.init:
                return False  # else __post_init__ gives it
        if at < len(args) or used < len(values):
            return False
        for name, value in found:
            object.__setattr__(self, name, value)
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()
        return True

    def _compile_init(cls, frozen):
        """Compile ``__init__`` of a class and put it there; return it."""
        takes, sets, names = [], [], {"_missing": _MISSING}
        for at, (name, (_, default)) in enumerate(getattr(cls, _GIVEN).items()):
            field = default if isinstance(default, dataclasses.Field) else None
            value = field.default if field else default
            made = field.default_factory if field else _MISSING
            given = name
            if made is not _MISSING:
                names[f"_made{at}"] = made
                given = f"_made{at}()"
                if field.init:
                    takes.append(f"{name}=_missing")
                    given = f"{given} if {name} is _missing else {name}"
            elif field is not None and not field.init and value is _MISSING:
                continue  # __post_init__ gives it
            elif value is not _MISSING:
                names[f"_default{at}"] = value
                takes.append(f"{name}=_default{at}")
            else:
                takes.append(name)
            if frozen:
                # The slot's own setter: it is faster than object.__setattr__, and is not refused.
                slot = getattr(cls, name, None)
                setter = getattr(slot, "__set__", None)
                names[f"_set{at}"] = setter or (lambda o, v, n=name: object.__setattr__(o, n, v))
                sets.append(f"_set{at}(self, {given})")
            else:
                sets.append(f"self.{name} = {given}")
        if hasattr(cls, "__post_init__"):
            sets.append("self.__post_init__()")
        body = "\n ".join(sets) or "pass"
        exec(f"def __init__(self, {', '.join(takes)}):\n {body}", names)  # noqa: S102 - our names
        init = names["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = init
        return init

    def _add_comparison(namespace, names, *, frozen):
        """Give a class ``__eq__``, and ``__hash__`` if its objects stay as they are."""
        # As tuples, also where there is one field: those take two of one identity as equal.
        get = attrgetter(*names) if names else None
        if len(names) == 1:
            (name,) = names

            def key(one):
                return (getattr(one, name),)
        else:
            key = get or (lambda _: ())

        def __eq__(self, other):  # noqa: N807 - it is one
            if other.__class__ is self.__class__:
                return key(self) == key(other)
            return NotImplemented

        def __hash__(self):  # noqa: N807 - it is one
            return hash(key(self))

        own = "__eq__" in namespace
        namespace.setdefault("__eq__", __eq__)
        # A class with an __eq__ of its own gets __hash__ = None from Python.
        if namespace.get("__hash__") is None and (own or "__hash__" not in namespace):
            namespace["__hash__"] = __hash__ if frozen else None

    def _repr(self):
        shown = (n for n, one in getattr(self, _GIVEN).items() if _is(one, "repr"))
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({inside})"

    def _add_refusal(namespace, given):
        """Let nobody assign to the fields; a class below may have others."""

        def __setattr__(self, name, value):  # noqa: N807 - it is one
            if name in given or not hasattr(self, "__dict__"):
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            object.__setattr__(self, name, value)

        def __delattr__(self, name):  # noqa: N807 - it is one
            if name in given or not hasattr(self, "__dict__"):
                raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
            object.__delattr__(self, name)

        namespace["__setattr__"], namespace["__delattr__"] = __setattr__, __delattr__

    def _get_state(self):
        return [getattr(self, name) for name in getattr(self, _GIVEN)]

    def _set_state(self, state):
        for name, value in zip(getattr(self, _GIVEN), state, strict=True):
            object.__setattr__(self, name, value)
