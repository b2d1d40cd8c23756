"""A trainer that nobody here wrote, in an evaluation without an end: ``trainer_evaluates.py transformers|lightning``. Prints ``ready``."""

import logging
import sys
import tempfile

import torch
from torch.utils.data import Dataset


class Endless(Dataset):
    def __len__(self):
        return 10**7


class Tokens(Endless):
    def __getitem__(self, i):
        ids = torch.full((16,), i % 64)
        return {"input_ids": ids, "labels": ids}


class Numbers(Endless):
    def __getitem__(self, i):
        return torch.full((8,), i / 1e6)


def transformers(directory):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=64, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        directory, max_steps=100, report_to=[], eval_strategy="steps", eval_steps=2, save_strategy="no", disable_tqdm=True,
        use_cpu=True, prediction_loss_only=True,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=Tokens(), eval_dataset=Tokens()).train()


def lightning(directory):
    import lightning as pl

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.Linear(256, 1))

        def training_step(self, batch, index):
            return self.net(batch).square().mean()

        def validation_step(self, batch, index):
            self.net(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(Numbers(), batch_size=16)
    trainer = pl.Trainer(
        max_steps=100, val_check_interval=2, num_sanity_val_steps=0, default_root_dir=directory, logger=False, accelerator="cpu",
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Model(), data, data)


def main():
    torch.set_num_threads(1)
    print("ready", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        {"transformers": transformers, "lightning": lightning}[sys.argv[1]](directory)


if __name__ == "__main__":
    main()
