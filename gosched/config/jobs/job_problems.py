"""All that is wrong with a job file, for those who write one. No cluster is asked.

Invariant: a file without a problem is one that `parse_job_file` reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from gosched.config.errors import ConfigError
from gosched.config.jobs.jobfile import job_of
from gosched.config.jobs.many_jobs import find_equal_names, in_order, job_documents
from gosched.config.tree import Document
from gosched.core.spec.job_spec import JobSpec


def find_problems(text: bytes | str, source: str) -> tuple[list[JobSpec], list[str]]:
    """Return the jobs of a file, and what is wrong with it: a line for each problem, in the order of the file's lines.

    What YAML does not say cannot be looked at, so an error of its form is the only one; and the rules that a job as a
    whole has to keep are looked at once each of its keys is right by itself.
    """
    try:
        documents = job_documents(text, source)
    except ConfigError as error:
        return [], [str(error)]
    specs: list[JobSpec] = []
    found: list[ConfigError] = []
    for document in documents:
        try:
            specs.append(job_of(document))
        except ConfigError as error:
            found += [error, *error.others]
    found += find_equal_names([_name(document) for document in documents], documents)
    if not found:
        try:
            in_order(specs, documents)
        except ConfigError as error:
            found.append(error)
    return specs, _by_line([str(error) for error in found], source)


def _name(document: Document) -> object:
    keys = document.value if isinstance(document.value, dict) else {}
    name, tenant = keys.get("name"), keys.get("tenant", "default")
    return f"{tenant}/{name}" if isinstance(name, str) else document  # one that is missing or wrong is equal to none


def _by_line(problems: Sequence[str], source: str) -> list[str]:
    def line(problem: str) -> int:
        number = problem.removeprefix(f"{source}:").partition(":")[0]
        return int(number) if number.isdecimal() else 0

    return sorted(dict.fromkeys(problems), key=line)
