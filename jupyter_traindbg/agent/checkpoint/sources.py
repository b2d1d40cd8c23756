"""The source of a function as a syntax tree, once it is certain that it is what runs: files are changed while a training goes on."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import textwrap
import threading
import types
from typing import Any, List, Set

from ..saying import Said, said

PATIENCE_S = 1.0
FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names} - {inspect.CO_NESTED})
"""The flags of a code object that say what its file imports from there; CO_NESTED says something else of it since 2.2."""
_silent: Set[str] = set()
"""Files that did not answer: they are not asked again."""


class NoSource(Exception):
    """``why`` says why."""

    def __init__(self, why: Said) -> None:
        super().__init__(str(why))
        self.why = why


def definition(function: Any, class_name: str) -> Any:
    """The syntax tree of `function`. Raises `NoSource` where its source is not at hand, or is not what runs."""
    code = function.__code__
    try:
        source = _text(function)
        # as it is indented there: in a text of several lines, a docstring, that is a part of it
        within = f"class {class_name}:\n{source if source[:1].isspace() else textwrap.indent(source, ' ')}"
        tree = ast.parse(within)
        modules = sorted(n for n in _names(code) if type(function.__globals__.get(n)) is types.ModuleType)
        # a call of a function of an imported module is compiled in its own way
        imported = f"import {', '.join(modules)}\n" if modules else ""
        flags = code.co_flags & FUTURE
        ways = [compile(f"{before}{within}", "<source>", "exec", flags, True) for before in {imported, ""}]
    except (SyntaxError, ValueError, TypeError) as e:
        raise NoSource(said("the source of {function} is not at hand", function=f"{code.co_name}()")) from e
    node = tree.body[0].body[0]  # type: ignore[attr-defined]  # the class, the function
    if not isinstance(node, ast.FunctionDef) or not any(_same(code, one) for way in ways for one in _codes(way)):
        raise NoSource(said("the source of {function} is not what runs", function=f"{code.co_name}()"))
    return node


def _text(function: Any) -> str:
    """The lines of a function. Not by `inspect`, which asks all modules for a file, and some run code then.

    A file system may hang, and it may be what the job hangs in: it is given `PATIENCE_S` to answer, and each file is asked once. What
    has come meanwhile is there the next time.
    """
    file = function.__code__.co_filename
    if len(linecache.cache.get(file, ())) < 4 and file not in _silent:  # a shorter entry says how to read it
        reading = threading.Thread(
            target=linecache.getlines, args=(file, function.__globals__), name="traindbg-agent", daemon=True
        )
        reading.start()
        reading.join(PATIENCE_S / 20 if _silent else PATIENCE_S)
        if reading.is_alive():
            _silent.add(file)
    entry = linecache.cache.get(file, ())
    if len(entry) < 4 and file in _silent:
        raise NoSource(said("{file} did not answer", file=file))
    return "".join(inspect.getblock(entry[2][function.__code__.co_firstlineno - 1 :])) if len(entry) == 4 else ""


def _names(code: types.CodeType) -> Set[str]:
    return {name for one in (code, *_codes(code)) for name in one.co_names}


def _codes(code: types.CodeType) -> List[types.CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [*inner, *(c for one in inner for c in _codes(one))]


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    mine, others = ([c for c in x.co_consts if not _is_a_name(c)] for x in (one, other))
    return (
        (one.co_code, one.co_names, one.co_varnames, one.co_freevars, repr(mine))
        == (other.co_code, other.co_names, other.co_varnames, other.co_freevars, repr(others))
        and len(_codes(one)) == len(_codes(other))
        and all(_same(a, b) for a, b in zip(_codes(one), _codes(other)))
    )


def _is_a_name(constant: Any) -> bool:
    """Inner functions, and what they are called (before Python 3.11 a constant, which says where the class itself was defined)."""
    return isinstance(constant, types.CodeType) or (isinstance(constant, str) and "<locals>" in constant)


__all__ = ["NoSource", "definition"]
