"""Nothing is wrong: gradients are accumulated over very many small batches, so that optimizer steps are minutes apart."""

from parts import Run
from torch import nn

EXPECTED = {"code": None, "state": ("healthy", "slow", "progressing")}
MICRO_BATCHES = 200_000


def main():
    run = Run()
    model, optimizer = run.model()
    run.ready()
    for n, (x, y) in enumerate(run.loader()):
        if (n + 1) % MICRO_BATCHES:
            with model.no_sync():
                nn.functional.mse_loss(model(x), y).backward()
        else:
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
