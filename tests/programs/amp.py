"""Mixed precision with a GradScaler on the CPU, dropout and DataLoader workers. Prints ``ready``, then each step's loss as exact hex.

--steps N stops after N steps; --sleep S between steps.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--sleep", type=float, default=0.0)
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=20)
    x = torch.randn(512, 16)
    loader = DataLoader(TensorDataset(x, x.square().sum(1, keepdim=True)), batch_size=16, shuffle=True, num_workers=2)
    step = 0
    while True:
        for x, y in loader:
            with torch.autocast("cpu", torch.float16):
                loss = nn.functional.mse_loss(model(x).float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            step += 1
            print(f"{step} {loss.item().hex()}", flush=True)
            if step == 3:
                print("ready", flush=True)
            if step == args.steps:
                return
            time.sleep(args.sleep)


if __name__ == "__main__":
    main()
