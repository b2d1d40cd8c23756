"""What the probe ``variables`` answers, as scopes, without secrets."""

from __future__ import annotations

from typing import Any

from cases import each

from jupyter_traindbg.evidence_variables import HIDDEN, handled, replicas, scopes
from jupyter_traindbg.model import NOTHING, Frame, Handled, Replica, Value


def told(value: Any, name: str = "x") -> Value:
    row = {
        "file": "/home/ada/train.py", "line": 7, "function": "main", "depth": 2, "reach": [7, 4, 7, 20],
        "variables": [[name, value]], "globals": [["LIMIT", 3]],
    }  # fmt: skip
    (scope,) = scopes({"frames": [row]})
    assert (scope.frame.file, scope.frame.line, scope.depth, scope.reach) == ("/home/ada/train.py", 7, 2, (7, 4, 7, 20))
    assert scope.value("LIMIT") == Value("plain", "int", plain=3)
    assert scope.value("unknown") is None
    found = scope.value(name)
    assert found is not None
    return found


@each(
    "value, expected",
    [
        (None, NOTHING),
        ("uid-17", Value("plain", "str", plain="uid-17")),
        ({"is": "text", "type": "str", "words": "abc", "size": 500}, Value("text", "str", "abc", size=500)),
        (
            {"is": "items", "type": "set", "size": 9, "of": [1]},
            Value("items", "set", parts={0: Value("plain", "int", plain=1)}, size=9),
        ),
        (
            {"is": "pairs", "type": "dict", "size": 1, "of": [["a", None]]},
            Value("pairs", "dict", parts={"a": NOTHING}, size=1),
        ),
        (
            {"is": "pairs", "type": "dict", "size": 1, "of": [[[1, "bias"], None]]},
            Value("pairs", "dict", parts={(1, "bias"): NOTHING}, size=1),
        ),
        (
            {"is": "object", "type": "A", "file": "/a.py", "of": [["b", None]]},
            Value("object", "A", parts={"b": NOTHING}, file="/a.py"),
        ),
        ({"is": "work", "type": "Work", "id": 5, "op": "SEND"}, Value("work", "Work", op="SEND", ident=5)),
        (
            {"is": "exchange", "type": "P2POp", "op": "isend", "peer": 2, "tag": 1},
            Value("exchange", "P2POp", op="isend", peer=2, tag=1),
        ),
        ({"is": "queue", "type": "Queue", "size": 0, "most": 4}, Value("queue", "Queue", size=0, most=4)),
        ({"is": "event", "type": "Event", "set": True}, Value("event", "Event", plain=True)),
    ],
)
def test_each_kind_is_read(value: Any, expected: Value) -> None:
    assert told(value) == expected


def test_secrets_are_hidden_by_their_names_and_shapes() -> None:
    assert told("correct horse battery", "db_password") == HIDDEN
    assert told("hf_" + "aB3" * 12, "value") == HIDDEN
    inner = told({"is": "pairs", "type": "dict", "size": 1, "of": [["api_key", "0123456789abcdef0123"]]})
    assert inner.parts["api_key"] == HIDDEN
    assert told("/data/cache.lock", "path") == Value("plain", "str", plain="/data/cache.lock")


def test_the_exceptions_that_are_handled_say_what_is_plain_and_no_secret() -> None:
    at = ["/home/ada/train.py", 12, "forward"]
    args = [
        "out of memory",
        3,
        {"is": "object", "type": "A", "file": None, "of": []},
        "Bearer sk-abcdefghijklmnopqrstuvwxyz0123",
    ]
    rows = [{"type": "OSError", "args": args, "at": at}, {"type": "ValueError", "args": [], "at": None}]
    assert handled({"handled": rows}) == (
        Handled("OSError", "out of memory 3", Frame("/home/ada/train.py", 12, "forward")),
        Handled("ValueError", "", None),
    )
    assert handled({"handled": []}) == ()


def test_a_model_in_distributed_data_parallel_is_read() -> None:
    told = {
        "class": "Model", "parameters": 4, "without": ["a"], "left_out": ["b"], "synchronises": False, "finds_unused": True,
    }  # fmt: skip
    assert replicas({"models": [told]}) == (Replica("Model", 4, ("a",), ("b",), synchronises=False, finds_unused=True),)
