"""A pipeline: each rank sends to the one before it. One forgets its last micro-batch: the receiver waits for it, the rest for both."""

import torch
import torch.distributed as dist
from parts import Run

EXPECTED = {
    "code": ("collective_not_issued", "collective_mismatch"),
    "ranks": "culprit",
    "where": ("pipeline", "main"),
}
MICRO_BATCHES = 4


def pipeline(run, sent):
    for micro_batch in range(MICRO_BATCHES):
        x = torch.full((4,), float(micro_batch))
        if run.rank < run.world - 1:
            dist.recv(x, src=run.rank + 1)  # HERE
        if run.rank > 0 and micro_batch < sent:
            dist.send(x, dst=run.rank - 1)


def main():
    run = Run(first_culprit=1)  # rank 0 has nobody to send to
    for step in range(1_000_000):
        pipeline(run, MICRO_BATCHES - 1 if run.trouble(step) else MICRO_BATCHES)
        dist.barrier()  # HERE


if __name__ == "__main__":
    main()
