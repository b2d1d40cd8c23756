"""The DataLoader workers of one rank were forked while another thread held a lock, and wait for it for ever."""

import multiprocessing
import threading
import time

from parts import Run, Squares, train_step

EXPECTED = {"code": "dataloader_worker_stuck", "ranks": "culprit", "where": "__getitem__", "also": ("lock_wait",)}
CACHE_LOCK = threading.Lock()


class Cached(Squares):
    def __getitem__(self, i):
        with CACHE_LOCK:  # HERE
            return super().__getitem__(i)


def write_cache():
    with CACHE_LOCK:
        time.sleep(600)


def main():
    multiprocessing.set_start_method("fork")  # which is no longer the default from Python 3.14 on
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader(workers=1)):
        if step == run.step:
            break
        train_step(model, optimizer, batch)
    if run.trouble(step):
        threading.Thread(target=write_cache, name="cache", daemon=True).start()
        time.sleep(0.1)
    for batch in run.loader(Cached(), workers=2):
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
