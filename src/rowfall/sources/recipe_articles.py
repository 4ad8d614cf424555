"""Recipes of ``generate://cabs``, ``downloads`` and ``lineitem``: tables that published loads used.

Names and types are the published ones; the rows are made up, each a function of its number.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.sources.recipes import Recipe, array, hash_of, schema_of, taxi

# --- cabs: the taxi table of "Tips for High-Performance ClickHouse Clusters with S3" ------------

# Column, type, and value by a row of generate://taxi. The 25th, pickup_date, is a default.
_CABS = (
    ("id", "UInt64", "trip_id"),
    ("vendor_id", "String", "vendor_id"),
    ("pickup_datetime", "DateTime", "pickup_datetime"),
    ("dropoff_datetime", "DateTime", "dropoff_datetime"),
    ("passenger_count", "UInt8", "passenger_count"),
    ("trip_distance", "Float32", "trip_distance"),
    ("pickup_longitude", "Float32", "pickup_longitude"),
    ("pickup_latitude", "Float32", "pickup_latitude"),
    ("rate_code_id", "String", "toString(rate_code_id)"),
    ("store_and_fwd_flag", "String", "toString(store_and_fwd_flag)"),
    ("dropoff_longitude", "Float32", "dropoff_longitude"),
    ("dropoff_latitude", "Float32", "dropoff_latitude"),
    ("payment_type", "LowCardinality(String)", "payment_type"),
    ("fare_amount", "Float32", "fare_amount"),
    ("extra", "String", "toString(extra)"),
    ("mta_tax", "Float32", "mta_tax"),
    ("tip_amount", "Float32", "tip_amount"),
    ("tolls_amount", "Float32", "tolls_amount"),
    ("improvement_surcharge", "Float32", "ifNull(improvement_surcharge, 0)"),
    ("total_amount", "Float32", "total_amount"),
    ("pickup_location_id", "UInt16", "pickup_nyct2010_gid"),
    ("dropoff_location_id", "UInt16", "dropoff_nyct2010_gid"),
    ("junk1", "String", "''"),
    ("junk2", "String", "''"),
)  # fmt: skip


def cabs(seed: int) -> Recipe:
    """Return the trips of ``generate://taxi`` in the 24 stored columns of that table."""
    made = taxi(seed)
    return _recipe(
        _CABS, f"({made.select})", "(vendor_id, pickup_location_id, pickup_datetime)", 130.0,
        made.split_rows,
    )  # fmt: skip


# --- downloads: of Python packages, as in "Supercharging your large ClickHouse data loads" -------

_PROJECTS = """
boto3 urllib3 requests certifi idna charset-normalizer setuptools packaging python-dateutil six
typing-extensions numpy pyyaml s3transfer botocore wheel pip cryptography cffi pycparser attrs
importlib-metadata zipp click pytz pandas jmespath markupsafe jinja2 rsa pyasn1 google-api-core
protobuf grpcio colorama platformdirs filelock virtualenv pluggy pytest tomli fsspec pyjwt
websocket-client scipy wrapt decorator aiohttp yarl multidict frozenlist async-timeout pyarrow
sqlalchemy psutil lxml docutils greenlet soupsieve beautifulsoup4 tqdm pydantic rich pygments
"""
_COUNTRIES = [*["US"] * 30, *["IE", "DE", "SG", "JP", "NL", "GB", "IN", "FR", "CA", "AU"] * 3,
              "BR", "KR", "PL", "SE"]  # fmt: skip
_PYTHONS = ["3.6", "3.7", "3.7", "3.8", "3.8", "3.9", "3.10", "3.11"]
_DISTROS = ["Ubuntu", "Ubuntu", "Debian GNU/Linux", "Debian GNU/Linux", "Amazon Linux AMI",
            "CentOS Linux", "Alpine Linux", ""]  # fmt: skip
_EXTRAS = ["socks", "security", "crt", "test", "dev", "async", "speedups", "all"]
# ``h`` and ``g`` are 64 random bits each; few projects have most of the downloads.
_DOWNLOADS = (
    ("timestamp", "DateTime", "toDateTime(1672531200 + intDiv(number, 5000) % 31536000, 'UTC')"),
    ("country_code", "LowCardinality(String)", "{countries}[bitAnd(h, 63) + 1]"),
    ("url", "String",
     "concat('/packages/', lower(hex(bitAnd(hf, 255))), '/', lower(hex(bitAnd(hf, 65535))), '/', "
     "lower(hex(intHash64(hf))), lower(hex(hf)), '/', file)"),
    ("project", "LowCardinality(String)", "project"),
    ("filename", "String", "file"),
    ("version", "String", "version"),
    ("type", "LowCardinality(String)", "if(bitAnd(g, 7) < 6, 'bdist_wheel', 'sdist')"),
    ("installer", "LowCardinality(String)",
     "if(bitAnd(g, 240) = 0, 'poetry', 'pip')"),
    ("installer_version", "LowCardinality(String)",
     "concat(toString(20 + bitAnd(bitShiftRight(g, 8), 3)), '.', "
     "toString(bitAnd(bitShiftRight(g, 10), 3)))"),
    ("python", "LowCardinality(String)", "{pythons}[bitAnd(bitShiftRight(g, 12), 7) + 1]"),
    ("implementation", "LowCardinality(String)", "if(bitAnd(g, 65280) = 0, 'PyPy', 'CPython')"),
    ("distro", "LowCardinality(String)", "{distros}[bitAnd(bitShiftRight(g, 16), 7) + 1]"),
    ("system", "LowCardinality(String)",
     "if(bitAnd(g, 983040) = 0, 'Darwin', 'Linux')"),
    ("system_release", "String",
     "concat(toString(4 + bitAnd(bitShiftRight(g, 22), 1)), '.', "
     "toString(bitAnd(bitShiftRight(g, 24), 15)), '.', "
     "toString(bitAnd(bitShiftRight(g, 28), 255)), "
     "'-', toString(1000 + bitAnd(bitShiftRight(g, 36), 63)), '-aws')"),
    ("cpu", "LowCardinality(String)", "if(bitAnd(g, 15) < 13, 'x86_64', 'aarch64')"),
    ("openssl_version", "LowCardinality(String)",
     "concat('OpenSSL 1.1.1', char(97 + bitAnd(bitShiftRight(g, 42), 15)))"),
    ("tls_protocol", "LowCardinality(String)", "'TLSv1.3'"),
    ("tls_cipher", "LowCardinality(String)", "'TLS_AES_256_GCM_SHA384'"),
    ("extras", "Array(String)",
     "if(bitAnd(g, 3) = 0, arraySlice({extras}, bitAnd(bitShiftRight(g, 50), 7) + 1, "
     "1 + bitAnd(bitShiftRight(g, 53), 1)), [])"),
)  # fmt: skip
_DOWNLOADS_FROM = """(
    SELECT *, {projects}[p] AS project,
        concat(toString(bitAnd(hf, 3)), '.', toString(bitAnd(bitShiftRight(hf, 2), 31)), '.',
            toString(bitAnd(bitShiftRight(hf, 7), 7))) AS version,
        concat(replaceAll(project, '-', '_'), '-', version, '-py3-none-any.whl') AS file
    FROM (
        SELECT number, {h} AS h, {g} AS g,
            toUInt8(1 + floor(pow(bitShiftRight(h, 40) / 16777216, 3) * {count})) AS p,
            intHash64(p * 64 + toUInt64(pow(bitAnd(bitShiftRight(h, 20), 1023) / 1024, 2) * 40)) AS hf
        FROM {range}
    )
)"""  # noqa: E501 - SQL reads better unbroken


def downloads(seed: int) -> Recipe:
    """Return downloads of packages: text, arrays, and columns of few values; 5,000 a second."""
    values = {
        "countries": array(_COUNTRIES),
        "pythons": array(_PYTHONS),
        "distros": array(_DISTROS),
        "extras": array(_EXTRAS),
        "projects": array(_PROJECTS.split()),
        "count": str(len(_PROJECTS.split())),
        "h": hash_of(seed, 51),
        "g": hash_of(seed, 52),
    }
    made = _recipe(_DOWNLOADS, _DOWNLOADS_FROM, "(project, timestamp)", 260.0, 400_000)
    select = made.select
    for name, value in values.items():
        select = select.replace("{" + name + "}", value)
    return Recipe(made.schema, select, made.split_rows)


# --- lineitem: of TPC-H -------------------------------------------------------------------------

# Spread about as dbgen spreads them: one to four rows an order, dates of seven years.
_LINEITEM = (
    ("l_orderkey", "UInt32", "intDiv(number, 4) + 1"),
    ("l_partkey", "UInt32", "h % 200000 + 1"),
    ("l_suppkey", "UInt32", "bitShiftRight(h, 20) % 10000 + 1"),
    ("l_linenumber", "UInt8", "number % 4 + 1"),
    ("l_quantity", "Decimal(15, 2)", "toDecimal64(bitShiftRight(h, 8) % 50 + 1, 2)"),
    ("l_extendedprice", "Decimal(15, 2)",
     "toDecimal64(90000 + bitShiftRight(g, 16) % 9000000, 2) / 100"),
    ("l_discount", "Decimal(15, 2)", "toDecimal64(bitShiftRight(h, 34) % 11, 2) / 100"),
    ("l_tax", "Decimal(15, 2)", "toDecimal64(bitShiftRight(h, 38) % 9, 2) / 100"),
    ("l_returnflag", "String", "['A', 'N', 'R'][bitShiftRight(h, 42) % 3 + 1]"),
    ("l_linestatus", "String", "['O', 'F'][bitAnd(bitShiftRight(h, 45), 1) + 1]"),
    ("l_shipdate", "Date", "toDate(8036 + g % 2526)"),
    ("l_commitdate", "Date", "toDate(8065 + bitShiftRight(g, 12) % 2466)"),
    ("l_receiptdate", "Date", "toDate(8038 + bitShiftRight(g, 24) % 2554)"),
    ("l_shipinstruct", "String",
     "['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN']"
     "[bitAnd(bitShiftRight(g, 36), 3) + 1]"),
    ("l_shipmode", "String",
     "['TRUCK', 'MAIL', 'REG AIR', 'AIR', 'FOB', 'RAIL', 'SHIP'][bitShiftRight(g, 40) % 7 + 1]"),
    ("l_comment", "String",
     "substring(arrayStringConcat(arrayMap(n -> {words}[bitAnd(bitShiftRight(intHash64(h + n), 7), "
     "31) + 1], range(7)), ' '), 1, 10 + bitShiftRight(g, 44) % 34)"),
)  # fmt: skip
_WORDS = """
furiously quickly carefully slyly blithely ironic final regular special express bold pending
deposits requests accounts packages instructions theodolites foxes ideas pinto beans asymptotes
above according to the haggle sleep nag wake cajole detect
"""


def lineitem(seed: int) -> Recipe:
    """Return the lines of orders of TPC-H: numbers, decimals, dates and a comment."""
    source = f"(SELECT number, {hash_of(seed, 61)} AS h, {hash_of(seed, 62)} AS g FROM {{range}})"
    made = _recipe(_LINEITEM, source, "(l_shipdate, l_orderkey)", 150.0, 1_000_000)
    return Recipe(
        made.schema, made.select.replace("{words}", array(_WORDS.split())), made.split_rows
    )


def _recipe(
    columns: Sequence[tuple[str, str, str]], source: str, order_by: str, row_bytes: float,
    split_rows: int,
) -> Recipe:  # fmt: skip
    """Return the recipe of columns (name, type, value) of a source in brackets.

    Args:
        row_bytes: of a row in memory. ``split_rows``: rows of a split.
    """
    chosen = ",\n".join(f"    CAST({value}, '{kind}') AS {name}" for name, kind, value in columns)
    made = schema_of([(name, kind) for name, kind, _ in columns], order_by, row_bytes)
    return Recipe(made, f"\nSELECT\n{chosen}\nFROM {source}\n", split_rows)
