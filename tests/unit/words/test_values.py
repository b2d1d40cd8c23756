"""A variable's value in few words."""

from __future__ import annotations

from cases import each
from standing import exchange, thing, value, work

from jupyter_traindbg.model import Frame, Value, Variable
from jupyter_traindbg.words.values import value_words, variable_words


@each(
    "held, words",
    [
        (value(None), "None"),
        (value(0.05), "0.05"),
        (value("uid-17"), "'uid-17'"),
        (value("x" * 100), "'" + "x" * 58 + "…"),
        (value([1, 2]), "[1, 2]"),
        (value((1,)), "(1,)"),
        (value([]), "[]"),
        (value({"a": [1]}), "{'a': [1]}"),
        (Value("items", "set", parts={0: value("uid-17")}, size=1), "{'uid-17'}"),
        (Value("items", "set", size=0), "set()"),
        (value([1, 2, 3, 4, 5, 6]), "[1, 2, 3, 4, … 2 more]"),
        (Value("items", "deque", size=900), "deque of 900"),
        (Value("text", "str", "x" * 120, size=500), "'" + "x" * 60 + "…'"),
        (Value("text", "PosixPath", "/tmp/a.lock"), "'/tmp/a.lock'"),
        (Value("queue", "Queue", size=0), "Queue, empty"),
        (Value("queue", "Queue", size=1, most=4), "Queue, one item, of 4 at most"),
        (Value("queue", "Queue", size=3), "Queue, 3 items"),
        (Value("queue", "Queue"), "Queue"),
        (Value("event", "Event", plain=False), "Event, not set"),
        (Value("event", "Event", plain=True), "Event, set"),
        (Value("event", "Event"), "Event"),
        (Value("function", "function", "one_by_one"), "one_by_one"),
        (Value("other", "Future", "Future, pending"), "Future, pending"),
        (Value("hidden", "str"), "a secret, not shown"),
        (work("SEND"), "Work (send)"),
        (exchange("isend", 2), "P2POp (isend)"),
        (thing("Engine", a=1), "Engine"),
    ],
)
def test_it_reads_as_python_writes_it_where_it_is_small(held: Value, words: str) -> None:
    assert value_words(held) == words


def test_several_variables_are_one_line() -> None:
    frame = Frame("/home/ada/train.py", 1, "main")
    told = [Variable("pending", "main", frame, value(["uid-17"])), Variable("timeout", "main", frame, value(None))]
    assert variable_words(told) == "pending = ['uid-17'], timeout = None"
