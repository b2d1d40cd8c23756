"""A small character-level transformer learns to write the log of a lighthouse. It knows nothing of jupyter-traindbg.

An ordinary training script, and everything in it is a local of main(): the text is generated here, two DataLoader workers cut it up,
AdamW with a cosine schedule trains. It runs until it is stopped, or for --minutes, or for --steps optimizer steps. Steps take about 50 ms
on one CPU core; the same seed gives the same losses to the last bit.
"""

import argparse
import math
import random
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CONTEXT = 96
BATCH = 12
RESTART = 2000


def lighthouse_log(entries=4000, seed=7):
    """The text: dated entries whose words hang together (wind and sea agree), so that there is something to learn."""
    dice = random.Random(seed)
    winds = {"calm": "like glass", "breeze": "rippled", "gale": "running high", "storm": "breaking over the rocks"}
    ships = ("a collier", "two trawlers", "the mail boat", "a schooner", "nothing")
    lines = []
    for day in range(1, entries + 1):
        wind = dice.choice(list(winds))
        ship = "nothing" if wind == "storm" else dice.choice(ships)
        lamp = "trimmed at dusk" if dice.random() < 0.8 else f"relit {dice.randint(1, 4)} times"
        lines.append(f"Day {day}. Wind: {wind}, the sea {winds[wind]}. Saw {ship} pass. Lamp {lamp}.\n")
    return "".join(lines)


class Windows(Dataset):
    """Every window of CONTEXT + 1 characters of the text, as two tensors that are one character apart."""

    def __init__(self, text):
        letters = sorted(set(text))
        self.number = {letter: i for i, letter in enumerate(letters)}
        self.text = text

    def __len__(self):
        return len(self.text) - CONTEXT - 1

    def __getitem__(self, start):
        window = torch.tensor([self.number[letter] for letter in self.text[start : start + CONTEXT + 1]])
        return window[:-1], window[1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):  # x: [batch, time, width]
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1)
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [batch, heads, time, width / heads]
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class CharTransformer(nn.Module):
    def __init__(self, letters, width=128, depth=3, heads=4):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)

    def forward(self, letters):  # [batch, time] -> [batch, time, letters]
        x = self.letter(letters) + self.place(torch.arange(letters.shape[1], device=letters.device))
        return self.head(self.last_norm(self.blocks(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps (0: do not)")
    args = parser.parse_args()
    torch.manual_seed(1898)
    torch.set_num_threads(1)  # leave the other cores to whoever watches

    dataset = Windows(lighthouse_log())
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=2, drop_last=True)
    model = CharTransformer(letters=len(dataset.number))
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=1e-3,
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=RESTART, eta_min=1e-4)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(dataset.text):,} characters", flush=True)

    began, step = time.monotonic(), 0
    while True:
        for letters, following in loader:
            scores = model(letters)
            loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            # Nine digits give a float32 back exactly, so two logs can be compared to the last bit.
            print(f"step {step} loss {loss.item():.9g} lr {scheduler.get_last_lr()[0]:.3g}", flush=True)
            if step == args.steps or time.monotonic() - began > args.minutes * 60:
                return


if __name__ == "__main__":
    main()
