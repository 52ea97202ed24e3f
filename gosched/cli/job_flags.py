"""A job from flags: `--cpu 4 --gpu 1 --mem 2Gi --count 4 -q production -- ./train.sh`.

Invariant: flags are the keys of a job file under other names, and the same parser checks both.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from gosched.core.spec.job_spec import JobSpec

F = TypeVar("F", bound=Callable[..., Any])

# flag -> key of the job file
_KEYS: Mapping[str, tuple[str, ...]] = {
    "name": ("name",),
    "queue": ("queue",),
    "tenant": ("tenant",),
    "priority": ("priority",),
    "labels": ("labels",),
    "count": ("count",),
    "image": ("image",),
    "runtime": ("runtime",),
    "user": ("user",),
    "cpu": ("resources", "cpu"),
    "mem": ("resources", "memory"),
    "storage": ("resources", "storage"),
    "gpu": ("resources", "gpu"),
    "timeout": ("timeout",),
    "estimate": ("estimate",),
    "preemptible": ("preemption", "preemptible"),
    "hold": ("hold",),
}
_ARRAY = re.compile(r"([^%]*)(?:%([0-9]{1,9}))?")
_COMMAND_META = "gosched.command"


class DashedCommand(click.Command):
    """A command that takes everything after `--` as the job's command, apart from its own arguments."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND_META] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def command_after_dashes(ctx: click.Context) -> list[str] | None:
    """Return the words after `--`; None when there is no `--`."""
    return ctx.meta.get(_COMMAND_META)


def job_options(function: F) -> F:
    for option in reversed(
        (
            click.option("--name", help="Name of the job.  [default: from the command]"),
            click.option("-q", "--queue", help="Queue.  [default: default]"),
            click.option("--tenant", help="Tenant that is charged.  [default: default]"),
            click.option("--priority", help="low, normal, high, or 0 to 1000.  [default: normal]"),
            click.option("--labels", metavar="KEY=VALUE,...", help="Labels of the job."),
            click.option("--count", help="Number of tasks, which start together or not at all.  [default: 1]"),
            click.option("--image", help="Image of a container, or the path of a root filesystem on the node."),
            click.option("--runtime", help="process, rootfs, docker or spark.  [default: by the image]"),
            click.option("--user", help="User that its tasks run as, on the node or in the container."),
            click.option(
                "--volume", multiple=True, metavar="HOST:TO[:ro]", help="A container's volume; may be repeated."
            ),
            click.option("--cpu", help="CPUs for each task, such as 4 or 500m.  [default: 1]"),
            click.option("--mem", help="Memory for each task, such as 2Gi."),
            click.option("--storage", help="Storage for each task, such as 10Gi."),
            click.option("--gpu", help="GPUs for each task, such as 2, h100:8, or 0.5 of one."),
            click.option("--env", multiple=True, metavar="KEY=VALUE", help="Environment variable; may be repeated."),
            click.option("--timeout", metavar="DURATION", help="Limit of each attempt, such as 1h30m."),
            click.option("--estimate", metavar="DURATION", help="Expected run time; used for backfill."),
            click.option("--deadline", metavar="TIME", help="When it should have ended: 2026-12-01T06:00:00Z, or +6h."),
            click.option(
                "--preemptible/--no-preemptible", default=None, help="Whether it may be evicted.  [default: it may]"
            ),
        )
    ):  # the option added last comes first in the help
        function = option(function)
    return function


def submit_options(function: F) -> F:
    """Add the options of `submit` that `run` does not have."""
    for option in reversed(
        (
            click.option("--array", metavar="0-9[:STEP][%N]", help="One job per number, at most N at once."),
            click.option(
                "--after",
                multiple=True,
                metavar="JOB[:any|failure]",
                help="Start after JOB has succeeded (any: ended; failure: failed); may be repeated.",
            ),
            click.option("--hold", is_flag=True, default=None, help="Do not start it before goschedctl job release."),
        )
    ):  # the option added last comes first in the help
        function = option(function)
    return function


def given(flags: Mapping[str, Any]) -> list[str]:
    """Return the flags that were given, as they are written."""
    return [f"--{flag}" for flag, value in flags.items() if value is not None and value != ()]


def job_of_flags(command: list[str], flags: Mapping[str, Any]) -> JobSpec:
    """Return the job that flags describe. Raises ConfigError, with the flag."""
    from gosched.config import job_from_flags

    job: dict[str, Any] = {"name": _generated_name(command[0]), "run": command}
    origins: dict[tuple[str | int, ...], str] = {("run",): "command"}
    for flag, path in _KEYS.items():
        if flags.get(flag) is None:
            continue
        *parents, key = path
        branch = job.setdefault(parents[0], {}) if parents else job
        branch[key] = flags[flag]
        origins[path] = f"--{flag}"
    if flags.get("env"):
        job["env"] = dict(_pair(item) for item in flags["env"])
        origins[("env",)] = "--env"
    if flags.get("volume"):
        job["volumes"] = list(flags["volume"])
        origins[("volumes",)] = "--volume"
    if flags.get("deadline") is not None:
        relative = flags["deadline"].startswith("+")
        job["deadline"] = {"in": flags["deadline"][1:]} if relative else {"at": flags["deadline"]}
        origins[("deadline",)] = "--deadline"
    if flags.get("array") is not None:
        job["array"] = _array(flags["array"])
        origins[("array",)] = "--array"
    if flags.get("after"):
        job["after"] = dict(_dependency(item) for item in flags["after"])
        origins[("after",)] = "--after"
    return job_from_flags(job, origins)


def _array(text: str) -> dict[str, Any]:
    """Parse `0-9:3%2`, as Slurm writes it: every third number, two at once."""
    found = _ARRAY.fullmatch(text)
    if not found:
        raise click.UsageError(f"--array: expected a range such as 0-9, or 0-9%2 for two at once, got {text!r}")
    return {"range": found[1], **({"parallelism": int(found[2])} if found[2] else {})}


def _dependency(item: str) -> tuple[str, str]:
    job, _, condition = item.partition(":")
    return job, condition or "success"


def _pair(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise click.UsageError(f"--env: expected KEY=VALUE, got {item!r}")
    return key, value


def _generated_name(program: str) -> str:
    """Return a random name: names are unique among live jobs, and a command may be submitted twice."""
    base = re.sub(r"[^A-Za-z0-9-]+", "-", program.rpartition("/")[2].rpartition(".")[0] or program.rpartition("/")[2])
    return f"{base.strip('-')[:40] or 'job'}-{secrets.token_hex(3)}".lower()
