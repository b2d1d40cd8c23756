"""Nothing is wrong: Lightning's own Trainer, unchanged, data parallel."""

from parts import Run
from trainers import LightningRegression, lightning_trainer

EXPECTED = {"code": None, "state": ("healthy",)}


def main():
    run = Run(group=False)
    lightning_trainer(run).fit(LightningRegression(run), run.loader())


if __name__ == "__main__":
    main()
