"""What a node's agent is told of a task: start it, stop it. Whole, so that an agent needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import StringMap
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.isolation import PLAIN, Isolation
from gosched.core.spec.secret_use import SecretUse
from gosched.core.spec.task_group import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """An order to start one task. Fields with the name of one of `TaskGroup` have that one's value."""

    #: The start that is ordered; an agent starts it at most once.
    allocation_id: str
    task_id: str
    job_id: str
    runtime: Runtime = Runtime.PROCESS
    image: str = ""
    #: Words of the command line. Empty: the image's own.
    command: tuple[str, ...] = ()
    #: The task's whole environment; the agent adds a few names that it lacks.
    env: StringMap = ()
    #: Below the task's own directory, or absolute.
    working_dir: str = ""
    #: What the task holds on the node.
    resources: Resources = ZERO
    #: Numbers of its GPUs on the node.
    gpus: tuple[int, ...] = ()
    #: CPUs that are the task's alone, as the kernel writes lists ("0-3,8"). Empty: it shares those that no task owns.
    cpus: str = ""
    isolation: Isolation = PLAIN
    mpi_ranks: int = 0
    mpi_implementation: str = ""
    #: What others must not listen on when it starts; 0: nothing.
    port: int = 0
    #: Whether the task ends before the masters may count this node as dead, when the node has lost them.
    stop_alone: bool = False
    #: How long the task then has between SIGTERM and SIGKILL.
    stop_grace_ms: int = 0
    #: Secrets that it gets; their values come beside the order, and are never stored.
    secrets: tuple[SecretUse, ...] = ()
    #: Of the account on nodes that its tenant, or its user, has; 0: there is none.
    account_number: int = 0
    #: Whose task it is.
    tenant: str = ""
    #: Who submitted it, where that is authenticated; empty: the account is the tenant's.
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """An order to end one task: the checkpoint signal and time for it, then SIGTERM and the grace, then SIGKILL."""

    allocation_id: str
    #: Between SIGTERM and SIGKILL; 0: killed at once.
    grace_ms: int
    #: Code of why it ends, such as PREEMPTED.
    reason: str = ""
    #: Number of the signal that asks the task to save itself; 0: it is not asked.
    checkpoint_signal: int = 0
    #: How long it may take to do so; 0: it is not asked.
    checkpoint_ms: int = 0

    @property
    def saves(self) -> bool:
        """Return whether the task may save itself first."""
        return self.checkpoint_signal > 0 and self.checkpoint_ms > 0
