"""One rank waits for torch's own pool of compilers, which is how Triton's kernels are compiled: a pool of processes below it, at work. What
they compile is long arithmetic here, for want of a GPU; the pool and the wait for it are torch's. The others wait at the barrier.
"""

import os

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"

import torch.distributed as dist
from parts import Run, train_step
from torch._inductor.async_compile import AsyncCompile

EXPECTED = {
    "code": "cpu_phase",
    "ranks": "culprit",
    "where": "kernels",
    "state": "progressing",
    "says": (r"is compiling at", r"compile_worker"),
}


def kernels():
    pool = AsyncCompile.process_pool()
    scope = {f"kernel_{n}": pool.submit(eval, f"sum(range({n}, 10**11))") for n in range(4)}
    AsyncCompile().wait(scope)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.is_culprit:
                run.ready(20.0)
                kernels()
            dist.barrier()


if __name__ == "__main__":
    main()
