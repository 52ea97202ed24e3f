"""Flags that describe a job: `--cpu 4 --gpu 1 --mem 2Gi --count 4 -q production`, and `--set KEY=VALUE` for all else.

Invariant: flags are the keys of a job file under other names, and the same parser checks both.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft, Override

F = TypeVar("F", bound=Callable[..., Any])

# flag -> key of the job file
_OF_JOB: Mapping[str, tuple[str, ...]] = {
    "name": ("name",),
    "queue": ("queue",),
    "tenant": ("tenant",),
    "priority": ("priority",),
    "timeout": ("timeout",),
    "estimate": ("estimate",),
    "preemptible": ("preemption", "preemptible"),
    "hold": ("hold",),
}
# flag -> key of a task group
_OF_GROUP: Mapping[str, tuple[str, ...]] = {
    "count": ("count",),
    "image": ("image",),
    "runtime": ("runtime",),
    "user": ("user",),
    "cpu": ("resources", "cpu"),
    "mem": ("resources", "memory"),
    "storage": ("resources", "storage"),
    "gpu": ("resources", "gpu"),
    "chdir": ("working_dir",),
}
_ARRAY = re.compile(r"([^%]*)(?:%([0-9]{1,9}))?")
_COMMAND_META = "gosched.command"
JOB_FILES = (".yaml", ".yml", ".json")


class DashedCommand(click.Command):
    """A command that takes everything after `--` as the job's command, apart from its own arguments."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND_META] = args[at + 1 :]
            return super().parse_args(ctx, args[:at])
        given = list(args)  # click takes its words out of the list
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if line := self._with_dashes(ctx, given):
                raise click.UsageError(f"put -- before the command: {line}") from error
            raise

    def _with_dashes(self, ctx: click.Context, args: list[str]) -> str:
        """Return the line that was meant; empty where the first word does not look like a program."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False  # options after the first word are the program's own
        try:
            values, rest, _ = parser.parse_args(args=list(args))
        except click.UsageError:
            return ""
        first = values.get("file")
        words = [first, *rest] if first else rest
        if not words or (first and first.endswith(JOB_FILES)):
            return ""
        return shlex.join([*ctx.command_path.split(), *args[: len(args) - len(words)], "--", *words])


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
            click.option(
                "--labels",
                "--label",
                multiple=True,
                metavar="KEY=VALUE,...",
                help="Labels of the job; may be repeated.",
            ),
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
            click.option(
                "--env",
                multiple=True,
                metavar="KEY[=VALUE]",
                help="Environment variable; without a value the one it has here. May be repeated.",
            ),
            click.option(
                "--chdir",
                metavar="DIR",
                callback=lambda ctx, parameter, path: path and os.path.abspath(path),
                help="Directory that its tasks start in, on the nodes; a relative one is taken from here.",
            ),
            click.option("--timeout", metavar="DURATION", help="Limit of each attempt, such as 1h30m."),
            click.option("--estimate", metavar="DURATION", help="Expected run time; used for backfill."),
            click.option("--deadline", metavar="TIME", help="When it should have ended: 2026-12-01T06:00:00Z, or +6h."),
            click.option(
                "--preemptible/--no-preemptible", default=None, help="Whether it may be evicted.  [default: it may]"
            ),
            click.option(
                "--set",
                "sets",
                multiple=True,
                metavar="KEY=VALUE",
                help="Any key of a job file by its path, such as retry.max=0 or tasks.worker.count=8; without a value"
                " it is left out. May be repeated.",
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
            click.option("--begin", metavar="TIME", help="Do not start it before: 2026-12-01T06:00:00Z, or +6h."),
            click.option("--hold", is_flag=True, default=None, help="Do not start it before goschedctl job release."),
        )
    ):  # the option added last comes first in the help
        function = option(function)
    return function


def draft_of_command(command: list[str], flags: Mapping[str, Any]) -> JobDraft:
    """Return the job that flags and a command describe. Raises ConfigError, UsageError."""
    name = Override(path=("name",), value=_generated_name(command[0]), origin="command line")
    run = Override(path=("run",), value=command, origin="command")
    return _draft([name, run, *_overrides(flags)], flags)


def draft_of_file(text: bytes, source: str, flags: Mapping[str, Any]) -> JobDraft:
    """Return a job file with the flags over it. Raises ConfigError, UsageError."""
    return replace(_draft(_overrides(flags), flags), text=text, source=source)


def _draft(overrides: list[Override], flags: Mapping[str, Any]) -> JobDraft:
    sets = tuple(flags.get("sets") or ())
    for origin, value in [*((given.origin, given.value) for given in overrides), *(("--set", text) for text in sets)]:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{origin}: not UTF-8: {str(value)[:60]!a}") from error
    return JobDraft(overrides=tuple(overrides), sets=sets)


def _overrides(flags: Mapping[str, Any]) -> list[Override]:
    """Return what the flags, --set apart, say in place of the keys of a job file. Raises UsageError."""
    given = {flag: value for flag, value in flags.items() if value is not None and value != ()}
    found = [
        Override(path=path, value=given[flag], origin=f"--{flag}", of_group=keys is _OF_GROUP)
        for keys in (_OF_JOB, _OF_GROUP)
        for flag, path in keys.items()
        if flag in given
    ]
    adding: list[tuple[str, tuple[str, ...], Any]] = []
    if "labels" in given:
        words = [word for item in given["labels"] for word in item.split(",") if word.strip()]
        adding.append(("labels", ("labels",), dict(_pair("--labels", word) for word in words)))
    if "env" in given:
        adding.append(("env", ("env",), dict(map(_variable, given["env"]))))
    if "volume" in given:
        adding.append(("volume", ("volumes",), list(given["volume"])))
    if "after" in given:
        adding.append(("after", ("after",), dict(map(_dependency, given["after"]))))
    found += [
        Override(path=path, value=value, origin=f"--{flag}", adds=True, of_group=flag in ("env", "volume"))
        for flag, path, value in adding
    ]
    for key in ("begin", "deadline"):
        if key in given:
            found += _one_of(f"--{key}", key, _moment(given[key]), ("at", "in"))
    if "array" in given:
        found += _one_of("--array", "array", _array(given["array"]), ("range", "matrix"))
    return found


def _one_of(origin: str, key: str, values: Iterable[tuple[str, Any]], alternatives: tuple[str, ...]) -> list[Override]:
    """Return the overrides of a mapping that has one of the alternatives; what else it says stays."""
    changes = {**dict.fromkeys(alternatives), **dict(values)}
    return [Override(path=(key, inner), value=value, origin=origin) for inner, value in changes.items()]


def _moment(text: str) -> list[tuple[str, Any]]:
    return [("in", text[1:])] if text.startswith("+") else [("at", text)]


def _array(text: str) -> list[tuple[str, Any]]:
    """Parse `0-9:3%2`, as Slurm writes it: every third number, two at once."""
    found = _ARRAY.fullmatch(text)
    if not found:
        raise click.UsageError(f"--array: expected a range such as 0-9, or 0-9%2 for two at once, got {text!r}")
    return [("range", found[1]), *([("parallelism", int(found[2]))] if found[2] else [])]


def _dependency(item: str) -> tuple[str, str]:
    job, _, condition = item.partition(":")
    return job, condition or "success"


def _variable(item: str) -> tuple[str, str]:
    if "=" not in item and item not in os.environ:
        raise click.UsageError(f"--env: {item!r} is not set here: expected KEY=VALUE, or the KEY of a variable that is")
    return _pair("--env", item) if "=" in item else (item, os.environ[item])


def _pair(flag: str, item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise click.UsageError(f"{flag}: expected KEY=VALUE, got {item!r}")
    return (key.strip(), value.strip()) if flag == "--labels" else (key, value)


def _generated_name(program: str) -> str:
    """Return a random name: names are unique among live jobs, and a command may be submitted twice."""
    base = re.sub(r"[^A-Za-z0-9-]+", "-", program.rpartition("/")[2].rpartition(".")[0] or program.rpartition("/")[2])
    return f"{base.strip('-')[:40] or 'job'}-{os.urandom(3).hex()}".lower()
