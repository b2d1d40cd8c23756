"""Which values have to do with the rank, which count, and which are neither."""

from __future__ import annotations

from dataclasses import replace

from cases import each
from standing import standing, thing, value

from jupyter_traindbg.frames.origins import variables

MAIN = """
    DEPTH = 4

    class Engine:
        def __init__(self, args, rank, pre):
            self.pre = pre
            self.made = make(pre)
            self.args, self.rank = args, rank
            self.first = rank == 0
            self.order = tuple(TAGS)
            self.done = 0

    def main(given):
        world = dist.get_world_size()
        rank = int(os.environ["RANK"])
        mine = rank % 2
        twice = mine * 2
        validate = trouble(given)
        copied = given.flag
        swap = one_by_one if validate else together
        if rank == 0:
            log = True
        else:
            log = False
        loss = 0
        for step, batch in enumerate(data):
            loss += 1
            label = f"step-{step}"
            due = step % 5 == 0
            if validate:
                budget = 5
                budget += 1
            engine.args.micro += 1
            if validate:
                engine.args.width += 1
            engine.train(batch)  # 0
"""
HELD = {
    "given": 1, "world": 4, "rank": 2, "copied": 1, "label": "step-7", "due": False, "mine": 0, "twice": 0, "validate": True, "swap": 1,
    "log": False, "step": 7, "loss": 3, "budget": 6,
    "engine": thing(
        "Engine", args=thing("Namespace", micro=4, width=2), rank=2, first=False, order=(1, 2), done=9, other=1, pre=True, made=1
    ),
}  # fmt: skip


@each(
    "name, origin",
    [
        ("world", "program"),
        ("rank", "rank"),
        ("mine", "rank"),
        ("twice", "rank"),
        ("validate", "program"),
        ("swap", "program"),
        ("log", "rank"),
        ("step", "progress"),
        ("loss", "progress"),
        ("budget", "program"),
        ("given", "not known"),
        ("copied", "not known"),
        ("label", "progress"),
        ("due", "program"),
        ("engine.pre", "not known"),
        ("engine.made", "program"),
        ("engine.args.micro", "progress"),
        ("engine.args.width", "program"),
        ("engine.rank", "rank"),
        ("engine.first", "rank"),
        ("engine.order", "program"),
        ("engine.done", "progress"),
        ("engine.other", "not known"),
    ],
)
def test_the_source_tells_where_a_value_comes_from(name: str, origin: str) -> None:
    told = {v.name: v.origin for v in variables(*standing(MAIN, HELD))}
    assert told[name] == origin


def test_an_object_under_several_names_of_one_class_is_told_by_its_class() -> None:
    text = """
        class Engine:
            def step(self, x):
                work.wait()  # 0

            def run(self):
                self.step(1)  # 1
    """
    engine = thing("Engine", depth=3)
    told = [(v.owner, v.name) for v in variables(*standing(text, {"self": engine, "x": 1}, {"self": engine}))]
    assert told == [("Engine", "self"), ("Engine", "self.depth"), ("step", "x")]


def test_without_its_source_nothing_is_known_of_a_variable() -> None:
    scopes, _ = standing(MAIN, {"validate": True})
    assert [v.origin for v in variables(scopes, {})] == ["not known"]


@each("name, origin", [("FIRST_TAG", "program"), ("LOCAL_RANK", "rank"), ("first", "rank"), ("WORKER", "rank")])
def test_an_adjective_makes_no_constant_a_matter_of_the_rank(name: str, origin: str) -> None:
    scopes, sources = standing("FIRST_TAG = LOCAL_RANK = first = WORKER = 3\n\ndef f():\n    g()  # 0\n", {})
    outer = [replace(scopes[0], outer={name: value(3)})]
    assert [v.origin for v in variables(outer, sources)] == [origin]
