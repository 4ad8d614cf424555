"""The engine's numeric error codes, mapped once: kind of error, transient or not, hint.

Numbers are ClickHouse ``ErrorCodes.cpp``; they are stable across versions, messages are not.
"""

from __future__ import annotations

import re

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    EngineError,
    ObjectChangedError,
    RowfallError,
    SourceError,
    TargetError,
    UsageError,
    headline,
)
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.engines.base import NETWORK_ERROR

BAD_ARGUMENTS = 36
UNKNOWN_IDENTIFIER = 47
NOT_IMPLEMENTED = 48
UNKNOWN_TYPE = 50
INCORRECT_DATA = 117
TABLE_EXISTS = 57
UNKNOWN_TABLE = 60
UNKNOWN_DATABASE = 81
RECEIVED_ERROR_FROM_HTTP = 86
TABLES_DIFFER = 122  # INCOMPATIBLE_COLUMNS
TIMEOUT_EXCEEDED = 159
READONLY = 164  # "this user may not change anything"
STATEMENT_RUNS = 216  # another one with the same id
TABLE_IS_DROPPED = 218
MEMORY_LIMIT = 241
NO_DEFINITION = 390  # CANNOT_GET_CREATE_TABLE_QUERY
QUERY_WAS_CANCELLED = 394
THROW_IF = 395  # our own guards
SETTING_CONSTRAINT_VIOLATION = 452
ACCESS_DENIED = 497
S3_ERROR = 499
AUTHENTICATION_FAILED = 516
CONCURRENT_RESTORE = 587  # CONCURRENT_ACCESS_NOT_SUPPORTED
CLUSTER_DOES_NOT_EXIST = 701  # and: no port of the kind that getServerPort was asked for

# The second comes where the table went while the statement waited for its lock.
GONE = frozenset({UNKNOWN_TABLE, TABLE_IS_DROPPED})
# Of ATTACH PARTITION ... FROM: the columns differ; or the keys, indices or projections do.
NOT_ALIKE = frozenset({TABLES_DIFFER, BAD_ARGUMENTS})

# Of DETACH PART: there is no such active part.
NO_SUCH_PART = frozenset({232})

# Errors about the user and the password.
REFUSED_USER = frozenset({192, 193, 194, AUTHENTICATION_FAILED})
# Of a statement on several nodes: all connection tries failed; no structure from any of them.
NO_NODE_ANSWERS = frozenset({279, 519})
# Of a statement ON CLUSTER: there is no Keeper, or it fails.
NO_KEEPER, KEEPER_FAILS = frozenset({139, 225}), frozenset({999, 242, 319})
# Of a request for an object whose answer did not come, or not to its end: SOCKET_TIMEOUT,
# NETWORK_ERROR, HTTP_RANGE_NOT_SATISFIABLE (the rest is asked for, and the server gives whole files
# only), POCO_EXCEPTION.
SOCKET_TIMEOUT, RANGE_REFUSED, POCO_EXCEPTION = 209, 629, 1000
BROKEN_OFF = frozenset({SOCKET_TIMEOUT, NETWORK_ERROR, RANGE_REFUSED, POCO_EXCEPTION})
# Errors about data that stopped in the middle: end of file, time-out, network, cancelled by our own
# kill, and those of the decoders about half a stream.
CUT_SHORT = frozenset({3, 32, 33, 209, 210, 394, 1000, 1002, 354, 448, 554, 561, 594, 618, 638})
# Errors of url() before it has sent anything: it may not, or must not.
URL_REFUSED = frozenset({491, 497, 164, 201, 202, 452, 115, 36, 42, 46, 62})
# Of a program that a table function runs: CHILD_WAS_NOT_EXITED_NORMALLY; and, where it was gone
# before all was written to it, CANNOT_WRITE_TO_FILE_DESCRIPTOR, which a full disk raises too.
CHILD_FAILED, CHILD_GONE = 302, 75

# Of blanks where the reader of CSV expects none: CANNOT_PARSE_INPUT_ASSERTION_FAILED, and of
# numbers CANNOT_PARSE_NUMBER.
BLANKS_REFUSED = frozenset({27, 72})

VIOLATED_CONSTRAINT = 469
NO_NULL = 349  # CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN

# Raised by a value or a row that does not fit; schema.bad_rows finds its position.
LIBRARY_ERROR = 1001
"""STD_EXCEPTION: what the libraries of Avro, Arrow, ORC and (before 25) Parquet say, mostly of a
file that is damaged or of a newer kind than they know."""

DATA_CODES = frozenset(
    {
        3,  # UNEXPECTED_END_OF_FILE: a bz2 file that was cut
        6,  # CANNOT_PARSE_TEXT
        10,  # NOT_FOUND_COLUMN_IN_BLOCK: a JSON object with a key that its Tuple lacks
        25,  # CANNOT_PARSE_ESCAPE_SEQUENCE
        26,  # CANNOT_PARSE_QUOTED_STRING
        27,  # CANNOT_PARSE_INPUT_ASSERTION_FAILED
        32,  # ATTEMPT_TO_READ_AFTER_EOF
        33,  # CANNOT_READ_ALL_DATA
        38,  # CANNOT_PARSE_DATE
        41,  # CANNOT_PARSE_DATETIME
        53,  # TYPE_MISMATCH
        69,  # ARGUMENT_OUT_OF_BOUND
        70,  # CANNOT_CONVERT_TYPE
        72,  # CANNOT_PARSE_NUMBER
        INCORRECT_DATA,
        271,  # CANNOT_DECOMPRESS: a page of a damaged Parquet file
        748,  # AVRO_EXCEPTION
        130,  # CANNOT_READ_ARRAY_FROM_TEXT
        131,  # TOO_LARGE_STRING_SIZE
        321,  # VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
        NO_NULL,
        354,  # ZLIB_INFLATE_FAILED
        376,  # CANNOT_PARSE_UUID
        THROW_IF,
        407,  # DECIMAL_OVERFLOW
        436,  # PROTOBUF_BAD_CAST
        441,  # CANNOT_PARSE_DOMAIN_VALUE
        467,  # CANNOT_PARSE_BOOL
        VIOLATED_CONSTRAINT,
        561,  # ZSTD_DECODER_FAILED
        632,  # UNEXPECTED_DATA_AFTER_PARSED_VALUE
        636,  # CANNOT_EXTRACT_TABLE_STRUCTURE
        675,  # CANNOT_PARSE_IPV4
        676,  # CANNOT_PARSE_IPV6
        691,  # UNKNOWN_ELEMENT_OF_ENUM
        8,  # THERE_IS_NO_COLUMN (a Parquet file with another schema)
        448,  # BROTLI_READ_FAILED
        554,  # LZMA_STREAM_DECODER_FAILED
        594,  # BZIP2_STREAM_DECODER_FAILED
        618,  # LZ4_DECODER_FAILED
        638,  # SNAPPY_UNCOMPRESS_FAILED
    }
)


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """Class, hint and repeatability of the error for one code."""

    error: type[RowfallError]
    hint: str | None
    transient: bool = False


_MEANINGS: dict[int, ErrorMeaning] = {
    MEMORY_LIMIT: ErrorMeaning(
        EngineError, "Give the load more with --memory, or fewer --threads.", transient=True
    ),
    SOCKET_TIMEOUT: ErrorMeaning(
        EngineError, "The source or network timed out; run again.", transient=True
    ),
    NETWORK_ERROR: ErrorMeaning(EngineError, "The network failed; run again.", transient=True),
    S3_ERROR: ErrorMeaning(SourceError, "Check bucket, key and credentials.", transient=True),
    # AZURE_BLOB_STORAGE_ERROR, HDFS_ERROR
    500: ErrorMeaning(SourceError, "Check container, name and credentials.", transient=True),
    660: ErrorMeaning(SourceError, "Check name node and data nodes; run again.", transient=True),
    86: ErrorMeaning(
        SourceError, "Open the URL by hand to see the server's answer.", transient=True
    ),
    107: ErrorMeaning(SourceError, "A file was removed after it was listed; run again."),
    243: ErrorMeaning(TargetError, "Free some space and run the same command again."),
    75: ErrorMeaning(TargetError, "Check free space and rights of the target folder."),
    74: ErrorMeaning(SourceError, "Check that the file can be read from beginning to end."),
    76: ErrorMeaning(TargetError, "Check free space and rights of the folder."),
    READONLY: ErrorMeaning(UsageError, "Add --write to allow statements that change something."),
    TABLE_EXISTS: ErrorMeaning(
        TargetError, "Another program made that table; run again: each attempt takes another name."
    ),
    UNKNOWN_TABLE: ErrorMeaning(
        EngineError, "Check the names; rowfall query 'SHOW TABLES' lists them."
    ),
    TABLE_IS_DROPPED: ErrorMeaning(EngineError, "The table is being dropped; run again."),
    62: ErrorMeaning(TargetError, "Check the SQL that was given on the command line."),
    115: ErrorMeaning(TargetError, "This engine version does not know that setting."),
    # Raised by servers only.
    UNKNOWN_DATABASE: ErrorMeaning(
        TargetError, "Create the database first, or name another one in --to."
    ),
    192: ErrorMeaning(TargetError, "Check the user name and the password."),
    193: ErrorMeaning(TargetError, "Check the user name and the password."),
    194: ErrorMeaning(TargetError, "Check the user name and the password."),
    AUTHENTICATION_FAILED: ErrorMeaning(TargetError, "Check the user name and the password."),
    ACCESS_DENIED: ErrorMeaning(
        TargetError, "Ask an administrator for the grant that the message names."
    ),
    SETTING_CONSTRAINT_VIOLATION: ErrorMeaning(
        TargetError, "The user's profile does not allow that value; choose another."
    ),
    201: ErrorMeaning(TargetError, "The user's quota is used up; load later or ask for more."),
    159: ErrorMeaning(TargetError, "Ask for a higher max_execution_time in the user's profile."),
    198: ErrorMeaning(SourceError, "The server cannot resolve that host name; check its spelling."),
    202: ErrorMeaning(
        TargetError, "The server is busy with other statements; run again.", transient=True
    ),
    STATEMENT_RUNS: ErrorMeaning(
        EngineError, "The statement runs already; wait for it to end.", transient=True
    ),
    225: ErrorMeaning(TargetError, "The server has lost its Keeper; run again.", transient=True),
    236: ErrorMeaning(EngineError, "The server is shutting down; run again.", transient=True),
    242: ErrorMeaning(TargetError, "The replica is read-only for now; run again.", transient=True),
    252: ErrorMeaning(
        TargetError, "The table has too many parts; wait for its merges.", transient=True
    ),
    253: ErrorMeaning(
        TargetError,
        "Another table of that server has the path, or it was killed while it made this one: if "
        "none has it, SYSTEM DROP REPLICA 'name' FROM ZKPATH 'path' there, then run again.",
    ),
    285: ErrorMeaning(TargetError, "Too few replicas are up; run again.", transient=True),
    319: ErrorMeaning(
        TargetError, "The replica lost Keeper while it wrote; run again.", transient=True
    ),
    999: ErrorMeaning(TargetError, "Keeper failed; run again.", transient=True),
}

_NAME = regex(r"\([A-Z_]+\)\Z")
_CODE = regex(r"Code: (\d+)(?:\. (?:DB|Coordination)::\w*Exception: |, type: )")
# The analyser repeats the whole statement, which may name thousands of files.
_SCOPE = regex(r"[:.]? In scope (SELECT|INSERT|WITH)\b.*", re.DOTALL)
# Every word of the language that might have stood there.
_EXPECTED = regex(r"\. Expected one of: .*(?= \(SYNTAX_ERROR\))", re.DOTALL)
_TRAILER = regex(r"\s*\(version [\d.]+[^)]*\)\s*$")
# errno 28 arrives inside several codes (75, 76, 1001 std::exception): text is the only sign.
_NO_SPACE = regex(r"No space left on device|errno: 28\b|NOT_ENOUGH_SPACE")
# Another version of an object than the one that was asked for, as web servers and stores say it.
_PIECE_OF_MEMORY = regex(
    r"allocate chunk of ([\d.]+) (bytes|B|[KMGT]iB)\).*?maximum: ([\d.]+) (B|[KMGT]iB)"
)
_SIZES = {
    "bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip
_PRECONDITION = regex(
    r"HTTP (?:response|status) code: '?412\b|Precondition ?Failed|pre-conditions you specified",
    re.IGNORECASE,
)
_INNER_CODE = regex(r"Code: (\d+)\. DB::")
_CHANGED_IN_S3 = "(S3_OBJECT_CHANGED_DURING_READ)"  # the engine compares ETags since 26.7


def translate(text: str) -> RowfallError:
    """Return the engine's exception text as one of rowfall's errors; it carries ``code``."""
    match = _CODE.search(text)
    code = int(match.group(1)) if match else 0
    message = _TRAILER.sub("", text[match.end() :] if match else text).strip()
    message = _EXPECTED.sub("", message)
    name = _NAME.search(message)
    message = _SCOPE.sub("", message) + (f" {name[0]}" if name and "In scope" in message else "")
    if _NO_SPACE.search(text):
        code = 243
    raised = _raised(message)
    if code == BAD_ARGUMENTS and "(while reading the value of key" in raised:
        code = INCORRECT_DATA  # a NULL of JSON where a Dynamic stands
    if _is_about_version(code, raised) or message.endswith(_CHANGED_IN_S3):
        said = "" if code == THROW_IF else f" ({raised})"
        return ObjectChangedError(
            f"an object changed while it was read{said}",
            hint="Run the same command again when nothing writes to it.",
            transient=True,
            # Not that of a value which does not fit, as the condition of a source would have it.
            code=RECEIVED_ERROR_FROM_HTTP,
        )
    if code == POCO_EXCEPTION and raised.startswith("Timeout"):
        code = SOCKET_TIMEOUT  # of a read from url(), 26.9
    meaning = _MEANINGS.get(code, ErrorMeaning(EngineError, None))
    return meaning.error(message, hint=meaning.hint, transient=meaning.transient, code=code)


def broken_off(names: str, error: RowfallError) -> SourceError:
    """Return the error about objects whose bytes did not come: an engine does not say of which."""
    said = "no answer in time" if error.code == SOCKET_TIMEOUT else headline(error.message)
    if error.code == RANGE_REFUSED:
        said = "it was to go on from there, and the server sends no parts of files"
    return SourceError(
        f"cannot read {names}: the connection broke before the end ({said})",
        hint="Its server promises more bytes than it sends, or ends connections.",
        transient=True,
    )


def is_one_value(error: RowfallError) -> bool:
    """Tell whether a limit of memory was met by one piece that is half of it or more.

    Smaller blocks do not help there: it is one value, or the block of a file that holds it.
    """
    found = _PIECE_OF_MEMORY.search(error.message) if error.code == MEMORY_LIMIT else None
    if found is None:
        return False
    piece, limit = (
        float(number) * _SIZES[unit] for number, unit in (found.group(1, 2), found.group(3, 4))
    )
    return limit <= 2 * piece


def _raised(message: str) -> str:
    """Return an exception's text without "while executing ...", which may quote data and SQL."""
    return re.split(": [Ww]hile executing", message, maxsplit=1)[0]


def _is_about_version(code: int, raised: str) -> bool:
    """Tell whether an error says that an object is not the version that was asked for."""
    if code == THROW_IF:
        return sql.CHANGED in raised
    # The readers of some formats wrap the error of a request into one of their own.
    codes = {code, *map(int, _INNER_CODE.findall(raised))}
    asked = not codes.isdisjoint((RECEIVED_ERROR_FROM_HTTP, S3_ERROR))
    return asked and _PRECONDITION.search(raised) is not None


# --- rights that are missing --------------------------------------------------------------------

LACKS = " lacks the grant "
_DENIED = regex(r"necessary to have (?:the )?grant (.+?)\.?(?: \([A-Z_]+\)|\. |\Z)")
_MISSING = regex(r"\(Missing permissions: (.+?)\)\.? ?(?:\(|\Z)")
_COLUMNS = regex(r"(?:\([^)]*\)| for at least one column)? on ", re.IGNORECASE)
# Staging tables have another name in each attempt.
_STAGING = regex(r"\.`?_rowfall_\w+`?")
_PLAIN = regex(r"[A-Za-z_]\w*\Z")


def missing_rights(message: str) -> str | None:
    """Return the rights that an error of code 497 asks for, for GRANT; None if it names none."""
    found = _MISSING.search(message) or _DENIED.search(message)
    return _STAGING.sub(".*", _COLUMNS.sub(" ON ", found[1])) if found else None


def denied(rights: str, user: str) -> TargetError:
    """Return the error for a user who lacks ``rights`` (``SELECT, INSERT ON db.*``)."""
    return TargetError(
        f"the user {user!r}{LACKS}{rights}",
        hint=f"An administrator can run: GRANT {rights} TO {_name(user)}",
        code=ACCESS_DENIED,
    )


def forbidden(name: str, now: str, needed: str | int | float, user: str, why: str) -> TargetError:
    """Return the error for a user whose profile does not allow a setting that a load needs.

    Args:
        now: what the setting is, "" where that is not known. ``why``: the load needs the other.
    """
    given = quote(needed) if isinstance(needed, str) else needed
    has = f"sets {name} = {now} and " if now else ""
    return TargetError(
        f"the profile of {f'the user {user!r}' if user else 'the user'} {has}does not allow "
        f"{name} = {needed}, {why}",
        hint=f"An administrator can run: ALTER USER {_name(user) if user else '...'} SETTINGS "
        f"{name} = {given}",
        code=SETTING_CONSTRAINT_VIOLATION,
    )


def _name(user: str) -> str:
    return user if _PLAIN.match(user) else sql.name(user)
