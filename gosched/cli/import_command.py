"""`goschedctl import`: what other schedulers have, as files of ours."""

from __future__ import annotations

import click

from gosched.cli.import_kube import kube, pod
from gosched.cli.import_yarn import yarn_queues


@click.group()
def command() -> None:
    """Make files of gosched out of what other schedulers have. Nothing is applied."""


command.add_command(yarn_queues)
command.add_command(kube)
command.add_command(pod)
