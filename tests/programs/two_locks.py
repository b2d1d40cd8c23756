"""A training whose threads `saver` and `logger` wait for each other, and which goes on without them. Its batches come from a worker."""

import threading

import torch
from torch.utils.data import DataLoader, Dataset

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


class Noise(Dataset):
    def __len__(self):
        return 10**7

    def __getitem__(self, i):
        return torch.randn(64)


def save():
    with first:
        both.wait()
        with second:
            pass


def log():
    with second:
        both.wait()
        with first:
            pass


def main():
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(DataLoader(Noise(), batch_size=8, num_workers=1))
    next(batches)  # its worker is forked before there are other threads
    threading.Thread(target=save, name="saver", daemon=True).start()
    threading.Thread(target=log, name="logger", daemon=True).start()
    print("ready", flush=True)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
