"""An engine of three processes, as the servers of language models are: one speaks HTTP, one schedules (they talk by zmq), one computes and
shares a process group with rank 0. Rank 0 asks the engine to reset its cache and waits for the answer; the worker that should do it is in
the broadcast of the next weight, for rank 0.
"""

import asyncio
import http.client
import itertools
import json
import multiprocessing
import os
import queue
import threading

import torch
import torch.distributed as dist
import zmq
import zmq.asyncio
from parts import ADDRESS, LIFE_S, Run, beside, group_beside, publish_port, published, train_step

EXPECTED = {
    "code": "process_deadlock",
    "ranks": [0],
    "where": ("ask", "update_weights"),
    "beside": "engine",
}


class Worker:
    """In a process of its own; what it is to do comes by a pipe."""

    def __init__(self, calls):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.group = group_beside(1)
        while True:
            method, *arguments = calls.recv()
            calls.send(getattr(self, method)(*arguments))

    def update_weights(self, count):
        for _ in range(count):
            dist.broadcast(torch.empty(8), 0, group=self.group)  # HERE
        return True

    def reset(self):
        return True


def schedule(address):
    """The process between: a thread takes in what is asked, the main thread has the worker do it."""
    calls, theirs = multiprocessing.get_context("spawn").Pipe()
    multiprocessing.get_context("spawn").Process(target=Worker, args=(theirs,), daemon=True).start()
    asked, socket = queue.Queue(), zmq.Context().socket(zmq.DEALER)
    socket.connect(address)
    answers = zmq.Context.instance().socket(zmq.PUSH)
    answers.connect(address + "-answers")

    def take_in():
        while True:
            asked.put(json.loads(socket.recv()))

    socket.send(b"ready")
    threading.Thread(target=take_in, daemon=True).start()
    while True:
        number, call = asked.get()
        calls.send(call)
        answers.send_json([number, calls.recv()])


class Api:
    def __init__(self, address):
        context = zmq.asyncio.Context()
        self.core, self.answers = context.socket(zmq.DEALER), context.socket(zmq.PULL)
        self.core.bind(address)
        self.answers.bind(address + "-answers")
        self.numbers, self.waiting = itertools.count(), {}

    async def collect(self):
        while True:
            number, answer = json.loads(await self.answers.recv())
            self.waiting.pop(number).set_result(answer)

    async def call(self, *call):
        number = next(self.numbers)
        self.waiting[number] = asyncio.get_running_loop().create_future()
        await self.core.send_json([number, call])
        return await self.waiting[number]

    async def handle(self, reader, writer):
        while await reader.readline():
            length = 0
            while (line := await reader.readline()).strip():
                name, _, value = line.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            method, *arguments = json.loads(await reader.readexactly(length))
            if method == "update_weights":
                asyncio.get_running_loop().create_task(self.call(method, *arguments))
            else:
                await self.call(method, *arguments)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()


async def serve(address):
    api = Api(address)
    await api.core.recv()
    collecting = asyncio.create_task(api.collect())
    server = await asyncio.start_server(api.handle, ADDRESS, 0)
    publish_port("engine", server.sockets[0].getsockname()[1])
    await asyncio.gather(collecting, server.serve_forever())


def engine():
    address = f"ipc://{os.environ['SCENE_FOLDER']}/core"
    multiprocessing.get_context("spawn").Process(target=schedule, args=(address,)).start()
    asyncio.run(asyncio.wait_for(serve(address), LIFE_S))


class Engine:
    def __init__(self):
        self.group = group_beside(0)
        self.http = http.client.HTTPConnection(published("engine"))

    def ask(self, *call):
        self.http.request("POST", "/collective_rpc", json.dumps(call))
        self.http.getresponse().read()  # HERE

    def update(self, weights, announced):
        self.ask("update_weights", announced)
        for weight in weights:
            dist.broadcast(weight, 0, group=self.group)
        self.ask("reset")


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    served = Engine() if run.rank == 0 else None
    for step, batch in enumerate(run.loader()):
        trouble = run.trouble(step)
        if served is not None:
            weights = [torch.zeros(8) for _ in range(4)]
            served.update(weights, len(weights) + trouble)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    engine() if beside() == "engine" else main()
