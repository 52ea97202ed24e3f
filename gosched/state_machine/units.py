"""Amounts in the messages that the state keeps and answers with: as people write them from level BOUNDED on; below it
in the units of records, as the previous release says them.
"""

from __future__ import annotations

from gosched.core.amounts import amount_text, duration_text, moment_text
from gosched.core.features import FeatureLevel


def duration(level: int, duration_ms: int) -> str:
    return duration_text(duration_ms) if level >= FeatureLevel.BOUNDED else f"{duration_ms} ms"


def moment(level: int, at_ms: int) -> str:
    return moment_text(at_ms) if level >= FeatureLevel.BOUNDED else f"{at_ms} ms"


def amount(level: int, name: str, amount: int) -> str:
    return amount_text(name, amount) if level >= FeatureLevel.BOUNDED else f"{amount} {name}"


def bare_amount(level: int, name: str, amount: int) -> str:
    return amount_text(name, amount, bare=True) if level >= FeatureLevel.BOUNDED else str(amount)
