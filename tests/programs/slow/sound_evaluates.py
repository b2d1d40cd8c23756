"""Nothing is wrong: every fifteenth step is followed by a short evaluation and a line of a report, on all ranks."""

import statistics

import torch
from small import RANK, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": None, "ranks": [1, 2]}


def evaluate(model, source, many=3):
    model.eval()
    losses = []
    with torch.inference_mode():
        for _, (x, y) in zip(range(many), source, strict=False):
            losses.append(nn.functional.cross_entropy(model(x), y).item())
    model.train()
    return statistics.fmean(losses)


def main():
    model = network()
    trained = parallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=False)
    held_out, clock, report = batches(), Clock(), []
    for n, (x, y) in enumerate(batches(), 1):
        loss = nn.functional.cross_entropy(trained(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if n % 15 == 0:
            report.append({"step": n, "held_out": evaluate(model, held_out), "rank": RANK})
        clock(loss.item())


main()
