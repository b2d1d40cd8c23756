"""Samples come from a program that is no Python, over named pipes: one for what is asked, one for what is answered. Once it takes a
question and falls asleep over it.
"""

import os
from pathlib import Path

from parts import LIFE_S, Run, beside, publish, published, train_step

EXPECTED = {
    "code": "io_wait",
    "ranks": "culprit",
    "where": "sample",
    "worlds": (2, 4),
    "beside": "sampler",
    "names": "sampler",
}
PROGRAM = (
    'while read -r question; do case "$question" in sleep) exec sleep "$0";; esac; echo "$question"; done <>"$1" >"$2"'
)


def pipes():
    folder = Path(os.environ["SCENE_FOLDER"])
    return [folder / "questions", folder / "answers"]


def sampler():
    for pipe in pipes():
        os.mkfifo(pipe)
    publish("sampler", os.getpid())
    os.execvp("sh", ["sh", "-c", PROGRAM, str(LIFE_S), *map(str, pipes())])


def sample(asks, answers, question):
    print(question, file=asks, flush=True)
    return answers.readline()  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    if run.is_culprit:
        published("sampler")
        questions, answers = (pipe.open(mode) for pipe, mode in zip(pipes(), "wr", strict=True))
    for step, batch in enumerate(run.loader()):
        trouble = run.trouble(step)
        if run.is_culprit:
            sample(questions, answers, "sleep" if trouble else f"step {step}")
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    sampler() if beside() == "sampler" else main()
