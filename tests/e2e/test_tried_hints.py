"""What a hint names has been tried on the row at hand: pasted, it loads that row."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

import pytest

from e2e.test_hint_commands import typed
from e2e.tools import Shell
from rowfall.core.model import Dialect
from rowfall.schema.text.marked_values import suggest

# Behind the sample, and behind what the decoder and the engine read at once.
MANY = 25_000


@dataclass(frozen=True, slots=True)
class Bad:
    """A file whose last row does not fit.

    Attributes:
        given: options of the load that fails.
        hint: options that it names; "" for none but ``--max-errors``.
        stored: what the last row is then, as text.
    """

    name: str
    text: str
    given: tuple[str, ...]
    hint: str
    stored: str


LONDON = "DateTime('Europe/London')"
BAD = {
    "an hour that was left out": Bad(
        "in.csv", "v\n2024-03-30 01:30:00\n2024-03-31 01:30:00\n",
        ("--schema", f"v {LONDON}"), "v String", "2024-03-31 01:30:00",
    ),
    "a leap second": Bad(
        "in.csv", "v\n2016-12-31 23:59:58\n2016-12-31 23:59:60\n",
        ("--schema", "v DateTime('UTC')"), "v String", "2016-12-31 23:59:60",
    ),
    "hour 24": Bad(
        "in.csv", "v\n2016-12-31 23:59:58\n2016-12-31 24:00:00\n",
        ("--schema", "v DateTime64(3, 'UTC')"), "v String", "2016-12-31 24:00:00",
    ),
    "a month of 13": Bad(
        "in.csv", "v\n2016-12-31\n2016-13-01\n", ("--schema", "v Date"), "v String", "2016-13-01",
    ),
    "a day before 1970": Bad(
        "in.csv", "v\n2016-12-31\n1950-01-01\n", ("--schema", "v Date"), "v Date32", "1950-01-01",
    ),
    "a fraction among integers": Bad(
        "in.csv", "v\n1\n1.5\n", ("--schema", "v Int16"), "v Float64", "1.5",
    ),
    "a short time of day": Bad(
        "in.csv", "v\n01:02:03\n1:2:3\n", ("--schema", "v Time", "--header", "yes"), "v String",
        "1:2:3",
    ),
    "empty text behind numbers": Bad(
        "in.jsonl", '{"v":1}\n' * MANY + '{"v":""}\n', (), "v String", "",
    ),
    "a fraction in an array": Bad(
        "in.jsonl", '{"v":[1]}\n' * MANY + '{"v":[1.5]}\n', (), "v Array(Nullable(Float64))",
        "[1.5]",
    ),
    "a fraction among long integers": Bad(
        "in.jsonl", '{"v":[9007199254740993]}\n{"v":[1.5]}\n', ("--schema", "v Array(Int64)"),
        "v Array(String)", "['1.5']",
    ),
    "another key": Bad(
        "in.jsonl", '{"v":{"a":1}}\n' * MANY + '{"v":{"b":1}}\n', (), "v JSON", '{"b":1}',
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mark", [",", pytest.param("\t", marks=pytest.mark.long)])
def test_a_row_that_begins_as_comments_do_is_no_comment_behind_the_sample(
    shell: Shell, mark: str
) -> None:
    """Such rows were left out without a word: only the options say what they are."""
    name = "in.csv" if mark == "," else "in.tsv"
    body = f"# by hand\nname{mark}v\n" + f"abcdefghij{mark}12345\n" * MANY
    shell.write(name, f"{body}# half\n#42{mark}7\nlast{mark}8\n")
    told = shell.ends(1, "load", name).talk
    assert f"line {MANY + 4} begins with # as comments do, and has the fields of a row" in told
    assert "--comment '#' leaves such lines out, --comment none keeps them" in told
    left = shell.ok("load", name, "--table", "left", "--max-errors", "1").talk
    assert "rejected 1 bad row" in left
    shell.ok("load", name, "--comment", "#")
    for table in ("left", "in"):
        assert shell.row(f"SELECT count(), max(name) FROM `{table}`") == [MANY + 1, "last"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BAD)
def test_types_that_hints_name_take_the_value(shell: Shell, name: str) -> None:
    bad = BAD[name]
    shell.write(bad.name, bad.text)
    failed = shell.ends(1, "load", bad.name, "--table", "t", *bad.given)
    found = re.search(r"(--widen|--table NAME) (--type '(?:[^']|'\"'\"')*')", failed.talk)
    assert found, failed.talk
    option, type_ = shlex.split(found[2])
    assert type_ == bad.hint
    rows = bad.text.count("\n") - bad.name.endswith(".csv")
    shown = bad.stored.replace("'", "\\'")
    last = f"SELECT count(), countIf(toString(v) = '{shown}') > 0 FROM "
    if found[1] == "--widen":
        shell.ok("load", bad.name, "--table", "t", *bad.given, "--widen", option, type_)
        assert shell.row(f"{last} t") == [rows, 1]
    shell.ok("load", bad.name, "--table", "u", *bad.given, option, type_)
    assert shell.row(f"{last} u") == [rows, 1]
    assert "leave bad rows out with --max-errors N" in failed.talk
    shell.ok("load", bad.name, "--table", "w", *bad.given, "--max-errors", "1")
    assert shell.row("SELECT count() FROM w") == [rows - 1]


SHORT = {
    # Types of a table that is there; options of the hint; what the short rows are then.
    "inferred": ("", "--widen --type 'n Nullable(Int64)' --short-rows null", [[1, "a", None]]),
    "a table": ("id Int64, s String, n UInt8",
                "--widen --type 'n Nullable(UInt8)' --short-rows null", [[1, "a", None]]),
    "a table that takes NULL": ("id Int64, s String, n Nullable(UInt8)", "--short-rows null",
                                [[1, "a", None]]),
    "a key": ("id Int64, s String, n UInt8 ORDER BY n",
              "--table NAME --type 'n Nullable(UInt8)' --short-rows null", [[1, "a", None]]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("decoder", ["auto", "never"])
@pytest.mark.sampled(3)
def test_a_short_row_is_filled_where_its_columns_take_null(
    shell: Shell, name: str, decoder: str
) -> None:
    """--short-rows null was named for any: pasted, the column was "empty, and takes no NULL"."""
    there, wanted, rows = SHORT[name]
    columns, _, order = there.partition(" ORDER BY ")
    shell.write("in.csv", "id,s,n\n" + "0,b,7\n" * MANY + "1,a\n")
    shell.write("seed.csv", "id\n1\n")
    shell.ok("load", "seed.csv")
    if there:
        shell.ok("query", "--write", f"CREATE TABLE t ({columns}) ORDER BY {order or 'id'}")
    given = ("load", "in.csv", "--decoder", decoder)
    failed = shell.ends(1, *given, "--table", "t")
    said = " ".join(failed.talk.split())
    assert f"in.csv line {MANY + 2} has 2 fields instead of 3" in said
    option = r"(?:--widen |--[\w-]+ (?:'[^']*'|\w+) ?)+"
    found = re.search(rf"hint: (?:Load it (?:into a new table )?with )?({option})", said)
    assert found, said
    assert found[1].strip() == wanted
    table = () if "--table" in wanted else ("--table", "t")
    shell.ok(*given, *table, *shlex.split(found[1]))
    table_ = "NAME" if "--table" in wanted else "t"
    assert shell.rows(f"SELECT id, s, n FROM {table_} WHERE id = 1") == rows
    assert shell.row(f"SELECT count() FROM {table_}") == [MANY + 1]


def test_rows_that_no_option_fills_are_not_said_to_be_filled(shell: Shell) -> None:
    """A header with a name too many; where other rows have one too many, nothing fills them."""
    shell.write("a.csv", "a,b,c\n1,2\n3,4\n")
    refused = shell.ends(2, "load", "a.csv")
    assert "--short-rows null fills the columns" in refused.talk
    shell.ok("load", "a.csv", "--short-rows", "null")
    shell.write("b.csv", "a,b,c\n1,2\n3,4\n1,2,3,4\n5,6\n")
    assert "--short-rows" not in shell.ends(2, "load", "b.csv").talk
    shell.ends(1, "load", "b.csv", "--short-rows", "null")


FAULTS = {
    "a key twice": ('{"a":1,"a":2}', "has the key a twice"),
    "NaN": ('{"a":NaN}', "holds NaN, which JSON does not have"),
    "minus infinity": ('{"a":[-Infinity, 1]}', "holds -Infinity, which JSON does not have"),
    "half a pair": (r'{"a":"\ud83dx"}', r"holds \ud83d, half of a character"),
    "an escape twice": (r'{"a":"\\ud83d\ud83d\ude00 \ude00"}', r"holds \ude00, half of a"),
    "a line of text": ("oops", "is not a JSON object: oops"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("before", [0, 3, MANY], ids=["alone", "in the sample", "behind it"])
def test_lines_that_are_no_json(shell: Shell, name: str, before: int) -> None:
    line, said = FAULTS[name]
    good = '{"a":[1]}\n' if "[" in line else '{"a":"1"}\n' if "u" in line else '{"a":1}\n'
    shell.write("in.jsonl", good * before + line + "\n")
    failed = shell.run("load", "in.jsonl", "--table", "t")
    assert failed.code in (1, 4)
    assert f"in.jsonl line {before + 1} {said}" in failed.talk
    assert ("--max-errors" in failed.talk) == (before > 0)
    if before:
        shell.ok("load", "in.jsonl", "--table", "w", "--max-errors", "1")
        assert shell.row("SELECT count() FROM w") == [before]
    elif "LineAsString" in failed.talk:
        shell.ok("load", "in.jsonl", "--table", "NAME", "--format", "LineAsString")
        assert shell.rows("SELECT line FROM NAME") == [[line]]
    command = re.search(r"(sed -E .*--table NAME.*)", failed.err)
    assert bool(command) == ("which JSON does not have" in said)
    if command:
        done = typed(shell, command[1])
        assert done.code == 0, done.err
        assert shell.row("SELECT count() FROM NAME") == [before + 1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("type_", ["Int32", "Int64", "UInt256", "Nullable(Int16)", "Array(Int8)"])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_whole_numbers_of_json_may_be_written_with_a_point(
    shell: Shell, type_: str, decoder: str
) -> None:
    """One rule for each width: 1.0 is 1, and a number that is only near to 1 is none."""

    def text(number: str) -> str:
        return f'{{"v":[{number}]}}\n' if "Array" in type_ else f'{{"v":{number}}}\n'

    given = ("--table", "t", "--schema", f"v {type_}", "--decoder", decoder)
    shell.write("in.jsonl", text("7") + text("1.0") + text("0.00"))
    shell.ok("load", "in.jsonl", *given)
    value = "v[1]" if "Array" in type_ else "v"
    assert shell.row(f"SELECT count(), sum({value}) FROM t") == [3, 8]
    for number in ("1.5", "0.99999999999999999999", "1e400", "1e2"):
        shell.write("odd.jsonl", text(number))
        failed = shell.ends(1, "load", "odd.jsonl", *given)
        assert 'odd.jsonl line 1 column "v": "' in failed.talk


def test_a_delimiter_that_does_not_fit_each_line_is_not_named(shell: Shell) -> None:
    """Two fields above three: what splits most lines is refused when it is pasted."""
    shell.write("a.csv", "t\n01:02:03\n1:2:3\n")
    shell.write("b.csv", "k;v\n1;2\n3;4;5\n6;7\n8;9\n")
    for name in ("a.csv", "b.csv"):
        given = ("--delimiter", ",") if name == "b.csv" else ()
        done = shell.ok("load", name, *given)
        assert not re.search(r"--delimiter ['\"]?[:;]", done.talk), done.talk
        if name == "a.csv":
            assert shell.run("load", name, "--delimiter", ":", "--table", "u").code != 0
    # One that does is named, and reads it.
    shell.write("c.csv", "k;v;w\n1;2;x\n3;4;y\n5;6;z\n")
    told = shell.ok("load", "c.csv", "--delimiter", ",")
    found = re.search(r"(--delimiter (?!,)\S+)", told.talk)
    assert found, told.talk
    shell.ok("load", "c.csv", "--table", "v", *shlex.split(found[1]))
    assert shell.row("SELECT count(), sum(k) FROM v") == [3, 9]


@pytest.mark.parametrize("order", [("a.csv", "b.csv"), ("b.csv", "a.csv")], ids=str)
def test_files_with_their_columns_in_another_order_keep_their_types(
    shell: Shell, order: tuple[str, str]
) -> None:
    """Values of the sample were compared by their place, and all became text."""
    shell.write("a.csv", "id,v,d\n1,2.5,2024-01-01\n2,3.5,2024-01-02\n")
    shell.write("b.csv", "v,d,id\n2.5,2024-01-01,3\n")
    shell.ok("load", *order, "--table", "t")
    assert shell.row("SELECT count(), sum(id), sum(v), max(d) FROM t") == [3, 6, 8.5, "2024-01-02"]


def test_a_header_that_stands_again_among_text_is_said_before_the_first_row(shell: Shell) -> None:
    shell.write("a.csv", "name,city\nbob,Oslo\nann,Rome\nname,city\ntom,Bern\n")
    done = shell.ok("load", "a.csv", "--table", "t")
    assert "the header stands again in 1 of the lines seen" in done.talk
    assert done.talk.index("stands again") < done.talk.index("creating")
    command = re.search(r"if that is wrong: (rowfall load .*--replace)", done.talk)
    assert command
    assert typed(shell, command[1]).code == 0
    assert shell.rows("SELECT name FROM t ORDER BY name") == [["ann"], ["bob"], ["tom"]]
    # Rows of the same few words stand again, too.
    shell.write("b.csv", "yes,no\nno,yes\nyes,no\nno,no\n")
    assert "stands again" not in shell.ok("load", "b.csv", "--table", "u").talk
    assert shell.row("SELECT count() FROM u") == [4]


def test_lines_above_the_rows_are_left_out_by_the_option_that_is_named(shell: Shell) -> None:
    shell.write("a.csv", "Report,,\nOslo,Ann,x\nBern,Bob,y\nRome,Cid,z\n")
    done = shell.ok("load", "a.csv", "--table", "t")
    assert "the first line holds one value at most; --skip-lines 1 leaves them out" in done.talk
    command = re.search(r"if that is wrong: (rowfall load .*--skip-lines 1 --replace)", done.err)
    assert command
    assert typed(shell, command[1]).code == 0
    assert shell.row("SELECT count(), countIf(c1 = 'Report') FROM t") == [3, 0]


def _lines(*values: str) -> str:
    return "id;v\n" + "".join(f"{n};{value}\n" for n, value in enumerate(values * 6))


MARKED = {
    "and a word": (_lines("1,5", "2,25") + "13;abc\n", None, 'v for "abc"'),
    "and a code": (_lines("1,5", "2,25") + "13;007\n", None, ""),
    "dates and days of ISO": (
        _lines("31.12.2023", "1.2.2024", "2024-02-03"),
        "--select \"* EXCEPT v, toDate32(if(match(v, '^[0-9]{4}'), parseDateTime(v, '%Y-%m-%d', "
        "'UTC'), parseDateTime(v, '%e.%c.%Y', 'UTC'))) AS v\"", "Date32",
    ),
    "dates, some with times": (_lines("31.12.2023", "1.2.2024 17:05:09"), None, "v for"),
    "dates and what is no time": (_lines("31.12.2023 today"), None, "v for"),
    "thousands with blanks": (
        _lines("1 234", "12 345"), "--decimal , --thousands blank", "Int64",
    ),
    "blanks that do not break": (
        _lines("1\u00a0234", "2\u00a0345"), "--decimal , --thousands nbsp", "Int64",
    ),
    "commas and a word for none": (
        _lines("1,5", "2,25", "-"), "--decimal , --null=-", "Nullable(Float64)",
    ),
    "numbers of telephones": (_lines("030 123 456", "030 123 457"), None, ""),
    "a word for some": (_lines("12", "(null)"), "--null '(null)'", "Nullable(Int64)"),
    "a word that may be a value": (_lines("12", "13") + "7;x\n", None, 'v for "x"'),
    "zones": (
        _lines("2023-12-31T10:00:00+02:00", "2023-02-01T11:00:00-05:00"),
        '--select "* EXCEPT v, parseDateTime64BestEffort(v, 6, \'UTC\') AS v"',
        "DateTime64(6, 'UTC')",
    ),
    "no time of day": (_lines("2023-01-01 10:00:00", "2023-01-02 10:00:00")
                       + "13;2023-01-02 24:00:00\n", None, 'v for "2023-01-02 24:00:00"'),
    "shares and a word for none": (_lines("12%", "NA"), None, ""),
    "a word for none": (_lines("12", "nil"), "--null nil", "Nullable(Int64)"),
    "behind the first thousand": (
        _lines(*("1,5", "2,25") * 250) + "9;abc\n", None, 'v for "abc"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.sampled(5)
def test_options_that_make_numbers_and_dates_do_so(shell: Shell, name: str) -> None:
    """Nine of ten values were enough for the hint, and the tenth made text of all of them."""
    text, flags, then = MARKED[name]
    shell.write("a.csv", text)
    done = shell.ok("load", "a.csv")
    if flags is None:
        assert "makes numbers and dates of it" not in done.talk
        assert then in done.talk
        return
    assert f"v; {flags} makes numbers and dates of it" in done.talk
    command = re.search(r"if that is wrong: (rowfall load .*--replace)", done.talk)
    assert command
    assert typed(shell, command[1]).code == 0
    (type_,) = shell.row("SELECT DISTINCT toTypeName(v) FROM a")
    assert type_.startswith(then)


ODD = {
    "dollars and words for none": (["$12.50", "NA", "$1,234.00", "-"], [12.5, None, 1234, None]),
    "dates of China": (["2024年1月5日", "2024年12月15日", "2024年02月09日"],
                       ["2024-01-05", "2024-12-15", "2024-02-09"]),
    "dates of Korea": (["2024년 1월 5일", "2024년 12월 15일"], ["2024-01-05", "2024-12-15"]),
    "years and days first": (["2024-01-05", "31.12.2023", "2.1.2023", "", "2024-02-29"],
                             ["2024-01-05", "2023-12-31", "2023-01-02", None, "2024-02-29"]),
    "years and months first": (["2024-01-05", "12/31/2023"], ["2024-01-05", "2023-12-31"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.sampled(4)
def test_sql_reads_what_no_option_does(shell: Shell, name: str) -> None:
    texts, values = ODD[name]
    shell.write("a.csv", "id;v\n" + "".join(f"{n};{text}\n" for n, text in enumerate(texts)))
    done = shell.ok("load", "a.csv")
    said = r"text as it is written: v; --select .* makes numbers and dates of it"
    assert re.search(said, done.talk)
    command = re.search(r"if that is wrong: (rowfall load .*--replace)", done.talk)
    assert command
    assert typed(shell, command[1]).code == 0
    assert shell.rows("SELECT v FROM a ORDER BY id") == [[value] for value in values]
    # What is written otherwise is refused, and not read by halves.
    odd = {"$": "$1$2", "年": "2024年13月5日"}
    for mark, text in odd.items():
        if mark in texts[0]:
            shell.write("b.csv", f"id;v\n1;{texts[0]}\n2;{text}\n")
            words = shlex.split(command[1])
            select = words[words.index("--select") + 1]
            shell.ends(1, "load", "b.csv", "--select", select)


@pytest.mark.parametrize(
    ("texts", "said"),
    [(["$5", "€5", "$7"], "several kinds, $5 and €5"), (["5", "$5"], "several kinds, 5 and $5"),
     (["12%", "NA", "$5"], "several kinds, 12% and $5"), (["100 USD", "100 EUR"], "several kinds"),
     (["$5", "$6", "$7", "$8", "x"], 'v for "x"; all others are numbers'),
     (["$5", "x", "y"], ""), (["$007", "€5"], ""), (["A5", "B6"], "")],
)  # fmt: skip
def test_amounts_that_no_sql_reads_are_said(texts: list[str], said: str) -> None:
    """They stayed silent: a column of text, and no word of why."""
    rows = [(text,) for text in texts]
    found = suggest(Dialect(), ["v"], rows, rows, {}, ["v"])
    assert [s.flags for s in found] == [None] * bool(said)
    assert said in "".join(s.text for s in found)


@pytest.mark.parametrize(
    ("texts", "ways"),
    [(["$1,234", "$2,345"], 2), (["2024-01-05", "03.12.2023"], 2), (["$5", "€5"], 0),
     (["(1)", "(2)"], 0), (["5-", "7-"], 0), (["$007"], 0), (["$5", "x"], 0), (["12%", "$5"], 0),
     (["2024年13月1日"], 0), (["(1.50", "2.50"], 0), (["1965-01-05", "31.12.2023"], 0)],
)  # fmt: skip
def test_sql_is_named_where_there_is_one_meaning(texts: list[str], ways: int) -> None:
    rows = [(text,) for text in texts]
    found = suggest(Dialect(), ["v"], rows, rows, {}, ["v"])
    assert sum(s.text.count("--select") for s in found) == ways
    assert not any(s.flags for s in found)


def test_a_header_of_which_the_other_reading_fails_is_not_offered(shell: Shell) -> None:
    """Options about the header, comments and units are tried on the sample."""
    shell.write("a.csv", "time,a b,c\ns,C,m\n0,5.5,1\n1,6.5,1\n2,7.5,2\n")
    done = shell.ok("load", "a.csv")
    command = re.search(r"if that is wrong: (rowfall load .*--skip-lines.*)", done.err)
    assert command
    assert typed(shell, command[1]).code == 0
    assert shell.row("SELECT count(), sum(`a b`) FROM a") == [3, 19.5]
    # The names of --columns are parted by commas.
    shell.write("b.csv", "time;a, b;c\ns;C;m\n0;5.5;1\n1;6.5;1\n2;7.5;2\n")
    done = shell.ok("load", "b.csv")
    assert "units perhaps" in done.talk
    assert "--columns" not in done.talk


SAME = {
    "Int64": ("9007199254740993", "9007199254740993.0", "-9223372036854775808", "7.00"),
    "Decimal(19, 2)": ("12345678901234567.89", "0.1", "99999999999999999.99"),
    "Float64": ("0.1", "1e308", "9007199254740993", "5e-324"),
    "Array(Int64)": ("[9007199254740993]", "[9007199254740993.0, -1]"),
    "UInt256": ("115792089237316195423570985008687907853269984665640564039457584007913129639935",),
}


@pytest.mark.parametrize("type_", SAME)
@pytest.mark.parametrize("decoder", ["auto", pytest.param("never", marks=pytest.mark.long)])
@pytest.mark.sampled(2)
def test_good_rows_are_the_same_where_bad_ones_are_left_out(
    shell: Shell, type_: str, decoder: str
) -> None:
    """JSON numbers went through Float64 with --max-errors: ...993.0 became ...992."""
    good = "".join(f'{{"id":{n},"v":{value}}}\n' for n, value in enumerate(SAME[type_]))
    shell.write("good.jsonl", good)
    shell.write("some.jsonl", good + '{"id":99,"v":"no such"}\n')
    given = ("--schema", f"id Int64, v {type_}", "--decoder", decoder)
    shell.ok("load", "good.jsonl", "--table", "a", *given)
    done = shell.ok("load", "some.jsonl", "--table", "b", *given, "--max-errors", "1", "--json")
    assert done.document["rows_rejected"] == 1
    text = "SELECT id, concat('=', toString(v)) FROM {} ORDER BY id"
    assert shell.rows(text.format("a")) == shell.rows(text.format("b"))
    assert shell.rows(text.format("b"))[0][1] == f"={SAME[type_][0]}"


@pytest.mark.sampled
def test_a_word_for_null_behind_the_sample(shell: Shell) -> None:
    """A file that is too long to be seen as a whole, into a table that takes NULL."""
    shell.write("a.csv", "id,n\n1,2\n3,\n")
    shell.ok("load", "a.csv", "--table", "t")
    rows = "".join(f"{n},{'NA' if n % 500 == 0 else n}\n" for n in range(10, 40_000))
    shell.write("b.csv", "id,n\n" + rows)
    done = shell.run("load", "b.csv", "--table", "t")
    assert done.code != 0
    assert "--null NA reads it as NULL, in columns of text, too" in done.talk
    assert "--widen" not in done.talk
    shell.ok("load", "b.csv", "--table", "t", "--null", "NA")
    assert shell.row("SELECT count(), countIf(n IS NULL) FROM t") == [39_992, 80]
    shell.write("c.csv", "id,n\n" + rows.replace("\n700,700\n", "\n700,x\n"))
    other = shell.run("load", "c.csv", "--table", "t")
    assert other.code != 0
    assert "reads it as NULL" not in other.talk  # which would not be enough


@pytest.mark.sampled(1)
def test_no_hint_fills_rows_whose_fields_stand_between_runs_of_blanks(shell: Shell) -> None:
    """--short-rows null was named, which moves what stands behind an empty cell one to the left."""
    shell.write("a.csv", "Station Mean Temp Max\n" + "A  1.5  3\n" * 30)
    refused = shell.ends(2, "load", "a.csv", "--table", "t").talk
    assert "--short-rows" not in refused
    assert "--skip-lines 1 --columns" in refused
    shell.ok("load", "a.csv", "--table", "t", "--skip-lines", "1", "--columns", "s,mean,high")
    assert shell.rows("SELECT DISTINCT * FROM t") == [["A", 1.5, 3]]
    shell.write("b.csv", "s  mean  high\n" + "A  1.5  3\n" * 30 + "B  7\n")
    assert "--short-rows" not in shell.ends(1, "load", "b.csv", "--table", "u").talk


@pytest.mark.parametrize(("name", "text"), [
    ("a.json", '{"id":1,"a":"x"}\n{"id":2,"a":null}\n'), ("a.tsv", "id\ta\n1\tx\n2\t\\N\n"),
])  # fmt: skip
def test_a_text_for_arrays_and_nulls(shell: Shell, name: str, text: str) -> None:
    """The hint for the first row was String, which the NULL of a later one does not fit."""
    shell.write(name, text)
    failed = shell.ends(1, "load", name, "--table", "t", "--type", "a Array(UInt8)")
    assert "--type 'a Nullable(String)'" in failed.talk
    shell.ok("load", name, "--table", "t", "--type", "a Nullable(String)")
    assert shell.row("SELECT count(), countIf(a IS NULL) FROM t") == [2, 1]
