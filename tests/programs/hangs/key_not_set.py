"""One rank validates, and tells the others by a store which step was the best. Where none was better it says nothing, and goes on."""

import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": ("main",), "worlds": (3, 4, 6)}


class Best:
    def __init__(self, store):
        self.store, self.loss = store, 1e9

    def tell(self, step, loss):
        if loss < self.loss:
            self.loss = loss
            self.store.set(f"best-{step}", str(step))

    def learn(self, step):
        key = f"best-{step}"
        while not self.store.check([key]):
            time.sleep(0.05)
        return int(self.store.get(key))


def main():
    run = Run()
    model, optimizer = run.model()
    best = Best(dist.distributed_c10d._get_default_store())
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        worse = run.trouble(step)
        if run.is_culprit:
            best.tell(step, 1e10 if worse else 1.0 / (step + 1))
        else:
            best.learn(step)
        dist.barrier()  # HERE


if __name__ == "__main__":
    main()
