"""Task groups: equal tasks of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import StringMap, added
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.isolation import PLAIN, Isolation
from gosched.core.spec.placement_rules import Affinity, AntiAffinity, SpreadRule, Strategy, Toleration, TopologyRule
from gosched.core.spec.secret_use import SecretUse


class Runtime(IntEnum):
    """What starts the tasks of a group."""

    UNSPECIFIED = 0
    #: A process tree on the node itself.
    PROCESS = 1
    #: A container whose root is a directory or a tarball of the node.
    ROOTFS = 2
    #: A container of the Docker daemon.
    DOCKER = 3
    #: A Spark application, or one of its two roles.
    SPARK = 4


class Framework(IntEnum):
    """Which distributed framework the environment of the tasks is made for."""

    UNSPECIFIED = 0
    NONE = 1
    TORCH = 2
    MPI = 3


MPI_IMPLEMENTATIONS = ("openmpi", "mpich")
SPARK_DRIVER, SPARK_WORKER = "spark-driver", "spark-worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """Equal tasks of a job: how many, what each one requests, runs and requires."""

    #: Unique in the job.
    name: str
    #: How many tasks the group has; above 0.
    count: int
    #: What each task requests.
    resources: Resources = ZERO
    #: The GPU model that the tasks require; empty: any.
    gpu_model: str = ""
    #: What starts the tasks.
    runtime: Runtime = Runtime.PROCESS
    #: Of ROOTFS a directory or tarball on the node, of DOCKER a name; empty for the others.
    image: str = ""
    #: The words of the command. Of SPARK the words after spark-submit, or one of the two roles of an application:
    #: SPARK_DRIVER and its words, or SPARK_WORKER. Empty: that of the image.
    command: tuple[str, ...] = ()
    #: Environment variables, besides those that gosched sets.
    env: StringMap = ()
    #: Where the command starts, from the task's own directory; empty: there.
    working_dir: str = ""
    #: Labels that a node must have.
    node_selector: StringMap = ()
    #: Which nodes are preferred; UNSPECIFIED: as the cluster's settings say.
    strategy: Strategy = Strategy.UNSPECIFIED
    #: NONE: no variables for a framework are set.
    framework: Framework = Framework.NONE
    #: How many of the tasks start together or not at all, the others are elastic; 0: all.
    min_count: int = 0
    #: What the task needs of each of its GPUs; of a shared GPU, its share of the memory; 0: any.
    gpu_memory_bytes: int = 0
    #: Domains that the gang must or should fit into; empty: anywhere.
    topology: tuple[TopologyRule, ...] = ()
    #: How evenly the tasks are spread over domains; empty: no rule.
    spread: tuple[SpreadRule, ...] = ()
    #: Conditions on a node's labels; empty: none.
    affinity: tuple[Affinity, ...] = ()
    #: Jobs whose tasks must not be in the same domain; empty: none.
    anti_affinity: tuple[AntiAffinity, ...] = ()
    #: Taints that do not keep the tasks off a node; empty: none.
    tolerations: tuple[Toleration, ...] = ()
    #: How each task is isolated on its node.
    isolation: Isolation = PLAIN
    #: Ranks of the MPI program that each task starts; 0: the command is started as it stands.
    mpi_ranks: int = added(0)
    #: Whose MPI starts them, one of MPI_IMPLEMENTATIONS; empty: that of the program.
    mpi_implementation: str = added("")
    #: Secrets of the job's tenant that each task gets; empty: none.
    secrets: tuple[SecretUse, ...] = added(())

    @property
    def floor(self) -> int:
        """Return how many of its tasks start together."""
        return self.min_count or self.count
