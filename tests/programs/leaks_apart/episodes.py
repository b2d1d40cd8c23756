"""Policy gradients: each episode is kept with the logarithms of its probabilities, which have their graphs."""

import torch
from task import Pace, arguments
from torch import nn
from torch.distributions import Categorical


class Episode:
    __slots__ = ("log_probs", "rewards")

    def __init__(self):
        self.log_probs, self.rewards = [], []

    def loss(self):
        returns = torch.tensor(self.rewards).flip(0).cumsum(0).flip(0)
        return -(torch.stack(self.log_probs) * (returns - returns.mean())).mean()


class Agent:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-3)
        self.episodes = []

    def rollout(self, length=12):
        episode = Episode()
        for _ in range(length):
            chosen = Categorical(logits=self.policy(torch.randn(8)))
            action = chosen.sample()
            episode.log_probs.append(chosen.log_prob(action))
            episode.rewards.append(float(action == 1))
        return episode


def main():
    args = arguments()
    agent, pace = Agent(), Pace(args.steps)
    over = False
    while not over:
        episode = agent.rollout()
        agent.episodes.append(episode)  # leaks
        loss = episode.loss()
        agent.optimizer.zero_grad()
        loss.backward()
        agent.optimizer.step()
        over = pace(loss.detach())


main()
