"""A Ray job in which one waits for another: by way of calls, of connections and of collectives. Name a scene; prints ``READY``.

Two trainers make three steps together; then rank 0

asks            waits in `ray.get` for a reward actor, which waits for an item in a queue
asks_async      ... for an async one, which awaits an event
asks_busy       ... for one that computes: sound
asks_queue      waits for an item in an empty queue of Ray's
asks_http       waits for the answer of an engine actor's HTTP server, which waits to be woken up
asks_on         waits at a socket for a rollout actor, that one in `ray.get` for another one
crossed         has an engine take the weights and waits for that, while the engine waits in the broadcast of them

raised          rank 1 raises, and the driver waits for rank 0's result first
rests           both have nothing to do; the driver waits for a rollout, and that for a reward actor

in_ray_train    rank 1 of Ray Train's asks as in ``asks``

``--far``: the reward actor runs on a node that has some "far", all others on one that has some "near".

Nobody trains; the driver waits for an actor that

chain           waits in `ray.get` for the reward actor
http            waits for the HTTP server of the sleeping engine
ring            waits at a socket for one that waits in `ray.get` for it
task            waits in `ray.get` for a task that waits at a socket
serves          waits for something to do: not known to be stuck
"""

import argparse
import asyncio
import http.server
import queue
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.queue import Queue
from torch import nn

torch.set_num_threads(1)
TRAINERS, MEMBERS = 2, 3
kept = []
far = "--far" in sys.argv


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"?")
    return connection


class Training:
    """A model in a group of the trainers; `members` may be one more, which is in the default group only."""

    def __init__(self, rank, folder, members):
        store = dist.FileStore(str(Path(folder, "store")), members)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=members)
        self.group = dist.new_group(range(TRAINERS))
        torch.manual_seed(0)
        self.model = nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(4, 8)).square().mean().backward()
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad, group=self.group)  # TOGETHER
        self.optimizer.step()


@ray.remote(num_cpus=0)
class Trainer:
    def __init__(self, rank, folder, members=TRAINERS):
        self.rank = rank
        self.training = Training(rank, folder, members)

    def train(self, begun, then, whom=None):
        for _ in range(3):
            self.training.step()
        begun.touch()
        if self.rank == 0 and whom is not None:
            getattr(self, then)(whom)
        if self.rank == 1 and then == "raises":
            raise ValueError("no such sample")  # RAISES
        while True:
            self.training.step()

    def asks(self, reward):
        return ray.get(reward.score.remote(1))  # ASKS

    def takes(self, items):
        return items.get()  # TAKES

    def posts(self, port):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/generate", data=b"?").read()  # POSTS

    def connects(self, port):
        return connect(port).recv(1)  # RECEIVES

    def gives_weights(self, engine):
        taken = engine.take_weights.remote()
        ray.get(taken)  # GIVES
        dist.broadcast(self.training.model.weight, 0)

    def once(self):
        self.training.step()


@ray.remote(num_cpus=0)
class Reward:
    def __init__(self):
        self.scores = queue.Queue()

    def score(self, item):
        return self.scores.get()  # SCORES


@ray.remote(num_cpus=0)
class BusyReward:
    def score(self, item):
        while True:
            item = (item * 31 + 7) % 65537


@ray.remote(num_cpus=0)
class AsyncReward:
    def __init__(self):
        self.ready = asyncio.Event()

    async def score(self, item):
        await self.ready.wait()  # AWAITS
        return item


@ray.remote(num_cpus=0)
class Engine:
    def __init__(self, folder=None):
        self.awake = threading.Event()
        if folder is not None:
            self.weight = Training(TRAINERS, folder, MEMBERS).model.weight

    def serve(self):
        awake = self.awake

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                awake.wait()  # SLEEPS
                self.send_response(200)
                self.end_headers()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.server.server_port

    def take_weights(self):
        dist.broadcast(self.weight.detach(), 0)  # TAKES_WEIGHTS


@ray.remote(num_cpus=0)
class Rollout:
    def listen(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        return self.listener.getsockname()[1]

    def answer(self, other):
        connection, _ = self.listener.accept()
        connection.recv(1)
        connection.sendall(ray.get(other.score.remote(1)))  # BETWEEN

    def score(self, other):
        return ray.get(other.score.remote(1)) if other is not None else 1  # PASSES_ON

    def post(self, port):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/generate", data=b"?").read()  # REQUESTS

    def receive(self, port):
        return connect(port).recv(1)  # IN_A_RING

    def wait_for_work(self):
        return queue.Queue().get()  # SERVES


@ray.remote(num_cpus=0)
def outer():
    return ray.get(inner.remote())  # OUTER


@ray.remote(num_cpus=0)
def inner():
    ours, theirs = socket.socketpair()
    return ours.recv(1), theirs  # INNER


def train(config):
    """The user's function of Ray Train."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1_000_000):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step == 3:
            Path(config["folder"], f"begun-{dist.get_rank()}").touch()
            if dist.get_rank() == 1:
                ray.get(ray.get_actor("reward").score.remote(1))  # TRAIN_ASKS


# --- scenes: each answers with the calls for which the driver waits, one after the other --------------------------------


def trainers(folder, members=TRAINERS):
    kept.extend(Trainer.options(**at("near")).remote(rank, folder, members) for rank in range(TRAINERS))
    return kept[-TRAINERS:]


def training(folder, then, whom=None, members=TRAINERS):
    return [t.train.remote(Path(folder, f"begun-{n}"), then, whom) for n, t in enumerate(trainers(folder, members))]


def served(actor):
    kept.append(actor)
    return ray.get(actor.serve.remote())


def crossed(folder):
    engine = Engine.remote(folder)
    return training(folder, "gives_weights", engine, MEMBERS)


def asks_on(folder):
    rollout, reward = Rollout.remote(), Reward.remote()
    port = ray.get(rollout.listen.remote())
    kept.extend([rollout, reward, rollout.answer.remote(reward)])
    return training(folder, "connects", port)


def rests(folder):
    ray.get([t.once.remote() for t in trainers(folder)])
    return chain(folder)


def reward():
    return Reward.options(**at("far")).remote()


def at(place):
    return {"resources": {place: 0.1}} if far else {}


def chain(folder):
    return [Rollout.options(**at("near")).remote().score.remote(reward())]


def ring(folder):
    first, second = Rollout.remote(), Rollout.remote()
    port = ray.get(first.listen.remote())
    kept.extend([first, second, first.answer.remote(second)])
    return [second.receive.remote(port)]


def in_ray_train(folder):
    kept.append(Reward.options(name="reward").remote())
    trainer = TorchTrainer(
        train,
        train_loop_config={"folder": folder},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=TRAINERS, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(name="waits", storage_path=str(Path(folder, "results"))),
    )
    threading.Thread(target=trainer.fit, daemon=True).start()
    return [Rollout.remote().wait_for_work.remote()]


WITH_TRAINERS = {
    "asks": lambda folder: training(folder, "asks", reward()),
    "asks_async": lambda folder: training(folder, "asks", AsyncReward.remote()),
    "asks_busy": lambda folder: training(folder, "asks", BusyReward.remote()),
    "asks_queue": lambda folder: training(folder, "takes", Queue(actor_options={"num_cpus": 0})),
    "asks_http": lambda folder: training(folder, "posts", served(Engine.remote())),
    "asks_on": asks_on,
    "crossed": crossed,
    "raised": lambda folder: training(folder, "raises"),
    "in_ray_train": in_ray_train,
}
WITHOUT = {
    "rests": rests,
    "chain": chain,
    "http": lambda folder: [Rollout.remote().post.remote(served(Engine.remote()))],
    "ring": ring,
    "task": lambda folder: [outer.remote()],
    "serves": lambda folder: [Rollout.remote().wait_for_work.remote()],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", choices=[*WITH_TRAINERS, *WITHOUT])
    parser.add_argument("--far", action="store_true")
    scene = parser.parse_args().scene
    ray.init(log_to_driver=False)
    with tempfile.TemporaryDirectory(prefix="waits-") as folder:
        calls = {**WITH_TRAINERS, **WITHOUT}[scene](folder)
        while scene in WITH_TRAINERS and len(list(Path(folder).glob("begun-*"))) < TRAINERS:
            time.sleep(0.05)
        time.sleep(1)  # by then all of them wait
        print("READY", flush=True)
        for call in calls:
            ray.get(call)


if __name__ == "__main__":
    main()
