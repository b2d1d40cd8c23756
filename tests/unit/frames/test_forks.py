"""Two places in one function, by its source: can one pass come to both?"""

from __future__ import annotations

import ast
import textwrap

from cases import each

from jupyter_traindbg.frames.forks import fork, parting, partings
from jupyter_traindbg.frames.syntax import Source
from jupyter_traindbg.model import CallSite, CallSites, Fork, Frame

FILE = "/home/ada/train.py"


def site(*frames: tuple[str, int, str], op: str = "all_reduce") -> CallSite:
    """Innermost first."""
    return CallSite(op, tuple(Frame(file, line, function) for file, line, function in frames))


def of(text: str, called: tuple[str, str] = ("all_reduce", "all_reduce")) -> Fork | None:
    """What the source says of its lines that end with ``# A`` and ``# B``."""
    text = textwrap.dedent(text)
    rows = text.splitlines()
    first, second = (next(n for n, row in enumerate(rows, 1) if row.endswith(mark)) for mark in ("# A", "# B"))
    one, other = (site((FILE, 1, name), (FILE, n, "f")) for name, n in zip(called, (first, second), strict=True))
    parts = parting(one, other)
    assert parts is not None
    assert parts.one_function
    return fork(Source(ast.parse(text)), parts)


IF_ELSE = """
def f(rank, x):
    if rank == 0:
        all_reduce(x)  # A
    elif rank == 1:
        pass
    else:
        all_reduce(x)  # B
"""
EARLY = """
def f(batch, x):
    for one in batch:
        if not one:
            all_reduce(x)  # A
            continue
        all_reduce(x)  # B
"""
COMPLEMENT = """
def f(self, x):
    if self.main:
        all_reduce(x)  # A
    if not self.main:
        all_reduce(x)  # B
"""
NUMBERS = """
def f(rank, x):
    if rank > 0:
        all_reduce(x)  # A
    yield
    if rank == 0:
        all_reduce(x)  # B
"""
ROLES = """
def f(role, x):
    if role == "actor" and x:
        all_reduce(x)  # A
    if role == "critic":
        all_reduce(x)  # B
"""
CAUGHT = """
def f(x):
    try:
        all_reduce(x)  # A
    except ValueError:
        all_reduce(x)  # B
"""
CASES = """
def f(kind, x):
    match kind:
        case "a":
            all_reduce(x)  # A
        case _:
            all_reduce(x)  # B
"""
GUARDED = """
def f(self, x):
    if not (self.a or self.b):
        return all_reduce(x)  # A
    try:
        return all_reduce(x)  # B
    except ValueError:
        raise
"""
ONE_AFTER_THE_OTHER = """
def f(rank, x):
    if rank == 0:
        all_reduce(x)  # A
    all_reduce(x)  # B
"""
OVERLAPPING = """
def f(rank, x):
    if rank < 2:
        all_reduce(x)  # A
    if rank > 0:
        all_reduce(x)  # B
"""
SWALLOWED = """
def f(x):
    try:
        all_reduce(x)  # A
    except ValueError:
        pass
    all_reduce(x)  # B
"""
IN_THE_TEST = """
def f(x):
    if all_reduce(x):  # A
        all_reduce(x)  # B
"""
EITHER = """
def f(a, b, x):
    if a or b:
        all_reduce(x)  # A
    if not a:
        all_reduce(x)  # B
"""


@each(
    "text, apart",
    [
        (IF_ELSE, True),
        (EARLY, True),
        (COMPLEMENT, True),
        (NUMBERS, True),
        (ROLES, True),
        (CAUGHT, True),
        (CASES, True),
        (GUARDED, True),
        (ONE_AFTER_THE_OTHER, False),
        (OVERLAPPING, False),
        (SWALLOWED, False),
        (IN_THE_TEST, False),
        (EITHER, False),
    ],
)
def test_one_pass_comes_to_one_of_the_arms_of_a_branch(text: str, apart: bool) -> None:
    assert of(text) == Fork(apart)


def test_of_one_statement_nobody_knows() -> None:
    chosen = """
    def f(batch):
        return (
            real(batch)  # A
            if batch is not None
            else stand_in()  # B
        )
    """
    assert of(chosen) is None


def test_methods_of_one_name_may_both_be_meant() -> None:
    """torch's recorder does not know the class."""
    methods = """
    class Leader:
        def f(self, x):
            all_reduce(x)  # A

    class Follower:
        def f(self, x):
            all_reduce(x)  # B
    """
    assert of(methods) is None


def test_two_calls_of_one_function_differ_in_their_names() -> None:
    text = """
    def f(self, i, x):
        if i % 2:
            self.log("loss", x, sync_dist=True)  # A
        else:
            self.log("accuracy", x, sync_dist=True)  # B
    """
    assert of(text, ("log", "Module.log")) == Fork(apart=True, names=("loss", "accuracy"))
    assert of(text, ("log", "reduce")) == Fork(apart=True)
    assert of(text.replace('"accuracy"', '"loss"'), ("log", "log")) == Fork(apart=True)
    assert of(text.replace('"accuracy"', "name"), ("log", "log")) == Fork(apart=True)
    nested = text.replace("self.log(", "self.log(self.log(", 1).replace("True)  # A", "True))  # A")
    assert of(nested, ("log", "log")) == Fork(apart=True)


def test_stacks_part_at_the_outermost_frames_that_differ() -> None:
    inner, main = (FILE, 7, "reduced"), (FILE, 30, "main")
    first, second = site(inner, (FILE, 12, "loss"), main), site(inner, (FILE, 15, "samples"), (FILE, 31, "main"))
    parts = parting(first, second)
    assert parts is not None
    assert (parts.first.line, parts.second.line, parts.calls, parts.one_function) == (30, 31, ("loss", "samples"), True)
    assert parting(second, first) != parts
    assert parts.at == (FILE, 30, 31)
    assert parting(first, first) is None
    assert parting(site(main), site(inner, main)) is None
    dispatched = parting(site((FILE, 4, "Leader.run"), main), site((FILE, 9, "Follower.run"), main))
    assert dispatched is not None
    assert not dispatched.one_function


def test_each_pair_of_places_under_one_number_is_told_once() -> None:
    a, b, c = (site((FILE, line, "f")) for line in (1, 2, 3))
    one = CallSites((a, b), {"0": {1: 0, 2: 1, 3: 0, 4: 0}})
    other = CallSites((a, c), {"0": {1: 0, 2: 1, 3: 1, 4: 1}, "1": {1: 1}})
    assert sorted(parts.at for parts in partings([one, other])) == [(FILE, 1, 3), (FILE, 2, 3)]
    assert partings([one]) == []
