"""Functions that stand at a line, made by hand: the source with a mark at each such line, and the variables there."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from typing import Any

from jupyter_traindbg.frames.syntax import Source
from jupyter_traindbg.model import Frame, Scope, Value

FILE = "/home/ada/pipe.py"


def value(told: Any) -> Value:
    """Plain data, lists and dicts of it, and dicts with ``attributes`` as objects."""
    if isinstance(told, Value):
        return told
    if isinstance(told, list | tuple):
        return Value(
            "items", type(told).__name__, parts={i: value(part) for i, part in enumerate(told)}, size=len(told)
        )
    if isinstance(told, dict):
        return Value("pairs", "dict", parts={key: value(part) for key, part in told.items()}, size=len(told))
    return Value("plain", type(told).__name__, plain=told)


def thing(cls: str, **attributes: Any) -> Value:
    """An object of the program's."""
    return Value("object", cls, parts={name: value(held) for name, held in attributes.items()})


def work(op: str, ident: int = 1) -> Value:
    return Value("work", "Work", op=op, ident=ident)


def exchange(op: str, peer: int, tag: int = 0) -> Value:
    return Value("exchange", "P2POp", op=op, peer=peer, tag=tag)


def standing(text: str, *variables: Mapping[str, Any], reach: bool = False) -> tuple[list[Scope], dict[str, Source]]:
    """The functions at the lines marked ``# 0``, ``# 1``, ..., innermost first, with their variables. ``reach``: as Python 3.11 has it."""
    text = textwrap.dedent(text)
    source = Source(ast.parse(text))
    rows = text.splitlines()
    scopes = []
    for depth, held in enumerate(variables):
        line = next(n for n, row in enumerate(rows, 1) if row.endswith(f"# {depth}"))
        function = source.function(line)
        name = "<module>" if isinstance(function, ast.Module) else function.name
        values = {key: value(told) for key, told in held.items()}
        scopes.append(Scope(Frame(FILE, line, name), depth, _reach(source, line) if reach else None, values))
    return scopes, {FILE: source}


def _reach(source: Source, line: int) -> tuple[int, int, int, int]:
    """Of the outermost call at that line."""
    call = next(n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and n.lineno == line)
    return call.lineno, call.col_offset, call.end_lineno or line, call.end_col_offset or 0
