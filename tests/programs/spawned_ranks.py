"""Two gloo ranks started by torch.multiprocessing, each with a DataLoader worker. Prints ``ready`` once both run.

Arguments: the file where they meet, and ``spawn`` (the default), ``fork`` or ``forkserver``.
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
    method = sys.argv[2] if len(sys.argv) > 2 else "spawn"
    if method == "forkserver":
        mp.set_forkserver_preload(["torch"])  # Python 3.13 and newer have it load the main module by themselves
    mp.start_processes(rank_main, (f"file://{sys.argv[1]}",), nprocs=2, start_method=method)
