"""Which functions may be run: by their bytecode, on this Python and (in a bare interpreter) on every other one from 3.9 on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import interpreters

SOURCE = Path(__file__).parents[2] / "jupyter_traindbg" / "agent" / "harmless.py"

CASES = """
import functools, math, os, random
from math import cos, pi

TOTAL, STEPS, NOTES, TABLE = 100, [3, 6, 9], [], {"a": 1.0}


class Box:
    value = 1

    def __float__(self):
        NOTES.append(1)
        return 1.0


class Sly(float):
    def __mul__(self, other):
        NOTES.append(1)
        return 1.0


BOX, SLY = Box(), Sly(1)


def cosine(step, total=TOTAL):
    return 0.5 * (1 + math.cos(math.pi * min(step, total) / total))


def asserting(step):
    assert step >= 0, "negative"
    if step > 10 ** 9:
        raise ValueError("too far")
    return cosine(step) ** 2


def local_import(step):
    import math
    from math import exp
    return exp(-step) + math.sqrt(step)


def in_place(step):
    lr = 1.0
    lr *= 0.5
    for _ in range(3):
        lr += 0.1
    return lr


def comprehension(step):
    return sum([0.1 for s in STEPS if step >= s]) + sum(x for x in (1, 2)) + max(y for y in range(3))


def with_inner(step):
    gamma = 0.9
    return (lambda s: gamma ** s)(step) + TABLE["a"] + len(STEPS)


def closure(warmup):
    def schedule(step):
        return step / warmup if step < warmup else cos(pi * step)
    return schedule


def closed_over(thing):
    return lambda step: thing


GOOD = [
    cosine, asserting, local_import, in_place, comprehension, with_inner, closure(10), functools.partial(cosine, total=7),
    lambda s: 1.0, lambda s: float(s) * 0.95 ** (s // 30), lambda s: round(abs(s), 2) if s else pow(2, s), math.cos,
    lambda s, *, k=2: k * s, closed_over(3), closed_over((1, (2.0, None))),
]


def writes_global(step):
    global TOTAL
    TOTAL = step
    return 1.0


def appends(step):
    NOTES.append(step)
    return 1.0


def extends_in_place(step):
    notes = NOTES
    notes += [step]
    return 1.0


def extends_through_a_helper(step):
    return helper(NOTES)


def helper(values):
    values += [1]
    return 1.0


def sets_item(step):
    TABLE["a"] = step
    return 1.0


def deletes_item(step):
    del STEPS[0]
    return 1.0


def sets_attribute(step):
    BOX.value = step
    return 1.0


def prints(step):
    print(step)
    return 1.0


def imports(step):
    import os
    return 1.0


def hidden_in_a_lambda(step):
    return (lambda: NOTES.append(step))() or 1.0


def hidden_in_a_default(step, log=NOTES.append):
    log(step)
    return 1.0


def hidden_in_a_keyword_default(step, *, log=print):
    log(step)
    return 1.0


def hidden_in_a_list(step):
    return FUNCTIONS[0](step) or 1.0


FUNCTIONS = [NOTES.append]


def hidden_in_a_generator(step):
    return sum(NOTES.append(x) or 1 for x in range(3))


def counts_outside(start):
    count = start

    def schedule(step):
        nonlocal count
        count += 1
        return count
    return schedule


def generator(step):
    yield 1.0


def draws(step):
    return random.random()


def reads_file(step):
    return len(open("/proc/self/stat").read())


def uses_object(step):
    return float(BOX)


def uses_subclass(step):
    return SLY * 2


def builds_class(step):
    class Local:
        NOTES.append(1)
    return 1.0


def with_block(step):
    with open("/dev/null"):
        return 1.0


def looks_up(step):
    return math.__loader__


def evaluates(step):
    return eval("1")


class Callable:
    def __call__(self, step):
        return 1.0

    def method(self, step):
        return 1.0


BAD = [
    writes_global, appends, extends_in_place, extends_through_a_helper, sets_item, deletes_item, sets_attribute, prints,
    imports, hidden_in_a_lambda, hidden_in_a_default, hidden_in_a_keyword_default, hidden_in_a_list, hidden_in_a_generator,
    counts_outside(0), generator, draws, reads_file, uses_object, uses_subclass, builds_class, with_block, looks_up,
    evaluates, Callable(), Callable().method, functools.partial(print), functools.partial(cosine, BOX), NOTES.append,
    os.getpid, closed_over(BOX), functools.lru_cache(None)(cosine), None, 3, Callable,
]

from harmless import harmless
wrong = [f for f in GOOD if not harmless(f)] + [f for f in BAD if harmless(f)]
assert not wrong, wrong
assert not NOTES, "something was run"
for f in GOOD:
    f(5)
print("all", len(GOOD), len(BAD))
"""


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_judgements(python: str, tmp_path: Path) -> None:
    (tmp_path / "harmless.py").write_text(SOURCE.read_text())
    (tmp_path / "cases.py").write_text(CASES)
    done = subprocess.run(
        [python, "cases.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": "/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("all 15 35")
