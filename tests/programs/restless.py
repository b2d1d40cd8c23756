"""Threads that nap for a moment, each time at another depth of their C stack, and one that waits in epoll for good. Prints ``ready``."""

import itertools
import select
import threading
import time


def nap(depth):
    if depth:
        min([depth - 1], key=nap)  # through C, whose stack it deepens
    else:
        time.sleep(0.005)
    return 0


def come_and_go():
    for depth in itertools.cycle(range(100)):
        nap(depth)


for _ in range(4):
    threading.Thread(target=come_and_go, daemon=True).start()
threading.Thread(target=select.epoll().poll, daemon=True).start()
print("ready", flush=True)
come_and_go()
