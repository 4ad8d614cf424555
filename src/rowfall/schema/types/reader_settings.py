"""Settings of readers: as strict as they can be, and the same in every version. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.formats import LAKES
from rowfall.core.model import Column, Encoding, Kind, Setting
from rowfall.core.type_names import first_fields, parse_type

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
    ("input_format_column_name_matching_mode", "match_case", "names and keys match exactly"),
    (
        "use_structure_from_insertion_table_in_table_functions",
        0,
        "files are read in their own types, and then converted",
    ),
    ("use_hive_partitioning", 0, "rowfall itself makes columns of folders key=value"),
    ("input_format_try_infer_dates", 0, "text in JSON columns stays text"),
    ("input_format_try_infer_datetimes", 0, "text in JSON columns stays text"),
    ("input_format_read_datetime_number_as_raw_value", 0, "a number is seconds since 1970"),
    ("decimal_check_overflow", 1, "a decimal that is too large is an error"),
    ("cast_ipv4_ipv6_default_on_conversion_error", 0, "what is no address is an error"),
    ("input_format_ipv4_default_on_conversion_error", 0, "what is no address is an error"),
    ("input_format_ipv6_default_on_conversion_error", 0, "what is no address is an error"),
    ("input_format_force_null_for_omitted_fields", 0, "a missing field is an error, not NULL"),
    ("output_format_decimal_trailing_zeros", 0, "decimals are compared with what they print as"),
    ("output_format_json_quote_denormals", 1, "NaN and infinity are no null in files of JSON"),
    ("insert_null_as_default", 0, "a NULL in a column without NULLs is an error, not 0"),
    ("date_time_output_format", "simple", "times are compared with what they print as"),
    (
        "date_time_64_output_format_cut_trailing_zeros_align_to_groups_of_thousands",
        0,
        "times are compared with what they print as",
    ),
    ("cast_string_to_variant_use_inference", 0, "text stays text"),
    ("cast_string_to_dynamic_use_inference", 0, "text stays text"),
)
BLANKS = "input_format_csv_allow_whitespace_or_tab_as_delimiter"
ROWS_MAY_BE_SHORT = "input_format_csv_allow_variable_number_of_columns"
_CSV = (
    ("input_format_csv_empty_as_default", 0, "only a column that is not there takes its default"),
    (ROWS_MAY_BE_SHORT, 1, "missing fields fit no type"),
    ("input_format_csv_use_default_on_bad_values", 0, "a bad value is an error"),
    ("input_format_csv_enum_as_number", 0, "enums are names"),
    ("input_format_csv_detect_header", 0, "the plan says whether there is a header"),
    ("input_format_csv_skip_first_lines", 0, "every line counts"),
    ("format_csv_allow_double_quotes", 1, "RFC 4180"),
    ("format_csv_allow_single_quotes", 0, "an apostrophe is a letter"),
    ("input_format_csv_arrays_as_nested_csv", 0, "arrays stand in brackets"),
    ("input_format_csv_missing_nullable_as_empty_string", 0, "an empty field is NULL"),
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
    ("input_format_json_read_bools_as_numbers", 0, "true is not a number"),
    ("input_format_json_read_numbers_as_strings", 1, "numbers are read as they are written"),
    ("input_format_json_read_bools_as_strings", 1, "the same for true and false"),
    ("input_format_json_read_objects_as_strings", 1, "objects in a String stay as written"),
    ("input_format_json_read_arrays_as_strings", 1, "arrays in a String stay as written"),
    ("input_format_import_nested_json", 0, "nested keys are Tuples, as inferred"),
    ("input_format_json_ignore_unknown_keys_in_named_tuple", 0, "nothing is left out"),
    ("input_format_json_defaults_for_missing_elements_in_named_tuple", 0, "nor filled in"),
    ("input_format_json_ignore_unnecessary_fields", 0, "every field is parsed"),
    ("input_format_json_empty_as_default", 0, "an empty string is not a missing value"),
    ("input_format_json_named_tuples_as_objects", 1, "named elements are found by their keys"),
    ("input_format_json_map_as_array_of_tuples", 0, "maps are objects"),
    ("input_format_json_compact_allow_variable_number_of_columns", 0, "a short row is an error"),
    ("input_format_json_try_infer_numbers_from_strings", 0, "text in JSON columns stays text"),
    ("input_format_try_infer_integers", 1, "integers in JSON columns stay integers"),
    ("input_format_try_infer_exponent_floats", 0, "text in JSON columns stays text"),
    ("input_format_try_infer_variants", 0, "one type for each path of a JSON column"),
    (
        "input_format_json_infer_array_of_dynamic_from_array_of_different_types",
        1,
        "numbers and text in one array of a JSON column stay what they are",
    ),
    ("type_json_skip_duplicated_paths", 0, "a path twice is an error"),
    ("type_json_skip_invalid_typed_paths", 0, "a value that does not fit is an error"),
    ("json_type_escape_dots_in_keys", 0, "the same paths in every version"),
    ("input_format_json_throw_on_bad_escape_sequence", 1, "a broken escape is an error"),
)
_TYPED = (
    ("input_format_parquet_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_parquet_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_orc_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_arrow_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_orc_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_arrow_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_avro_allow_missing_fields", 0, "a missing field is an error, not 0"),
    ("input_format_avro_null_as_default", 0, "a NULL is no 0"),
    ("input_format_arrow_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_orc_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_parquet_import_nested", 0, "structs are tuples"),
    ("input_format_arrow_import_nested", 0, "structs are tuples"),
    ("input_format_orc_import_nested", 0, "structs are tuples"),
    ("input_format_orc_reader_time_zone_name", "GMT", "times without a zone are UTC"),
    ("input_format_parquet_local_time_as_utc", 1, "times without a zone are UTC"),
    ("input_format_parquet_enable_json_parsing", 1, "the same types in every version"),
    ("input_format_orc_dictionary_as_low_cardinality", 1, "the same types in every version"),
)


MISSING_COLUMNS = (
    "input_format_parquet_allow_missing_columns", "input_format_orc_allow_missing_columns",
    "input_format_arrow_allow_missing_columns", "input_format_avro_allow_missing_fields",
)  # fmt: skip
"""Settings that let files lack columns, which then are NULL, or 0 where they may not be."""


def reader_settings(encoding: Encoding, columns: Sequence[Column] = ()) -> tuple[Setting, ...]:
    """Return every reader setting that strictness or independence of the version asks for.

    Args:
        columns: of the schema. Where none of them is a string, or none of the strings seen has
            blanks around it, the CSV reader may trim: keeping costs 6 ns a field (16 % of parsing
            short integers).
    """
    rows: list[tuple[str, str | int, str]] = list(_ALWAYS)
    if encoding.kind is Kind.TEXT:
        csv, alone = encoding.is_csv, len(columns) == 1
        rows += _CSV if csv else _TSV
        why = "an empty line is a row of one column" if alone else "an empty last line is not a row"
        name = f"input_format_{'csv' if csv else 'tsv'}_skip_trailing_empty_lines"
        rows.append((name, int(not alone), why))
        if csv:
            strings = not columns or any(_is_string(c) for c in columns)
            keep = encoding.keep_blanks and strings
            why = "strings keep their blanks" if keep else "no blanks seen around strings: faster"
            rows.append(("format_csv_null_representation", encoding.null, "as seen in the sample"))
            rows.append(("input_format_csv_trim_whitespaces", int(not keep), why))
            rows.append(("format_csv_delimiter", encoding.delimiter, "as planned"))
            blank = encoding.delimiter in " \t"
            why = "a blank or a tab is the delimiter" if blank else "blanks and tabs are none"
            rows.append((BLANKS, int(blank), why))
            own = tuples_apart(encoding, columns)
            why = "elements of tuples have fields of their own" if own else "tuples have one field"
            rows.append((_TUPLES, int(own), why))
        if csv and encoding.has_names:
            why = "by position: the header was read before"
            rows.append(("input_format_with_names_use_header", 0, why))
        elif encoding.header:
            why = "by position: not all names of the header can be used"
            rows.append(("input_format_with_names_use_header", 0, why))
        elif encoding.has_names:
            rows.append(("input_format_with_names_use_header", 1, "columns are found by name"))
    elif encoding.kind is Kind.JSON:
        rows += _JSON
        if encoding.ignores:
            name = "input_format_skip_unknown_fields"
            rows = [row for row in rows if row[0] != name]
            rows.append((name, 1, "--on-new-column ignore"))
        if _nulls_are_dynamic(columns):
            rows = [row for row in rows if row != _ALWAYS[0]]
            why = "the reader takes no NULL of a Dynamic otherwise; no other column could hide one"
            rows.append(("input_format_null_as_default", 1, why))
    elif encoding.kind is Kind.TYPED:
        rows += _TYPED
        if encoding.ignores:
            rows = [row for row in rows if row[0] != "input_format_skip_unknown_fields"]
            why = "the engine asks for the columns that are selected"
            rows.append(("input_format_skip_unknown_fields", 1, why))
        if nulls_are_guarded(encoding, columns):
            why = "arrays that may be null are read; a NULL is an error by the column's own default"
            rows = [row for row in rows if row != _ALWAYS[0]]
            rows.append(("input_format_null_as_default", 1, why))
        if encoding.format in LAKES:
            # The reader of Parquet also looks for _path in files where it is in a condition (26.9).
            rows = [row for row in rows if row[0] not in MISSING_COLUMNS]
            why = "files may be older than a column; required ones are read as Nullable"
            rows.append((MISSING_COLUMNS[0], 1, why))
        if any(c.optional for c in columns):
            rows = [row for row in rows if row[0] not in MISSING_COLUMNS]
            why = "some files lack columns; those of each are looked at first"
            rows += [(name, 1, why) for name in MISSING_COLUMNS]
        rows += _JSON if encoding.format.startswith("JSON") else ()
        if encoding.format == "Values":
            rows.append(("input_format_values_interpret_expressions", 0, "values, and no SQL"))
            rows.append(
                ("input_format_values_deduce_templates_of_expressions", 0, "values, and no SQL")
            )
    return tuple(Setting(*row, routine=True) for row in rows)


def nulls_are_guarded(encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Tell whether a NULL in a column that takes none raises by the column's own DEFAULT.

    Only with input_format_null_as_default the reader of Avro takes unions of null and array at all.
    Where files may lack columns, those need their defaults.
    """
    return encoding.format == "Avro" and not any(c.optional for c in columns)


def _nulls_are_dynamic(columns: Sequence[Column]) -> bool:
    """Tell whether some columns are Dynamic, and a NULL in each other one is read as such."""
    types = [column.read_type or column.type for column in columns]
    return "Dynamic" in types and all(t == "Dynamic" or parse_type(t).nullable for t in types)


def _is_string(column: Column) -> bool:
    target = parse_type(column.type)
    return target.text or target.base.startswith("Enum") or not target.known


def tuples_apart(encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Tell whether elements of tuples have fields of their own: unless each column has one."""
    takes = first_fields([c.type for c in columns])[-1]
    return not (takes > len(columns) == encoding.fields)


def line_fields(encoding: Encoding, columns: Sequence[Column], names: int) -> int:
    """Return the number of fields in a line of text.

    Args:
        columns: that are read, whose tuples take several fields each in some CSV.
        names: number of columns in the file, ``columns`` among them.
    """
    csv = encoding.is_csv
    more = first_fields([c.type for c in columns])[-1] - len(columns)
    return names + (more if csv and tuples_apart(encoding, columns) else 0) + encoding.trailing
