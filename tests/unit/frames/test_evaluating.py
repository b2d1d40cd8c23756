"""What expressions come to by told variables."""

from __future__ import annotations

import ast

from cases import each
from standing import standing, thing, value

from jupyter_traindbg.frames.evaluating import Names, evaluate
from jupyter_traindbg.model import Plain, Scope


def scope() -> Scope:
    held = {
        "rank": 2, "world": 4, "name": "epoch", "tags": {"hidden": 11}, "pairs": {(1, "a"): 4},
        "row": [5, 6], "stage": thing("Stage", prev=1), "nxt": None,
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
        ("1 if flag and rank == 2 else 2", 1),
        ("1 if unknown and empty else 2", 2),
        ("1 if unknown or flag else 2", 1),
        ("1 if name == 'epoch' else 2", 1),
        ("1 if name != 'epoch' else 2", 2),
        ("rank ^ 3", 1),
        ("len(row) + int(rank)", 4),
        ("row.index(6)", 1),
        ("pairs[1, 'a']", 4),
    ],
)
def test_what_is_known_is_computed(words: str, expected: Plain) -> None:
    assert evaluate(ast.parse(words, mode="eval").body, scope()) == value(expected)


@each(
    "words",
    ["rank / 2", "rank % 0", "unknown", "stage.other", "str(rank)", "row[9]", "row.index(9)", "row.index(unknown)", "len(name)",
     "rank ^ name", "f'{rank:03}'", "f'{rank!r}'", "1 if unknown else 2",
     "row[rank:]", "rank ** 900", "flag and rank", "1 if rank in row else 2", "10 ** 12 + rank", "[unknown]", "name * 3"],
)  # fmt: skip
def test_all_else_is_not_known(words: str) -> None:
    assert evaluate(ast.parse(words, mode="eval").body, scope()) is None


@each(
    "words, expected",
    [("rank + other", 5), ("rank + called(3)", 7), ("rank + unknown(3)", None), ("rank if asked() else 1", None)],
)
def test_names_and_calls_may_be_found_otherwise(words: str, expected: Plain) -> None:
    names = Names(
        lambda name: value({"rank": 2, "other": 3}[name]) if name in ("rank", "other") else None,
        lambda call: value(5) if ast.unparse(call) == "called(3)" else None,
    )
    told = evaluate(ast.parse(words, mode="eval").body, names)
    assert told == (None if expected is None else value(expected))
