"""Lightning's DDP as it starts its own ranks: this process is rank 0, its child rank 1, which hangs. Prints ``ready`` when it does."""

import time
import warnings

import lightning
import torch

warnings.filterwarnings("ignore")


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        if index == 3 and self.global_rank == 1:
            self.wait_for_quota()
        return self.net(batch[0]).square().mean()

    def wait_for_quota(self):
        print("ready", flush=True)
        time.sleep(600)  # HERE

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8))
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", **off)
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=4))


if __name__ == "__main__":
    main()
