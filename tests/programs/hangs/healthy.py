"""Nothing is wrong: data parallel training with two DataLoader workers."""

from parts import Run, train_step

EXPECTED = {"code": None, "state": ("healthy",)}


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader(workers=1)):
        train_step(model, optimizer, batch)
        run.trouble(step)


if __name__ == "__main__":
    main()
