"""Nothing is wrong: two networks in turns, with an optimizer each, and an average of the weights in place."""

import copy

import torch
from small import Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": None, "ranks": [1, 2]}


class Game:
    def __init__(self):
        self.generator = parallel(network(3))
        self.critic = parallel(nn.Sequential(nn.Linear(10, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1)))
        self.average = copy.deepcopy(list(self.generator.parameters()))
        self.optimizers = [torch.optim.Adam(m.parameters(), lr=1e-4) for m in (self.critic, self.generator)]
        self.clock = Clock()

    def judge(self, fake, real):
        joined = self.critic(torch.cat([fake, real]))
        wanted = torch.cat([torch.zeros(len(fake), 1), torch.ones(len(real), 1)])
        return nn.functional.binary_cross_entropy_with_logits(joined, wanted)

    def turn(self, noise):
        fake = self.generator(noise)
        for optimizer, loss in zip(
            self.optimizers,
            (lambda: self.judge(fake.detach(), torch.randn(len(noise), 10)), lambda: -self.critic(fake).mean()),
            strict=True,
        ):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
        with torch.no_grad():
            for mine, new in zip(self.average, self.generator.parameters(), strict=True):
                mine.lerp_(new, 0.001)
        self.clock(abs(value.item()))


game = Game()
for noise, _ in batches():
    game.turn(noise)
