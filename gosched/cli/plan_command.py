"""`goschedctl plan FILE|-`: what would happen to jobs if they were submitted now; nothing is submitted."""

from __future__ import annotations

import click

from gosched.api.json.explanations import plan_json
from gosched.cli.connect import connect, output_option
from gosched.cli.explain_command import nodes_text, victims_text
from gosched.cli.output import Column, Json, as_data, emit, say, table
from gosched.cli.submit_command import read_specs

REFUSED, CANNOT_BE_PLACED = 1, 3
_JOBS: list[Column] = [
    ("JOB", lambda j: j["name"]),
    ("OUTCOME", lambda j: j["outcome"].replace("_", " ")),
    ("START", lambda j: j["start"]),
    ("NODES", lambda j: nodes_text(j["nodes"])),
    ("EVICTS", lambda j: victims_text(j["victims"])),
]
_MOVED: list[Column] = [
    ("JOB", lambda m: m["id"]),
    ("NAME", lambda m: m["name"]),
    ("BEFORE", lambda m: m["before"] or "none"),
    ("AFTER", lambda m: m["after"] or "none"),
]


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@output_option
@click.pass_context
def command(ctx: click.Context, file: str, output: str) -> int:
    """Plan the jobs of FILE (- is standard input) without submitting them.

    Exit code 0: all would start now, or once their victims have ended. 3: one would wait. 1: one would be refused.
    """
    shape = plan_json(connect(ctx).plan(read_specs(file)))
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
    lines = [table(plan["jobs"], _JOBS), *(["", *why] if why else [])]
    if plan["moved"]:
        lines += ["", "Reserved starts of other jobs that would change:", table(plan["moved"], _MOVED)]
    return "\n".join(lines)
