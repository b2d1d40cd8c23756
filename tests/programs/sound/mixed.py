"""A sound training in float16 on the CPU: the GradScaler skips the first steps, until its scale fits, and seldom one afterwards.

Prints ``step N: loss X, scale Y`` every twenty steps, for ever.
"""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 256


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, 10)).requires_grad_(False)
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Dropout(0.1), nn.Linear(WIDTH, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=500)
    step = 0
    while True:
        x = torch.randn(128, WIDTH)
        y = (8 * teacher(x)).argmax(1)
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        step += 1
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}, scale {scaler.get_scale():g}", flush=True)


if __name__ == "__main__":
    main()
