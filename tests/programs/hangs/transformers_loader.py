"""transformers' own Trainer, unchanged; a DataLoader worker of one rank reads a file that never comes (here: a pipe)."""

import os

import torch
from parts import Run
from trainers import Tokens, Trainer, arguments, language_model

EXPECTED = {"code": "dataloader_worker_stuck", "ranks": "culprit", "where": "__getitem__"}


class Shards(Tokens):
    def __init__(self, path, bad_call):
        self.path, self.bad_call, self.calls = path, bad_call, 0

    def __getitem__(self, i):
        self.calls += 1
        if self.calls == self.bad_call:
            with open(self.path, "rb") as f:  # HERE
                return torch.frombuffer(f.read(), dtype=torch.int64)
        return super().__getitem__(i)


def main():
    run = Run(group=False)
    with run.folder() as folder:
        path = os.path.join(folder, "shard-0007.bin")
        os.mkfifo(path)
        dataset = Shards(path, 4 * run.step if run.is_culprit else None)
        trainer = Trainer(language_model(), arguments(folder, dataloader_num_workers=1), train_dataset=dataset)
        run.ready(5.0)
        trainer.train()


if __name__ == "__main__":
    main()
