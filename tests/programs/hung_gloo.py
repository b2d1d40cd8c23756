"""Two gloo ranks under a launcher: rank 1 never issues the all_reduce and sleeps. Rank 0 prints ``ready`` once it
hangs in it.
"""

import threading
import time

import torch
import torch.distributed as dist


def forgets_the_collective():
    time.sleep(600)


def main():
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        forgets_the_collective()
    threading.Timer(0.3, print, ("ready",), {"flush": True}).start()
    dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
