"""transformers' own Trainer on a tiny random GPT-2 and random tokens. Prints ``ready``, then ``loss STEP HEX`` for every step.

The losses are those that its forward pass returned, divided as the Trainer divides them for accumulation.
"""

import sys
import tempfile
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        ids = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


class Printing(Trainer):
    """Only prints what it is given to return."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        print(f"loss {self.state.global_step + 1} {loss.item().hex()}", flush=True)
        return loss


class Ready(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            print("ready", flush=True)
        time.sleep(0.02)


def main():
    torch.set_num_threads(1)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            directory, max_steps=steps, per_device_train_batch_size=4, learning_rate=1e-3, warmup_steps=5, report_to=[],
            lr_scheduler_type="cosine", save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        Printing(model, arguments, train_dataset=Tokens(), callbacks=[Ready()]).train()


if __name__ == "__main__":
    main()
