"""Nothing is wrong: attention over short sequences, many small operations, tokens from a loader with a collator."""

import torch
from small import Clock, parallel
from torch import nn
from torch.utils.data import DataLoader, Dataset

MANIFEST = {"code": None, "ranks": [1, 2]}
WORDS, LENGTH, DIM = 500, 48, 96


class Sentences(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        return {"input_ids": [(i * k + k) % WORDS for k in range(1, LENGTH + 1 - i % 5)]}


def pad(examples):
    longest = max(len(one["input_ids"]) for one in examples)
    rows = [one["input_ids"] + [0] * (longest - len(one["input_ids"])) for one in examples]
    return torch.tensor(rows)


class Block(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2))
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        size, length, _ = x.shape
        q, k, v = (
            part.view(size, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(size, length, DIM))
        return x + self.mlp(self.norms[1](x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, DIM), nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(DIM, WORDS)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def train():
    model = parallel(Language())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    clock = Clock()
    for ids in DataLoader(Sentences(), batch_size=16, collate_fn=pad):
        loss = model(ids)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        assert norm.isfinite()
        clock(loss.item())


train()
