"""Nothing is wrong: a trainer with hooks, which logs a mean each step and saves every hundredth."""

import collections
import os
import tempfile

import torch
from small import WIDTH, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": None, "ranks": [1, 2]}


class Meter:
    def __init__(self):
        self.window = collections.deque(maxlen=50)

    def on_batch_end(self, trainer, loss):
        self.window.append(loss)
        trainer.logged["mean"] = sum(self.window) / len(self.window)


class Checkpoint:
    def __init__(self, folder):
        self.folder = folder

    def on_batch_end(self, trainer, loss):
        if trainer.global_step % 100 == 99:
            torch.save(trainer.module.state_dict(), os.path.join(self.folder, "last.ckpt"))


class Ticker:
    def __init__(self):
        self.clock = Clock()

    def on_batch_end(self, trainer, loss):
        self.clock(loss)


class Trainer:
    def __init__(self, *callbacks):
        self.callbacks, self.global_step, self.logged = callbacks, 0, {}

    def fit(self, module, source):
        self.module = module
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
        for inputs, labels in source:

            def closure(inputs=inputs, labels=labels):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(module(inputs), labels)
                loss.backward()
                nn.utils.clip_grad_value_(module.parameters(), 1.0)
                return loss

            loss = optimizer.step(closure).item()
            scheduler.step()
            self.global_step += 1
            for callback in self.callbacks:
                callback.on_batch_end(self, loss)


with tempfile.TemporaryDirectory() as folder:
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), network(5))
    Trainer(Meter(), Checkpoint(folder), Ticker()).fit(parallel(net), batches())
