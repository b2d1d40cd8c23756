"""A training whose losses depend on more than model and optimizer: a teacher that follows the model, averages kept by hand, a curriculum,
a schedule of no class of torch's, and an object that keeps the others' states in its own.

Prints ``ready`` after its third step and each loss as ``RANK STEP HEX``. --resume DIR goes on from there, until --steps; --without NAME
does not hand that one to `resume`. --sharded: FSDP2, the teacher too. --odd: with an object whose state only its own code can tell, and
--apart: each rank keeps another best loss. --nan STEP: from there on the loss is NaN. --diffusers: its EMAModel keeps the averages.
"""

import argparse
import copy
import gc
import os
import sys
import time
from datetime import timedelta

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader


class Averages:
    """Of the parameters by name, as many a script keeps them."""

    def __init__(self, model, decay=0.9):
        self.decay, self.steps = decay, 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model):
        self.steps += 1
        with torch.no_grad():
            for name, p in model.named_parameters():
                self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)

    def state_dict(self):
        """Copies, since the averages go on."""
        return {"decay": self.decay, "steps": self.steps, "shadow": {k: v.clone() for k, v in self.shadow.items()}}

    def load_state_dict(self, state):
        self.decay, self.steps = state["decay"], state["steps"]
        self.shadow = copy.deepcopy(state["shadow"])

    def mean(self):
        return sum(v.mean() for v in self.shadow.values())


class WarmupLRScheduler:
    """Shaped like those of timm: it is told the number of updates."""

    def __init__(self, optimizer, updates):
        self.optimizer, self.updates = optimizer, updates
        self.base_values = [group["lr"] for group in optimizer.param_groups]
        self.last = 0

    def state_dict(self):
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state):
        self.__dict__.update(state)

    def step(self):
        self.last += 1
        for group, base in zip(self.optimizer.param_groups, self.base_values, strict=True):
            group["lr"] = base * min(1.0, (self.last + 1) / self.updates)


class Curriculum:
    """Makes the task harder; keeps the state of all in its own, as a hand-written trainer does."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.seen, self.best = 0, None

    def harder(self, loss):
        self.seen += 1
        self.best = loss if self.best is None or loss < self.best else self.best
        return 1 + self.seen / 100 + self.best

    def state_dict(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "seen": self.seen}
        if self.best is not None:
            state["best"] = self.best
        return state

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.seen, self.best = state["seen"], state.get("best")


class Odd:
    """Its state is on disk."""

    def state_dict(self):
        with open(os.devnull) as f:
            return {"text": f.read()}

    def load_state_dict(self, state):
        pass


def say(line):
    os.write(1, f"{line}\n".encode())


def build(args, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
    teacher = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    if args.sharded:
        from torch.distributed.fsdp import fully_shard

        teacher = copy.deepcopy(model)
        fully_shard(model)
        fully_shard(teacher)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if args.diffusers:
        from diffusers.training_utils import EMAModel

        averages = EMAModel(model.parameters(), decay=0.9)
        averages.mean = lambda: sum(v.mean() for v in averages.shadow_params)
    elif args.sharded:
        averages = None
    else:
        averages = Averages(model)
    curriculum = Curriculum(model, optimizer)
    scheduler = WarmupLRScheduler(optimizer, 50)
    loader = DataLoader(torch.arange(160.0).reshape(40, 4) / 160, batch_size=4, shuffle=True)
    wrapped = model
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not args.sharded:
        wrapped = nn.parallel.DistributedDataParallel(model)
    return model, wrapped, teacher, averages, optimizer, scheduler, curriculum, loader


def follow(args, model, teacher, averages):
    if args.sharded:
        teacher.reshard()
        with torch.no_grad():
            for t, p in zip(teacher.parameters(), model.parameters(), strict=True):
                t.mul_(0.9).add_(p, alpha=0.1)
        return
    teacher.update_parameters(model)
    if args.diffusers:
        averages.step(model.parameters())
    else:
        averages.update(model)


def train(args):
    rank = int(os.environ.get("RANK", "0"))
    model, wrapped, teacher, averages, optimizer, scheduler, curriculum, loader = build(args, 7 if args.resume else 0)
    odd = Odd() if args.odd else None
    torch.manual_seed(rank)
    step, epoch, resumed = 0, 0, None
    if args.resume:
        import traindbg

        others = {"teacher": teacher, "averages": averages, "curriculum": curriculum}
        others = {name: one for name, one in others.items() if one is not None and name not in args.without}
        resumed = traindbg.resume(
            args.resume, model=model, optimizer=optimizer, scheduler=scheduler, loader=loader, others=others
        )
        step, epoch = resumed.step, resumed.epoch
        say(f"notes {resumed.notes}")
    for epoch in range(epoch, 1000):  # noqa: B007, B020 - goes on from there; what it counts is read from outside
        for x in loader if resumed is None else resumed.batches(loader):
            out = wrapped(x)
            with torch.no_grad():
                target = teacher(x)
            loss = out.square().mean() + (out - target).square().mean()
            if averages is not None:
                loss = loss * (1 + averages.mean().item())
            told = loss.detach().clone()
            if torch.distributed.is_initialized() and not args.apart:
                torch.distributed.all_reduce(told)
            loss = loss * curriculum.harder(told.item())
            if args.nan and step >= args.nan:
                loss = loss * float("nan")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            follow(args, model, teacher, averages)
            step += 1
            say(f"{rank} {step} {loss.item().hex()}")
            if step == 3:
                say("ready")
            if step == args.steps:
                return
            if resumed is None and not args.steps:
                time.sleep(0.05)
    del odd


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--nan", type=int, default=0)
    p.add_argument("--resume", default="")
    p.add_argument("--without", action="append", default=[])
    for flag in ("--odd", "--apart", "--sharded", "--diffusers"):
        p.add_argument(flag, action="store_true")
    args = p.parse_args()
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=300))
    train(args)
    if torch.distributed.is_initialized():
        gc.collect()  # a DDP model that outlives its process group may abort this process when it ends (torch 2.13, 1 of 8)
        torch.distributed.destroy_process_group()
    say("done")


if __name__ == "__main__":
    sys.exit(main())
