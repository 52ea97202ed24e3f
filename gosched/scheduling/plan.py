"""What a cycle decided, and the commands that commit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gosched.core.commands.command import Command
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.reservation import Reservation
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.preemption.eviction_rules import Victim
from gosched.scheduling.snapshot.task_requests import PendingGang

# One log entry holds 512 KiB; the rest is for the batch and the command around the plan.
MAX_COMMAND_BYTES = 508 * 1024
ALWAYS_ENCODES = 64  # tasks: the longest id and all GPUs of a node are 2.4 KiB each
_Part = GangPlacement | Reservation | str  # of a plan: the text is the id of a job whose reservation is withdrawn
CPULIST_BYTES = 64  # of a task's own CPUs, as a rule; `may_encode` counts on it


@dataclass(slots=True, kw_only=True)
class Plan:
    """The decisions of a cycle, which grow while it runs."""

    #: Of the view that was planned.
    revision: int
    planned_at_ms: int = 0
    seed: int = 0
    #: Placements and evictions, in the order in which they were decided.
    gangs: list[GangPlacement] = field(default_factory=list)
    #: The number of tasks in `gangs`.
    tasks: int = 0
    #: Why each gang that was not placed waits, by job id, in the order in which they were looked at.
    explanations: dict[str, Explanation] = field(default_factory=dict)
    #: The first moment at which the same view gives another plan; None: there is none.
    wake_at_ms: int | None = None
    #: A bound cut the cycle short, or a gang gave surplus, of which it may have more: run another one at once.
    more: bool = False
    #: The fair share of each queue, by path and resource.
    shares: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Plugins that were switched off, a line for each.
    faults: tuple[str, ...] = ()
    #: New reservations, and those that change.
    reservations: list[Reservation] = field(default_factory=list)
    #: Jobs whose reservation is taken back.
    withdrawn: list[str] = field(default_factory=list)
    #: The victims that queues which only observe would have evicted, by the id of the job that waits.
    observed: dict[str, tuple[Victim, ...]] = field(default_factory=dict)
    _parts: list[tuple[int, _Part]] = field(default_factory=list, repr=False, compare=False)

    @property
    def looked_at(self) -> int:
        """Return the number of gangs so far."""
        return len(self.gangs) + len(self.explanations)

    def add(self, gang: GangPlacement) -> None:
        self.gangs.append(gang)
        self._drop(gang.job_id)
        self.tasks += len(gang.tasks)

    def reserve(self, reservation: Reservation) -> None:
        """Reserve a start, in place of the one that the job had."""
        self._drop(reservation.job_id)
        if reservation.job_id in self.withdrawn:
            self.withdrawn.remove(reservation.job_id)
        self.reservations.append(reservation)

    def withdraw(self, job_id: str) -> None:
        """Take the job's reservation back."""
        self._drop(job_id)
        self.withdrawn.append(job_id)

    def wake_at(self, moment_ms: int) -> None:
        """Note that the same view gives another plan from then on."""
        if moment_ms > self.planned_at_ms:
            self.wake_at_ms = min(moment_ms, self.wake_at_ms or moment_ms)

    def measure(self) -> list[tuple[int, _Part]]:
        """Note the parts with their sizes. A cycle ends with it, so that what it raises is the cycle's."""
        self._parts = [(encoded_bytes(gang), gang) for gang in self.gangs]
        self._parts += [(_name_bytes(job_id), job_id) for job_id in self.withdrawn]
        self._parts += [(_reservation_bytes(reservation), reservation) for reservation in self.reservations]
        return self._parts

    def commands(self, epoch: int, at_ms: int, max_bytes: int = MAX_COMMAND_BYTES) -> list[Command]:
        """Return CommitPlan commands, each at most `max_bytes` when encoded. A gang is never split. Evictions and
        starts come before reservations, which count on them."""
        chunks: list[list[_Part]] = []
        capacity = 0
        for size, part in self._parts or self.measure():
            if not chunks or size > capacity:
                chunks.append([])
                capacity = max_bytes
            chunks[-1].append(part)
            capacity -= size
        return [Command(body=self._body(chunk), epoch=epoch, at_ms=at_ms) for chunk in chunks]

    def _drop(self, job_id: str) -> None:
        """Forget the reservation that this plan made for the job."""
        if self.reservations:
            self.reservations = [kept for kept in self.reservations if kept.job_id != job_id]

    def _body(self, chunk: list[_Part]) -> CommitPlan:
        return CommitPlan(
            revision=self.revision,
            planned_at_ms=self.planned_at_ms,
            seed=self.seed,
            gangs=tuple([part for part in chunk if isinstance(part, GangPlacement)]),
            reservations=tuple([part for part in chunk if isinstance(part, Reservation)]),
            withdrawn=tuple([part for part in chunk if isinstance(part, str)]),
        )


def encoded_bytes(gang: GangPlacement) -> int:
    """Return an upper bound of the size of the gang's message; a test compares it with the codec."""
    return (
        _gang_bytes(gang.job_id)
        + sum([_task_bytes(len(t.node_id.encode()), len(t.gpus), len(t.cpus)) for t in gang.tasks])
        + sum([_name_bytes(e.job_id) + 24 + 4 * len(e.ranks) for e in gang.evictions])
    )


def _reservation_bytes(reservation: Reservation) -> int:
    shares = [_name_bytes(share.group) + _name_bytes(share.node_id) + 16 for share in reservation.shares]
    return _gang_bytes(reservation.job_id) + 64 + sum(shares)


def _name_bytes(name: str) -> int:
    return 4 + len(name.encode())


def may_encode(gang: PendingGang, longest_node_id: Callable[[], int]) -> bool:
    """Return whether the gang's placement fits in one command, on any nodes. Their ids are looked at only if it
    matters."""
    return _most_bytes(gang, MAX_NAME_LENGTH) <= MAX_COMMAND_BYTES or (
        _most_bytes(gang, longest_node_id()) <= MAX_COMMAND_BYTES
    )


def _most_bytes(gang: PendingGang, node_id: int) -> int:
    size = _gang_bytes(gang.job_id)
    for request in gang.requests:
        gpus = request.whole_gpus or (1 if request.gpu_share else 0)
        size += request.count * _task_bytes(node_id, gpus, CPULIST_BYTES if request.owned_cpus else 0)
    return size


def _gang_bytes(job_id: str) -> int:
    return 48 + len(job_id.encode())


def _task_bytes(node_id: int, gpus: int, cpus: int) -> int:
    """Return a task's size. Tags, lengths and a rank of up to 2 million take 8 bytes while lengths are below 128."""
    size = 8 + node_id + (2 + 2 * gpus if gpus else 0) + (2 + cpus if cpus else 0)
    return size if size < 128 else size + 8
