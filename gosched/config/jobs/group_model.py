"""The shape of a task group in a job file: what its tasks run, where, and what of a node they get."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown
from gosched.config.jobs.isolation_model import ContainerFile
from gosched.config.jobs.placement_model import PlacementFile
from gosched.config.quantity import gpu_millis
from gosched.config.validation import CpuMillis, Int32, MemoryBytes, Model, Pairs, Text, Word, problem_at, text
from gosched.config.vector import with_custom
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.rules.groups import MAX_RANKS_PER_TASK
from gosched.core.sharing import BUILT_IN
from gosched.core.spec.secret_use import SecretUse
from gosched.core.spec.task_group import Runtime

_MPIEXECS = ("mpiexec", "mpirun", "orterun", "prterun", "srun")


def _run(value: object) -> str | tuple[str, ...]:
    """Keep text as text: what it means depends on the runtime. A list is executed as it stands."""
    if isinstance(value, str) and value.strip():
        return text(value)
    if isinstance(value, list | tuple) and value:
        words = tuple(text(word) for word in value if not isinstance(word, dict | list | bool | None))
        if len(words) == len(value) and words[0]:
            return words
    raise ValueError(
        f"expected a line for the shell, or a list of words such as [python3, train.py], got {shown(value)}"
    )


def _share(value: object) -> int:
    millis = gpu_millis(value)
    if not 0 < millis < MILLI:
        raise ValueError(f"expected a share of one GPU, 0.001 to 0.999, got {shown(value)}")
    return millis


class Gpus(Model):
    """The GPUs of each task."""

    #: Thousandths: a share of one GPU, or whole ones.
    count: Annotated[int, BeforeValidator(gpu_millis)] = MILLI
    model: Word | None = None
    #: Bytes of each GPU; of one that is shared, the task's share of them.
    memory: MemoryBytes = 0
    #: Thousandths of one GPU; None: `count` says it.
    share: Annotated[int, BeforeValidator(_share)] | None = None

    @model_validator(mode="after")
    def _agree(self) -> Gpus:
        if self.share is not None and self.count != MILLI:
            raise ValueError("share is of one GPU: leave count out, or make it 1")
        return self

    @property
    def millis(self) -> int:
        return self.count if self.share is None else self.share


def _gpus(value: Any) -> Any:
    """Read `0.5`, `2`, `h100:8` or the mapping."""
    if isinstance(value, dict):
        return value
    model, colon, count = value.partition(":") if isinstance(value, str) else ("", "", value)
    written = {"count": count, "model": model} if colon else {"count": value}
    gpu_millis(written["count"])  # so that an error names the key that people wrote
    return written


class ResourcesFile(Model):
    """The resources of each task. Without `cpu` it gets one CPU."""

    cpu: CpuMillis = 1000
    memory: MemoryBytes = 0
    storage: MemoryBytes = 0
    gpu: Annotated[Gpus, BeforeValidator(_gpus)] = Gpus(count=0)
    custom: AmountMap = Field(default=(), alias="custom resources")

    @model_validator(mode="before")
    @classmethod
    def _own_names(cls, value: Any) -> Any:
        return with_custom(value, BUILT_IN)

    def record(self) -> Resources:
        return Resources(
            cpu_millis=self.cpu,
            memory_bytes=self.memory,
            storage_bytes=self.storage,
            gpu_millis=self.gpu.millis,
            custom=self.custom,
        )


class DistributedFile(Model):
    """The framework of a distributed job: which variables its tasks get, and, of MPI, who starts the ranks."""

    framework: Literal["torch", "mpi", "none"] = "none"
    #: Of torch: the command is torchrun. Of mpi: mpiexec, which gosched runs, or none, the command does. None: mpiexec
    #: for mpi, else none.
    launcher: Literal["torchrun", "mpiexec", "none"] | None = None
    #: Ranks of an MPI program that each task starts.
    ranks_per_task: Annotated[Int32, Field(ge=1, le=MAX_RANKS_PER_TASK)] = 1
    #: Whose mpiexec; None: that of the program.
    implementation: Literal["openmpi", "mpich"] | None = None

    @model_validator(mode="after")
    def _launches_its_framework(self) -> DistributedFile:
        if self.launcher == "torchrun" and self.framework != "torch":
            raise problem_at(("launcher",), "torchrun starts torch: add framework: torch, or leave launcher out")
        if self.launcher == "mpiexec" and self.framework != "mpi":
            raise problem_at(("launcher",), "mpiexec starts MPI programs: add framework: mpi, or leave launcher out")
        for key, given in (("ranks_per_task", self.ranks_per_task > 1), ("implementation", self.implementation)):
            if given and not self.mpi_ranks:
                raise problem_at((key,), "is of framework: mpi, where gosched runs mpiexec: leave it out")
        return self

    @property
    def mpi_ranks(self) -> int:
        """Return how many ranks gosched starts in each task."""
        return self.ranks_per_task if self.framework == "mpi" and self.launcher in (None, "mpiexec") else 0


class SecretFile(Model):
    """A secret of the job's tenant, as a file of the task or as a variable; without either, as a file by its name."""

    name: Word
    #: Path below $GOSCHED_SECRETS_DIR.
    file: Word | None = None
    #: Name of a variable.
    env: Word | None = None

    @model_validator(mode="after")
    def _is_one(self) -> SecretFile:
        if self.file is not None and self.env is not None:
            raise ValueError("it is given as a file or as a variable (env): name one of them")
        return self

    def record(self) -> SecretUse:
        return SecretUse(name=self.name, file=self.file or ("" if self.env else self.name), env=self.env or "")


class GroupFile(ContainerFile):
    """A group of equal tasks. Its keys may also stand at the top of the job, for a job of one group."""

    run: Annotated[str | tuple[str, ...], BeforeValidator(_run)]
    count: Int32 = 1
    resources: ResourcesFile = ResourcesFile()
    placement: PlacementFile = PlacementFile()
    distributed: DistributedFile = DistributedFile()
    env: Pairs = ()
    secrets: tuple[SecretFile, ...] = ()
    working_dir: Text | None = None

    @model_validator(mode="after")
    def _has_words(self) -> GroupFile:
        try:
            self.command()
        except ValueError as error:
            raise problem_at(("run",), f"cannot be split into words ({error}): write a list") from error
        return self

    @model_validator(mode="after")
    def _ranks_are_started_once(self) -> GroupFile:
        is_spark = self.runs_in is Runtime.SPARK and self.distributed.launcher is None  # it gets the variables alone
        if not self.distributed.mpi_ranks or is_spark:
            return self
        if self.runs_in is not Runtime.PROCESS:
            problem = f"mpiexec does not start ranks in runtime {self.runs_in.name.lower()}: "
            raise problem_at(("distributed",), problem + "add launcher: none, and start mpiexec in the container")
        program = (self.run.split() if isinstance(self.run, str) else self.run)[0].rpartition("/")[2]
        if program.split(".")[0] in _MPIEXECS:
            problem = f"gosched runs {program} itself: write the program alone, or add launcher: none to distributed"
            raise problem_at(("run",), problem)
        return self

    def command(self) -> tuple[str, ...]:
        """Return the words of a line for the shell; of the runtime spark, the words after spark-submit."""
        if not isinstance(self.run, str):
            return self.run
        if self.runs_in is Runtime.SPARK:
            return tuple(shlex.split(self.run))
        return ("/bin/sh", "-c", self.run)
