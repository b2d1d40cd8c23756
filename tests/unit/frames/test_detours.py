"""Past a line of a function: who is behind it, and by which branches, handlers and loops one gets there without it."""

from __future__ import annotations

import ast
import textwrap

from cases import each

from jupyter_traindbg.frames.detours import between, in_one_statement, out_of, to_next_round
from jupyter_traindbg.frames.syntax import Source

Ways = list[tuple[str, str, bool]]


def source_of(text: str) -> tuple[Source, dict[str, int]]:
    """With the lines that end with ``# A``, at which the others are, and ``# B``, at which somebody is now."""
    text = textwrap.dedent(text)
    lines = {row[-1]: n for n, row in enumerate(text.splitlines(), 1) if row.endswith(("# A", "# B"))}
    return Source(ast.parse(text)), lines


def ways(text: str) -> tuple[bool, Ways] | None:
    source, at = source_of(text)
    found = between(source, at["A"], at["B"])
    return None if found is None else (found.behind, [(one.kind, one.words, one.holds) for one in found.detours])


BRANCH = """
def train(loader):
    for x in loader:
        loss = model(x)
        if isfinite(loss):
            loss.backward()  # A
        report(loss)  # B
"""
ELSE = """
def train(loader):
    for x in loader:
        if x.skip:
            pass
        elif x.small:
            pass
        else:
            reduce(x)  # A
        report(x)  # B
"""
NOT_REACHED = """
def train(loader):
    for x in loader:
        if not x.ok:
            continue
        reduce(x)  # A
        report(x)  # B
"""
NEXT_ROUND = """
def train(loader):
    for x in loader:
        loss = average(x)  # B
        if not isfinite(loss):
            continue
        if x.last:
            loss.backward()  # A
"""
OTHER_ARM = """
def train(x):
    if x.first:
        reduce(x)  # A
    else:
        gather(x)  # B
"""
HANDLED = """
def train(loader):
    for x in loader:
        try:
            loss = model(x)
            loss.backward()  # A
        except RuntimeError:
            skipped()
        except KeyboardInterrupt:
            raise
        except (OSError, ValueError):
            continue
        report(loss)  # B
"""
IN_HANDLER = """
def train(x):
    try:
        model(x).backward()  # A
    except RuntimeError as error:
        retry(error)  # B
    except OSError:
        pass
"""
IN_FINALLY = """
def train(x):
    try:
        model(x).backward()  # A
    finally:
        barrier()  # B
"""
SUPPRESSED = """
def train(x):
    with contextlib.suppress(OSError, ValueError):
        reduce(read(x))  # A
    barrier()  # B
"""
LEFT_LOOP = """
def train(loader):
    for i, x in enumerate(loader):
        if x.bad:
            continue
        try:
            read(x)
        except OSError:
            continue
        reduce(x)  # A
    barrier()  # B
"""
BROKEN_OFF = """
def train(loader):
    while True:
        x = next(loader)
        if x is None:
            break
        reduce(x)  # A
    barrier()  # B
"""
CASE = """
def train(x):
    match x.kind:
        case "train":
            reduce(x)  # A
        case _:
            pass
    barrier()  # B
"""
OTHER_CASE = """
def train(x):
    match x.kind:
        case "train":
            reduce(x)  # A
        case _:
            barrier()  # B
"""
STRAIGHT = """
def train(x):
    reduce(x)  # A
    barrier()  # B
"""
BEFORE = """
def train(x):
    reduce(x)  # B
    barrier()  # A
"""
ONE_STATEMENT = """
def train(x):
    call(reduce(x),  # A
         barrier())  # B
"""
TWO_FUNCTIONS = """
def train(x):
    reduce(x)  # A
def save(x):
    barrier()  # B
"""
THE_LOOP_ITSELF = """
def train(loader):
    for x in next_of(loader):  # A
        reduce(x)  # B
"""
MODULE = """
for x in loader:
    if x.ok:
        reduce(x)  # A
barrier()  # B
"""


@each(
    "what, text, behind, expected",
    [
        ("a branch", BRANCH, True, [("condition", "isfinite(loss)", False)]),
        ("the last of several", ELSE, True, [("condition", "x.small", True), ("condition", "x.skip", True)]),
        ("whoever continues does not come there", NOT_REACHED, True, []),
        (
            "but into the next round",
            NEXT_ROUND,
            False,
            [("condition", "x.last", False), ("condition", "not isfinite(loss)", True)],
        ),
        ("one arm or the other", OTHER_ARM, False, [("condition", "x.first", False)]),
        ("handlers that go on", HANDLED, True, [("exception", "RuntimeError", False)]),
        ("within a handler", IN_HANDLER, True, [("exception", "RuntimeError", False)]),
        ("on the way out", IN_FINALLY, True, [("exception", "", False)]),
        ("suppressed", SUPPRESSED, True, [("exception", "OSError, ValueError", False)]),
        (
            "out of a loop, whose rounds may have been cut short",
            LEFT_LOOP,
            True,
            [
                ("exception", "OSError", False),
                ("condition", "x.bad", True),
                ("loop", "for i, x in enumerate(loader)", False),
            ],
        ),
        ("by a break", BROKEN_OFF, True, [("condition", "x is None", True), ("loop", "while True", False)]),
        ("a case", CASE, True, [("condition", "x.kind: case 'train'", False)]),
        ("another case", OTHER_CASE, False, [("condition", "x.kind: case 'train'", False)]),
        ("nothing leads past it", STRAIGHT, True, []),
        ("not yet there", BEFORE, False, []),
        ("of the module", MODULE, True, [("condition", "x.ok", False), ("loop", "for x in loader", False)]),
        ("within the loop at whose head the others are", THE_LOOP_ITSELF, False, []),
    ],
)
def test_what_leads_past_a_line(what: str, text: str, behind: bool, expected: Ways) -> None:
    assert ways(text) == (behind, expected)


@each("what, text", [("one statement", ONE_STATEMENT), ("two functions", TWO_FUNCTIONS)])
def test_of_what_has_no_way_in_one_function_nothing_is_said(what: str, text: str) -> None:
    assert ways(text) is None


def test_who_stands_within_a_detour_is_known_to_have_taken_it() -> None:
    for text, stands in ((OTHER_ARM, True), (IN_HANDLER, True), (OTHER_CASE, True), (BRANCH, False), (HANDLED, False)):
        source, at = source_of(text)
        found = between(source, at["A"], at["B"])
        assert found is not None
        assert [one.stands for one in found.detours] == [stands], text


def test_an_exception_in_a_guard_before_it_is_caught_too() -> None:
    found = ways(
        LEFT_LOOP.replace("        reduce(x)  # A\n", "").replace(
            "            read(x)\n", "            reduce(x)  # A\n"
        )
    )
    assert found == (
        True,
        [
            ("exception", "OSError", False),
            ("condition", "x.bad", True),
            ("loop", "for i, x in enumerate(loader)", False),
        ],
    )


INNER = """
def step(model, x):
    loss = model(x)
    if not isfinite(loss):
        return None
    for part in parts:
        if part.frozen:
            raise ValueError
        try:
            part.backward()  # A
        except RuntimeError:
            return None
"""


def test_out_of_the_function_that_was_called_there() -> None:
    source, at = source_of(INNER)
    assert [(one.kind, one.words, one.holds) for one in out_of(source, at["A"])] == [
        ("exception", "RuntimeError", False),
        ("loop", "for part in parts", False),
        ("condition", "not isfinite(loss)", True),
    ]


NO_SYNC = """
def train(model, loader):
    for i, x in enumerate(loader):
        with nullcontext() if i % 4 == 3 else model.no_sync():
            model(x).backward()  # A
        report(x)  # B
"""
BY_NAME = """
def train(model, loader):
    for i, x in enumerate(loader):
        context = nullcontext() if i % 4 == 3 else self.model.no_sync()
        with context:
            loss = model(x)
        loss.backward()  # A
        report(x)  # B
"""
ACCELERATE = """
def train(model, loader):
    for x in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x))  # A
        report(x)  # B
"""


OWN = """
@contextmanager
def micro_batch(self):
    with self.model.no_sync():
        yield

def train(model, loader):
    for x in loader:
        with self.micro_batch():
            model(x).backward()  # A
        report(x)  # B
"""


IN_THE_OTHER_ARM = """
def train(model, loader):
    for i, x in enumerate(loader):
        if i % 4 < 3:
            with model.no_sync():
                model(x).backward()
        else:
            model(x).backward()  # A
        report(x)  # B
"""


def test_a_context_in_another_branch_does_not_count() -> None:
    source, at = source_of(IN_THE_OTHER_ARM)
    found = between(source, at["A"], at["B"], reduces=True)
    assert found is not None
    assert [(one.kind, one.words, one.holds) for one in found.detours] == [("condition", "i % 4 < 3", True)]


def test_at_the_head_of_a_function_nothing_is_known() -> None:
    text = """
    def outer(x):
        @register(  # A
            x)
        def inner(y):
            return y
        barrier()  # B
    """
    assert ways(text) is None


@each(
    "what, text, words",
    [
        ("around it", NO_SYNC, "model.no_sync()"),
        ("before it, by a name", BY_NAME, "self.model.no_sync()"),
        ("accelerate's", ACCELERATE, "accelerator.accumulate(model)"),
        ("the program's own", OWN, "self.micro_batch()"),
    ],
)
def test_a_backward_pass_may_not_reduce(what: str, text: str, words: str) -> None:
    source, at = source_of(text)
    found = between(source, at["A"], at["B"], reduces=True)
    assert found is not None
    assert [(one.kind, one.words) for one in found.detours] == [("unsynchronised", words)]
    assert ways(text) == (True, []), "of a call that reduces no gradients it says nothing"


def test_a_round_may_have_been_left_out_before() -> None:
    source, at = source_of(NOT_REACHED)
    found = between(source, at["A"], at["B"])
    assert found is not None
    assert [(one.kind, one.words) for one in found.skips] == [("condition", "not x.ok")]
    for text in (BRANCH, STRAIGHT, LEFT_LOOP):
        source, at = source_of(text)
        found = between(source, at["A"], at["B"])
        assert found is not None
        assert not found.skips, text


SAFELY = """
def fit(self, loader):
    for x in loader:
        if x.empty:
            break
        if x.small:
            continue
        if self.training:
            try:
                self.step(x)  # A
            except ValueError:
                skipped()
            except OSError:
                return
"""
CALLED = """
def safely(self, x):
    try:
        self.step(x)  # A
    except ValueError:
        return None
"""


def test_past_a_call_to_the_next_round_of_the_loop_around_it() -> None:
    source, at = source_of(SAFELY)
    found, in_a_loop = to_next_round(source, at["A"])
    assert in_a_loop
    assert [(one.kind, one.words, one.holds) for one in found] == [
        ("exception", "ValueError", False),
        ("condition", "self.training", False),
        ("condition", "x.small", True),
    ]
    source, at = source_of(CALLED)
    found, in_a_loop = to_next_round(source, at["A"])
    assert not in_a_loop
    assert [one.words for one in found] == ["ValueError"]


@each(
    "statement, behind",
    [
        ("log(step(x))", True),
        ("log(a, step(x), b=2)", True),
        ("step(x), log(x)", True),
        ("result = step(x) + log(x)", True),
        ("log(x), step(x)", False),
        ("step(log(x))", False),
        ("self.trainer.log(self.step(x))", True),
        ("x and step(x), log(x)", None),
        ("log(step(x) if x else 0)", None),
        ("[step(y) for y in x], log(x)", None),
        ("step(x), step(x), log(x)", None),
        ("log(x)", None),
    ],
)
def test_of_two_calls_in_one_statement_one_comes_first(statement: str, behind: bool | None) -> None:
    found = in_one_statement(Source(ast.parse(statement)), 1, "step", "log")
    assert (None if found is None else found.behind) is behind


def test_the_head_of_a_block_is_not_one_statement() -> None:
    assert in_one_statement(Source(ast.parse("while step(x):\n    log(x)")), 1, "step", "log") is None
