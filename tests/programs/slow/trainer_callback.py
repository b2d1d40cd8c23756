"""A trainer with hooks; one callback counts tokens letter by letter behind every batch."""

import torch
from small import SLOW, WIDTH, Clock, batches, network
from torch import nn

MANIFEST = {"code": "python_work", "ranks": [1]}


class Callback:
    def on_batch_start(self, trainer, batch): ...

    def on_batch_end(self, trainer, batch, loss): ...


class Ticker(Callback):
    def __init__(self):
        self.clock = Clock()

    def on_batch_end(self, trainer, batch, loss):
        self.clock(float(loss))


class Vocabulary(Callback):
    def __init__(self):
        self.seen = {}

    def on_batch_end(self, trainer, batch, loss):
        if SLOW:
            self._count([str(value) for value in batch[0].flatten()[:400].tolist()] * 24)

    def _count(self, words):
        for word in words:
            for letter in word:
                self.seen[letter] = self.seen.get(letter, 0) + 1  # the slow line


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()), network(5)

    def training_step(self, batch):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.head(self.encoder(inputs)), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks

    def _call(self, name, *args):
        for callback in self.callbacks:
            getattr(callback, name)(self, *args)

    def _closure(self, module, optimizer, batch):
        def closure():
            optimizer.zero_grad()
            loss = module.training_step(batch)
            loss.backward()
            return loss

        return closure

    def fit(self, module, source):
        optimizer = module.configure_optimizers()
        for batch in source:
            self._call("on_batch_start", batch)
            loss = optimizer.step(self._closure(module, optimizer, batch))
            self._call("on_batch_end", batch, loss)


if __name__ == "__main__":
    Trainer([Vocabulary(), Ticker()]).fit(Module(), batches())
