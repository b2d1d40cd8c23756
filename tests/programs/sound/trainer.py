"""A sound training by transformers' own Trainer: a tiny random GPT-2 that learns sequences, four micro-batches a step.

Prints ``step N: {...}`` with what the Trainer logs, for ever: every ten steps, or as many as its argument says.
"""

import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

VOCABULARY, LENGTH = 128, 48


class Walks(Dataset):
    """Sequences that can be learnt: each token says by how much the next one is larger, give or take one."""

    def __init__(self, count=20_000):
        generator = torch.Generator().manual_seed(0)
        strides = torch.randint(1, VOCABULARY, (VOCABULARY,), generator=generator)
        self.sequences = torch.randint(VOCABULARY, (count, LENGTH), generator=generator)
        noise = torch.randint(3, (count, LENGTH), generator=generator)
        for i in range(1, LENGTH):
            last = self.sequences[:, i - 1]
            self.sequences[:, i] = (last + strides[last] + noise[:, i]) % VOCABULARY

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, i):
        return {"input_ids": self.sequences[i], "labels": self.sequences[i]}


class Printing(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print(f"step {state.global_step}: {logs}", flush=True)


def main():
    torch.set_num_threads(1)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            directory, max_steps=1_000_000, per_device_train_batch_size=4, gradient_accumulation_steps=4, use_cpu=True,
            learning_rate=1e-3, weight_decay=0.01, warmup_steps=100, lr_scheduler_type="cosine", max_grad_norm=1.0,
            logging_steps=int((sys.argv[1:] or [10])[0]), save_strategy="no", report_to=[], disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Walks(), callbacks=[Printing()])
        trainer.remove_callback(PrinterCallback)
        trainer.train()


if __name__ == "__main__":
    main()
