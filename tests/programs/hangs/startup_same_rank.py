"""Two processes join as the same rank: one passes a number of its own in place of RANK."""

import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "init_incomplete", "ranks": "culprit", "where": "main", "worlds": [3, 4, 8]}


def main():
    run = Run(first_culprit=2, group=False)
    run.ready(2.0)
    dist.init_process_group("gloo", rank=1 if run.is_culprit else run.rank, world_size=run.world)  # HERE


if __name__ == "__main__":
    main()
