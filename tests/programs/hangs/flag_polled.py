"""A thread uploads the samples of a step and then sets a flag; on one rank it has died of a bad name. The rank looks at the flag 400 times
a second, to keep a spinner turning.
"""

import sys
import threading
import time

from parts import Run, train_step

EXPECTED = {
    "code": "python_wait",
    "ranks": "culprit",
    "where": "finish",
    "says": r"self\.uploaded = Event, not set",
}


class Uploader:
    def __init__(self, folder):
        self.folder, self.uploaded = folder, threading.Event()

    def upload(self, name, sample):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(str(sample))
        self.uploaded.set()

    def start(self, name, sample):
        self.uploaded.clear()
        threading.Thread(target=self.upload, args=(name, sample), name="upload", daemon=True).start()

    def finish(self):
        turn = 0
        while not self.uploaded.is_set():
            turn += 1
            sys.stderr.write("|/-"[turn % 3])  # HERE
            time.sleep(0.0025)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        uploader = Uploader(folder)
        for step, batch in enumerate(run.loader()):
            loss = train_step(model, optimizer, batch)
            uploader.start("samples/of/a/step" if run.trouble(step) else "samples", loss)
            uploader.finish()


if __name__ == "__main__":
    main()
