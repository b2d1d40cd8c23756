"""From variables/*.toml to `Variable`s, or a list of what is wrong with them: the file, the variable, and what to write instead.

A file is a list of ``[[group]]``. ``[group.NAME]`` is a variable; its keys are the fields of `Variable`, and where it leaves one out, what
its group says before the first of them counts. ``instead`` is a name, or a text as ``instead.en`` and ``instead.zh``. ``{anchor}`` in a
source is the name of the variable as links spell it: ``nccl-ib-timeout``.

Of the variables in a group's list of ``names``, no more is known than what the group says; one that has a table of its own in the same
file may be listed there, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from .checking import BadKnowledge, Checker, each_file, parsed
from .variable import Alike, Status, Variable

__all__ = ["files", "parse", "variables"]

FOLDER = "variables"
_REQUIRED = ("reader", "en", "zh", "source")
_TEXTS = (*_REQUIRED, "values", "default", "until")
_KEYS = (*_TEXTS, "status", "instead", "alike", "strict")
_CHOICES = {"status": get_args(Status), "alike": get_args(Alike)}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


@cache
def files() -> Mapping[str, tuple[Variable, ...]]:
    """The variables of each file, in its order. Raises `BadKnowledge`. 20 ms, once per process."""
    return MappingProxyType(each_file(FOLDER, parse))


@cache
def variables() -> Mapping[str, Variable]:
    """All of them by name. Raises `BadKnowledge`, also where two files have the same."""
    known: dict[str, Variable] = {}
    for file, rows in files().items():
        for row in rows:
            if row.name in known:
                raise BadKnowledge(f"{file}.toml: {row.name}: is in another file, too; leave one of them out")
            known[row.name] = row
    return MappingProxyType(known)


def parse(text: str, name: str) -> tuple[Variable, ...]:
    """The variables in `text`, the content of the file `name` (``nccl.toml``). Raises `BadKnowledge` with all that is wrong."""
    check = Checker(name)
    raw = parsed(text, name)
    check.known(raw, ("group",), "")
    rows: dict[str, Variable] = {}
    described: set[str] = set()
    listed: set[str] = set()
    for i, group in enumerate(_groups(check, raw), 1):
        at = f"[[group]] {i}"
        tables = {key: value for key, value in group.items() if isinstance(value, dict) and key not in _KEYS}
        check.known(group.keys() - tables.keys(), (*_KEYS, "names"), at)
        common = _fields(check, group, at)
        for variable in check.strings(group.get("names", []), f"{at}: names"):
            _once(check, variable, listed)
            rows.setdefault(variable, _variable(check, variable, common, at))
        for variable, table in tables.items():
            _once(check, variable, described)
            check.known(table, _KEYS, variable)
            rows[variable] = _variable(check, variable, common | _fields(check, table, variable), variable)
    check.finish()
    return tuple(rows.values())


def _once(check: Checker, name: str, taken: set[str]) -> None:
    if name in taken:
        check.say(name, "is in this file twice; leave one of them out")
    taken.add(name)


def _groups(check: Checker, raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups = raw.get("group", [])
    if isinstance(groups, list) and all(isinstance(group, dict) for group in groups):
        return groups
    check.say("group", "has to be written [[group]]; its variables are [group.NAME]")
    return []


def _fields(check: Checker, table: Mapping[str, Any], at: str) -> dict[str, Any]:
    """What one table says, as fields of `Variable`."""
    fields: dict[str, Any] = {key: check.string(table, key, f"{at}: ") for key in _TEXTS if key in table}
    for key, choices in _CHOICES.items():
        if key in table:
            fields[key] = check.one_of(table[key], choices, f"{at}: {key}")
    if "strict" in table:
        fields["strict"] = table["strict"]
        if not isinstance(table["strict"], bool):
            check.say(f"{at}: strict", "has to be true or false")
    if "instead" in table:
        said = table["instead"]
        both = {"en": said, "zh": said} if isinstance(said, str) else said
        fields["instead_en"], fields["instead_zh"] = check.pair(both, f"{at}: instead")
    return fields


def _variable(check: Checker, name: str, fields: Mapping[str, Any], at: str) -> Variable:
    """The variable of that name; what is wrong with it is told as that of `at`."""
    if not _NAME.fullmatch(name):
        check.say(at, f"{name!r} is no name of a variable, nor of a family (NAME_*)")
    check.required([key for key, value in fields.items() if value], _REQUIRED, at)
    texts = {key: fields.get(key, "") for key in _REQUIRED}
    texts["source"] = texts["source"].replace("{anchor}", name.lower().replace("_", "-"))
    variable = Variable(name, **{**fields, **texts})
    if texts["source"] and not texts["source"].startswith(("https://", "docs/")):
        check.say(f"{at}: source", f"{variable.source!r} does not begin with https://, nor is it a page of docs/")
    _status_fits(check, variable, at)
    try:
        understood = re.compile(variable.values, re.IGNORECASE)
    except re.error as error:
        check.say(f"{at}: values", f"cannot be compiled: {error}")
        return variable
    if variable.values and variable.default and not understood.fullmatch(variable.default):
        check.say(f"{at}: default", f"{variable.default!r} is none of the values, {variable.values}")
    return variable


def _status_fits(check: Checker, variable: Variable, at: str) -> None:
    if (variable.status == "folklore") != (variable.reader == "nobody"):
        check.say(f"{at}: status", '"folklore" and reader = "nobody" go together')
    if (variable.status == "dead") != bool(variable.until):
        check.say(f"{at}: until", 'the first version that does not read it goes together with status = "dead"')
    if variable.status != "real" and not variable.instead_en:
        check.say(at, "'instead' is missing: what to use where it is set; or that it can be left out")
