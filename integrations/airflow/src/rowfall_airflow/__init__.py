"""Load data with rowfall in tasks of Airflow, each row exactly once."""

from __future__ import annotations

from rowfall_airflow.operators import RowfallOperator
from rowfall_airflow.triggers import RowfallTrigger

__all__ = ["RowfallOperator", "RowfallTrigger"]
