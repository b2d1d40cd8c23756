"""Four gloo ranks train, healthy and ``ready``, until the file ``go`` is in the directory that is given. Then rank 2 waits for a shard that
never comes, while rank 3 is in an all_reduce with it alone, and 0 and 1 in a barrier for all.

Two seconds later every rank has written its flight recorder there, with stacks, as torch would on a time-out, and rank 0 prints ``dumped``.
The launcher is to be the one of hangs/.
"""

import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d


def dump(rank, directory):
    time.sleep(2)
    path = os.path.join(directory, f"nccl_trace_rank_{rank}")
    with open(f"{path}.tmp", "wb") as f:
        f.write(_distributed_c10d._dump_fr_trace(True, True, False))
    os.rename(f"{path}.tmp", path)
    while rank == 0 and sum(name[-1].isdigit() for name in os.listdir(directory)) < dist.get_world_size():
        time.sleep(0.05)  # those that are still being written are called .tmp
    if rank == 0:
        print("dumped", flush=True)


def wait_for_shard():
    while not os.path.exists("/nonexistent/shard"):
        time.sleep(1)


def step(go):
    dist.all_reduce(torch.ones(100))
    told = torch.tensor([os.path.exists(go)])
    dist.broadcast(told, 0)
    return bool(told)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, directory = dist.get_rank(), sys.argv[1]
    pairs = [dist.new_group([0, 1], group_desc="pair"), dist.new_group([2, 3], group_desc="pair")]
    dist.all_gather([torch.ones(1) for _ in range(4)], torch.ones(1))
    while not step(os.path.join(directory, "go")):
        time.sleep(0.05)
        if rank == 0:
            print("ready", flush=True)
    threading.Thread(target=dump, args=(rank, directory), daemon=True).start()
    if rank == 2:
        wait_for_shard()
    dist.all_reduce(torch.ones(1), group=pairs[rank // 2])
    dist.barrier()


if __name__ == "__main__":
    main()
