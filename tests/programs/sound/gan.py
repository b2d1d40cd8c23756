"""A sound adversarial training: a generator that learns eight clusters of points and its critic, each with an optimizer of its own.

Prints ``step N: critic X, generator Y`` every fifty steps, for ever.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH, NOISE, WIDTH = 256, 16, 128


def network(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, WIDTH),
        nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, WIDTH),
        nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, outputs),
    )


def real_points():
    """Around eight centres on a circle."""
    angle = torch.randint(8, (BATCH,)) * (math.pi / 4)
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.1 * torch.randn(BATCH, 2)


def critic_loss(critic, generator):
    real, invented = critic(real_points()), critic(generator(torch.randn(BATCH, NOISE)).detach())
    return F.softplus(-real).mean() + F.softplus(invented).mean()


def generator_loss(critic, generator):
    return F.softplus(-critic(generator(torch.randn(BATCH, NOISE)))).mean()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    generator, critic = network(NOISE, 2), network(2, 1)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    step = 0
    while True:
        loss_of_critic = critic_loss(critic, generator)
        critic_optimizer.zero_grad()
        loss_of_critic.backward()
        critic_optimizer.step()

        loss_of_generator = generator_loss(critic, generator)
        generator_optimizer.zero_grad()
        loss_of_generator.backward()
        generator_optimizer.step()

        step += 1
        if step % 50 == 0:
            print(
                f"step {step}: critic {loss_of_critic.item():.4f}, generator {loss_of_generator.item():.4f}", flush=True
            )


if __name__ == "__main__":
    main()
