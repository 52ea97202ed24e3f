"""The reference of the job file: every key, from its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gosched.config.jobs.isolation_model import IsolationFile
from gosched.config.jobs.job_model import JobFile
from tools.docs.markdown import code, page, table
from tools.docs.models import Key, keys
from tools.docs.texts import entries, filled

GROUP = "tasks.*."
#: Under `spark`, keys that mean what they mean in a task group, and resources.
_AS_IN_A_GROUP = (
    *(f"spark.{name}" for name in ("placement", "env", "working_dir", *IsolationFile.model_fields)),
    "spark.driver.",
    "spark.executors.resources.",
)
_SECTIONS = (
    ("The job", ("name", "queue", "tenant", "priority", "labels", "hold", "tasks")),
    ("What tasks run", ("run", "count", "env", "secrets", "working_dir", "distributed")),
    ("Runtimes and images", ("runtime", "image", "volumes", "network", "read_only", "pull", "registry")),
    ("Resources", ("resources",)),
    ("Placement", ("placement",)),
    ("Limits and users", ("user", "umask", "rlimits", "limits")),
    ("Gang, retries, disconnection", ("gang", "retry", "on_disconnect", "stop_grace")),
    ("Time and preemption", ("timeout", "estimate", "preemption", "begin", "deadline")),
    ("Dependencies, arrays, schedules", ("after", "array", "schedule")),
    ("Spark", ("spark",)),
)  # fmt: skip
_INTRO = """\
A job is a YAML document. `name` and one of `run`, `tasks` and `spark` are required; unknown keys are errors that name
the nearest known key. The keys of a task group may stand at the top of the job, which then has one group; with
`tasks` they stand under the group's name. A file may hold up to 10,000 jobs, apart by `---`. The [user
guide](../guides/user-guide.md) explains what the keys are for.

`goschedctl submit FILE` submits a file, `goschedctl plan FILE` shows what would happen, without submitting it."""


def job_file() -> str:
    """Return the page. Raise Incomplete if a key has no text."""
    shown = documented_keys()
    texts = entries("job_file", [key.path for key in shown])
    parts = [_INTRO]
    left = list(shown)
    for title, tops in _SECTIONS:
        mine = [key for top in tops for key in left if _top(key.path) == top]
        left = [key for key in left if key not in mine]
        parts += [
            f"## {title}",
            table(("key", "what may be written", "default", "meaning", "example"), _rows(mine, texts)),
        ]
    if left:
        raise ValueError(f"tools/docs/job_file.py has no section for {', '.join(key.path for key in left)}")
    return page("Job file", *parts)


def documented_keys() -> list[Key]:
    """Return each key that has a line of its own."""
    return [key for key in keys(JobFile) if not key.path.startswith(_AS_IN_A_GROUP)]


def _top(path: str) -> str:
    """Return the first part of a key, seen from the top of a job of one group."""
    return path.removeprefix(GROUP).partition(".")[0].removesuffix("[]")


def _rows(shown: list[Key], texts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [_row(key, texts[key.path]) for key in shown]


def _row(key: Key, text: Mapping[str, Any]) -> tuple[str, ...]:
    bounds = filled(text.get("bounds", key.bounds))
    kind = f"{key.type}; {bounds}" if bounds else key.type
    default = filled(text["default"]) if "default" in text else key.default
    return code(key.path.removeprefix(GROUP)), kind, default, filled(text["means"]), code(_example(text["example"]))


def _example(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
