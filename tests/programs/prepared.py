"""A training that lets us in by itself: --serve calls traindbg.serve(); else TRAINDBG=1 does it. --late imports torch after 2 s."""

import sys
import time

if "--serve" in sys.argv:
    import traindbg

    print(traindbg.serve(), flush=True)
if "--late" in sys.argv:
    print("waiting", flush=True)
    time.sleep(2)

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    print("ready", flush=True)
    time.sleep(0.02)
