"""One rank waits for its data before it joins: the mount of a file system that does not come. The others wait for the rank."""

import os
import time

import torch.distributed as dist
from parts import Run

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": "wait_for_mount"}


def wait_for_mount(path):
    while not os.path.exists(path):
        time.sleep(60)  # HERE


def main():
    run = Run(group=False)
    run.ready()
    if run.is_culprit:
        wait_for_mount("/mnt/there/is/no/such/share")
    dist.init_process_group("gloo")


if __name__ == "__main__":
    main()
