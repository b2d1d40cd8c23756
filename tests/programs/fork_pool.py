"""A training process with a pool of two workers, as ``datasets.map(num_proc=2)`` makes one. Prints ``ready`` once both work.

The argument says how they are started: ``fork`` or ``forkserver``.
"""

import multiprocessing
import sys
import time

import torch  # noqa: F401  (what the workers inherit)


def main():
    if sys.argv[1] == "forkserver":
        # Python 3.13 and newer have it load the main module by themselves
        multiprocessing.set_forkserver_preload(["torch"])
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        pool.map(time.sleep, [0.05] * 4)
        print("ready", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
