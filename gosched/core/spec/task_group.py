"""Task groups: equal tasks of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import StringMap
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.isolation import PLAIN, Isolation
from gosched.core.spec.placement_rules import Affinity, AntiAffinity, SpreadRule, Strategy, Toleration, TopologyRule


class Runtime(IntEnum):
    UNSPECIFIED = 0
    PROCESS = 1
    ROOTFS = 2
    DOCKER = 3
    SPARK = 4


class Framework(IntEnum):
    UNSPECIFIED = 0
    NONE = 1
    TORCH = 2
    MPI = 3


SPARK_DRIVER, SPARK_WORKER = "spark-driver", "spark-worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """`count` (> 0) equal tasks; `min_count` of them start together or not at all (0: all), the others are elastic.

    `gpu_memory_bytes`: what the task needs of each of its GPUs; of a GPU that it shares, its share of the memory.
    `image`: of ROOTFS a directory or tarball on the node, of DOCKER a name. SPARK: the command is the words after
    spark-submit, or one of the two roles of an application, SPARK_DRIVER and its words, and SPARK_WORKER.
    """

    name: str
    count: int
    resources: Resources = ZERO
    gpu_model: str = ""
    runtime: Runtime = Runtime.PROCESS
    image: str = ""
    command: tuple[str, ...] = ()
    env: StringMap = ()
    working_dir: str = ""
    node_selector: StringMap = ()
    strategy: Strategy = Strategy.UNSPECIFIED
    framework: Framework = Framework.NONE
    min_count: int = 0
    gpu_memory_bytes: int = 0
    topology: tuple[TopologyRule, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    affinity: tuple[Affinity, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    isolation: Isolation = PLAIN

    @property
    def floor(self) -> int:
        """Tasks that start together."""
        return self.min_count or self.count
