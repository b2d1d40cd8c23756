"""Two gloo ranks started with torch.multiprocessing.spawn, each with a DataLoader worker. Prints ``ready`` once both
run and then sleeps.
"""

import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset


def rank_main(rank, address):
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    batches = iter(DataLoader(TensorDataset(torch.arange(64)), num_workers=1))
    next(batches)
    dist.barrier()
    if rank == 0:
        print("ready", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    mp.spawn(rank_main, (f"file://{sys.argv[1]}",), nprocs=2)
