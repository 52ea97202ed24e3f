"""`goschedctl yarn submit|run`: applications whose ApplicationMaster is a command."""

from __future__ import annotations

import getpass
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gosched.cli.output import emit, say

if TYPE_CHECKING:
    from gosched.integrations.yarn import Submission, YarnClient

F = TypeVar("F", bound=Callable[..., Any])

_MIB = 1 << 20
_IN_TASK = "GOSCHED_TASK_ID"


def yarn_client(ctx: click.Context) -> YarnClient:
    """Return a client for what the options of `goschedctl yarn` say."""
    from gosched.integrations.yarn import YarnClient, YarnMisused, negotiate

    assert ctx.parent is not None, "these are commands of a group"
    given = ctx.parent.params
    if not given["rm"]:
        raise YarnMisused("no ResourceManager is named: give --rm http://HOST:8088, or set GOSCHED_YARN_RM")
    urls = [url.strip() for url in given["rm"].split(",") if url.strip()]
    return YarnClient(urls, user=given["user"] or getpass.getuser(), authorize=negotiate, ca=given["ca"])


def _submission_options(function: F) -> F:
    for option in reversed(
        [
            click.argument("words", metavar="COMMAND...", nargs=-1, required=True),
            click.option("--name", default="goschedctl", show_default=True),
            click.option("--queue", default="default", show_default=True),
            click.option("--memory", default="1Gi", show_default=True, help="Of the ApplicationMaster's container."),
            click.option("--vcores", type=click.IntRange(1), default=1, show_default=True),
            click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable; may be repeated."),
            click.option("--tag", "tags", multiple=True, help="May be repeated."),
            click.option("--priority", type=click.IntRange(0), help="[default: the queue's]"),
            click.option("--max-attempts", type=click.IntRange(1), default=1, show_default=True),
        ]
    ):
        function = option(function)
    return function


@click.command("submit")
@_submission_options
@click.pass_context
def submit(ctx: click.Context, /, **given: Any) -> None:
    """Submit an application whose ApplicationMaster is COMMAND, and print its id.

    One word is a line for a shell. YARN calls an application FAILED whose command does not speak to the ResourceManager
    before it ends, also with exit code 0.
    """
    from dataclasses import replace

    wanted, client = _submission(given), yarn_client(ctx)
    id = client.new_application().id
    client.submit(replace(wanted, id=id))
    emit(id)


@click.command("run")
@_submission_options
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> int:
    """Run an application whose ApplicationMaster is COMMAND to its end, and return the exit code of COMMAND.

    Its stdout comes to stdout and its stderr to stderr once it has ended, at most the last MiB of each; the messages
    about it come to stderr. Ctrl-C and SIGTERM kill it; a second one leaves at once. One word is a line for a shell.

    As the command of a gosched job it makes an application a job, with its state, logs, retries and cancel. A task that
    is started again takes over the application that an earlier start of it has left, and submits no second one.

    \b
    Examples:
      goschedctl yarn --rm http://rm1:8088,http://rm2:8088 run --queue etl -- ./master.sh
    """
    from gosched.integrations.yarn.following import Run, logs_of, run_to_end

    stop = threading.Event()

    def take(_number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, take)
    task = os.environ.get(_IN_TASK, "")
    wanted, client = _submission(given), yarn_client(ctx)
    job = Run(client=client, wanted=wanted, tag=f"gosched-{task}".lower() if task else "", stop=stop, say=say)
    app, code = run_to_end(job)
    out, err = logs_of(job, app)
    sys.stdout.buffer.write(out)
    sys.stdout.flush()
    sys.stderr.buffer.write(err)
    for line in app.diagnostics.splitlines() if code else ():
        if line.strip():
            say(f"{app.id}: {line}")
    return code


def _submission(given: dict[str, Any]) -> Submission:
    """Return what the options say, without an id yet."""
    from gosched.integrations.yarn import Submission

    words = given["words"]
    line = words[0] if len(words) == 1 else shlex.join(words)
    return Submission(
        id="",
        name=given["name"],
        # YARN puts in the directory whose files it keeps and shows.
        command=f"{{ {line}\n}} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr",
        queue=given["queue"],
        memory_mib=_memory_mib(given["memory"]),
        vcores=given["vcores"],
        environment=tuple([_variable(text) for text in given["env"]]),
        tags=given["tags"],
        priority=given["priority"],
        max_attempts=given["max_attempts"],
    )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f"--env: expected NAME=VALUE, got {text!r}")
    return name, value


def _memory_mib(text: str) -> int:
    from gosched.config.quantity import memory_bytes

    try:
        return max(1, memory_bytes(text) // _MIB)
    except ValueError as error:
        raise click.UsageError(f"--memory: {error}") from None
