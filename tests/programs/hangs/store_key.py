"""Ranks tell each other by the store that a chunk of data is ready. One counts from one, and waits for a chunk that nobody announces."""

from parts import Run, train_step
from torch.distributed.distributed_c10d import _get_default_store

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": ("chunk",)}


def announce(store, rank, number):
    if rank == 0:
        store.set(f"chunk/{number}", "ready")


def chunk(store, number):
    key = f"chunk/{number}"
    return store.get(key)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    store = _get_default_store()
    for step, batch in enumerate(run.loader()):
        announce(store, run.rank, step)
        chunk(store, step + 1 if run.trouble(step) else step)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
