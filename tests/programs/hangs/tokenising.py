"""Rank 0 tokenises the corpus, in Python and for many minutes, before the others may go on: slow, and not stuck."""

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "cpu_phase", "ranks": [0], "where": "tokenise", "state": ("progressing", "slow")}


def tokenise(lines):
    vocabulary = {}
    for n in range(lines):
        for word in f"line {n} of {lines} has the words {n % 7} and {n % 13}".split():  # HERE
            vocabulary[word] = vocabulary.get(word, 0) + 1  # HERE
    return vocabulary


def main():
    run = Run(culprit=0)
    if run.trouble(run.step):
        tokenise(1_000_000_000)
    dist.barrier()
    model, optimizer = run.model()
    for batch in run.loader():
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
