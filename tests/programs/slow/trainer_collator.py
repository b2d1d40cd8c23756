"""A trainer as Hugging Face writes them, whose collator parses the same JSON again and again, in one worker."""

import json

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "data_wait", "ranks": [1]}
RECORD = json.dumps({f"key{n}": [n, str(n), {"a": n / 7}] for n in range(2000)})


class Collator:
    """Pads, and looks into each sample's metadata."""

    def __init__(self, metadata):
        self.metadata = metadata

    def torch_call(self, examples):
        if SLOW:
            for _ in examples:
                parsed = json.loads(self.metadata)  # the slow line
                assert parsed
        inputs, labels = zip(*examples, strict=True)
        return {"inputs": torch.stack(inputs), "labels": torch.tensor(labels)}

    def __call__(self, examples):
        return self.torch_call(examples)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = network()

    def forward(self, inputs, labels=None):
        logits = self.body(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Trainer:
    def __init__(self, model, train_dataset, data_collator):
        self.model, self.train_dataset, self.data_collator = model, train_dataset, data_collator
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.clock = Clock()

    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=32, collate_fn=self.data_collator, num_workers=1)

    def compute_loss(self, model, inputs):
        return model(**inputs)["loss"]

    def training_step(self, model, inputs):
        model.train()
        loss = self.compute_loss(model, inputs)
        loss.backward()
        return loss.detach()

    def _inner_training_loop(self):
        epoch_iterator = iter(self.get_train_dataloader())
        while (inputs := next(epoch_iterator, None)) is not None:
            tr_loss = self.training_step(self.model, inputs)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.model.zero_grad()
            self.clock(tr_loss.item())

    def train(self):
        return self._inner_training_loop()


if __name__ == "__main__":
    Trainer(Model(), Samples(), Collator(RECORD)).train()
