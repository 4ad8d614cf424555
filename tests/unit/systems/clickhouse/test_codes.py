"""What errors of an engine mean."""

from __future__ import annotations

import pytest

from rowfall.core.errors import ObjectChangedError, SourceError
from rowfall.core.sql import CHANGED
from rowfall.systems.clickhouse.codes import DATA_CODES, is_one_value, translate

QUOTED = f"FUNCTION throwIf(x :: 1, '{CHANGED}' :: 2) -> throwIf() UInt8 : 3"


@pytest.mark.parametrize(
    "text",
    [
        "Code: 86. DB::HTTPException: Received error from remote server http://h/a.csv. HTTP "
        "status code: 412 'Precondition Failed', body length: 0 bytes: while reading",
        "Code: 499. DB::Exception: Failed to get object info: No response body.. HTTP response "
        "code: 412: while reading b/a.parquet. (S3_ERROR)",
        "Code: 499. DB::Exception: At least one of the pre-conditions you specified did not hold "
        "(S3_ERROR)",
        f"Code: 395. DB::Exception: {CHANGED}: while executing '{QUOTED}'. (FUNCTION_THROW_IF)",
        "Code: 1000. DB::Exception: b/k changed (S3_OBJECT_CHANGED_DURING_READ) (version 26.9)",
    ],
)
def test_another_version_of_an_object(text: str) -> None:
    error = translate(text)
    assert isinstance(error, ObjectChangedError)
    assert error.transient
    assert error.code
    assert error.code not in DATA_CODES


@pytest.mark.parametrize(
    "text",
    [
        "Code: 86. DB::HTTPException: Received error from remote server http://h/412. HTTP "
        "status code: 404 'Not Found'",
        f"Code: 395. DB::Exception: rowfall: a value does not fit: while executing '{QUOTED}'",
        f"Code: 241. DB::Exception: memory limit: In scope SELECT throwIf(1, '{CHANGED}'). (X)",
        "Code: 27. DB::Exception: Cannot parse input: expected ',' before: 'Precondition Failed'",
    ],
)
def test_other_errors_that_quote_the_same_words(text: str) -> None:
    assert not isinstance(translate(text), ObjectChangedError)


@pytest.mark.parametrize(
    "text",
    [
        "Code: 660. DB::Exception: Unable to connect to HDFS: Connection refused. (HDFS_ERROR)",
        "Code: 500. DB::Exception: Azure Blob Storage Error. (AZURE_BLOB_STORAGE_ERROR)",
        "Code: 499. DB::Exception: Failed to get object info. (S3_ERROR)",
    ],
)
def test_a_store_that_is_away_is_tried_again(text: str) -> None:
    error = translate(text)
    assert isinstance(error, SourceError)
    assert error.transient
    assert error.exit_code == 4


@pytest.mark.parametrize(
    ("said", "one"),
    [
        ("would use 3.01 GiB (attempt to allocate chunk of 2.00 GiB), maximum: 849.00 MiB", True),
        # Of 24.10, which counts in bytes.
        (
            "would use 1.0 GiB (attempt to allocate chunk of 943718400 bytes), maximum: 1.00 GiB",
            True,
        ),
        (
            "would use 1.0 GiB (attempt to allocate chunk of 4194304 bytes), maximum: 1.00 GiB",
            False,
        ),
        ("would use 850.1 MiB (attempt to allocate chunk of 1.00 MiB), maximum: 849.00 MiB", False),
        ("something else", False),
    ],
)
def test_one_value_that_is_too_large(said: str, one: bool) -> None:
    text = f"Code: 241. DB::Exception: Query memory limit exceeded: {said}. (MEMORY_LIMIT_EXCEEDED)"
    assert is_one_value(translate(text)) == one
