"""Who is past a line at which others are, from the stacks, sources and variables of all ranks."""

from __future__ import annotations

from typing import Any

from cases import each
from standing import FILE, standing, thing

from jupyter_traindbg.frames.syntax import Source
from jupyter_traindbg.gather.detours import MOST_PLACES, Standing, read
from jupyter_traindbg.model import Frame, Past

TORCH = Frame(
    "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", 824, "_engine_run_backward", library=True
)
PROGRAM = """
def step(model, x):
    loss = model(x)
    if not isfinite(loss):
        return
    {reduces}

def train(model, loader, limit):
    done = 0
    for x in loader:
        if done < limit:
            {calls}
        report(done){reports}
"""


def place(rank: int, marks: str, *variables: dict[str, Any], inside: tuple[Frame, ...] = ()) -> Standing:
    """At the lines that end with ``# 0``, innermost, and ``# 1``, of which `marks` tells one each: ``"reduces calls"``."""
    names = marks.split()
    lines = {n: (f"{n}()  # {names.index(n)}" if n in names else f"{n}()") for n in ("reduces", "calls")}
    text = PROGRAM.format(**lines, reports="  # 0" if "reports" in names else "")
    scopes, sources = standing(text, *variables)
    frames = (*inside, *(s.frame for s in scopes))

    def source(file: str) -> Source | None:
        return sources.get(file)

    return Standing(rank, frames, scopes, source)


def of(*ranks: Standing) -> dict[tuple[int, ...], Past]:
    return {tuple(one.ranks): one for one in read(ranks)}


def test_who_is_past_a_line_and_by_which_ways() -> None:
    others = [place(r, "reduces calls", {}, {}, inside=(TORCH,)) for r in (0, 1, 3)]
    told = of(*others, place(2, "reports", {}))
    past = told[2,]
    assert (past.others, past.behind, past.line) == ((0, 1, 3), True, Frame(FILE, 12, "train"))
    assert [(one.kind, one.words, one.at.function, one.taken) for one in past.detours] == [
        ("condition", "not isfinite(loss)", "step", False),
        ("condition", "done < limit", "train", False),
    ]
    assert told[0, 1, 3].behind is False


def test_a_condition_is_judged_by_the_variables_of_who_went_past() -> None:
    others = [place(r, "reduces calls", {}, {}, inside=(TORCH,)) for r in (0, 1)]
    past = of(*others, place(2, "reports", {"done": 4, "limit": 4}))[2,]
    first = past.detours[0]
    assert (first.words, first.taken, {v.name: v.value.plain for v in first.values}) == (
        "done < limit", True, {"done": 4, "limit": 4},
    )  # fmt: skip
    past = of(*others, place(2, "reports", {"done": 3, "limit": 4}))[2,]
    assert [one.words for one in past.detours] == ["not isfinite(loss)"], "it held there, and leads to the call"


CHANGES = """
class Trainer:
    def __init__(self):
        self.done, self.limit = 0, 4

    def fit(self, loader, pending):
        for x in loader:
            if {test}:
                reduce(x){reduce}
            self.done += 1
            pending.pop()
            report(x){report}
"""


@each("test", ["self.done < 4", "not pending", "self.done < self.limit", "unknown(x)"])
def test_what_may_have_changed_since_tells_nothing(test: str) -> None:
    one, other = (
        standing(
            CHANGES.format(test=test, reduce=a, report=b), {"self": thing("Trainer", done=4, limit=4), "pending": [1]}
        )
        for a, b in (("", "  # 0"), ("  # 0", ""))
    )
    ranks = [
        Standing(n, [s.frame for s in scopes], scopes, sources.get) for n, (scopes, sources) in enumerate((one, other))
    ]
    (way,) = of(*ranks)[0,].detours
    assert (way.words, way.taken, [v.name for v in way.values if v.name != "self.limit"]) == (test, False, [])


def test_an_attribute_that_only_init_sets_lasts() -> None:
    held = {"self": thing("Trainer", done=4, limit=0)}
    texts = (CHANGES.format(test="self.limit", reduce=a, report=b) for a, b in (("", "  # 0"), ("  # 0", "")))
    made = [standing(text, held) for text in texts]
    ranks = [Standing(n, [s.frame for s in scopes], scopes, sources.get) for n, (scopes, sources) in enumerate(made)]
    (way,) = of(*ranks)[0,].detours
    assert (way.taken, [(v.name, v.value.plain) for v in way.values]) == (True, [("self.limit", 0)])


def test_where_all_are_at_one_place_nothing_is_said() -> None:
    assert read([place(r, "reports", {"done": r, "limit": 4}) for r in range(4)]) == ()


def test_of_functions_that_are_not_the_same_nothing_is_said() -> None:
    elsewhere = Standing(1, (Frame("/home/ada/data.py", 3, "load"),), (), lambda file: None)
    assert read([place(0, "reports", {}), elsewhere]) == ()


def test_without_a_source_nothing_is_said() -> None:
    one, other = place(0, "reports", {}), place(1, "calls", {})
    assert read([Standing(o.rank, o.frames, o.scopes, lambda file: None) for o in (one, other)]) == ()


def test_of_many_places_those_with_most_ranks_are_compared() -> None:
    scattered = [Standing(100 + n, (Frame(FILE, n, f"f{n}"),), (), lambda file: None) for n in range(MOST_PLACES * 2)]
    ranks = [place(r, "calls", {}) for r in (0, 1)] + [place(r, "reports", {}) for r in (2, 3)]
    assert len(read([*scattered, *ranks])) == 2


TRAINER = """
def loss(model, x):
    return forward(model, x){forward}

def step(model, x):
    loss(model, x).backward(){step}

def record(value):
    gather(value){record}

def safely(model, x):
    try:
        record(step(model, x)){safely}
    except ValueError:
        pass

def fit(model, loader):
    for x in loader:
        safely(model, x){fit}
"""


def at(rank: int, *names: str) -> Standing:
    """In these functions, the innermost first."""
    lines = dict.fromkeys(("forward", "step", "record", "safely", "fit"), "")
    lines |= {name: f"  # {n}" for n, name in enumerate(names)}
    scopes, sources = standing(TRAINER.format(**lines), *({} for _ in names))
    return Standing(rank, [s.frame for s in scopes], scopes, sources.get)


def test_of_two_calls_in_one_statement_the_first_is_over() -> None:
    others = [at(r, "step", "safely", "fit") for r in (0, 1)]
    past = of(*others, at(2, "record", "safely", "fit"))[2,]
    assert (past.behind, past.line.function, past.now.function, past.detours) == (True, "step", "record", ())


def test_who_is_deeper_in_the_same_line_may_be_in_the_next_round() -> None:
    """One handler leads there, which is in one of the functions that called it."""
    others = [at(r, "step", "safely", "fit") for r in (0, 1)]
    past = of(*others, at(2, "forward", "step", "safely", "fit"))[2,]
    assert (past.behind, past.line.function, past.now.function) == (False, "step", "loss")
    assert [(one.kind, one.words, one.at.function) for one in past.detours] == [("exception", "ValueError", "safely")]


def test_without_a_loop_there_is_no_next_round() -> None:
    told = of(at(0, "step", "safely"), at(2, "forward", "step", "safely"))
    assert told[2,].detours == ()
