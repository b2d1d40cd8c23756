"""Lightning's own Trainer, unchanged; rank 0 alone logs a number with ``sync_dist=True``, which gathers it from all ranks."""

from parts import Run
from trainers import LightningRegression, lightning_trainer

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued", "collective_shape_mismatch"),
    "ranks": [0],
    "where": "training_step",
    "doubt": True,
}


class Logs(LightningRegression):
    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        if self.global_rank == 0 and index == self.run.step:
            self.log("spread", loss, sync_dist=True)  # HERE
        return loss


def main():
    run = Run(culprit=0, group=False)
    lightning_trainer(run).fit(Logs(run), run.loader())


if __name__ == "__main__":
    main()
