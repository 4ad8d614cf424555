"""Tables as the database of a source declares them, for a new table in a database of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rowfall.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NativeType:
    """The type of a column in its database.

    Attributes:
        declared: as it stands in CREATE TABLE: ``character varying(20)``.
        name: by which the database knows it, without its arguments: ``varchar``.
        nullable: the column may be NULL.
        plain: what is declared where other columns of the table are missing, without what may
            refer to them; "" for the same.
        computed: the database gives the values, and takes none.
    """

    declared: str
    name: str
    nullable: bool = True
    plain: str = ""
    computed: bool = False


@dataclass(frozen=True, slots=True)
class NativeKey:
    """An index or a CHECK of a table, as it stands in CREATE TABLE.

    Attributes:
        unique: values may not repeat. ``check``: it is a CHECK.
    """

    text: str
    unique: bool = False
    check: bool = False


@dataclass(frozen=True, slots=True)
class NativeTable:
    """Describes a table of a source in the words of its own database.

    Attributes:
        system: whose types they are: ``postgresql``.
        types: by column. One is missing whose values do not come in a form that its type takes.
        key: columns of the primary key, in its order; () for none.
        keys: the others, for a table of all columns. ``options``: of the table, behind them.
        version: of the server; an older one may not know all of the words.
    """

    system: str
    types: Mapping[str, NativeType] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    keys: tuple[NativeKey, ...] = ()
    options: str = ""
    version: tuple[int, ...] = ()
