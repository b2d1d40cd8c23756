"""Nothing is wrong: after some steps all ranks evaluate on a long validation set, with no collective and no optimizer step."""

import torch
from parts import Run, train_step
from torch import nn

EXPECTED = {"code": None, "state": ("healthy", "slow", "progressing")}


@torch.no_grad()
def evaluate(model, batches):
    return sum(nn.functional.mse_loss(model(x), y) for x, y in batches)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            run.ready()
            evaluate(model.module, run.loader())


if __name__ == "__main__":
    main()
