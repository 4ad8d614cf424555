"""Recipes of ``generate://``: columns, and the SELECT that makes them from numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column, Schema, TableLayout
from rowfall.core.sql import literal

REASON = "given by the generator"
RANDOM = "Random"
"""The rows of ``generate://random``, as rowfall-decode calls them, which makes the same ones."""
MADE_COLUMNS: Mapping[str, str] = {"document_id": "UInt64", "payload": "String"}
"""Their columns and types."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One generated table.

    Attributes:
        schema: columns, types and layout.
        select: SQL with the placeholder ``{range}`` for the table of numbers.
        split_rows: rows of one split.
    """

    schema: Schema
    select: str
    split_rows: int


def schema(columns: str, order_by: str, row_bytes: float) -> Schema:
    """Return the schema of ``name type, ...``; ``row_bytes`` is the size of a row in memory."""
    pairs = (line.strip().split(" ", 1) for line in columns.strip().split(","))
    return schema_of(tuple((name, kind.strip()) for name, kind in pairs), order_by, row_bytes)


def schema_of(columns: Sequence[tuple[str, str]], order_by: str, row_bytes: float) -> Schema:
    """Return the schema of columns by name and type; ``row_bytes``: of a row in memory."""
    return Schema(
        tuple(Column(name, kind, REASON) for name, kind in columns),
        layout=TableLayout(order_by=order_by),
        notes=(("ORDER BY", REASON),),
        row_bytes=row_bytes,
    )


def hash_of(seed: int, salt: int) -> str:
    """Return SQL for 64 evenly spread bits a row; other seeds and salts give unrelated streams."""
    offset = (seed * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03) % 2**64
    return f"intHash64(bitXor(number, toUInt64({offset})))"


# --- trips: the table of "Loading 100B Rows in Minutes" ----------------------------------------

_TRIPS_COLUMNS = "distance_miles UInt32, duration_seconds UInt32, vehicle_id UInt8"

_TRIPS = """
SELECT
    toUInt32([1, 5, 10, 25, 50, 75, 100, 125, 150, 175][bitShiftRight(bitAnd(h, 0xFFFFFFFF) * 10, 32) + 1]) AS distance_miles,
    toUInt32(distance_miles * vehicle_id) AS duration_seconds,
    toUInt8(bitShiftRight(bitShiftRight(h, 32) * 10, 32) + 1) AS vehicle_id
FROM (SELECT {hash} AS h FROM {range})
"""  # noqa: E501 - SQL reads better unbroken


def trips(seed: int) -> Recipe:
    """Return ten vehicles, ten distances; duration = distance x vehicle number, 56 values."""
    made = schema(_TRIPS_COLUMNS, "(vehicle_id, distance_miles)", 9.0)
    return Recipe(made, _TRIPS.replace("{hash}", hash_of(seed, 1)), 5_000_000)


# --- random: rows of incompressible text -------------------------------------------------------


def random(seed: int, size: int) -> Recipe:
    """Return rows whose ``payload`` is base64 text of an AES key stream: six random bits a byte.

    Printable, so that CSV and JSON carry it unescaped; a compressor saves a quarter at most.
    ``crates/rowfall-decode/src/columnar/random.rs`` makes the same rows.
    """
    key = f"reinterpretAsFixedString(toUInt128({seed}))"
    # The row number fills the upper half of the counter block, so key streams never overlap.
    block = "reinterpretAsFixedString(toUInt128(number))"
    zeros = f"repeat('\\0', {-(-size * 3 // 4)})"
    select = (
        "\nSELECT\n    number AS document_id,\n    substring(base64Encode(encrypt("
        f"'aes-128-ctr', {zeros}, {key}, {block})), 1, {size}) AS payload\nFROM {{range}}\n"
    ).replace("{{range}}", "{range}")
    columns = ", ".join(f"{name} {type_}" for name, type_ in MADE_COLUMNS.items())
    made = schema(columns, "document_id", 8.0 + size)
    return Recipe(made, select, max(1000, (64 << 20) // (size + 8)))


# --- taxi: the 51 columns of "Faster ClickHouse Imports" ---------------------------------------

_ZONE_COLUMNS = """
    {0}_nyct2010_gid Nullable(UInt8), {0}_ctlabel Nullable(String),
    {0}_borocode Nullable(UInt8), {0}_boroname Nullable(String), {0}_ct2010 Nullable(String),
    {0}_boroct2010 Nullable(String), {0}_cdeligibil Nullable(FixedString(1)),
    {0}_ntacode Nullable(String), {0}_ntaname Nullable(String), {0}_puma Nullable(String)"""

_TAXI_COLUMNS = f"""
    trip_id UInt32, vendor_id String, pickup_datetime DateTime, dropoff_datetime Nullable(DateTime),
    store_and_fwd_flag Nullable(FixedString(1)), rate_code_id Nullable(UInt8),
    pickup_longitude Nullable(Float64), pickup_latitude Nullable(Float64),
    dropoff_longitude Nullable(Float64), dropoff_latitude Nullable(Float64),
    passenger_count Nullable(UInt8), trip_distance Nullable(Float64),
    fare_amount Nullable(Float32), extra Nullable(Float32), mta_tax Nullable(Float32),
    tip_amount Nullable(Float32), tolls_amount Nullable(Float32), ehail_fee Nullable(Float32),
    improvement_surcharge Nullable(Float32), total_amount Nullable(Float32),
    payment_type Nullable(String), trip_type Nullable(UInt8), pickup Nullable(String),
    dropoff Nullable(String), cab_type Nullable(String), precipitation Nullable(Int8),
    snow_depth Nullable(Int8), snowfall Nullable(Int8), max_temperature Nullable(Int8),
    min_temperature Nullable(Int8), average_wind_speed Nullable(Int8),
    {_ZONE_COLUMNS.format("pickup")},
    {_ZONE_COLUMNS.format("dropoff")}"""

# Popular first, because the draw is skewed to the front: census label, borough, tract,
# eligibility, code, name, PUMA, longitude, latitude.
_ZONES = (
    ("109", 1, "010900", "I", "MN17", "Midtown-Midtown South", "3807", -73.9879, 40.7527),
    ("100", 1, "010000", "I", "MN17", "Midtown-Midtown South", "3807", -73.9723, 40.7571),
    ("76", 1, "007600", "I", "MN13", "Hudson Yards-Chelsea-Flatiron-Union Square", "3807",
     -73.9917, 40.7451),
    ("142", 1, "014200", "I", "MN40", "Upper East Side-Carnegie Hill", "3805", -73.9632, 40.7681),
    ("155", 1, "015500", "I", "MN14", "Lincoln Square", "3806", -73.9829, 40.7731),
    ("66", 1, "006600", "I", "MN20", "Murray Hill-Kips Bay", "3808", -73.9764, 40.7461),
    ("65", 1, "006500", "I", "MN23", "West Village", "3810", -74.0027, 40.7343),
    ("119", 1, "011900", "I", "MN15", "Clinton", "3807", -73.9913, 40.7600),
    ("171", 1, "017100", "I", "MN12", "Upper West Side", "3806", -73.9778, 40.7863),
    ("38", 1, "003800", "I", "MN22", "East Village", "3809", -73.9872, 40.7285),
    ("48", 1, "004800", "I", "MN21", "Gramercy", "3808", -73.9846, 40.7352),
    ("126", 1, "012600", "I", "MN31", "Lenox Hill-Roosevelt Island", "3805", -73.9590, 40.7672),
    ("47", 1, "004700", "I", "MN24", "SoHo-TriBeCa-Civic Center-Little Italy", "3810",
     -74.0029, 40.7236),
    ("7", 1, "000700", "I", "MN25", "Battery Park City-Lower Manhattan", "3810", -74.0089, 40.7053),
    ("331", 4, "033100", "E", "QN98", "Airport", "4113", -73.8733, 40.7740),
    ("716", 4, "071600", "E", "QN98", "Airport", "4105", -73.7866, 40.6448),
    ("9", 3, "000900", "I", "BK09", "Brooklyn Heights-Cobble Hill", "4004", -73.9938, 40.6928),
    ("553", 3, "055300", "I", "BK73", "North Side-South Side", "4001", -73.9580, 40.7173),
    ("33", 3, "003300", "I", "BK38", "DUMBO-Vinegar Hill-Downtown Brooklyn-Boerum Hill", "4004",
     -73.9857, 40.6897),
    ("53", 4, "005300", "E", "QN70", "Astoria", "4101", -73.9205, 40.7644),
    ("7", 4, "000700", "E", "QN31", "Hunters Point-Sunnyside-West Maspeth", "4109",
     -73.9448, 40.7440),
    ("236", 1, "023600", "E", "MN04", "Hamilton Heights", "3802", -73.9480, 40.8251),
    ("63", 2, "006300", "E", "BX63", "West Concourse", "3708", -73.9255, 40.8279),
    ("319.01", 5, "031901", "E", "SI22", "West New Brighton-New Brighton-St. George", "3903",
     -74.0850, 40.6420),
)  # fmt: skip
_BOROUGHS = {1: "Manhattan", 2: "Bronx", 3: "Brooklyn", 4: "Queens", 5: "Staten Island"}
# Share of a day's trips that start before each hour ends: few at 4 am, most from 6 to 10 pm.
_HOURS = (39, 29, 21, 15, 11, 10, 22, 37, 46, 47, 46, 48, 51, 50, 52, 50, 43, 52, 62, 64, 60, 59,
          57, 49)  # fmt: skip


def array(values: Sequence[str | int | float]) -> str:
    """Return an array of SQL."""
    return "[" + ", ".join(literal(value) for value in values) + "]"


def _zone_columns(side: str) -> str:
    """Return the ten columns of one end of the trip, found by the 1-based index ``<side>_zone``."""
    boroughs = [zone[1] for zone in _ZONES]
    columns: Mapping[str, list[str | int | float]] = {
        "nyct2010_gid": [11 * n % 251 + 1 for n in range(len(_ZONES))],
        "ctlabel": [zone[0] for zone in _ZONES],
        "borocode": list(boroughs),
        "boroname": [_BOROUGHS[b] for b in boroughs],
        "ct2010": [zone[2] for zone in _ZONES],
        "boroct2010": [f"{zone[1]}{zone[2]}" for zone in _ZONES],
        "cdeligibil": [zone[3] for zone in _ZONES],
        "ntacode": [zone[4] for zone in _ZONES],
        "ntaname": [zone[5] for zone in _ZONES],
        "puma": [zone[6] for zone in _ZONES],
    }
    wraps = {"cdeligibil": "toFixedString({}, 1)"}
    lines = []
    for name, values in columns.items():
        value = f"{array(values)}[{side}_zone]"
        lines.append(f"    {wraps.get(name, '{}').format(value)} AS {side}_{name}")
    return ",\n".join(lines)


def _day_hours() -> str:
    """Return the start hour (0-23) of each of 1,020 equal shares of a day's trips."""
    return array([hour for hour, share in enumerate(_HOURS) for _ in range(share)])


_GEOMETRY = "concat('0101000020E6100000', hex({0}_longitude), hex({0}_latitude))"

_TAXI = """
SELECT
    toUInt32(number) AS trip_id,
    if(a % 100 < 47, '1', '2') AS vendor_id,
    toDateTime(1230768000 + day * 86400 + hour * 3600 + a2 % 3600, 'UTC') AS pickup_datetime,
    pickup_datetime + toUInt32(60 + trip_distance * (150 + b2 % 180)) AS dropoff_datetime,
    toFixedString(if(b % 200 = 0, 'Y', 'N'), 1) AS store_and_fwd_flag,
    toUInt8(if(dropoff_zone = 16, 2, if(c % 250 = 0, 5, 1))) AS rate_code_id,
    {longitudes}[pickup_zone] + (a3 - 32768) / 8e6 AS pickup_longitude,
    {latitudes}[pickup_zone] + (b3 - 32768) / 8e6 AS pickup_latitude,
    {longitudes}[dropoff_zone] + (c3 - 32768) / 8e6 AS dropoff_longitude,
    {latitudes}[dropoff_zone] + (d3 - 32768) / 8e6 AS dropoff_latitude,
    toUInt8([1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 6, 1, 1, 2][bitAnd(c, 15) + 1]) AS passenger_count,
    round(0.3 - 2.3 * log((d2 + 1) / 65537) * if(pickup_zone > 14 OR dropoff_zone > 14, 2.6, 1), 2) AS trip_distance,
    toFloat32(2.5 + round((trip_distance * 2.5 + b2 % 5) * 2) / 2) AS fare_amount,
    toFloat32(if(hour >= 20 OR hour < 6, 0.5, if(hour >= 16, 1, 0))) AS extra,
    toFloat32(0.5) AS mta_tax,
    toFloat32(if(card, round(fare_amount * (10 + d % 21) / 100, 2), 0)) AS tip_amount,
    toFloat32(if(trip_distance > 8 AND c % 3 = 0, 5.54, 0)) AS tolls_amount,
    CAST(NULL, 'Nullable(Float32)') AS ehail_fee,
    if(day >= 2191, toNullable(toFloat32(0.3)), NULL) AS improvement_surcharge,
    toFloat32(round(fare_amount + extra + mta_tax + tip_amount + tolls_amount + ifNull(improvement_surcharge, 0), 2)) AS total_amount,
    if(card, 'CRD', if(d % 50 = 0, 'NOC', 'CSH')) AS payment_type,
    if(green, toNullable(toUInt8(1 + (d % 40 = 0))), NULL) AS trip_type,
    {pickup} AS pickup,
    {dropoff} AS dropoff,
    if(green, 'green', 'yellow') AS cab_type,
    toInt8(if(wet % 10 < 3, wet % 7, 0)) AS precipitation,
    toInt8(if(season < -0.6, bitAnd(intDiv(wet, 64), 15), 0)) AS snow_depth,
    toInt8(if(season < -0.6 AND wet % 10 < 3, bitAnd(intDiv(wet, 1024), 7), 0)) AS snowfall,
    toInt8(63 + 23 * season + bitAnd(intDiv(wet, 65536), 15) - 8) AS max_temperature,
    toInt8(max_temperature - 10 - bitAnd(wet, 7)) AS min_temperature,
    toInt8(2 + bitAnd(intDiv(wet, 8), 15)) AS average_wind_speed,
{pickup_columns},
{dropoff_columns}
FROM
(
    SELECT
        number, day, a, b, c, d, wet,
        bitAnd(bitShiftRight(a, 16), 0xFFFF) AS a2, bitShiftRight(a, 48) AS a3,
        bitAnd(bitShiftRight(b, 16), 0xFFFF) AS b2, bitShiftRight(b, 48) AS b3,
        bitShiftRight(c, 48) AS c3,
        bitAnd(bitShiftRight(d, 16), 0xFFFF) AS d2, bitShiftRight(d, 48) AS d3,
        bitAnd(bitShiftRight(c, 32), 0xFFFF) / 65536 AS pickup_draw,
        bitAnd(bitShiftRight(d, 32), 0xFFFF) / 65536 AS dropoff_draw,
        toUInt8(1 + floor(pickup_draw * pickup_draw * {zones})) AS pickup_zone,
        toUInt8(1 + floor(pow(dropoff_draw, 1.7) * {zones})) AS dropoff_zone,
        {hours}[bitAnd(bitShiftRight(b, 32), 0xFFFF) % {shares} + 1] AS hour,
        (bitAnd(bitShiftRight(a, 32), 0xFFFF) % 100) < 57 AS card,
        pickup_zone > 19 AS green,
        -cos((day % 365 - 20) * 0.0172142) AS season
    FROM
    (
        SELECT number, intDiv(number, 400000) % 3287 AS day, {a} AS a, {b} AS b, {c} AS c, {d} AS d,
            intHash32(day + {seed}) AS wet
        FROM {range}
    )
)
"""  # noqa: E501 - SQL reads better unbroken


def taxi(seed: int) -> Recipe:
    """Return New York taxi trips: 400,000 a day from 2009 on, by days as the city's files are.

    Rush hours, mostly Manhattan, fares that follow the distance, weather by day.
    """
    select = _TAXI
    values = {
        "longitudes": array([zone[7] for zone in _ZONES]),
        "latitudes": array([zone[8] for zone in _ZONES]),
        "pickup": _GEOMETRY.format("pickup"),
        "dropoff": _GEOMETRY.format("dropoff"),
        "pickup_columns": _zone_columns("pickup"),
        "dropoff_columns": _zone_columns("dropoff"),
        "zones": str(len(_ZONES)),
        "hours": _day_hours(),
        "shares": str(sum(_HOURS)),
        "seed": str(seed % 2**31),
        **{name: hash_of(seed, salt) for salt, name in enumerate("abcd", 11)},
    }
    for name, value in values.items():
        select = select.replace("{" + name + "}", value)
    return Recipe(schema(_TAXI_COLUMNS, "pickup_datetime", 520.0), select, 250_000)
