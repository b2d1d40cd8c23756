"""What the table of variables says of a job by itself: unread names, misspelt ones, values nobody understands, ranks that disagree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...language import either, text
from .. import knowledge
from ..knowledge import Variable
from .setting import LOOPBACK, Judged, Rule, Setting, judge, ranks_in_words

__all__ = ["RULES"]

BREAKS = {
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER",
    "TORCH_GLOO_LAZY_INIT", "GLOO_DEVICE_TRANSPORT",
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_IB_DISABLE", "NCCL_SOCKET_FAMILY", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
    "NCCL_COLLNET_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_COMM_ID", "NCCL_SOCKET_MAGIC",
}  # fmt: skip
"""Ranks that disagree about these do not find each other, or wait for different messages."""


def unread(setting: Setting) -> Iterator[Judged]:
    """Variables that do nothing: nobody ever read them, or nobody does any more."""
    for name in setting.names:
        variable = knowledge.find(name)
        if variable is None or variable.status not in ("folklore", "dead"):
            continue
        if variable.status == "dead" and not setting.gone(variable):
            continue
        since = text(" since {reader} {until}", reader=variable.reader, until=variable.until) if variable.until else ""
        title = text("{name} does nothing here{since}", name=name, since=since)
        yield _plain(setting, variable, name, title)


def _plain(setting: Setting, variable: Variable, name: str, title: str) -> Judged:
    ranks = setting.where(name, lambda value: True)
    steps = [text("Instead: {name}.", name=either(variable.instead_en, variable.instead_zh))]
    return judge(setting, [name], ranks, "info", title=title, cause=_sentence(variable), steps=steps)


def _sentence(variable: Variable) -> str:
    words = either(variable.en, variable.zh)
    return words[:1].upper() + words[1:] + text(".")


def misspelt(setting: Setting) -> Iterator[Judged]:
    """Names that nobody reads and that resemble one that somebody does."""
    for name in setting.names:
        meant = knowledge.meant(name) if knowledge.find(name) is None else None
        if meant is None:
            continue
        yield judge(
            setting,
            [name],
            setting.where(name, lambda value: True),
            "info",
            title=text("{name} is read by nobody: {meant} is meant?", name=name, meant=meant),
            cause=text("The name is not in the sources of NCCL or PyTorch."),
            steps=[text("Set {meant} instead.", meant=meant)],
            confidence="medium",
        )


def not_understood(setting: Setting) -> Iterator[Judged]:
    """Values that their reader does not understand."""
    for name in setting.names:
        variable = knowledge.find(name)
        if variable is None or not variable.values or variable.status in ("dead", "folklore") or setting.unused(name):
            continue
        understood = re.compile(variable.values, re.IGNORECASE)
        ranks = setting.where(name, lambda value, fits=understood: not fits.fullmatch(value.strip()))  # type: ignore[misc]
        if not ranks:
            continue
        value = setting.environ[ranks[0]][name]
        yield judge(
            setting,
            [name],
            ranks,
            "critical" if variable.strict else "warning",
            title=text(
                "{name}={value!r} is not a value that {reader} understands",
                name=name,
                value=value,
                reader=variable.reader,
            ),
            cause=_sentence(variable) + _consequence(variable),
            steps=[text("Correct it, or leave it out.")],
        )


def _consequence(variable: Variable) -> str:
    if variable.strict:
        return text(" A value like this ends the program with an error.")
    return text(" A value like this is ignored, or read as something else.")


def aliases(setting: Setting) -> Iterator[Judged]:
    """An old name and a new one that say different things: the old one is not looked at."""
    for name in setting.names:
        variable = knowledge.find(name)
        if variable is None or variable.status != "old name" or setting.unused(name):
            continue
        new = variable.instead_en
        ranks = setting.where(name, lambda value: True)
        ranks = tuple(
            r for r in ranks if setting.environ[r].get(new, setting.environ[r][name]) != setting.environ[r][name]
        )
        if ranks:
            yield judge(
                setting,
                [name, new],
                ranks,
                "warning",
                title=text("{name} and {new} contradict each other", name=name, new=new),
                cause=text("{name} is the old name of {new}; only one of them counts.", name=name, new=new),
                steps=[text("Leave {name} out.", name=name)],
            )


def differing(setting: Setting) -> Iterator[Judged]:
    """Variables on which the ranks of a job, or of a machine, have to agree, and do not."""
    for name in setting.names:
        variable = knowledge.find(name)
        if variable is None or variable.alike not in ("job", "host") or variable.status in ("dead", "folklore"):
            continue
        if setting.unused(name):
            continue
        for ranks in _groups(setting, variable):
            odd = _odd_ones(setting, variable, name, ranks)
            if odd:
                yield _differs(setting, variable, name, odd)
                break


def _groups(setting: Setting, variable: Variable) -> list[list[int]]:
    """The ranks that have to agree with each other."""
    if variable.alike == "job":
        return [list(setting.told)]
    machines: dict[str, list[int]] = {}
    for rank in setting.told:
        machine = setting.machine(rank)
        if machine is not None:
            machines.setdefault(machine, []).append(rank)
    return list(machines.values())


def _odd_ones(setting: Setting, variable: Variable, name: str, ranks: Sequence[int]) -> tuple[int, ...]:
    """Those of `ranks` that have another value than most; empty where all agree."""
    by_value: dict[str, list[int]] = {}
    for rank in ranks:
        by_value.setdefault(_same(name, setting.environ[rank].get(name, variable.default)), []).append(rank)
    if len(by_value) < 2:
        return ()
    groups = sorted(by_value.values(), key=len, reverse=True)
    return tuple(sorted(rank for group in groups[1:] for rank in group))


def _same(name: str, value: str) -> str:
    """`value` in the form in which two that mean the same are equal."""
    plain = value.strip()
    if name == "MASTER_ADDR" and LOOPBACK.fullmatch(plain):
        return "127.0.0.1"
    if name == "TORCH_DISTRIBUTED_DEBUG":  # INFO adds log lines; only DETAIL adds collectives
        return "DETAIL" if plain.upper() == "DETAIL" else "OFF"
    return plain.lower() if name.startswith("TORCH") else plain


def _differs(setting: Setting, variable: Variable, name: str, odd: Sequence[int]) -> Judged:
    breaks = name in BREAKS
    who = ranks_in_words(odd, len(setting.environ))
    # two names may belong to one machine; nothing here can look that up
    may_be_the_same = name == "MASTER_ADDR"
    if name in ("MASTER_ADDR", "MASTER_PORT"):
        cause = text("They look for each other at different places, so that initialisation never completes.")
    elif breaks:
        cause = text("Ranks that disagree here wait for messages that the others never send.")
    else:
        cause = text("The ranks behave differently for no reason that is in the program.")
    return judge(
        setting,
        [name],
        odd,
        "critical" if breaks and not may_be_the_same else "warning",
        title=text("{name} is not the same on all ranks: {who}", name=name, who=who),
        cause=cause,
        steps=[text("Set it to the same value everywhere, at best in the launcher.")],
        differs=True,
        confidence="medium" if may_be_the_same or not breaks else "high",
    )


RULES: tuple[Rule, ...] = (differing, not_understood, aliases, misspelt, unread)
