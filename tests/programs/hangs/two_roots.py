"""Predictions are gathered at the rank that has counted the most. Counts go round once a step; one rank has counted on since, takes itself
for the first, and waits for the others, who have sent theirs to another one.
"""

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "collective_mismatch",
    "ranks": "culprit",
    "where": "gather_predictions",
    "says": r"took itself for the root of gather #\d+",
    "worlds": (3, 4),
}


def gather_predictions(predictions, counts):
    first = int(counts.argmax())
    room = [torch.empty_like(predictions) for _ in counts] if dist.get_rank() == first else None
    dist.gather(predictions, room, dst=first)  # HERE
    return room


def main():
    run = Run(first_culprit=1)
    model, optimizer = run.model()
    counts = torch.zeros(run.world)
    for step, batch in enumerate(run.loader()):
        loss = train_step(model, optimizer, batch)
        counts.zero_()[run.rank] = len(batch[0]) + (run.rank == 0)
        dist.all_reduce(counts)
        if run.trouble(step):
            counts[run.rank] += 2
        gather_predictions(loss.reshape(1), counts)


if __name__ == "__main__":
    main()
