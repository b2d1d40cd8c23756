"""A tokeniser in Python, in the one worker that there is."""

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "data_wait", "ranks": [1]}
TEXT = "the quick brown fox jumps over the lazy dog " * 40


def tokens(text):
    counts = {}
    for letter in text:
        counts[letter] = counts.get(letter, 0) + ord(letter) % 7  # the slow line
    return len(counts)


class Texts(Samples):
    def __getitem__(self, i):
        x, y = super().__getitem__(i)
        if SLOW:
            for _ in range(12):
                tokens(TEXT)
        return x, y


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(Texts(), batch_size=32, num_workers=1):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
