"""One rank finds nothing to do and returns, with exit code 0, so that torchrun sees no failure; the others wait for it."""

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "rank_ended", "ranks": "culprit", "where": None, "state": ("stuck", "failed")}


def main():
    run = Run(first_culprit=1)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            print("no shard for this rank, nothing to do")
            return
        if step == run.step:
            dist.new_group()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
