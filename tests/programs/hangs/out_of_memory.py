"""One rank keeps what it reads until the kernel ends it for want of memory; the others wait for it in the making of a process group."""

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "rank_ended",
    "ranks": "culprit",
    "where": None,
    "launcher": "little_memory",
    "state": ("stuck", "failed"),
}
SAMPLE = 8 << 20


def main():
    run = Run(first_culprit=1)  # rank 0 keeps the store
    model, optimizer = run.model()
    seen = []
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            run.with_little_memory()
            while True:
                seen.append(bytearray(SAMPLE))
        if step == run.step:
            dist.new_group()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
