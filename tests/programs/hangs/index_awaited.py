"""Nothing is wrong: one rank counts words for minutes, and the others look for its file now and then."""

import json
import os
import time
from collections import Counter

import torch.distributed as dist
from parts import LIFE_S, Run, train_step

EXPECTED = {"code": "cpu_phase", "ranks": "culprit", "where": "count_words", "state": ("progressing", "slow")}


def count_words(path, for_s):
    words, ends = Counter(), time.monotonic() + for_s
    while time.monotonic() < ends:  # HERE
        words.update(["to", "be", "or", "not", "to", "be"] * 1000)  # HERE
    with open(f"{path}.part", "w") as file:
        json.dump(words, file)
    os.replace(f"{path}.part", path)


def load(path):
    while not os.path.isfile(path):
        time.sleep(0.1)
    with open(path) as file:
        return json.load(file)


def main():
    run = Run()
    model, optimizer = run.model()
    shared = [None]
    with run.folder() as folder:
        shared[0] = folder
        dist.broadcast_object_list(shared)
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            run.trouble(step)
            path = os.path.join(shared[0], f"words-{step}.json")
            if run.is_culprit:
                count_words(path, LIFE_S if step == run.step else 0)
            load(path)


if __name__ == "__main__":
    main()
