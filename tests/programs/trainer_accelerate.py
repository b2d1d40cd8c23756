"""A loop written with accelerate: prepared model, optimizer, loader and scheduler, gradients accumulated over two batches.

Prints ``ready``, then ``loss STEP HEX`` for every optimizer step: the mean of its two micro-batches' own losses.
"""

import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99**step)
    loader = DataLoader(TensorDataset(torch.randn(1024, 8)), batch_size=8)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    step, losses = 0, []
    while True:
        for (x,) in loader:
            with accelerator.accumulate(model):
                loss = model(x).square().mean()
                accelerator.backward(loss)
                losses.append(loss.item())
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                step += 1
                print(f"loss {step} {(sum(losses) / len(losses)).hex()}", flush=True)
                losses.clear()
                if step == 3:
                    print("ready", flush=True)
            time.sleep(0.01)


if __name__ == "__main__":
    main()
