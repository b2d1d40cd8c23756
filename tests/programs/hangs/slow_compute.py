"""Nothing is wrong: a step of a wide model takes seconds, most of it in one call of backward."""

from parts import Run, train_step

EXPECTED = {"code": None, "state": ("healthy", "slow", "progressing")}


def main():
    run = Run()
    model, optimizer = run.model(width=20_000)
    for step, batch in enumerate(run.loader(batch_size=512)):
        train_step(model, optimizer, batch)
        if step == 0:
            run.ready()


if __name__ == "__main__":
    main()
