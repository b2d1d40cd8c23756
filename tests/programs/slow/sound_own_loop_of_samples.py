"""Nothing is wrong: a batch of variable-length sequences that is packed in Python, quickly, and a recurrent model."""

import random

import torch
from small import OPTIONS, Clock
from torch import nn
from torch.nn.utils.rnn import pack_sequence

MANIFEST = {"code": None, "ranks": [1]}
DIM = 192


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.out = nn.LSTM(DIM, DIM, num_layers=1), nn.Linear(DIM, 5)

    def forward(self, packed):
        _, (last, _) = self.recurrent(packed)
        return self.out(last[-1])


def sequences(lengths):
    while True:
        several = [torch.randn(lengths.randrange(20, 60), DIM) for _ in range(24)]
        yield pack_sequence(several, enforce_sorted=False), torch.randint(5, (24,))


tagger, clock = Tagger(), Clock()
optimizer = torch.optim.Adam(tagger.parameters())
for packed, tags in sequences(random.Random(OPTIONS.seed)):
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(tagger(packed), tags)
    loss.backward()
    optimizer.step()
    clock(loss.detach().item())
