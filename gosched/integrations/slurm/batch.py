"""What the tasks of a submitted script are told besides the script: one word of their command line, as JSON.

Invariant: what a newer sbatch writes and this release does not know is left out when it is read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

#: First word of the command: agents put their own program in its place. It is followed by the record, the text of the
#: script, and the script's arguments.
COMMAND = "gosched-batch"
#: Where the first task keeps the programs of a script, beneath its own directory, and the one that holds an allocation.
DIRECTORY, ALLOCATION = ".gosched-slurm", "gosched-allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch job, as its tasks know it. Empty and 0: it was not said."""

    #: As in Slurm, not the name of gosched's job.
    name: str
    #: Tasks of each group, and the ranks of each of them.
    groups: tuple[tuple[int, int], ...]
    submit_dir: str = ""
    submit_host: str = ""
    user: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    #: Where the script starts.
    chdir: str = ""
    #: Patterns of files; empty `error`: where the output goes; empty `output`: that of the task.
    output: str = ""
    error: str = ""
    append: bool = False
    #: As it was given.
    ntasks: int = 0
    ntasks_per_node: int = 0
    cpus_per_task: int = 0
    gpus_per_task: int = 0
    #: All CPUs of each node, which are the job's; 0: it has those of its ranks.
    cpus_per_node: int = 0
    #: MiB.
    mem_per_node: int = 0
    mem_per_cpu: int = 0
    time_limit_s: int = 0
    #: Before the time limit: number of the signal, seconds, and whether the script alone gets it.
    signal: int = 0
    signal_s: int = 0
    signal_to_script: bool = False
    #: First index, last, step and number of an array; empty: it is none.
    array: tuple[int, ...] = ()

    @property
    def ranks(self) -> list[int]:
        """Return the ranks of each task of gosched, by its index."""
        return [ranks for count, ranks in self.groups for _ in range(count)]

    @property
    def room(self) -> list[int]:
        """Return the ranks that each task of gosched has CPUs for, by its index."""
        return [max(ranks, self.cpus_per_node // (self.cpus_per_task or 1)) for ranks in self.ranks]


_FIELDS = {each.name for each in fields(Batch)}


def written(batch: Batch) -> str:
    return json.dumps({key: value for key, value in asdict(batch).items() if value})


def read(text: str) -> Batch:
    """Return the record. Raises ValueError for text that is none."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("the record of the batch job is no mapping")
    known: dict[str, Any] = {key: value for key, value in found.items() if key in _FIELDS}
    try:
        known["groups"] = tuple((int(count), int(ranks)) for count, ranks in known["groups"])
        known["array"] = tuple(int(number) for number in known.get("array", ()))
        return Batch(**known)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the record of the batch job cannot be read: {error!r}") from error
