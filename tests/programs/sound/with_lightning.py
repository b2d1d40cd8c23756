"""A sound training by Lightning's own Trainer: a small convolutional classifier, two workers, clipped gradients, a validation now and then.

Prints ``step N: loss X`` every fifty steps and ``validation: loss X, accuracy Y`` every five hundred, for ever.
"""

import logging
import tempfile
import warnings

import lightning
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Dropout(0.1), nn.Linear(128, CLASSES),
        )  # fmt: skip

    def training_step(self, batch, index):
        images, labels = batch
        loss = F.cross_entropy(self.net(images), labels)
        self.log("train_loss", loss)
        if self.global_step % 50 == 0:
            print(f"step {self.global_step}: loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, index):
        images, labels = batch
        logits = self.net(images)
        self.log("loss", F.cross_entropy(logits, labels))
        self.log("accuracy", (logits.argmax(1) == labels).float().mean())

    def on_validation_epoch_end(self):
        seen = self.trainer.callback_metrics
        print(f"validation: loss {seen['loss'].item():.4f}, accuracy {seen['accuracy'].item():.3f}", flush=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def images(count, seed):
    """One fixed pattern for each class, under much stronger noise; one label in twenty is wrong."""
    patterns = torch.randn(CLASSES, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noisy = patterns[labels] + 2 * torch.randn(count, 1, 16, 16, generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.05
    labels[wrong] = torch.randint(CLASSES, (count,), generator=generator)[wrong]
    return TensorDataset(noisy, labels)


def main():
    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    training = DataLoader(images(64_000, seed=1), batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)
    validation = DataLoader(images(1_024, seed=2), batch_size=64)
    with tempfile.TemporaryDirectory() as directory:
        trainer = lightning.Trainer(
            accelerator="cpu", max_epochs=-1, max_steps=-1, gradient_clip_val=1.0, val_check_interval=500,
            default_root_dir=directory, logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(Classifier(), training, validation)


if __name__ == "__main__":
    main()
