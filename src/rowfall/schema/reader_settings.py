"""Settings that make the readers of the engine strict, and the same in every version. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.model import Column, Encoding, Kind, Setting
from rowfall.schema import tuples
from rowfall.schema.codec import parse_type

_ALWAYS = (
    ("input_format_null_as_default", 0, "a NULL in a column without NULLs is an error, not 0"),
    ("input_format_defaults_for_omitted_fields", 1, "so a column that the header lacks is found"),
    ("input_format_skip_unknown_fields", 0, "a column that the table lacks is an error"),
    ("input_format_allow_errors_num", 0, "bad rows are counted by rowfall"),
    ("input_format_allow_errors_ratio", 0, "bad rows are counted by rowfall"),
    ("precise_float_parsing", 1, "230 of 500,000 random floats differ in the last digit without"),
    ("date_time_input_format", "basic", "the default changed in 26.5"),
    ("date_time_overflow_behavior", "throw", "the default clips 2200-01-01 to 2106"),
    ("cast_string_to_date_time_mode", "basic", "each text means one point in time"),
    ("cast_keep_nullable", 0, "casts give the type that they name"),
    ("use_hive_partitioning", 0, "key=value folders add no columns"),
)
_CSV = (
    ("input_format_csv_empty_as_default", 0, "only a column that is not there takes its default"),
    ("input_format_csv_allow_variable_number_of_columns", 0, "a ragged row is an error"),
    ("input_format_csv_allow_whitespace_or_tab_as_delimiter", 0, "one delimiter only"),
    ("input_format_csv_use_default_on_bad_values", 0, "a bad value is an error"),
    ("input_format_csv_enum_as_number", 0, "enums are names"),
    ("input_format_csv_detect_header", 0, "the plan says whether there is a header"),
    ("input_format_csv_skip_first_lines", 0, "every line counts"),
    ("format_csv_allow_double_quotes", 1, "RFC 4180"),
    ("format_csv_allow_single_quotes", 0, "an apostrophe is a letter"),
)
_TUPLES = "input_format_csv_deserialize_separate_columns_into_tuple"
_TSV = (
    ("input_format_tsv_empty_as_default", 0, "only a column that is not there takes its default"),
    ("format_tsv_null_representation", "\\N", "what databases write"),
    ("input_format_tsv_allow_variable_number_of_columns", 0, "a ragged row is an error"),
    ("input_format_tsv_crlf_end_of_line", 1, "files from Windows"),
    ("input_format_tsv_detect_header", 0, "the plan says whether there is a header"),
    ("input_format_tsv_skip_first_lines", 0, "every line counts"),
    ("input_format_tsv_enum_as_number", 0, "enums are names"),
)
_JSON = (
    ("input_format_json_read_bools_as_numbers", 0, "true is no number"),
    ("input_format_json_read_numbers_as_strings", 1, "numbers are read as they are written"),
    ("input_format_json_read_bools_as_strings", 1, "the same for true and false"),
    ("input_format_json_read_objects_as_strings", 1, "objects in a String stay as written"),
    ("input_format_json_read_arrays_as_strings", 1, "arrays in a String stay as written"),
    ("input_format_import_nested_json", 0, "nested keys are Tuples, as inferred"),
    ("input_format_json_ignore_unknown_keys_in_named_tuple", 0, "nothing is left out"),
    ("input_format_json_defaults_for_missing_elements_in_named_tuple", 0, "nor filled in"),
    ("input_format_json_ignore_unnecessary_fields", 0, "every field is parsed"),
    ("input_format_json_empty_as_default", 0, "an empty string is no missing value"),
    ("input_format_json_throw_on_bad_escape_sequence", 1, "a broken escape is an error"),
)
_TYPED = (
    ("input_format_parquet_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_parquet_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_orc_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_arrow_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_avro_allow_missing_fields", 0, "a missing field is an error, not 0"),
    ("input_format_avro_null_as_default", 0, "a NULL is no 0"),
)


def reader_settings(encoding: Encoding, columns: Sequence[Column] = ()) -> tuple[Setting, ...]:
    """Every reader setting that strictness or independence of the engine's version asks for.

    Args:
        columns: of the schema. Where none of them is a string, or none of the strings seen has
            blanks around it, the CSV reader may trim: keeping costs 6 ns a field (16 % of parsing
            short integers).
    """
    rows: list[tuple[str, str | int, str]] = list(_ALWAYS)
    if encoding.kind is Kind.TEXT:
        csv, alone = encoding.is_csv, len(columns) == 1
        rows += _CSV if csv else _TSV
        why = "an empty line is a row of one column" if alone else "an empty last line is no row"
        name = f"input_format_{'csv' if csv else 'tsv'}_skip_trailing_empty_lines"
        rows.append((name, int(not alone), why))
        if csv:
            strings = not columns or any(_is_string(c) for c in columns)
            keep = encoding.keep_blanks and strings
            why = "strings keep their blanks" if keep else "no blanks seen around strings: faster"
            rows.append(("format_csv_null_representation", encoding.null, "as seen in the sample"))
            rows.append(("input_format_csv_trim_whitespaces", int(not keep), why))
            rows.append(("format_csv_delimiter", encoding.delimiter, "as planned"))
            own = tuples.apart(encoding, columns)
            why = "elements of tuples have fields of their own" if own else "tuples have one field"
            rows.append((_TUPLES, int(own), why))
        if encoding.has_names:
            rows.append(("input_format_with_names_use_header", 1, "columns are found by name"))
    elif encoding.kind is Kind.JSON:
        rows += _JSON
    elif encoding.kind is Kind.TYPED:
        rows += _TYPED
    return tuple(Setting(*row, routine=True) for row in rows)


def _is_string(column: Column) -> bool:
    target = parse_type(column.type)
    return target.text or target.base.startswith("Enum") or not target.known
