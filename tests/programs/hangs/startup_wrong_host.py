"""One rank looks for the job at an address where no machine is (a range kept for documentation): it asks, and nobody answers."""

import os

import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "init_incomplete", "ranks": "culprit", "where": "main"}


def main():
    run = Run(first_culprit=1, group=False)
    if run.is_culprit:
        os.environ["MASTER_ADDR"] = "198.51.100.7"
    run.ready()
    dist.init_process_group("gloo")  # HERE


if __name__ == "__main__":
    main()
