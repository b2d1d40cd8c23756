"""Rank 0 writes a large checkpoint, in many parts, while the others wait at the barrier: slow by design, and not stuck."""

import os

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": None, "state": ("progressing", "slow"), "also": ("cpu_phase",)}


def save(folder, parts):
    state = torch.randn(1 << 19)
    for part in range(parts):
        path = os.path.join(folder, f"part-{part % 4}.pt")  # overwrites: the test's disk is small
        torch.save({"part": part, "state": state}, path)


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.trouble(step):
                with run.folder() as folder:
                    save(folder, 100_000)
            dist.barrier()


if __name__ == "__main__":
    main()
