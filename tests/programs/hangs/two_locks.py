"""Two threads of one rank take two locks in opposite order; the others wait for its gradients."""

import threading

from parts import Run, train_step

EXPECTED = {"code": "thread_deadlock", "ranks": "culprit", "where": "save", "also": ("lock_wait",)}


class Checkpointer:
    def __init__(self):
        self.state, self.files = threading.Lock(), threading.Lock()
        self.both = threading.Barrier(2)

    def save(self):
        with self.state:
            self.both.wait()
            with self.files:  # HERE
                pass

    def clean(self):
        with self.files:
            self.both.wait()
            with self.state:
                pass


def main():
    run = Run()
    model, optimizer = run.model()
    checkpointer = Checkpointer()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            threading.Thread(target=checkpointer.clean, name="cleaner", daemon=True).start()
            checkpointer.save()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
