"""The program of these tests, as ranks run it: one all-reduce in a step, a checkpoint every 20 steps.

    python3 program.py torch|mpi|alone|torchft DIRECTORY

It runs under each framework's own Python and knows nothing of gosched but GOSCHED_* variables. DIRECTORY is shared by
all ranks: a line for each step goes to `steps`, the last saved step is in `checkpoint`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

STEP_S = 0.1
STEPS_PER_CHECKPOINT = 20
IDLE_S = 300  # after it was asked to save itself: then it is stopped


class Ranks(Protocol):
    """The world of one rank."""

    rank: int

    def sum(self, value: float) -> float: ...


class Torch:
    """Ranks of torch.distributed over gloo; where they meet is in MASTER_ADDR and its like."""

    def __init__(self) -> None:
        from datetime import timedelta

        import torch
        import torch.distributed

        self.torch = torch
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=120))
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()

    def sum(self, value: float) -> float:
        tensor = self.torch.tensor([value], dtype=self.torch.float64)
        self.torch.distributed.all_reduce(tensor)
        return float(tensor.item())


class Mpi:
    """Ranks of MPI_COMM_WORLD."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()

    def sum(self, value: float) -> float:
        return float(self.world.allreduce(value))


class Alone:
    """Ranks that need no other one, as replicas that merge their work now and then."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["GOSCHED_TASK_INDEX"]), int(os.environ["GOSCHED_TASK_COUNT"])

    def sum(self, value: float) -> float:
        return value


class Asked:
    """Whether SIGUSR1 has asked this rank to save itself."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGUSR1, self.note)

    def note(self, *_: object) -> None:
        self.now = True


def main() -> None:
    framework, shared = sys.argv[1], Path(sys.argv[2])
    if framework == "torchft":
        heal(shared)
    else:
        worlds: dict[str, Callable[[], Ranks]] = {"torch": Torch, "mpi": Mpi, "alone": Alone}
        work(worlds[framework], shared)


def work(meet: Callable[[], Ranks], shared: Path) -> None:
    asked = Asked()  # first of all: the signal may come while ranks meet
    ranks = meet()
    step = saved_step(shared / "checkpoint")
    with (shared / "steps").open("a") as steps:
        while True:
            begun = time.monotonic()
            # All ranks save after the same step, though the signal reaches them at different moments.
            save = ranks.sum(asked.now) > 0
            step += 1
            steps.write(line(ranks.rank, step))
            steps.flush()
            if save or step % STEPS_PER_CHECKPOINT == 0:
                if ranks.rank == 0:
                    write_step(shared / "checkpoint", step)
                ranks.sum(0)  # nobody says that it is saved before it is
                Path(os.environ["GOSCHED_CHECKPOINT_FILE"]).touch()
            if save:
                time.sleep(IDLE_S)
            time.sleep(max(0.0, begun + STEP_S - time.monotonic()))


def heal(shared: Path) -> None:
    """Work as a replica of torchft: those that are there commit a step, and one that comes gets their state."""
    from datetime import timedelta

    import torch
    from torchft.manager import Manager
    from torchft.process_group import ProcessGroupGloo

    index, host = int(os.environ["GOSCHED_GROUP_INDEX"]), socket.gethostname()
    store = torch.distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    weight = torch.zeros(1)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=5)),
        load_state_dict=lambda state: weight.copy_(state["weight"]),
        state_dict=lambda: {"weight": weight},
        min_replica_size=2,
        use_async_quorum=False,
        timeout=timedelta(seconds=10),
        rank=0,
        world_size=1,
        store_addr=host,
        store_port=store.port,
        replica_id=f"replica_{index}",
    )
    with (shared / "steps").open("a") as steps:
        while True:
            begun = time.monotonic()
            manager.start_quorum()
            gradient = torch.ones(1)
            manager.allreduce(gradient).wait()
            if manager.should_commit():
                weight += gradient
                steps.write(line(index, manager.current_step()))
                steps.flush()
            time.sleep(max(0.0, begun + STEP_S - time.monotonic()))


def line(rank: int, step: int) -> str:
    """Return one short line, which a file opened for appending takes whole."""
    of = os.environ
    return f"{rank} {of['GOSCHED_NODE']} {os.getpid()} {of['GOSCHED_ATTEMPT']} {step} {time.time():.3f}\n"


def saved_step(checkpoint: Path) -> int:
    return int(checkpoint.read_text()) if checkpoint.exists() else 0


def write_step(checkpoint: Path, step: int) -> None:
    new = checkpoint.with_suffix(".new")
    new.write_text(str(step))
    new.replace(checkpoint)


if __name__ == "__main__":
    main()
