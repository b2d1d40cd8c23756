"""Gloo ranks train and average two numbers a step. Rank 1 meets an exception in its tenth step, and leaves the first of both out: from
then on its calls answer other ones. At the end all have written their flight recorders, with stacks, into the directory that is given.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

STEPS, SPOILT = 40, 10


def averaged(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()


def accuracy(step):
    if step == SPOILT and dist.get_rank() == 1:
        raise ZeroDivisionError("no target in this batch")
    return averaged(torch.tensor([0.5]))


def train(steps):
    for step in range(steps):
        try:
            accuracy(step)
        except ZeroDivisionError:
            pass
        averaged(torch.tensor([float(step)]))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(STEPS)
    if dist.get_rank() == 1:
        averaged(torch.zeros(1))  # the one that it owes the others
    while not all(
        entry["retired"] for entry in json.loads(_distributed_c10d._dump_fr_trace_json(True, False))["entries"]
    ):
        time.sleep(0.01)  # gloo notes an end a moment after it
    with open(os.path.join(sys.argv[1], f"nccl_trace_rank_{dist.get_rank()}"), "wb") as f:
        f.write(_distributed_c10d._dump_fr_trace(True, True, False))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
