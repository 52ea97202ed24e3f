"""`goschedctl plan FILE|-`: what would happen to jobs if they were submitted now; nothing is submitted."""

from __future__ import annotations

from typing import Any

import click

from gosched.api.json.explanations import plan_json
from gosched.cli.connect import connect, output_option
from gosched.cli.explain_command import nodes_text, victims_text
from gosched.cli.job_flags import DashedCommand, job_options, submit_options
from gosched.cli.job_input import draft_of, read_here
from gosched.cli.output import Column, Json, as_data, emit, expected_end_text, filled, say, table

REFUSED, CANNOT_BE_PLACED = 1, 3
_JOBS: list[Column] = [
    ("JOB", lambda j: j["name"]),
    ("OUTCOME", lambda j: j["outcome"].replace("_", " ")),
    ("START", lambda j: j["start"]),
    ("NODES", lambda j: nodes_text(j["nodes"])),
    ("EVICTS", lambda j: victims_text(j["victims"])),
]
_ENDS: list[Column] = [("EXPECTED-END", expected_end_text)]  # shown where jobs like it have run
_MOVED: list[Column] = [
    ("JOB", lambda m: m["id"]),
    ("NAME", lambda m: m["name"]),
    ("BEFORE", lambda m: m["before"] or "none"),
    ("AFTER", lambda m: m["after"] or "none"),
]


@click.command(cls=DashedCommand)
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@job_options
@submit_options
@output_option
@click.pass_context
def command(ctx: click.Context, /, file: str | None, output: str, **flags: Any) -> int:
    """Plan jobs without submitting them: those of FILE (- is standard input), or one from flags, as for submit.

    Exit code 0: all would start now, or once their victims have ended. 3: one would wait. 1: one would be refused.

    \b
    Examples:
      goschedctl plan job.yaml
      goschedctl plan job.yaml --count 2 --set priority=high
      goschedctl plan --cpu 1 --count 2 -- ./train.sh
    """
    specs = read_here(draft_of(ctx, file, flags))
    shape = plan_json(connect(ctx).plan(specs))
    if output in ("json", "yaml"):
        emit(as_data(shape, output))
    elif output == "name":
        emit("\n".join(job["name"] for job in shape["jobs"]))
    else:
        emit(_text(shape))
    for job in shape["jobs"]:
        for warning in job["warnings"]:
            say(f"{job['name']}: warning: {warning}")
    return _code({job["outcome"] for job in shape["jobs"]})


def _code(outcomes: set[str]) -> int:
    if "refused" in outcomes:
        return REFUSED
    return CANNOT_BE_PLACED if "waits" in outcomes else 0


def _text(plan: Json) -> str:
    """Return the table of jobs; their explanations follow below it, because a sentence would make a column too wide."""
    why = [f"{job['name']}: {job['explanation']['message']}" for job in plan["jobs"] if job["explanation"]]
    lines = [table(plan["jobs"], [*_JOBS, *filled(plan["jobs"], _ENDS)]), *(["", *why] if why else [])]
    if plan["moved"]:
        lines += ["", "Reserved starts of other jobs that would change:", table(plan["moved"], _MOVED)]
    return "\n".join(lines)
