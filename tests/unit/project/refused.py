"""Files that are refused: text, what the error says, whether an editor's schema refuses it, too."""

from __future__ import annotations

LOAD = '[loads.orders]\nsource = "orders.csv"\n'

# Each is one mistake; the second word is the line that the error names.
REFUSED: dict[str, tuple[str, str, bool]] = {
    "a table that is not known": ("[load.orders]\nsource = 'a'", r"line 1: 'load' means nothing", True),
    "a key that is not known": (f'{LOAD}tabel = "t"', r"line 3, \[loads.orders\]: tabel is no key of a load", True),
    "an option that is not known": (f"{LOAD}thread = 2", r"line 3, \[loads.orders\]: thread is no key", True),
    "an option of another command": (f'{LOAD}nodes = "3"', r"line 3, .*: nodes is no key of a load", True),
    "an answer": (f"{LOAD}force = true", r"line 3, .*: force is no key of a load", True),
    "a load that follows": (f"{LOAD}follow = true", r"line 3, .*: follow is no key of a load", True),
    "an option of pipelines": (f'{LOAD}on_change = "load"', r"line 3, .*: on_change is no key of a load", True),
    "a switch that is a text": (f'{LOAD}verify = "yes"', r'line 3, .*: verify = "yes": it is a switch: true or false', True),
    "a number that is a text": (f'{LOAD}threads = "two"', r'line 3, .*: threads = "two": it is a whole number of 1 or more', True),
    "a number that is too small": (f"{LOAD}threads = 0", r"line 3, .*: threads = 0: it is a whole number of 1", True),
    "a share that is none": (f"{LOAD}max_error_ratio = 1.5", r"line 3, .*: max_error_ratio = 1.5: it is a number from 0 to 1", True),
    "a word that is not one of them": (f'{LOAD}dates = "dym"', r'line 3, .*: dates = "dym": it is dmy, mdy or ymd', True),
    "a text that is a list": (f'{LOAD}order_by = ["a"]', r'line 3, .*: order_by = \["a"\]: it is a text', True),
    "a list of numbers": (f"{LOAD}skip = [1]", r"line 3, .*: skip = \[1\]: it is a text or a list of texts", True),
    "one option twice": (f'{LOAD}order_by = "a"\norder-by = "b"', r"line 4, .*: order-by says the same as order_by", False),
    "no source": ('[loads.orders]\ntable = "t"', r"line 1: \[loads.orders\] names no source", True),
    "a source that is a number": ("[loads.orders]\nsource = 3", r"line 2, .*: source = 3: it is a text or a list", True),
    "stdin": ('[loads.orders]\nsource = "-"', r'line 2, .*: source = "-": stdin is not there', True),
    "no sources": ("[loads.orders]\nsource = []", r"line 2, .*: source = \[\]: it is a text or a list", True),
    "a load that is no table": ("[loads]\norders = 'a'", r"line 2: orders = \"a\" is no table", True),
    "loads that are no table": ("loads = 1", r"line 1: loads is no table", True),
    "a name with a blank": ('[loads."or ders"]\nsource = "a"', r"line 1: 'or ders' is not a name for a load", True),
    "a connection without a uri": ("[connections.prod]\nthreads = 2", r"line 1: \[connections.prod\] names no target", True),
    "a connection that is a profile": ('[connections.prod]\nto = "x"', r"line 2, \[connections.prod\]: to is no key of a connection", True),
    "a password": ('[connections.prod]\nuri = "clickhouse://me@h/db"\npassword = "geheim"', r"line 3, .*: password holds the password itself", True),
    "a password in a uri": ('[connections.prod]\nuri = "clickhouse://me:geheim@h/db"', r"line 2, .*: uri holds a secret: the password of a user", True),
    "a password in a parameter": ('[connections.prod]\nuri = "kafka://h:9092/t?sasl.password=geheim"', r"line 2, .*: uri holds a secret: the parameter sasl.password", False),
    "a password in a source": ('[loads.orders]\nsource = "postgresql://me:geheim@h/db/t"', r"line 2, .*: source holds a secret", True),
    "a token of the web": ('[loads.orders]\nsource = "https://geheim@h/t.csv"', r"line 2, .*: source holds a secret: a token", False),
    "a password that is a number": ('[connections.prod]\nuri = "clickhouse://me@h/db"\npassword = 123456', r"line 3, .*: password is no text", True),
    "two things of one name": (f'{LOAD}[pipelines.orders]\nsource = "a"', r"line 3: orders is a pipeline and a load", False),
    "a hook that is a text": (f'{LOAD}before = "SELECT 1"', r'line 3, .*: before = "SELECT 1": it is no hook', True),
    "a hook of nothing": (f'{LOAD}before = {{ timeout = "1m" }}', r"line 3, .*: before needs one of sql and command", True),
    "a hook of both": (f'{LOAD}after = {{ sql = "SELECT 1", command = ["true"] }}', r"line 3, .*: after needs one of sql and command", True),
    "a hook for a shell": (f'{LOAD}after = {{ command = "true; false" }}', r'line 3, .*: after command = "true; false": it is a list', True),
    "a hook with a word too many": (f'{LOAD}after = {{ sql = "SELECT 1", retry = 2 }}', r"line 3, .*: after holds 'retry'", True),
    "a hook without an end": (f'{LOAD}after = {{ sql = "SELECT 1", timeout = "soon" }}', r'line 3, .*: after timeout = "soon": it is no duration', True),
    "a hook without words": (f"{LOAD}after = {{ command = [] }}", r"line 3, .*: after is empty", True),
    "needs of a pipeline": ('[pipelines.live]\nsource = "a"\nneeds = ["b"]', r"line 3, .*: needs is no key of a pipeline", True),
    "needs that are a number": (f"{LOAD}needs = 1", r"line 3, .*: needs = 1: it is a text or a list", True),
}  # fmt: skip
# ruff: noqa: E501 - a case is a line
