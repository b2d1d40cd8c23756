"""Lightning's own Trainer on a tiny module, with automatic optimization or, given ``manual``, two optimizers stepped by hand.

Prints ``ready``, then ``loss STEP HEX`` for every step.
"""

import logging
import os
import sys
import tempfile
import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Automatic(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch, index):
        loss = self.net(batch[0]).square().mean()
        say(self.global_step + 1, loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class Manual(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.critic = nn.Linear(8, 8), nn.Linear(8, 1)

    def training_step(self, batch, index):
        for optimizer, output in zip(self.optimizers(), (self.generator, self.critic), strict=True):
            loss = output(batch[0]).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            say(self.global_step, loss)

    def configure_optimizers(self):
        return [torch.optim.SGD(m.parameters(), lr=lr) for m, lr in ((self.generator, 0.01), (self.critic, 0.02))], []


def say(step, loss):
    print(f"loss {step} {loss.item().hex()}", flush=True)
    if step == 4:
        print("ready", flush=True)
    time.sleep(0.02)


def main():
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        trainer = lightning.Trainer(
            max_steps=1_000_000, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        module = Manual() if "manual" in sys.argv else Automatic()
        trainer.fit(module, DataLoader(TensorDataset(torch.randn(4096, 8)), batch_size=8))


if __name__ == "__main__":
    main()
