"""Options and commands of other tools, and what does the same here, for hints. Pure."""

from __future__ import annotations

_ROWS = "It is --limit N, for the first rows, or --sample 1% of all."
_APPEND = "Rows are appended to a table that is there; --replace puts them in its place."
_SERVER = "A server is one URL: --to clickhouse://USER@HOST:8123/DATABASE."
_TARGET = "The target is --to: a folder, a server's URL, or files to write."
_SOURCE = "The source has no option in front of it: rowfall load FILE... --table NAME."
_KEY = "The key of a new table is --order-by; --upsert COLUMNS replaces rows with the same key."
_FILES = "Name the files by a pattern ('2024/*.csv'); --skip NAME leaves out a column."

OPTIONS = {
    "dry-run": "'rowfall plan' with the same arguments shows what a load would do.",
    "explain": "'rowfall plan' with the same arguments shows what a load would do.",
    "head": _ROWS,
    "nrows": _ROWS,
    "max-rows": _ROWS,
    "rows": _ROWS,
    "append": _APPEND,
    "overwrite": "--replace replaces the table.",
    "truncate": "--replace replaces the table.",
    "drop": "--replace replaces the table.",
    "if-exists": _APPEND,
    "mode": _APPEND,
    "write-disposition": _APPEND,
    "create-table": "A table that is missing is created; --schema or --type name its types.",
    "create": "A table that is missing is created; --schema or --type name its types.",
    "sep": "It is --delimiter TEXT.",
    "separator": "It is --delimiter TEXT.",
    "delim": "It is --delimiter TEXT.",
    "field-delimiter": "It is --delimiter TEXT.",
    "fields-terminated-by": "It is --delimiter TEXT.",
    "quotechar": "It is --quote CHAR.",
    "enclosed-by": "It is --quote CHAR.",
    "escapechar": "It is --escape CHAR.",
    "nullstr": "It is --null WORD,...",
    "null-string": "It is --null WORD,...",
    "na-values": "It is --null WORD,...",
    "nullif": "It is --null WORD,...",
    "no-header": "It is --header no.",
    "skip-header": "It is --header yes, and --columns NAME,... for other names.",
    "skiprows": "It is --skip-lines N.",
    "skip-rows": "It is --skip-lines N.",
    "date-format": "It is --dates dmy, mdy or ymd.",
    "dateformat": "It is --dates dmy, mdy or ymd.",
    "charset": "It is --encoding NAME.",
    "dtype": "It is --type 'NAME TYPE', once for each column.",
    "dtypes": "It is --type 'NAME TYPE', once for each column.",
    "types": "It is --type 'NAME TYPE', once for each column.",
    "column-types": "It is --type 'NAME TYPE', once for each column.",
    "usecols": "It is --select 'a, b', or --skip NAME for those to leave out.",
    "filter": "It is --where CONDITION, over the columns of the source.",
    "include": _FILES,
    "pattern": _FILES,
    "ignore-errors": "It is --max-errors N, or --max-error-ratio R.",
    "skip-errors": "It is --max-errors N, or --max-error-ratio R.",
    "on-error": "It is --max-errors N, or --max-error-ratio R.",
    "bad-rows": "It is --max-errors N; --rejects FILE keeps them.",
    "host": _SERVER,
    "hostname": _SERVER,
    "port": _SERVER,
    "user": _SERVER,
    "username": _SERVER,
    "database": _SERVER,
    "db": _SERVER,
    "secure": "TLS is part of the URL: --to clickhouses://USER@HOST:8443/DATABASE.",
    "password": "It is --ask-password, or the variable ROWFALL_PASSWORD.",
    "cluster": "It is part of the URL: --to 'clickhouse://HOST:8123/DATABASE?cluster=NAME'.",
    "target": _TARGET,
    "dest": _TARGET,
    "destination": _TARGET,
    "output": _TARGET,
    "out": _TARGET,
    "into": "The table is --table NAME, the target is --to TARGET.",
    "input": _SOURCE,
    "source": _SOURCE,
    "file": _SOURCE,
    "infile": _SOURCE,
    "path": _SOURCE,
    "table-name": "It is --table NAME.",
    "primary-key": _KEY,
    "key-columns": _KEY,
    "merge-key": _KEY,
    "pk": _KEY,
    "sort-key": "It is --order-by EXPR.",
    "batch-size": "It is computed; --set min_insert_block_size_rows=N sets it, --attempt-bytes "
    "SIZE says what a crash loads again.",
    "block-size": "It is computed; --set min_insert_block_size_rows=N sets it.",
    "chunk-size": "It is computed; --set min_insert_block_size_rows=N sets it.",
    "parallel": "It is --threads N, or --streams N for the connections to a server.",
    "parallelism": "It is --threads N, or --streams N for the connections to a server.",
    "jobs": "It is --threads N, or --streams N for the connections to a server.",
    "concurrency": "It is --threads N, or --streams N for the connections to a server.",
    "retries": "It is --patience DURATION: how long a server may be away.",
    "retry": "It is --patience DURATION: how long a server may be away.",
    "timeout": "It is --patience DURATION: how long a server may be away.",
    "resume": "The same command resumes a load by itself.",
    "incremental": "Files that are loaded already are left out by themselves.",
    "no-progress": "It is --quiet.",
    "silent": "It is --quiet.",
    "exactly-once": "Every load is, unless --direct says otherwise.",
}
"""Long options of other tools, without their dashes -> what does the same here."""

SHORT = {
    "t": "The table is --table NAME.",
    "d": "The delimiter is --delimiter TEXT.",
    "F": "The delimiter is --delimiter TEXT.",
    "s": "The delimiter is --delimiter TEXT.",
    "n": _ROWS,
    "f": _SOURCE,
    "i": _SOURCE,
    "o": _TARGET,
    "u": _SERVER,
    "p": "A password is asked for with --ask-password.",
    "j": "The threads are --threads N.",
}
"""Short options of other tools, without the dash -> what does the same here."""

COMMANDS = {
    "ls": "To list tables: rowfall tables; loads: rowfall status.",
    "list": "To list tables: rowfall tables; loads: rowfall status.",
    "show": "To look at rows: rowfall query 'SELECT * FROM TABLE LIMIT 5'.",
    "describe": "To see the columns: rowfall query 'DESCRIBE TABLE NAME'.",
    "drop": "To drop a table: rowfall query --write 'DROP TABLE NAME'.",
    "rollback": "A load that has failed leaves no half of a file; rowfall undo LOAD takes the rows "
    "of one that is done out again.",
    "dry-run": "To see what a load would do: rowfall plan SOURCE...",
    "import": "To load: rowfall load SOURCE... --table NAME.",
    "copy": "To load: rowfall load SOURCE... --table NAME.",
    "insert": "To load: rowfall load SOURCE... --table NAME.",
    "ingest": "To load: rowfall load SOURCE... --table NAME.",
    "sync": "To load: rowfall load SOURCE... --table NAME; what is loaded already is left out.",
    "unload": "To write a file: rowfall export TABLE out.parquet.",
    "dump": "To write a file: rowfall export TABLE out.parquet.",
    "select": "To run SQL: rowfall query 'SELECT ...'.",
    "sql": "To run SQL: rowfall query 'SELECT ...'.",
    "loads": "To list loads: rowfall status.",
    "history": "To list loads: rowfall status.",
    "version": "It is rowfall --version.",
}
"""Commands of other tools -> what does the same here."""


def option_hint(flag: str) -> str:
    """Return a sentence, with a blank behind it, on what replaces an option of another tool.

    "" for an option that is not known.

    Args:
        flag: as it was typed, with its dashes.
    """
    short = not flag.startswith("--")
    found = SHORT.get(flag[1:2]) if short else OPTIONS.get(flag[2:].lower().replace("_", "-"))
    return f"{found} " if found else ""


def command_hint(name: str) -> str:
    """Return the sentence, as of :func:`option_hint`, on what replaces another tool's command."""
    found = COMMANDS.get(name.lower().replace("_", "-"))
    return f"{found} " if found else ""
