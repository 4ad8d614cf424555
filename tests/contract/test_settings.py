"""Settings that change values are sent whatever their default, so that it matters to nobody.

The list is the engines' own: what differs between the oldest release that is tested and the
embedded one, what the newer one says that it has changed, and every setting of how values are read
and converted. Each is either sent or here, with the reason why it changes no value.
"""

from __future__ import annotations

import re

import pytest

from lab.clickhouse import ClickHouse
from rowfall.core.model import Column, Encoding, Facts, Kind
from rowfall.plan.settings import LoadShape, compute_settings
from unit.memory import Chdb

# How values are read and converted, whether a default has changed or not.
OF_VALUES = re.compile(
    r"(input_format|format|date_time|cast|precise|decimal|json_type|type_json|bool|insert_null|use_structure)_\w+"
)
ENCODINGS = [
    Encoding("CSV", "none", Kind.TEXT), Encoding("TSVWithNames", "none", Kind.TEXT),
    Encoding("JSONEachRow", "none", Kind.JSON), Encoding("Parquet", "none", Kind.TYPED),
    Encoding("ORC", "none", Kind.TYPED), Encoding("Avro", "none", Kind.TYPED),
    Encoding("Values", "none", Kind.TYPED),
]  # fmt: skip

NOT_OF_VALUES = {
    "what people see, and other formats than those that blocks are sent in":
        r"output_format_\w+|bool_(true|false)_representation|interval_output_format",
    "a format that is not read, or whose dialect its user gives with --set":
        r"(input_)?format_(custom|regexp|template|capn_proto|protobuf|msgpack|mysql_dump|hive_text|"
        r"bson|geojson|display|json_object_each_row|schema|binary|native|avro_schema_registry)\w*",
    "the types of columns, which rowfall infers itself, or asks for and then gives":
        r"schema_inference_\w+|mysql_datatypes_support_level|input_format_tsv_use_best_effort\w+|"
        r"input_format_csv_(use_best_effort|try_infer)\w+|input_format_\w*(infer|inference)\w*|"
        r"input_format_max_(rows|bytes)_to_read_for_schema_inference",
    "which column of a file is meant: names are compared before, exactly":
        r"input_format_column_name_matching_mode",
    "sizes, threads, memory and what is skipped unread: the same rows":
        r"input_format_(max_block|connection|allow_seeks|record_errors|json_max|parquet_(bloom|"
        r"dictionary_filter|filter|page_filter|spatial|use_|memory|verify|enable_row_group|"
        r"local_file|preserve_order)|orc_(filter|row_batch|use_fast)|arrow_use_native)\w*|"
        r"format_binary_max\w+|max_\w+|min_\w+|\w*(compression|cache|retr|timeout|backoff|keeper)\w*|"
        r"(azure|s3|http|distributed|backup|network|load_marks|parallel)_\w+|enable_http_\w+",
    "an error of another kind: fewer or more rows are refused, none changes":
        r"input_format_(json_validate_types|with_types_use_header|parquet_allow_geoparquet|"
        r"values_accurate|custom)\w*|throw_if_\w+|input_format_csv_allow_cr_end_of_line",
    "duplicated keys and paths of the type JSON, of which one is an error already":
        r"type_json_(allow_duplicated|use_partial|skip_null)\w+",
    "queries of people, and plans of queries: the same result":
        r"(allow|optimize|query_plan|use_skip|join|compile|check_query|create_table|mutations)_\w+|"
        r"use_variant_as_common_type|enable_url_encoding|insert_select_deduplicate|deduplicate_\w+",
    "whether a type may be used at all": r"allow_(experimental|suspicious)_\w+|enable_time\w+",
    "names of formats in a statement, which each statement gives": r"input_format|output_format",
}  # fmt: skip


@pytest.fixture(scope="module")
def sent() -> set[str]:
    """Names of all settings that some load sends, of an engine that knows all of them."""
    facts = Facts("26.9.2.1", 4, 8 << 30)
    names: set[str] = set()
    for encoding in ENCODINGS:
        columns = (Column("v", "Array(UInt8)", source="v"),)
        shape = LoadShape(1, 1 << 20, 100.0, 1, columns, encoding, remote=False)
        names |= {setting.name for setting in compute_settings(facts, shape, {})}
    return names


def defaults(text: str) -> dict[str, str]:
    pairs = (line.split("\t") for line in text.splitlines())
    return {name: default.replace("\\'", "") for name, default in pairs}


def test_every_setting_that_changes_values_is_sent(clickhouse: ClickHouse, sent: set[str]) -> None:
    question = "SELECT name, default FROM system.settings"
    embedded = Chdb()
    new = defaults(embedded.run(question, "TSV"))
    old = defaults(clickhouse.query(question))
    moved = {name for name in new if name in old and new[name] != old[name]}
    changes = "SELECT DISTINCT arrayJoin(changes).1 FROM system.settings_changes WHERE type = " \
              "'Session' AND arrayExists(x -> x.2 != x.3, changes) AND " \
              "toUInt32OrZero(splitByChar('.', version)[1]) >= 24"  # fmt: skip
    said = set(embedded.run(changes, "TSV").split())
    read = {name for name in new if OF_VALUES.fullmatch(name)}
    asked = moved | {name for name in said if OF_VALUES.fullmatch(name)} | read
    unknown = {
        name for name in asked - sent
        if not any(re.fullmatch(pattern, name) for pattern in NOT_OF_VALUES.values())
    }  # fmt: skip
    assert not unknown, sorted(unknown)


def test_reasons_are_for_settings_that_are_not_sent(sent: set[str]) -> None:
    """A pattern that also names what is sent would hide that somebody stops to send it."""
    needed = {
        "input_format_read_datetime_number_as_raw_value", "decimal_check_overflow",
        "insert_null_as_default", "date_time_input_format", "input_format_null_as_default",
        "input_format_csv_arrays_as_nested_csv", "input_format_json_map_as_array_of_tuples",
        "input_format_parquet_local_time_as_utc", "cast_string_to_date_time_mode",
        "precise_float_parsing", "date_time_overflow_behavior",
        "use_structure_from_insertion_table_in_table_functions",
    }  # fmt: skip
    assert needed <= sent
    for pattern in NOT_OF_VALUES.values():
        assert not [name for name in needed if re.fullmatch(pattern, name)], pattern
