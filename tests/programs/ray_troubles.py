"""What goes wrong in Ray jobs, each scene for real; name the scenes: ``ray_troubles.py ring died``. Prints ``READY`` once all are set.

ring         two actors wait in `ray.get` for calls on each other
died         one of three dies in ``__init__``; the others wait in a rendezvous for it
again        an actor that ends its process in ``__init__`` and is brought back for ever
unanswered   of four workers, all quick, one waits for an answer that does not come
crashed      a producer crashes, and a consumer waits for its items in a queue of Ray's
infeasible   an actor that wants what no node has
crowded      one more actor than there is room for (of the resource "extra" there are 2)
left         a detached actor that keeps one "extra", and the job ends
one_gpu      three that load onto GPU 0; fake_nvml.c reads of it in the file FAKE_NVML_USERS
memory       three of 400 MB each, and six more that wait until one of the "room" that they need is free
store        more objects than the store has room for, again and again, all of them still wanted
"""

import argparse
import os
import socket
import threading
import time

import ray
from ray.util.queue import Queue

kept = []


@ray.remote(num_cpus=0)
class Peer:
    def meet(self, other):
        self.other = other

    def ask(self, further):
        call = self.other.ask.remote(False) if further else self.other.answer.remote()
        return ray.get(call)  # RING

    def answer(self):
        return 42


def ring():
    one, two = Peer.remote(), Peer.remote()
    ray.get([one.meet.remote(two), two.meet.remote(one)])
    return [one.ask.remote(True)]


@ray.remote(num_cpus=0)
class Meeting:
    """Whoever comes here stays until all are there."""

    def __init__(self, parties):
        self.parties, self.here = parties, 0
        self.all_here = threading.Event()

    def come(self):
        self.here += 1
        if self.here == self.parties:
            self.all_here.set()
        self.all_here.wait()


@ray.remote(num_cpus=0)
class Member:
    def __init__(self, number):
        if number == 1:
            raise ValueError("no such game: go9x9")  # DIED
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()

    def join(self):
        self.listener.accept()  # MEETS


def died():
    members = []
    for n in range(3):
        members.append(Member.remote(n))
        time.sleep(
            0.002
        )  # Ray tells of whole milliseconds: within one, the order is as the dashboard has heard of them
    return [m.join.remote() for n, m in enumerate(members) if n != 1 or kept.append(m)]


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Fragile:
    def __init__(self):
        os._exit(1)

    def work(self):
        return 1


def again():
    actor = Fragile.remote()
    kept.append(actor)
    return [actor.work.remote()]


@ray.remote(num_cpus=0)
class Player:
    def __init__(self, number):
        self.number, self.games = number, 0
        self.ours, self.theirs = socket.socketpair()

    def play(self):
        self.games += 1
        if self.number == 2 and self.games == 3:
            self.ours.recv(1)  # UNANSWERED
        return self.games


def unanswered():
    players = [Player.remote(n) for n in range(4)]
    kept.extend(players)
    for _ in range(2):
        ray.get([p.play.remote() for p in players])
    return [p.play.remote() for p in players]


@ray.remote(num_cpus=0)
class Producer:
    def fill(self, queue):
        queue.put("one")
        os.kill(os.getpid(), 11)


@ray.remote(num_cpus=0)
class Consumer:
    def drain(self, queue):
        while True:
            queue.get()  # CRASHED


def crashed():
    queue = Queue(actor_options={"num_cpus": 0})
    producer, consumer = Producer.remote(), Consumer.remote()
    kept.extend([queue, producer, consumer])
    producer.fill.remote(queue)
    return [consumer.drain.remote(queue)]


@ray.remote
class Huge:
    def work(self):
        return 1


def infeasible():
    return [Huge.options(num_cpus=4096).remote().work.remote()]


@ray.remote(num_cpus=0, resources={"extra": 1})
class Crowded:
    def work(self):
        return 1


def crowded():
    actors = [Crowded.remote() for _ in range(3)]
    kept.extend(actors)
    return [a.work.remote() for a in actors]


def left():
    actor = Crowded.options(name="keeper", lifetime="detached", namespace="left").remote()
    ray.get(actor.work.remote())
    return []


@ray.remote(num_cpus=0)
class Loader:
    def load(self):
        with open(os.environ["FAKE_NVML_USERS"], "a") as users:
            users.write(f"{os.getpid()} 900\n")


def one_gpu():
    loaders = [Loader.remote() for _ in range(3)]
    kept.extend(loaders)
    ray.get([loader.load.remote() for loader in loaders])
    return []


@ray.remote(num_cpus=0, resources={"room": 1})
class Hungry:
    def __init__(self):
        self.eaten = bytearray(os.urandom(1_000_000) * 400)

    def work(self):
        return len(self.eaten)


def memory():
    all_of_them = [Hungry.remote() for _ in range(9)]
    kept.extend(all_of_them)
    ray.wait([one.work.remote() for one in all_of_them], num_returns=3)
    return []


def store():
    kept.extend(ray.put(os.urandom(15_000_000)) for _ in range(8))
    threading.Thread(target=put_more, daemon=True).start()
    return []


def put_more():
    while True:
        kept.append(ray.put(os.urandom(15_000_000)))
        del kept[0]
        time.sleep(0.3)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("scenes", nargs="+")
    args = p.parse_args()
    ray.init(log_to_driver=False)
    calls = [call for name in args.scenes for call in globals()[name]()]
    print("READY", flush=True)
    if args.scenes != ["left"]:
        ray.wait(calls or [Peer.remote().answer.remote()], num_returns=len(calls) or 1)  # DRIVER
        time.sleep(600)


if __name__ == "__main__":
    main()
