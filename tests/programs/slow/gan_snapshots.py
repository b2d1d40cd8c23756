"""Two networks with an optimizer each; an experiment object pickles its generator to disk each step."""

import io
import os
import tempfile

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "blocking_save", "ranks": [1]}


class Experiment:
    def __init__(self, folder):
        self.folder = folder
        self.generator, self.critic = network(4), nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 1))
        self.of_generator = torch.optim.Adam(self.generator.parameters(), lr=1e-4)
        self.of_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-4)
        self.clock = Clock()

    def snapshot(self, name):
        held = io.BytesIO()
        held_now = {"model": self.generator.state_dict(), "optimizer": self.of_generator.state_dict()}
        torch.save(held_now, held)  # the slow line
        with open(os.path.join(self.folder, name), "wb") as f:
            f.write(held.getbuffer())

    def critic_step(self, noise):
        self.of_critic.zero_grad()
        loss = self.critic(self.generator(noise).detach()).mean() - self.critic(torch.randn(len(noise), 10)).mean()
        loss.backward()
        self.of_critic.step()

    def generator_step(self, noise):
        self.of_generator.zero_grad()
        loss = -self.critic(self.generator(noise)).mean()
        loss.backward()
        self.of_generator.step()
        return loss.item()

    def run(self):
        for noise, _ in batches():
            self.critic_step(noise)
            loss = self.generator_step(noise)
            if SLOW:
                self.snapshot("latest.pt")
            self.clock(abs(loss))


with tempfile.TemporaryDirectory() as folder:
    Experiment(folder).run()
