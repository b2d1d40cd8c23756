"""A small language model trained as nanoGPT trains one, sound unless ``--fault`` plants one of the mistakes that people really make.

Alone or one rank of torchrun; rank 0 prints ``iter N: loss X, time Yms`` for every step.
"""

import argparse
import gc
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 128, 64, 64, 4, 2
LR, MIN_LR, WARMUP, DECAY = 1e-3, 1e-4, 100, 20_000
"""The schedule's highest and last learning rate, and the iterations at which it has warmed up and run out."""
WEIGHT_DECAY, BETAS, MAX_NORM = 0.1, (0.9, 0.99), 1.0
READ_S = 0.01
"""What it takes to read one item of a slow dataset."""

FAULTS = {
    "none": "nothing is wrong",
    "lr": "the learning rate is 1e6, where 1e-6 was meant",
    "leak": "each output is kept for statistics, with its graph: 2 MB a step",
    "slow-item": "the dataset's __getitem__ is slow, and the DataLoader has no workers",
    "slow-worker": "the dataset's __getitem__ is slow, and two workers are too few",
    "slow-batch": "get_batch itself reads the slow dataset, item by item",
    "scaler": "a term of the loss has an infinite gradient: the GradScaler skips every step",
    "unequal-lr": "rank 1 trains with three times the learning rate of the others",
    "straggler": "rank 1 is late by 0.4 s in every micro-batch",
    "mild-straggler": "rank 1 is late by 0.1 s in every micro-batch",
    "gc": "gc.collect() in every step",
    "nan-grad": "from iteration 20 on the gradient of one parameter is NaN",
    "zero-grad": "every target is masked out: the gradients are zero",
    "no-lr": "the schedule has run out: the learning rate is 0",
}
LATE_S = {"straggler": 0.4, "mild-straggler": 0.1}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x, targets):
        hidden = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(self.norm(hidden))
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        return logits, losses / targets.numel()


def markov_chain(length=512, chains=512):
    """A text that can be learnt: four tokens may follow each token, some likelier than others. The same for every rank."""
    generator = torch.Generator().manual_seed(1337)
    following = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=generator)
    likelihood = torch.tensor([0.6, 0.2, 0.1, 0.1])
    text = torch.zeros(chains, length, dtype=torch.long)
    for i in range(1, length):
        text[:, i] = following[text[:, i - 1], torch.multinomial(likelihood, chains, True, generator=generator)]
    return text.flatten()


class Windows(Dataset):
    """Every window of the text, and the same one token further; as slow as if each were a file somewhere else."""

    def __init__(self, text):
        self.text = text

    def __len__(self):
        return len(self.text) - CONTEXT - 1

    def __getitem__(self, i):
        time.sleep(READ_S)
        return self.text[i : i + CONTEXT], self.text[i + 1 : i + 1 + CONTEXT]


class Batches:
    """``get_batch``, the way that suits the fault."""

    def __init__(self, fault, size):
        self.fault, self.size, self.text = fault, size, markov_chain()
        self.windows = Windows(self.text)
        workers = {"slow-item": 0, "slow-worker": 2}.get(fault)
        self.endless = None if workers is None else self.epochs(workers)

    def epochs(self, workers):
        loader = DataLoader(self.windows, self.size, shuffle=True, num_workers=workers, drop_last=True)
        while True:
            yield from loader

    def get_batch(self):
        if self.endless is not None:
            return next(self.endless)
        starts = torch.randint(len(self.windows), (self.size,)).tolist()
        if self.fault == "slow-batch":
            x, y = (torch.stack(part) for part in zip(*[self.windows[i] for i in starts], strict=True))
        else:
            x = torch.stack([self.text[i : i + CONTEXT] for i in starts])
            y = torch.stack([self.text[i + 1 : i + 1 + CONTEXT] for i in starts])
        if self.fault == "zero-grad":
            y[x < VOCABULARY] = -100  # meant for the padding
        return x, y


def scheduled(iteration, learning_rate, min_lr, decay):
    if iteration > decay:
        return min_lr
    if iteration < WARMUP:
        return learning_rate * (iteration + 1) / (WARMUP + 1)
    done = (iteration - WARMUP) / (decay - WARMUP)
    return min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (learning_rate - min_lr)


def adamw(model, learning_rate):
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=BETAS)


class Regularizer:
    """A term of the loss that somebody has added: a root of what may be zero, whose derivative is infinite there."""

    def __init__(self, fault, model):
        self.fault, self.norm, self.start = fault, model.norm, None

    def __call__(self, iteration):
        if self.fault == "scaler":
            return 1e-3 * self.norm.bias.clamp(min=0).sqrt().mean()
        if self.fault == "nan-grad" and iteration >= 20:
            if self.start is None:
                self.start = self.norm.weight.detach().clone()
            return 1e-3 * (self.norm.weight - self.start).square().sum().sqrt()
        return 0.0


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, default="none", help=str(FAULTS))
    parser.add_argument("--steps", type=int, default=0, help="0: for ever")
    parser.add_argument("--scaler", action="store_true", help="scale the loss, although nothing is of half precision")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds by which each step is slower")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if args.fault in ("unequal-lr", *LATE_S) and int(os.environ.get("WORLD_SIZE", "1")) < 2:
        parser.error(f"{args.fault} is a fault of rank 1: start this under torchrun with two ranks")
    return args


def main():
    args = options()
    torch.set_num_threads(args.threads)
    parallel, rank = "RANK" in os.environ, int(os.environ.get("RANK", "0"))
    if parallel:
        dist.init_process_group("gloo")
    torch.manual_seed(1337 + rank)

    fault, learning_rate, min_lr, decay = args.fault, LR, MIN_LR, DECAY
    if fault == "lr":
        learning_rate = 1e6
    if fault == "unequal-lr" and rank == 1:
        learning_rate, min_lr = 3 * learning_rate, 3 * min_lr
    if fault == "no-lr":
        min_lr, decay = 0.0, 20
    late_s = LATE_S.get(fault, 0.0) if rank == 1 else 0.0

    raw_model = GPT()
    model = DistributedDataParallel(raw_model) if parallel else raw_model
    optimizer = adamw(raw_model, learning_rate)
    scaler = torch.amp.GradScaler("cpu", enabled=args.scaler or fault == "scaler")
    batches, regularizer, outputs = Batches(fault, args.batch), Regularizer(fault, raw_model), []

    iteration, began = 0, time.perf_counter()
    x, y = batches.get_batch()
    while not args.steps or iteration < args.steps:
        for group in optimizer.param_groups:
            group["lr"] = scheduled(iteration, learning_rate, min_lr, decay)
        for micro in range(args.accumulation):
            if parallel:
                model.require_backward_grad_sync = micro == args.accumulation - 1
            logits, loss = model(x, y)
            loss = (loss + regularizer(iteration)) / args.accumulation
            x, y = batches.get_batch()
            time.sleep(late_s)
            scaler.scale(loss).backward()
            if fault == "leak":
                outputs.append({"loss": loss, "logits": logits, "probabilities": logits.softmax(-1)})
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(raw_model.parameters(), MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if fault == "gc":
            gc.collect()
        time.sleep(args.sleep)
        now = time.perf_counter()
        if rank == 0:
            lossf = loss.item() * args.accumulation
            print(f"iter {iteration}: loss {lossf:.4f}, time {(now - began) * 1e3:.2f}ms", flush=True)
        began, iteration = now, iteration + 1
    if parallel:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
