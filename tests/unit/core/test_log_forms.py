"""Which first lines are a log, and what stands behind the fields of an access log."""

from __future__ import annotations

import pytest

from rowfall.core.log_forms import fields_behind, form_of

LINE = '::1 - - [31/Jan/2024:10:00:00 +0100] "GET / HTTP/1.1" 200 12'


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (LINE, "nginx"),
        (f'{LINE} "-" "curl" 0.25', "nginx"),
        ("ts=1 level=info retry", "logfmt"),
        ("Jan 31 10:00:00 host sshd[7]: session opened user=root uid=0", ""),
        ("2024-01-31 10:00:00 INFO loaded rows=5", ""),
    ],
)
def test_the_form_of_a_line(line: str, form: str) -> None:
    assert form_of(f"{line}\n".encode() * 5) == form


def test_lines_that_each_begin_with_a_word_of_their_own_are_no_log() -> None:
    lines = "".join(f'{n} country="Land {n}" code="{n}!a"\n' for n in range(9))
    assert form_of(lines.encode()) == ""
    assert form_of(b"debug ts=1 level=low\n" * 9) == "logfmt"


def test_fields_behind_those_of_common() -> None:
    assert fields_behind(LINE) == []
    assert fields_behind(f'{LINE} "-" "a \\"b\\"" 0.25 -\r') == ['"-"', '"a \\"b\\""', "0.25", "-"]
