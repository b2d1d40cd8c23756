"""Takes a few steps, then waits for a lock that nobody will release; model and optimizer are locals."""

import threading

import torch


def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    print("ready", flush=True)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


main()
