"""Tables that everybody loads first, written as their own programs write them: without any option.

They are made here, small; what they are made of is in every original: delimiters at the ends of
rows, strings that begin and end with blanks, 105 columns, empty strings, escapes.
"""

from __future__ import annotations

import json
import random

import pytest

from e2e.tools import Shell

WORDS = ("furiously", "even deposits", "nag", "carefully above", "the quickly", "ironic")

# Columns of the web log: s string, i integer, t time, d date, c one character.
_HITS = """
WatchID:i JavaEnable:i Title:s GoodEvent:i EventTime:t EventDate:d CounterID:i ClientIP:i
RegionID:i UserID:i CounterClass:i OS:i UserAgent:i URL:s Referer:s IsRefresh:i
RefererCategoryID:i RefererRegionID:i URLCategoryID:i URLRegionID:i ResolutionWidth:i
ResolutionHeight:i ResolutionDepth:i FlashMajor:i FlashMinor:i FlashMinor2:s NetMajor:i NetMinor:i
UserAgentMajor:i UserAgentMinor:s CookieEnable:i JavascriptEnable:i IsMobile:i MobilePhone:i
MobilePhoneModel:s Params:s IPNetworkID:i TraficSourceID:i SearchEngineID:i SearchPhrase:s
AdvEngineID:i IsArtifical:i WindowClientWidth:i WindowClientHeight:i ClientTimeZone:i
ClientEventTime:t SilverlightVersion1:i SilverlightVersion2:i SilverlightVersion3:i
SilverlightVersion4:i PageCharset:s CodeVersion:i IsLink:i IsDownload:i IsNotBounce:i FUniqID:i
OriginalURL:s HID:i IsOldCounter:i IsEvent:i IsParameter:i DontCountHits:i WithHash:i HitColor:c
LocalEventTime:t Age:i Sex:i Income:i Interests:i Robotness:i RemoteIP:i WindowName:i OpenerName:i
HistoryLength:i BrowserLanguage:s BrowserCountry:s SocialNetwork:s SocialAction:s HTTPError:i
SendTiming:i DNSTiming:i ConnectTiming:i ResponseStartTiming:i ResponseEndTiming:i FetchTiming:i
SocialSourceNetworkID:i SocialSourcePage:s ParamPrice:i ParamOrderID:s ParamCurrency:s
ParamCurrencyID:i OpenstatServiceName:s OpenstatCampaignID:s OpenstatAdID:s OpenstatSourceID:s
UTMSource:s UTMMedium:s UTMCampaign:s UTMContent:s UTMTerm:s FromTag:s HasGCLID:i RefererHash:i
URLHash:i CLID:i
"""
HITS = _HITS.split()
SPARSE = frozenset(("Social", "Param", "Openst", "UTM", "FromTa", "FlashM", "MobilePhoneM"))


def lineitem(rng: random.Random) -> list[str]:
    """Return one row as dbgen writes it; comments are cut out of longer text."""
    comment = " ".join(rng.choices(WORDS, k=6))
    start = rng.randrange(20)
    days = [f"199{rng.randrange(2, 9)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
            for _ in range(3)]  # fmt: skip
    return [
        str(rng.randrange(1, 6_000_000)), str(rng.randrange(1, 200_000)),
        str(rng.randrange(1, 10_000)), str(rng.randrange(1, 8)), str(rng.randrange(1, 51)),
        f"{rng.randrange(90_000, 10_494_950) / 100:.2f}", f"0.{rng.randrange(11):02d}",
        f"0.{rng.randrange(9):02d}", rng.choice("RAN"), rng.choice("OF"), *days,
        rng.choice(["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]),
        rng.choice(["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]),
        comment[start : start + rng.randrange(10, 44)],
    ]  # fmt: skip


def hit(rng: random.Random, number: int) -> list[str]:
    """Return one row of the web log: most strings are empty, some in all rows."""
    row = []
    for column in HITS:
        name, kind = column.split(":")
        if kind == "i":
            wide = name in ("WatchID", "UserID", "FUniqID", "RefererHash", "URLHash")
            row.append(str(rng.getrandbits(62) * rng.choice((1, -1)) if wide else number % 7))
        elif kind == "t":
            row.append(f"2013-07-{number % 28 + 1:02d} 10:11:{number % 60:02d}")
        elif kind == "d":
            row.append(f"2013-07-{number % 28 + 1:02d}")
        elif kind == "c":
            row.append(rng.choice("56789EFST"))
        elif name.startswith(tuple(SPARSE)) or rng.random() < 0.5:
            row.append("")
        else:
            row.append(rng.choice([
                " погода в Москве", "http://x.ru/?q=a,b&c=\\d", 'say "hello" ', "two\ttabs", "Ü",
                " ".join(rng.choices(WORDS, k=4)),
            ]))  # fmt: skip
    return row


def check(shell: Shell, file: str, rows: list[list[str]]) -> None:
    """Load a file without options: rowfall-decode reads it, and every field is what was written."""
    made = shell.ok("plan", file, "--json").document
    assert made["decoder"] == "rowfall-decode", made["why_decoder"]
    for table, options in (("decoded", ()), ("engine", ("--decoder", "never"))):
        done = shell.ok("load", file, "--table", table, *options, "--json").document
        assert done["rows"] == len(rows)
        # As text: an empty string and a NULL of a column without values are told apart elsewhere.
        fields = shell.ok(
            "query", f"SELECT * FROM {table} FORMAT JSONCompactStringsEachRow",
            "--format", "JSONCompactStringsEachRow",
        )  # fmt: skip
        found = [json.loads(line) for line in fields.out.splitlines()]
        assert sorted(found) == sorted(rows)


@pytest.mark.long
def test_lineitem(shell: Shell) -> None:
    rng = random.Random(22)
    rows = [lineitem(rng) for _ in range(2000)]
    assert any(row[-1].startswith(" ") for row in rows)
    shell.write("lineitem.tbl", "".join("|".join(row) + "|\n" for row in rows))
    for row in rows:
        row[5:8] = [f"{float(value):.15g}" for value in row[5:8]]
    check(shell, "lineitem.tbl", rows)


@pytest.mark.parametrize("form", ["tsv", pytest.param("csv", marks=pytest.mark.long)])
def test_hits(shell: Shell, form: str) -> None:
    rng = random.Random(105)
    rows = [hit(rng, number) for number in range(400)]
    assert len(HITS) == 105
    if form == "tsv":
        lines = ["\t".join(v.replace("\\", "\\\\").replace("\t", "\\t") for v in r) for r in rows]
    else:
        kinds = [column[-1] for column in HITS]
        lines = [
            ",".join('"' + v.replace('"', '""') + '"' if k in "sctd" else v
                     for v, k in zip(r, kinds, strict=True))
            for r in rows
        ]  # fmt: skip
    shell.write(f"hits.{form}", "".join(line + "\n" for line in lines))
    check(shell, f"hits.{form}", rows)
