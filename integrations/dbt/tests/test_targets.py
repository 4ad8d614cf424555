"""Credentials as addresses, and blocks as a project file."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from rowfall_dbt.project import ProjectError, SourceTable
from rowfall_dbt.projectfile import text_of
from rowfall_dbt.targets import CannotTranslateError, Relation, Target, target_of

_SECRET = "p@ss/word?&"


def postgres(**values: Any) -> Any:
    given = {
        "type": "postgres", "host": "h", "port": 5432, "user": "a b", "password": _SECRET,
        "database": "shop", "schema": "public", "role": None, "sslmode": None,
    }  # fmt: skip
    return SimpleNamespace(**{**given, **values})


def clickhouse(**values: Any) -> Any:
    given = {
        "type": "clickhouse", "host": "ch", "port": None, "user": "me", "password": _SECRET,
        "schema": "marts", "secure": False, "verify": True, "client_cert": None, "cluster": None,
        "custom_settings": None, "driver": None,
    }  # fmt: skip
    return SimpleNamespace(**{**given, **values})


def duckdb(**values: Any) -> Any:
    attached = SimpleNamespace(path="lake.duckdb", alias=None)
    given = {
        "type": "duckdb", "path": "shop.duckdb", "database": "shop", "schema": "main",
        "attach": [attached],
    }  # fmt: skip
    return SimpleNamespace(**{**given, **values})


_TABLE = Relation(schema="raw", table="orders")


@pytest.mark.parametrize(
    ("credentials", "relation", "target"),
    [
        (
            postgres(sslmode="verify-full", sslrootcert="/ca.pem"),
            _TABLE,
            Target(
                "postgresql://a%20b@h:5432/shop?sslmode=verify-full&sslrootcert=%2Fca.pem",
                "raw.orders", _SECRET,
            ),
        ),
        (
            postgres(host="::1"),
            Relation(),
            Target("postgresql://a%20b@[::1]:5432/shop?schema=public", "", _SECRET),
        ),
        (clickhouse(), _TABLE, Target("clickhouse://me@ch/raw", "orders", _SECRET)),
        (
            clickhouse(secure=True, port=8443, cluster="c1", custom_settings={"a": True}),
            Relation(),
            Target("clickhouses://me@ch:8443/marts?cluster=c1&a=1", "", _SECRET),
        ),
        (clickhouse(driver="native", port=9000), _TABLE, Target(
            "clickhouse://me@ch/raw", "orders", _SECRET
        )),
        (duckdb(), _TABLE, Target("duckdb:///project/shop.duckdb", "raw.orders", "")),
        (
            duckdb(),
            Relation("lake", "raw", "orders"),
            Target("duckdb:///project/lake.duckdb", "raw.orders", ""),
        ),
        (
            duckdb(path="/my data/x.db"),
            Relation(),
            Target("duckdb:///my%20data/x.db?schema=main", "", ""),
        ),
    ],
)  # fmt: skip
def test_credentials_are_targets(credentials: Any, relation: Relation, target: Target) -> None:
    assert target_of(credentials, relation, "/project") == target


@pytest.mark.parametrize(
    ("credentials", "relation", "why"),
    [
        (SimpleNamespace(type="snowflake"), _TABLE, "takes clickhouse, duckdb, postgres"),
        (postgres(role="owner"), _TABLE, "role owner"),
        (clickhouse(verify=False), _TABLE, "verify: false"),
        (duckdb(path="md:shop"), _TABLE, "md:shop"),
        (duckdb(), Relation("other", "raw", "t"), "other is neither"),
    ],
)
def test_what_rowfall_cannot_do_is_said(credentials: Any, relation: Relation, why: str) -> None:
    with pytest.raises(CannotTranslateError, match=why) as error:
        target_of(credentials, relation, "/project")
    assert _SECRET not in str(error.value)


def test_blocks_are_loads_of_a_project_file() -> None:
    values = {
        "source": ["a.csv", 'b "2".csv'], "header": True, "max_errors": 3, "nothing": None,
        "set": {"a.b": 1, "c": "\\d\x7f\n"}, "needs": ["shop.items", "shop.unselected"],
    }  # fmt: skip
    orders = SourceTable("shop.orders", _TABLE, values, "models/s.yml")
    items = SourceTable("shop.items", _TABLE, {"source": "i.csv"}, "models/s.yml")
    target = Target("duckdb:///x.duckdb", "raw.orders", _SECRET)
    text = text_of([(orders, target), (items, target)])
    assert _SECRET not in text
    assert tomllib.loads(text)["loads"] == {
        "shop--orders": {
            "source": ["a.csv", 'b "2".csv'], "header": True, "max_errors": 3,
            "set": {"a.b": 1, "c": "\\d\x7f\n"}, "needs": ["shop--items"],
            "to": "duckdb:///x.duckdb", "table": "raw.orders",
        },
        "shop--items": {"source": "i.csv", "to": "duckdb:///x.duckdb", "table": "raw.orders"},
    }  # fmt: skip


def test_a_value_that_toml_has_not_is_named() -> None:
    table = SourceTable("s.t", _TABLE, {"source": "a", "where": object()}, "models/s.yml")
    with pytest.raises(ProjectError, match=r"models/s.yml: meta.rowfall of s.t holds"):
        text_of([(table, Target("x", "t", ""))])
