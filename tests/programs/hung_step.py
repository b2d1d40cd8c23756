"""Hung on a lock before its first optimizer step, everything in main()'s locals, gradients there. Prints ``ready`` once it hangs.

--freeze calls gc.freeze() first.
"""

import gc
import sys
import threading

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    model(torch.ones(2, 4)).sum().backward()
    if "--freeze" in sys.argv:
        gc.freeze()
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(0.2, print, ("ready",), {"flush": True}).start()
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    with lock:
        optimizer.step()
        scheduler.step()


if __name__ == "__main__":
    main()
