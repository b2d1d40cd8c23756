"""One rank's only pool thread waits for a task that it has itself put into the pool; the main thread waits for both."""

from concurrent.futures import ThreadPoolExecutor

from parts import Run, train_step

EXPECTED = {
    "code": ("python_wait", "lock_wait", "thread_deadlock"),
    "ranks": "culprit",
    "where": ("decode", "prepare"),
}


def decode(pool):
    return pool.submit(len, "the picture").result()  # HERE


def prepare(pool):
    return pool.submit(decode, pool).result()  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    pool = ThreadPoolExecutor(1)
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            prepare(pool)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
