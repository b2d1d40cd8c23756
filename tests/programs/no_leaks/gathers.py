"""torch's flight recorder fills up: it keeps the calls of collectives with their stacks, in memory that is no object of Python's."""

import os
import sys

os.environ["TORCH_FR_BUFFER_SIZE"] = "100000"

import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks"))

from training import Training

CALLS = 6


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    training = Training()
    while training.goes_on:
        x, y = training.batch()
        for _ in range(CALLS):
            dist.all_reduce(y)
        training.step(training.loss(x, y))


main()
