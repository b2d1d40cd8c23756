"""A job in which nothing is wrong, although much of it stands still: what a diagnosis must not accuse. Prints ``READY``.

A pool that waits in a queue for work, of which one never gets any; a server in `accept`; a parameter server; async and threaded actors
that wait; a task that sleeps and one that computes for long; an idle pool; an actor that was killed on purpose, one that left by itself;
a driver that polls.
"""

import asyncio
import queue
import socket
import threading
import time

import ray


@ray.remote(num_cpus=0)
class Worker:
    """Takes its work from a queue of its own, which another thread fills: for one of them never."""

    def __init__(self, number):
        self.work = queue.Queue()
        if number:
            threading.Thread(target=self.fill, name="feeder", daemon=True).start()

    def fill(self):
        while True:
            self.work.put(time.monotonic())
            time.sleep(0.2)

    def serve_forever(self):
        while True:
            self.work.get()
            time.sleep(0.05)


@ray.remote(num_cpus=0)
class Server:
    def listen(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.accept()


@ray.remote(num_cpus=0)
class Parameters:
    def __init__(self):
        self.pushed = 0

    def push(self, step):
        self.pushed = step

    def quit(self):
        ray.actor.exit_actor()


@ray.remote(num_cpus=0)
class Async:
    def __init__(self):
        self.never = asyncio.Event()

    async def pull(self):
        await self.never.wait()


@ray.remote(num_cpus=0, max_concurrency=3)
class Threaded:
    def wait(self):
        threading.Event().wait()


@ray.remote(num_cpus=0)
def periodic():
    while True:
        time.sleep(3600)


@ray.remote(num_cpus=0)
def compute():
    n = 0
    while True:
        n = sum(range(200_000))
        time.sleep(0.05)
    return n


@ray.remote(num_cpus=0)
class Trainer:
    """Gets on, with the parameter server's help, and waits for it now and then."""

    def train(self, parameters):
        for step in range(1_000_000):
            ray.get(parameters.push.remote(step))
            time.sleep(0.1)


def main():
    ray.init(log_to_driver=False)
    workers = [Worker.remote(n) for n in range(3)]
    server, idle = Server.remote(), [Parameters.remote() for _ in range(2)]
    calls = [w.serve_forever.remote() for w in workers] + [server.listen.remote(), periodic.remote(), compute.remote()]
    asynchronous, threaded, parameters = Async.remote(), Threaded.remote(), Parameters.remote()
    calls += [asynchronous.pull.remote() for _ in range(3)] + [threaded.wait.remote() for _ in range(2)]
    ray.get([p.push.remote(0) for p in idle])
    killed, left = idle[1], Parameters.remote()
    ray.kill(killed)
    left.quit.remote()
    calls.append(Trainer.remote().train.remote(parameters))
    ray.get(parameters.push.remote(0))
    time.sleep(1)
    print("READY", flush=True)
    while True:
        ray.wait(calls, num_returns=1, timeout=0.5)


if __name__ == "__main__":
    main()
