"""Ranks without torch, each in a state of its own: ``odd_ranks.py FOLDER STATE...``, one state for each rank.

``asleep``, ``busy``, ``gil`` (a C call keeps the GIL), ``uninterruptible`` (state D), ``exit:N``, ``signal:N``, ``family`` (has a child).
Each prints ``rank R is STATE``.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

LIFE_S = 120


def tick():
    while True:
        time.sleep(0.01)


def hold_gil():
    ctypes.PyDLL(None).sleep(LIFE_S)


def hang_in_kernel(fifo):
    os.mkfifo(fifo)
    actions = [(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)]
    os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=actions)


def compute():
    while True:
        sum(range(1000))


def a_worker():
    code = "import time; open('/proc/self/comm', 'w').write('pt_data_worker'); print(flush=True); time.sleep(120)"
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    worker.stdout.readline()
    return worker


def main():
    signal.alarm(LIFE_S)
    rank = int(os.environ["RANK"])
    folder, *states = sys.argv[1:]
    state, _, number = states[rank].partition(":")
    workers = [a_worker()] if state == "family" else []
    threading.Thread(target=tick, daemon=True).start()
    print(f"rank {rank} is {state}, with {len(workers)} workers", flush=True)
    if state == "exit":
        print(f"[rank{rank}]: OSError: no such shard", file=sys.stderr, flush=True)
        os._exit(int(number))
    if state == "signal":
        os.kill(os.getpid(), int(number))
    {
        "asleep": lambda: time.sleep(LIFE_S),
        "busy": compute,
        "gil": hold_gil,
        "uninterruptible": lambda: hang_in_kernel(os.path.join(folder, "fifo")),
        "family": lambda: time.sleep(LIFE_S),
    }[state]()


if __name__ == "__main__":
    main()
