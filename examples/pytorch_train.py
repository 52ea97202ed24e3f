"""Data-parallel training of a small model, on GPUs where there are some, as torchrun starts it: `torchrun train.py`,
without flags.

Every epoch is a checkpoint, so an attempt goes on where the last one was; FAIL_ONCE=RANK:EPOCH ends a worker once, to
show that torchrun starts the workers again.
"""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT = pathlib.Path(os.environ.get("CHECKPOINT", "model.pt"))
EPOCHS = int(os.environ.get("EPOCHS", "5"))


def main() -> None:
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 0
    if CHECKPOINT.exists():
        saved = torch.load(CHECKPOINT, map_location=device)
        model.module.load_state_dict(saved["model"])
        first = saved["epoch"] + 1
    print(f"rank {rank} of {size} on {os.environ['GOSCHED_NODE']} begins with epoch {first} on {device}", flush=True)
    truth = torch.arange(8.0, device=device).unsqueeze(1)
    for epoch in range(first, EPOCHS):
        data = torch.randn(256, 8, generator=torch.Generator().manual_seed(epoch * size + rank)).to(device)
        for batch in data.split(32):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(batch), batch @ truth)
            loss.backward()
            optimizer.step()
        dist.all_reduce(total := loss.detach().clone())
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / size:.4f} over {size} ranks", flush=True)
            new = CHECKPOINT.with_suffix(".new")
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, new)
            new.replace(CHECKPOINT)
        dist.barrier(device_ids=[device.index] if on_gpu else None)
        if os.environ.get("FAIL_ONCE") == f"{rank}:{epoch}" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            sys.exit(1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
