"""The `spark` of a job file: a whole application as two task groups, a driver and its executors.

Invariant: what the job file's `conf` says goes before what follows from the resources.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown
from gosched.config.jobs.group_model import DistributedFile, GroupFile, ResourcesFile
from gosched.config.jobs.isolation_model import IsolationFile
from gosched.config.jobs.placement_model import PlacementFile
from gosched.config.jobs.spark_memory import LEAST_HEAP_MIB, cores, heap_mib, jvm_mib, least_memory_mib
from gosched.config.validation import Int32, MemoryBytes, Model, Pairs, Text, problem_at
from gosched.core.spec.task_group import SPARK_DRIVER, SPARK_WORKER

DRIVER, EXECUTOR = "driver", "executor"  # the names of the groups

_MIB = 1 << 20
_WAIT_FOR_EXECUTORS = "120s"
LEAVES_AFTER_S = 15  # without an executor, which Spark lets go when it has been idle for a minute
_OF_GOSCHED = frozenset(
    {
        "spark.master",
        "spark.submit.deployMode",
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.authenticate",
        "spark.authenticate.secret",
    }
)
_OF_DYNAMIC = frozenset(
    {
        "spark.cores.max",
        *[f"spark.dynamicAllocation.{key}Executors" for key in ("min", "initial", "max")],
        *[f"spark.dynamicAllocation.{key}" for key in ("enabled", "executorAllocationRatio")],
    }
)


class SparkResources(ResourcesFile):
    memory: MemoryBytes = 2048 * _MIB

    @model_validator(mode="after")
    def _holds_a_heap(self) -> SparkResources:
        if heap_mib(self.memory) < LEAST_HEAP_MIB:
            raise problem_at(("memory",), f"is too little for Spark's JVMs: expected at least {least_memory_mib()}Mi")
        return self


class ExecutorsFile(Model):
    """One executor for each task."""

    count: Int32 = 1
    resources: SparkResources = SparkResources()


def _words(value: object) -> object:
    return value if isinstance(value, list) else [value]


class SparkFile(IsolationFile):
    """`placement`, `env`, `working_dir` and all of IsolationFile are of both groups."""

    app: Annotated[Text, Field(min_length=1)]
    args: Annotated[tuple[Text, ...], BeforeValidator(_words)] = ()
    main_class: Text | None = Field(default=None, alias="class")
    driver: SparkResources = SparkResources()
    executors: ExecutorsFile = ExecutorsFile()
    conf: Pairs = ()
    placement: PlacementFile = PlacementFile()
    env: Pairs = ()
    working_dir: Text | None = None

    @model_validator(mode="after")
    def _agree(self) -> SparkFile:
        if self.app.startswith("-"):
            raise problem_at(("app",), f"expected a path or an address, got {shown(self.app)}; options belong to conf")
        if self.app.endswith(".jar") and not self.main_class:
            raise problem_at(("app",), "is a jar: name its main class too, with class")
        for key, value in self.conf:
            self._check_conf(key, value)
        return self

    def _check_conf(self, key: str, value: str) -> None:
        """Refuse settings of gosched, and executors that fit on no worker: Spark would wait for them without an end."""
        resources = self.executors.resources
        if not key.startswith("spark.") or "=" in key:
            raise problem_at(("conf", key), "expected the name of a setting, such as spark.sql.shuffle.partitions")
        if key in _OF_GOSCHED:
            raise problem_at(
                ("conf", key), "is set by gosched, which starts a cluster for the application: leave it out"
            )
        if key == "spark.executor.cores" and (not value.isdecimal() or not 0 < int(value) <= cores(resources.cpu)):
            raise problem_at(("conf", key), f"expected 1 to {cores(resources.cpu)}, the executors' cpu, got {value}")
        if key == "spark.executor.memory" and not 0 < jvm_mib(value) <= resources.memory // _MIB:
            most = f"at most {resources.memory // _MIB}m, the executors' memory"
            raise problem_at(("conf", key), f"expected an amount such as 4g, {most}, got {shown(value)}")

    def check_dynamic(self) -> None:
        """Check an application whose executors come and go. Raises ValueError."""
        executors = self.executors.resources
        for key, value in self.conf:
            if key in _OF_DYNAMIC or (key == "spark.executor.cores" and value != str(cores(executors.cpu))):
                problem = "follows from executors and gang, with gang.initial: leave it out"
                raise problem_at(("spark", "conf", key), problem)

    def groups(self, gang_min: int | str | None, initial: int | None) -> dict[str, GroupFile]:
        """Return the two groups. `initial`: how many tasks are wanted at first, of an application whose executors come
        and go; None: their number is fixed."""
        both = {
            "runtime": "spark",
            "distributed": DistributedFile(framework="mpi"),  # all of them know where the driver is
            **{key: getattr(self, key) for key in ("placement", "env", "working_dir", *IsolationFile.model_fields)},
        }
        return {
            DRIVER: GroupFile.model_construct(
                run=(SPARK_DRIVER, *self._submit_words(gang_min, initial)), resources=self.driver, **both
            ),
            EXECUTOR: GroupFile.model_construct(
                run=(SPARK_WORKER,) if initial is None else (SPARK_WORKER, str(LEAVES_AFTER_S)),
                count=self.executors.count,
                resources=self.executors.resources,
                **both,
            ),
        }

    def _submit_words(self, gang_min: int | str | None, initial: int | None) -> tuple[str, ...]:
        """Return the words for spark-submit; the address of the cluster is added on the node."""
        of_class = ("--class", self.main_class) if self.main_class else ()
        conf = [word for key, value in self._conf(gang_min, initial).items() for word in ("--conf", f"{key}={value}")]
        return (*of_class, *conf, self.app, *self.args)

    def _conf(self, gang_min: int | str | None, initial: int | None) -> dict[str, str]:
        executors = self.executors
        each = cores(executors.resources.cpu)
        percent = int(gang_min.removesuffix("%")) if isinstance(gang_min, str) else 100
        return {
            **(self._dynamic(percent, initial) if initial is not None else {}),
            "spark.executor.cores": str(each),
            "spark.executor.memory": f"{heap_mib(executors.resources.memory)}m",
            "spark.cores.max": str(each * executors.count),
            "spark.scheduler.minRegisteredResourcesRatio": str(percent / 100),
            "spark.scheduler.maxRegisteredResourcesWaitingTime": _WAIT_FOR_EXECUTORS,
            "spark.executor.logs.rolling.strategy": "size",  # files beside the task's log, which has bounds of its own
            "spark.executor.logs.rolling.maxSize": str(16 * _MIB),
            "spark.executor.logs.rolling.maxRetainedFiles": "2",
            **dict(self.conf),
        }

    def _dynamic(self, percent: int, initial: int) -> dict[str, str]:
        """Return the settings of executors that come and go. `percent`: how many of all start with the driver."""
        settings = {
            "enabled": "true",
            "shuffleTracking.enabled": "true",  # there is no shuffle service beside the workers
            "minExecutors": str(-(-self.executors.count * percent // 100)),
            "initialExecutors": str(initial - 1),  # without the driver
            "maxExecutors": str(self.executors.count),
        }
        return {f"spark.dynamicAllocation.{key}": value for key, value in settings.items()}
