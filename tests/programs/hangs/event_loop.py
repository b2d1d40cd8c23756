"""Rewards are computed by coroutines; one rank drops a request, and whoever awaits its answer waits for ever."""

import asyncio

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": "reward"}


async def answer(requests, drops):
    while True:
        number, future = await requests.get()
        if number != drops:
            future.set_result(float(number))


async def reward(requests, number):
    future = asyncio.get_running_loop().create_future()
    await requests.put((number, future))
    return await future  # HERE


async def rewards(drops):
    requests = asyncio.Queue()
    server = asyncio.create_task(answer(requests, drops))
    found = await asyncio.gather(*(reward(requests, number) for number in range(8)))
    server.cancel()
    return torch.tensor(found)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        dist.all_reduce(asyncio.run(rewards(drops=5 if run.trouble(step) else None)))


if __name__ == "__main__":
    main()
