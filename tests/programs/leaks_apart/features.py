"""All features so far in one tensor, which is made anew and longer at each step."""

import torch
from task import Classifier, Pace, arguments, loader


class Bank:
    def __init__(self, width):
        self.features = torch.empty(0, width)

    def add(self, batch):
        self.features = torch.cat([self.features, batch])  # leaks

    def nearest(self, batch):
        return torch.cdist(batch, self.features[-64:]).argmin(1)


def main():
    args = arguments()
    model, pace = Classifier(), Pace(args.steps)
    optimizer = torch.optim.AdamW(model.parameters())
    bank = Bank(24 * 16)
    while True:
        for x, y in loader():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bank.add(x.flatten(1))
            bank.nearest(x.flatten(1))
            if pace(loss.detach()):
                return


main()
