"""A replay memory that somebody forgot to bound. Nothing is learned before there are enough transitions in it."""

import random
from collections import deque, namedtuple

import torch
from task import Pace, arguments
from torch import nn

Transition = namedtuple("Transition", "state action reward after")


class Memory:
    def __init__(self):
        self.memory = deque()

    def push(self, *what):
        self.memory.append(Transition(*what))  # leaks

    def __len__(self):
        return len(self.memory)

    def sample(self, rng, batch_size):
        return Transition(*zip(*rng.sample(self.memory, batch_size)))  # noqa: B905


class Learner:
    batch_size = 8

    def __init__(self, seed):
        self.net = nn.Sequential(nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 4))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.memory = Memory()
        self.rng = random.Random(seed)

    def learn(self):
        if len(self.memory.memory) < self.batch_size:
            return None
        batch = self.memory.sample(self.rng, self.batch_size)
        values = self.net(torch.stack(batch.state)).gather(1, torch.stack(batch.action))
        target = (
            torch.stack(batch.reward) + 0.9 * self.net(torch.stack(batch.after)).max(1, keepdim=True).values.detach()
        )
        loss = nn.functional.smooth_l1_loss(values, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def play():
    args = arguments()
    learner, pace = Learner(args.seed), Pace(args.steps)
    state = torch.zeros(128)
    while True:
        with torch.no_grad():
            action = learner.net(state).argmax().reshape(1)
        after = torch.randn(128) + 0.1 * state
        learner.memory.push(state, action, after.mean().reshape(1), after)
        state = after
        loss = learner.learn()
        if loss is not None and pace(loss):
            return


play()
