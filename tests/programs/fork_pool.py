"""A training process with a pool of two forked workers, as ``datasets.map(num_proc=2)`` makes one. Prints ``ready``
once both work.
"""

import multiprocessing
import time

import torch  # noqa: F401  (what the workers inherit)


def main():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(time.sleep, [0.05] * 4)
        print("ready", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
