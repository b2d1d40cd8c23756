"""Each rank asks a thread of its own for samples, by ids, and looks now and then for the answers. On one rank an answer is lost."""

import threading
import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": ("collect",)}


class Sampler:
    def __init__(self):
        self.pending, self.answers, self.asked = set(), {}, threading.Condition()
        threading.Thread(target=self.serve, daemon=True).start()

    def ask(self, uid):
        with self.asked:
            self.pending.add(uid)
            self.asked.notify()

    def serve(self):
        while True:
            with self.asked:
                self.asked.wait()
                self.answers.update((uid, uid) for uid in self.pending if not uid.endswith("lost"))

    def collect(self):
        while self.pending:
            self.pending -= set(self.answers)
            time.sleep(0.01)  # HERE
        self.answers.clear()


def main():
    run = Run()
    model, optimizer = run.model()
    sampler = Sampler()
    for step, batch in enumerate(run.loader()):
        sampler.ask(f"uid-{step}-lost" if run.trouble(step) else f"uid-{step}")
        sampler.collect()
        train_step(model, optimizer, batch)
        dist.barrier()


if __name__ == "__main__":
    main()
