"""Tells lines that hold the units of columns, which are no rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.patterns import regex

_WORDS = (
    "$ % a ah amp amperes amps angstrom angstroms arcsec atm bar bbl bq btu c ca cal celsius "
    "cfs chf cm counts d day days db dba dbar dbm deg degc degf degree degrees degrees_c "
    "degrees_celsius degrees_east degrees_north degs dl dm ec erg ergs eur ev f fahrenheit "
    "fnu ft g gal gbp ghz gpa gw gwh h ha hour hours hpa hr hrs hz in inch inches inhg j jd "
    "jpy k kbar kcal kelvin kev kg khz kj km kn knots kpa kt kts kv kw kwh l lb lbs liter "
    "liters litre litres lm lux lx m ma mb mbar mbars meter meters metre metres mev mg mgal "
    "mhz mi mile miles min mins minute minutes mj ml mm mmhg mmol mol moles mpa mph ms mv mw "
    "mwh n ng nm nmi nmol ns ntu ohm ohms oz pa pascal pct percent ph ppb ppm ppt psi psu "
    "rad radians rpm s sec second seconds secs std sv t tonnes tons torr ug um umol us usd "
    "uv v volt volts w watt watts wh yd year years yr yrs £ ° °c °f µg µm µmol µs μg μm μmol "
    "μs ω ‰ €"
)
_UNITS = frozenset(_WORDS.split())
# What stands in such a line for a column that has no unit, or is a time.
_WORDS_FOR_NONE = "- -- # [] [-] () (-) n/a na no no. none unitless rn ts utc date time"
_NONE = frozenset(_WORDS_FOR_NONE.split())
_ATOM = regex(r"[^\W\d_¹²³⁻]+(?:_[^\W\d_]+)?|\u00b0[cfCF]?|[%‰$€£]")
_REST = regex(r"[ /*.·^²³()\[\]0-9⁻¹-]*")
_LONGEST = 24  # characters: "kg m-2 s-1", "micromol/mol"
_LETTERS = 1  # one alone may be a code


def are_units(values: Sequence[str]) -> bool:
    """Tell whether a line of which these are the fields of numbers and times holds their units.

    Most of them have one and no other word, two differ, and some has more than a letter.
    """
    named = [value.strip() for value in values if value.strip().lower() not in ("", *_NONE)]
    if len({*named}) < 2 or len(named) * 2 <= len(values) or not all(map(_is_unit, named)):
        return False
    return any(len(name) > _LETTERS for name in named)


def _is_unit(text: str) -> bool:
    atoms = _ATOM.findall(text)
    return (
        bool(atoms) and len(text) <= _LONGEST and bool(_REST.fullmatch(_ATOM.sub("", text)))
        and all(atom.lower() in _UNITS for atom in atoms)
    )  # fmt: skip
