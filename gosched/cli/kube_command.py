"""`goschedctl kube`: commands as pods of a Kubernetes cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from gosched.cli.output import say

if TYPE_CHECKING:
    from gosched.integrations.pods.wanted import Amounts

_LONGEST_GRACE_S = 24 * 3600


@click.group()
def command() -> None:
    """Run commands as pods of a Kubernetes cluster."""


@command.command("run")
@click.argument("words", metavar="[COMMAND...]", nargs=-1)
@click.option("--image", default="", help="Of the container.  [default: the template's]")
@click.option("--namespace", "-n", default="", help="Of the pod.  [default: the kubeconfig's, or that of this pod]")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    default="",
    help="Where the API server is.  [default: $KUBECONFIG, this pod's service account, or ~/.kube/config]",
)
@click.option("--kube-context", metavar="NAME", default="", help="Of the kubeconfig.  [default: its current one]")
@click.option("--cpu", help="What the container asks for and may use.  [default: as the task]")
@click.option("--memory", help="What the container asks for and may use.  [default: as the task]")
@click.option("--gpus", type=click.IntRange(0), help="Of nvidia.com/gpu.  [default: as the task]")
@click.option("--env", metavar="NAME[=VALUE]", multiple=True, help="A variable; of a name alone, the task's own value.")
@click.option("--template", metavar="FILE", help="A Pod, in YAML or JSON, with all else that it is to have.")
@click.option(
    "--grace",
    default="8s",
    show_default=True,
    help="What the container has to end when it is stopped; less than the job's stop_grace.",
)
def run(**given: Any) -> int:
    """Run COMMAND, or what the image runs, as a pod to its end, and return its exit code.

    The container's output comes to stdout, messages about the pod come to stderr. Ctrl-C and SIGTERM delete the pod; a
    second one leaves at once.

    As the command of a gosched job it makes a task a pod, with its state, logs, retries and cancel. The pod asks for
    the amounts that the task has, and gets its GOSCHED_ variables. A task that is started again takes over the pod that
    an earlier start of it has left, and creates no second one.

    \b
    Examples:
      goschedctl kube run --image busybox --cpu 1 --memory 1Gi -- sh -c 'echo hello'
    """
    from gosched.integrations.pods.access import find_access
    from gosched.integrations.pods.api import PodApi
    from gosched.integrations.pods.following import Run, run_to_end
    from gosched.integrations.pods.wanted import PASSED_ON, Owner, read_template, wanted

    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= dict([_variable(text) for text in given["env"]])
    owner, grace_s = Owner.of(os.environ), _grace_s(given["grace"])
    pod = wanted(
        owner,
        template=read_template(given["template"]) if given["template"] else {},
        image=given["image"],
        command=given["words"],
        environment=environment,
        amounts=_amounts(given, os.environ),
        grace_s=grace_s,
    )
    running = Run(
        api=PodApi(find_access(given["kubeconfig"], given["kube_context"]), given["namespace"]),
        wanted=pod,
        owner=owner,
        takes_earlier=os.environ.get("GOSCHED_TASK_COUNT", "1") == "1",
        grace_s=grace_s,
        say=say,
        write=_write,
    )

    def take(_number: int, _frame: object) -> None:
        if running.is_to_stop:
            raise KeyboardInterrupt
        running.is_to_stop = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, take)
    return run_to_end(running)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or (not equals and name not in os.environ):
        raise click.UsageError(f"--env: expected NAME=VALUE, or the name of a variable that is set, got {text!r}")
    return name, value if equals else os.environ[name]


def _amounts(given: Mapping[str, Any], environment: Mapping[str, str]) -> Amounts:
    """Return what the flags say; what they leave out is what the task has."""
    from gosched.config.quantity import cpu_millis, memory_bytes
    from gosched.integrations.pods.wanted import Amounts, whole_gpus

    gpus = given["gpus"]
    return Amounts(
        cpu_millis=_read("--cpu", cpu_millis, given["cpu"], environment.get("GOSCHED_CPU_MILLIS")),
        memory_bytes=_read("--memory", memory_bytes, given["memory"], environment.get("GOSCHED_MEMORY_BYTES")),
        gpus=gpus if gpus is not None else whole_gpus(int(environment.get("GOSCHED_GPU_MILLIS", "0"))),
    )


def _read(flag: str, read: Callable[[object], int], text: str | None, of_task: str | None) -> int | None:
    if text is None:
        return int(of_task) if of_task else None
    try:
        return read(text)
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}") from None


def _grace_s(text: str) -> int:
    from gosched.config.quantity import duration_ms

    try:
        seconds = -(-duration_ms(text) // 1000)
    except ValueError as error:
        raise click.UsageError(f"--grace: {error}") from None
    if not 1 <= seconds <= _LONGEST_GRACE_S:  # 0 would forget the pod before it is ended
        raise click.UsageError("--grace: from 1s to 24h")
    return seconds
