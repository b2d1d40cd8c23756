"""One rank skips a batch that it cannot read; nothing is wrong until the epoch ends, and it is there one step before the others."""

import itertools

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": ("unequal_steps", "collective_mismatch", "collective_not_issued"),
    "ranks": "culprit",
    "where": "main",
    "doubt": True,
}


def decode(batch, bad):
    if bad:
        raise OSError("image file is truncated")
    return batch


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(itertools.islice(run.loader(), run.step + 3)):
        try:
            images = decode(batch, run.trouble(step))
        except OSError:
            continue
        train_step(model, optimizer, images)
    dist.barrier()  # HERE


if __name__ == "__main__":
    main()
