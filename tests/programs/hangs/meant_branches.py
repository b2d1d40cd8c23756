"""Nothing is wrong: the ranks issue the same call at different lines on purpose, in each of the ways in which programs do that."""

import contextlib
import time

import torch
import torch.distributed as dist
from parts import Run, train_step
from torch.distributed.algorithms.join import Join

EXPECTED = {"code": None, "state": ("healthy", "progressing")}


@contextlib.contextmanager
def main_first(rank):
    """The first rank goes ahead, the others come when it is done."""
    if rank > 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


class Reader:
    """Ranks whose data are used up answer for those that have some left."""

    def __init__(self, run):
        self.run = run

    def read(self, epoch):
        for i in range(2 + (epoch + self.run.rank) % 3):
            left = torch.ones(1)
            dist.all_reduce(left)
            time.sleep(0.002)
            yield i
        while True:
            left = torch.zeros(1)
            dist.all_reduce(left)
            if not left.item():
                return


class Leader:
    def exchange(self, value):
        dist.all_reduce(value)


class Follower:
    def exchange(self, value):
        value.mul_(0.5)
        dist.all_reduce(value)


class Words:
    def run(self, value):
        dist.all_reduce(value)


class Pictures:
    def run(self, value):
        value.add_(1.0)
        dist.all_reduce(value)


TASKS = (Words(), Pictures())


def own_or_none(run, step):
    """A rank without a sample takes part with a zero."""
    if (step * 7 + run.rank) % 3 == 0:
        nothing = torch.zeros(1)
        dist.all_reduce(nothing)
        return
    value = torch.ones(1)
    if value.item() > 0:
        dist.all_reduce(value)


def failed_anywhere(run, step):
    """Whether one rank has failed at this step."""
    try:
        if (step + run.rank) % 5 == 0:
            raise ValueError("a sample that cannot be read")
        flag = torch.zeros(1)
        dist.all_reduce(flag)
    except ValueError:
        flag = torch.ones(1)
        dist.all_reduce(flag)
    return flag.item() > 0


def in_turns(run):
    """Each rank gives its value to all others."""
    value = torch.ones(1)
    for owner in range(run.world):
        if owner == run.rank:
            dist.broadcast(value, src=owner)
        else:
            buffer = torch.zeros(1)
            dist.broadcast(buffer, src=owner)


def main():
    run = Run()
    model, optimizer = run.model()
    reader = Reader(run)
    partner = Leader() if run.rank == 0 else Follower()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        with main_first(run.rank):
            time.sleep(0.001)
        if run.rank == 0:
            saved = torch.ones(1)
            dist.barrier()
            del saved
        else:
            dist.barrier()
        own_or_none(run, step)
        failed_anywhere(run, step)
        in_turns(run)
        partner.exchange(torch.ones(1))
        TASKS[(step * 5 + run.rank) % 2].run(torch.ones(1))
        list(reader.read(step))
        if step == 2:
            uneven(run, model)
        run.trouble(step - 20)
        time.sleep(0.02)


def uneven(run, model):
    """torch's own context for inputs that end earlier on some ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = run.loader()
    with Join([model]):
        for _, batch in zip(range(2 + run.rank), loader, strict=False):
            train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
