"""A captioning model of several towers; one rank's batch holds no images, so that one tower has no part in its loss. DDP was not told that
this happens: the others wait for that tower's gradients.
"""

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued", "unequal_steps"),
    "ranks": "culprit",
    "where": "record",
    "doubt": True,
    "says": ("image_tower",),
}


def tower():
    return nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, WIDTH))


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.text_tower = tower()
        self.image_tower = tower()
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, text, images=None):
        hidden = self.text_tower(text)
        if images is not None:
            hidden = hidden + self.image_tower(images)
        return self.head(hidden)


class Trainer:
    def __init__(self, run):
        self.run = run
        self.model = DistributedDataParallel(Captioner(), bucket_cap_mb=0.016)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.losses = [torch.zeros(()) for _ in range(run.world)]

    def record(self, loss):
        dist.all_gather(self.losses, loss)  # HERE

    def training_step(self, batch):
        loss = nn.functional.mse_loss(self.model(batch["text"], batch.get("images")), batch["score"])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def fit(self, batches):
        for batch in batches:
            self.record(self.training_step(batch))


def batches(run):
    for step, (x, y) in enumerate(run.loader()):
        batch = {"text": x, "images": x.flip(1), "score": y}
        if run.trouble(step):
            del batch["images"]
        yield batch


if __name__ == "__main__":
    run = Run()
    Trainer(run).fit(batches(run))
