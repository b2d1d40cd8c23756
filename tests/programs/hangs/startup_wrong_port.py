"""One rank was given an old port, so it knocks where nobody listens, again and again; the others wait for it."""

import os

import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "init_incomplete", "ranks": "culprit", "where": "main"}


def main():
    run = Run(first_culprit=1, group=False)
    if run.is_culprit:
        os.environ["MASTER_PORT"] = "9"
    run.ready()
    dist.init_process_group("gloo")  # HERE


if __name__ == "__main__":
    main()
