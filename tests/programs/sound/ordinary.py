"""A sound training written by hand, as tutorials do: SGD with momentum, StepLR, workers, an evaluation and a checkpoint after each epoch.

Prints ``epoch N step N: loss X`` every fifty steps and ``epoch N: accuracy X`` after each epoch, for ever.
"""

import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def images(count, seed):
    """One fixed pattern for each class, under much stronger noise; one label in twenty is wrong."""
    patterns = torch.randn(CLASSES, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noisy = patterns[labels] + 3 * torch.randn(count, 3, 16, 16, generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.05
    labels[wrong] = torch.randint(CLASSES, (count,), generator=generator)[wrong]
    return TensorDataset(noisy, labels)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(128, CLASSES),
    )  # fmt: skip


def train_epoch(model, optimizer, loader, epoch):
    model.train()
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"epoch {epoch} step {step}: loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.8)
    training = DataLoader(images(19_200, seed=1), batch_size=64, shuffle=True, num_workers=2)
    test = DataLoader(images(1_280, seed=2), batch_size=64, num_workers=2)
    epoch = 0
    with tempfile.TemporaryDirectory() as directory:
        while True:
            train_epoch(model, optimizer, training, epoch)
            print(f"epoch {epoch}: accuracy {evaluate(model, test):.3f}", flush=True)
            scheduler.step()
            epoch += 1
            states = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(states, os.path.join(directory, "checkpoint.pt"))


if __name__ == "__main__":
    main()
