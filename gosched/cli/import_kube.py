"""`goschedctl import kube`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gosched.cli.import_notes import notes_json, say_notes
from gosched.cli.output import as_data, counted, emit, say

if TYPE_CHECKING:
    from gosched.integrations.kube_objects.cluster import KubeCluster
    from gosched.integrations.kube_objects.reading import Found


@click.command("kube")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--agents",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write a config for an agent on each node, DIR/NODE.yaml: its labels, taints and resources.",
)
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
def kube(file: str, agents: str | None, output: str) -> None:
    """Print the quotas of a Kubernetes cluster as `quota apply` and `queue apply` read them.

    FILE (- is standard input) has what kubectl prints as JSON or YAML. Namespaces are tenants, as gosched-kube has it,
    and their ResourceQuotas quotas. Kubernetes has no queues: one is printed, in which the higher priority goes first.

    On stderr is a line for each PriorityClass, with the priority that jobs write instead, and for each setting that has
    no equivalent; -o json has these as `priorities`, `notes`, and the agents' configs as `agents`.

    \b
      kubectl get nodes,namespaces,resourcequotas,priorityclasses -A -o json |
          goschedctl import kube - --agents agents > quotas.yaml
    """
    from gosched.config.queue_writer import queues_keys
    from gosched.integrations.kube_objects.cluster import read_cluster

    objects, source = read_file_of_objects(file)
    found = read_cluster(objects, source)
    if agents is not None:
        _write_agents(found, Path(agents))
    keys = queues_keys(found.queues, found.quotas)
    if output == "json":
        priorities = [{"name": each.name, "value": each.value, **each.keys} for each in found.priorities]
        more = {"priorities": priorities, "agents": found.agents, "notes": notes_json(found.notes)}
        emit(as_data({**keys, **more}, "json"))
        return
    emit(as_data(keys, "yaml"))
    for each in found.priorities:
        never = ", preemption: {policy: never}" if each.never else ""
        default = "; pods that name no class have it: write it in job files" if each.is_default else ""
        say(f"PriorityClass {each.name} = {each.value}: priority: {each.priority}{never}{default}")
    say_notes(found.notes)
    nouns = ((found.queues, "queue"), (found.quotas, "quota"), (found.agents, "node"), (found.notes, "note"))
    say(", ".join(counted(len(each), noun) for each, noun in nouns))


@click.command("pod")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
def pod(file: str, output: str) -> None:
    """Print the Pods and Jobs of FILE, Kubernetes' manifests, as job files.

    The pods of a PodGroup are one job, if all are in FILE; a Job is an array, unless its pods name a PodGroup. FILE may
    hold PodGroups and PriorityClasses, too. On stderr is a line for each field that a job file does not carry, with
    what to do instead; -o json has these as `notes`.

    \b
      kubectl get job train -o yaml | goschedctl import pod - > job.yaml
    """
    from gosched.config.jobs.writer import job_keys
    from gosched.integrations.kube_objects.job_import import read_jobs

    found = read_jobs(*read_file_of_objects(file))
    if output == "json":
        emit(as_data({"jobs": [job_keys(job) for job in found.jobs], "notes": notes_json(found.notes)}, "json"))
        return
    emit(found.text.rstrip())
    say_notes(found.notes)
    say(f"{counted(len(found.jobs), 'job')}, {counted(len(found.notes), 'note')}")


def read_file_of_objects(file: str) -> tuple[list[Found], str]:
    """Return the objects of a file, or of standard input, and what it is called. Raises ConfigError."""
    from gosched.config.files import read_file
    from gosched.integrations.kube_objects.reading import read_objects

    content = sys.stdin.buffer.read() if file == "-" else read_file(file, what="objects of Kubernetes")
    source = "standard input" if file == "-" else file
    return read_objects(content, source), source


def _write_agents(found: KubeCluster, folder: Path) -> None:
    """Write the configs of agents. Raises ConfigError."""
    from gosched.config.errors import ConfigError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, keys in found.agents.items():
            path = folder / f"{name}.yaml"
            with path.open("x") as file:
                file.write(as_data(keys, "yaml") + "\n")
    except FileExistsError as error:
        raise ConfigError(f"{error.filename} is there already: name a new directory") from error
    except OSError as error:
        raise ConfigError(f"{folder}: cannot write the agents' configs: {error.strerror or error}") from error
