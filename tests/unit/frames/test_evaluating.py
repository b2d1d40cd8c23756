"""What expressions come to by told variables."""

from __future__ import annotations

import ast

from cases import each
from standing import standing, thing, value

from jupyter_traindbg.frames.evaluating import evaluate
from jupyter_traindbg.model import Plain, Scope


def scope() -> Scope:
    held = {
        "rank": 2, "world": 4, "name": "epoch", "tags": {"hidden": 11}, "row": [5, 6], "stage": thing("Stage", prev=1), "nxt": None,
        "empty": [], "flag": True,
    }  # fmt: skip
    return standing("def f():\n    wait()  # 0\n", held)[0][0]


@each(
    "words, expected",
    [
        ("rank - 1", 1),
        ("(rank + 1) % world", 3),
        ("rank // 2 * 8", 8),
        ("-rank", -2),
        ("stage.prev", 1),
        ("tags['hidden']", 11),
        ("row[-1]", 6),
        ("f'{name}-{rank}'", "epoch-2"),
        ("'a' + name", "aepoch"),
        ("rank if flag else world", 2),
        ("rank if not flag else world", 4),
        ("1 if nxt is None else 2", 1),
        ("1 if rank >= 2 else 2", 1),
        ("1 if row else 2", 1),
        ("1 if empty else 2", 2),
    ],
)
def test_what_needs_no_call_is_computed(words: str, expected: Plain) -> None:
    assert evaluate(ast.parse(words, mode="eval").body, scope()) == value(expected)


@each(
    "words",
    ["rank / 2", "rank % 0", "unknown", "stage.other", "int(rank)", "row[9]", "f'{rank:03}'", "f'{rank!r}'", "1 if unknown else 2",
     "row[rank:]", "rank ** 900", "flag and rank", "1 if rank in row else 2", "10 ** 12 + rank", "[unknown]", "name * 3"],
)  # fmt: skip
def test_all_else_is_not_known(words: str) -> None:
    assert evaluate(ast.parse(words, mode="eval").body, scope()) is None
