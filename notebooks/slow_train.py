"""A small transformer learns to write the log of a lighthouse, slowly, for several reasons at once. It knows nothing of jupyter-traindbg.

An ordinary script: the entries lie in an archive that takes a while to answer, a DataLoader fetches them, AdamW trains, and each step
writes a line to the log. What makes it slow are mistakes that people make, none of which changes a loss.
"""

import argparse
import gc
import os
import random
import signal
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CONTEXT = 64
ENTRY = CONTEXT + 2
BATCH = 12
WIDTH = 128
LETTERS = 72  # there is room for so many
ANSWERS_IN_S = 0.0025  # the archive's way over the network, which is slept here


def write_archive(path, entries=12_000, seed=7):
    """Entries of a log, each as long as the others."""
    dice = random.Random(seed)
    winds = {"calm": "like glass", "breeze": "rippled", "gale": "running high", "storm": "breaking over the rocks"}
    ships = ("a collier", "two trawlers", "the mail boat", "nothing")
    with open(path, "w") as archive:
        for day in range(entries):
            wind = dice.choice(list(winds))
            archive.write(f"Day {day}. Wind: {wind}, the sea {winds[wind]}. Saw {dice.choice(ships)} pass.".ljust(ENTRY)[:ENTRY])


class Entries(Dataset):
    """An entry as pairs of letters, and of each pair the letter that follows it."""

    def __init__(self, path):
        self.archive = os.open(path, os.O_RDONLY)
        self.text = Path(path).read_text()

    def __len__(self):
        return len(self.text) // ENTRY

    def fetch(self, n):
        time.sleep(ANSWERS_IN_S)
        return os.pread(self.archive, ENTRY, n * ENTRY).decode()

    def __getitem__(self, n):
        alphabet = sorted(set(self.text))
        letters = [alphabet.index(letter) for letter in self.fetch(n)]
        pairs = [first * LETTERS + second for first, second in zip(letters, letters[1:])]
        return torch.tensor(pairs[:CONTEXT]), torch.tensor(letters[2:])


class Writer(nn.Module):
    def __init__(self, depth=2, heads=4):
        super().__init__()
        self.pair = nn.Linear(LETTERS**2, WIDTH, bias=False)
        layer = nn.TransformerEncoderLayer(WIDTH, heads, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, pairs):  # [batch, CONTEXT] -> [batch, CONTEXT, LETTERS]
        x = self.pair(F.one_hot(pairs, LETTERS**2).float())
        return self.head(self.layers(x, mask=self.mask, is_causal=True))


def count(table, scores, following):
    """Add up which three letters the model holds likeliest, for which of the keeper's."""
    likeliest = scores.topk(3).indices
    for letter, three in zip(following.flatten(), likeliest.flatten(0, 1)):
        for guess in three:
            table[letter, guess] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=20, help="end after so long, should nobody be left to stop it")
    args = parser.parse_args()
    signal.alarm(60 * args.minutes)
    torch.set_num_threads(1)
    torch.manual_seed(1898)

    write_archive("archive.txt")
    loader = DataLoader(Entries("archive.txt"), batch_size=BATCH, shuffle=True, num_workers=0)
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    table, step = torch.zeros(LETTERS, LETTERS), 0
    while True:
        for pairs, following in loader:
            scores = model(pairs)
            loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            gc.collect()
            step += 1
            count(table, scores, following)
            right = 3 * table.diagonal().sum() / table.sum()
            # Nine digits give a float32 back exactly, so logs can be compared to the last bit.
            print(f"step {step} rank 0 loss {loss.item():.9g} lr {optimizer.param_groups[0]['lr']:.6g} right {right:.0%}", flush=True)


if __name__ == "__main__":
    main()
