"""A sound loop written with accelerate: a small transformer that learns to sort, its gradients accumulated over four batches and clipped.

Prints ``step N: loss X`` every twenty optimizer steps, for ever.
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

NUMBERS, LENGTH, WIDTH = 32, 12, 64


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers, self.places = nn.Embedding(NUMBERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, NUMBERS)

    def forward(self, x):
        return self.head(self.encoder(self.numbers(x) + self.places(torch.arange(LENGTH))))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = Sorter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    loader = DataLoader(TensorDataset(torch.randint(NUMBERS, (64_000, LENGTH))), batch_size=32, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    step = 0
    while True:
        for (x,) in loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(x).flatten(0, 1), x.sort(dim=1).values.flatten())
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                step += 1
                if step % 20 == 0:
                    accelerator.print(f"step {step}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
