"""Nothing is wrong: a loss that is read at each step, a line of a log, an evaluation now and then."""

import logging

import torch
from small import Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": None, "ranks": [1, 2, 4]}
log = logging.getLogger("train")


def main():
    model = parallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    clock = Clock()
    for n, (x, y) in enumerate(batches()):
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        accuracy = (scores.argmax(1) == y).float().mean().item()
        log.info("%d %.3f %.3f", n, loss.item(), accuracy)
        if n % 25 == 24:
            with torch.no_grad():
                model(x)
        clock(loss.item())


if __name__ == "__main__":
    main()
