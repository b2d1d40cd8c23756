"""One rank was given the name of a machine that no name server knows."""

import os

import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "init_incomplete", "ranks": "culprit", "where": "main"}


def main():
    run = Run(first_culprit=1, group=False)
    if run.is_culprit:
        os.environ["MASTER_ADDR"] = "trainer-0.invalid"
    run.ready()
    dist.init_process_group("gloo")  # HERE


if __name__ == "__main__":
    main()
