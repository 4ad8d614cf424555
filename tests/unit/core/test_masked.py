"""What foreign text shows of secrets."""

from __future__ import annotations

import pytest

from rowfall.core.masked import redact


@pytest.mark.parametrize(("text", "shown"), [
    # A query names an address, and the engine repeats it: this was shown as it was typed.
    ("no table 's3://id:Zq7@bucket/a.csv'", "no table 's3://id:[HIDDEN]@bucket/a.csv'"),
    ("clickhouse://u:Zq7@h:9000/d", "clickhouse://u:[HIDDEN]@h:9000/d"),
    ("nearly postgresql:/u:Zq7@h/d", "nearly postgresql:/u:[HIDDEN]@h/d"),
    ("C:/a/b:c@d", "C:/a/b:c@d"),
    ("http://h/a.csv#Zq7 is gone", "http://h/a.csv#[HIDDEN] is gone"),
    ("http://u:Zq7@h/a?token=Zq7&page=1", "http://[HIDDEN]@h/a?token=[HIDDEN]&page=1"),
    ("See https://h/docs#some-place.", "See https://h/docs#some-place."),
    ("clickhouse://h:8123/d of a@b.example", "clickhouse://h:8123/d of a@b.example"),
])  # fmt: skip
def test_secrets_in_addresses_of_foreign_text(text: str, shown: str) -> None:
    assert redact(text) == shown
