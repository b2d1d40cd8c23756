"""Predictions are gathered in a module of its own, by a function that everybody calls; nobody asks for them before the end."""

import gathered
import torch
from task import Classifier, Pace, arguments, loader


def main():
    args = arguments()
    model, pace = Classifier(), Pace(args.steps)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    while True:
        for x, y in loader(batch=32):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            gathered.gather(x, logits, y)
            if pace(loss.detach()):
                return


main()
