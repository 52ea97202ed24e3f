"""Amounts and names of jobs in the messages that the state keeps and answers with: as people write them from level
BOUNDED on; below it in the units of records, and by their names alone, as the previous release says them.
"""

from __future__ import annotations

from gosched.core.amounts import amount_text, duration_text, moment_text
from gosched.core.features import FeatureLevel
from gosched.core.records.job import Job
from gosched.core.state.job_names import name_beside


def duration(level: int, duration_ms: int) -> str:
    return duration_text(duration_ms) if level >= FeatureLevel.BOUNDED else f"{duration_ms} ms"


def moment(level: int, at_ms: int) -> str:
    return moment_text(at_ms) if level >= FeatureLevel.BOUNDED else f"{at_ms} ms"


def amount(level: int, name: str, amount: int) -> str:
    return amount_text(name, amount) if level >= FeatureLevel.BOUNDED else f"{amount} {name}"


def bare_amount(level: int, name: str, amount: int) -> str:
    return amount_text(name, amount, bare=True) if level >= FeatureLevel.BOUNDED else str(amount)


def job_name(level: int, other: Job, job: Job) -> str:
    """Return what a line about a job calls another one."""
    if level < FeatureLevel.BOUNDED:
        return other.spec.name
    its, to = (other.spec.tenant, other.spec.queue), (job.spec.tenant, job.spec.queue)
    return name_beside(other.spec.name, other.id, its, to)
