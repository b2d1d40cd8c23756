"""Hung in a DataLoader: one of two workers never returns from ``__getitem__``. Prints ``ready`` once the main process
waits for it.

The word ``spawn`` or ``forkserver`` as argument starts the workers so, instead of by fork.
"""

import multiprocessing
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Stuck(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if i == 8:
            time.sleep(600)
        return torch.full((2,), float(i))


def main():
    context = sys.argv[1] if len(sys.argv) > 1 else "fork"
    if context == "forkserver":
        # Python 3.13 and newer have it load the main module by themselves
        multiprocessing.set_forkserver_preload(["torch"])
    seen = 0
    for batch in DataLoader(Stuck(), batch_size=2, num_workers=2, multiprocessing_context=context):
        seen += len(batch)
        if seen == 8:  # batch 4 holds the item that never comes
            threading.Timer(0.5, print, ("ready",), {"flush": True}).start()


if __name__ == "__main__":
    main()
