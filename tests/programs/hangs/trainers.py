"""What the scenes in transformers' and Lightning's trainers share: the smallest model of each kind. Imports only what is asked for."""

from __future__ import annotations

import logging

import torch
from parts import WIDTH
from torch import nn
from torch.utils.data import Dataset


def __getattr__(name):
    """``Trainer`` and ``TrainerCallback`` of transformers, ``LightningRegression`` of Lightning: each library is slow to import."""
    if name in ("Trainer", "TrainerCallback"):
        import transformers

        return getattr(transformers, name)
    if name == "LightningRegression":
        return lightning_regression()
    raise AttributeError(name)


class Tokens(Dataset):
    """Random token sequences."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        ids = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


def language_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2))


def arguments(folder, **options):
    from transformers import TrainingArguments

    return TrainingArguments(
        folder, max_steps=1_000_000, per_device_train_batch_size=4, learning_rate=1e-3, report_to=[], use_cpu=True,
        ddp_backend="gloo", save_strategy="no", logging_strategy="no", disable_tqdm=True, **options,
    )  # fmt: skip


def lightning_regression():
    import lightning

    class LightningRegression(lightning.LightningModule):
        def __init__(self, run):
            super().__init__()
            self.run = run
            self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

        def training_step(self, batch, index):
            self.run.trouble(index)
            x, y = batch
            return nn.functional.mse_loss(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    return LightningRegression


def lightning_trainer(run):
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return lightning.Trainer(
        max_steps=1_000_000, accelerator="cpu", devices=run.world, strategy="ddp", use_distributed_sampler=False,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
