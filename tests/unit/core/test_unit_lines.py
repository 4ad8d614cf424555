"""Lines of units are known by units, and other texts above numbers are none."""

from __future__ import annotations

import pytest

from rowfall.core.unit_lines import are_units


@pytest.mark.parametrize(
    "line",
    [
        "m,s,kg", "no,deg C,hPa", "TS,RN,Volts,Deg C,%,meters/second", "[°C],[%],[W/m²]",
        "Angstrom,erg/s/cm2/A", "kg m-2 s-1,K,", "µS/cm,mg/L,NTU", "(m),(s),(1/cm)",
    ],
)  # fmt: skip
def test_units(line: str) -> None:
    assert are_units(line.split(","))


@pytest.mark.parametrize(
    "line",
    [
        "food,mining,transport",
        "mean,max,sum",
        "Friend,Web,Other",
        "m,f,m",
        "M,F,S",  # codes
        "kg,kg,kg",
        "kg,unknown,m",
        "kg,,,",
        "Estimate!!Total,Margin of Error!!Total",
        ",,",
        "",
        "continuous,discrete,string",
        "c,d,d",
        "not asked,refused",
        "1,2,3",
        "m3 of it,kg",
    ],
)
def test_others(line: str) -> None:
    assert not are_units(line.split(","))
