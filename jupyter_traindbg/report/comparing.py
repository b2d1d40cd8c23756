"""What the hosts of a job have in common and where they differ, and which of their files are the same. Pure: no file, no job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model import hosts_written
from .bundle import safe_name

__all__ = ["Difference", "Once", "differences", "folders", "named", "once", "told"]

FEW = 4
"""So many hosts, or runs of numbered ones, are named; of more the first ones."""


@dataclass(frozen=True)
class Difference:
    """Something that is not the same on all hosts: each value with the hosts that have it, that of the most first. An empty value: none."""

    what: str
    values: Sequence[tuple[str, Sequence[str]]]


def differences(values: Mapping[str, Mapping[str, str]]) -> list[Difference]:
    """In what hosts differ, by what was read on each: value by name. The order is that of the names."""
    names = dict.fromkeys(name for of_host in values.values() for name in of_host)
    grouped = {name: _grouped({host: of_host.get(name, "") for host, of_host in values.items()}) for name in names}
    return [Difference(name, groups) for name, groups in grouped.items() if len(groups) > 1]


def _grouped(value_of: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    hosts: dict[str, list[str]] = {}
    for host, value in value_of.items():
        hosts.setdefault(value, []).append(host)
    return sorted(((value, tuple(those)) for value, those in hosts.items()), key=lambda one: -len(one[1]))


def told(one: Difference) -> list[tuple[str, str]]:
    """Each value with those who have it, in words: whoever stands out first, and what most have on "the 98 others"."""
    (value, hosts), *others = one.values
    alone = sum(len(those) for _, those in others)
    most = f"the {len(hosts)} others" if len(hosts) > max(2, alone) else named(hosts)
    last = (value, most)
    said = [(value, named(those)) for value, those in others]
    return [*reversed(said), last] if len(hosts) > alone else [last, *said]


def named(hosts: Sequence[str], of: Sequence[str] = ()) -> str:
    """``node[01-15]``, ``all hosts`` where `of` has no more, and of many that no run has together the first ones."""
    if len(hosts) > 1 and len(hosts) == len(of):
        return "all hosts"
    written = hosts_written(hosts).split(",")
    if len(written) <= FEW:
        return ", ".join(written)
    return f"{', '.join(written[:FEW])} ... ({len(hosts)} hosts)"


@dataclass(frozen=True)
class Once:
    """A file of hosts: its name in the bundle, its text, and all the hosts that have the very same."""

    name: str
    text: str
    hosts: Sequence[str]


def once(texts: Mapping[str, Mapping[str, str]]) -> list[Once]:
    """The files of hosts, by host and name, each text once: in the folder of the first host that has it, under ``hosts/``."""
    folder = folders(texts)
    found: dict[tuple[str, str], list[str]] = {}
    for host, files in texts.items():
        for name, text in files.items():
            found.setdefault((name, text), []).append(host)
    return [Once(f"hosts/{folder[hosts[0]]}/{name}", text, hosts) for (name, text), hosts in found.items()]


def folders(hosts: Iterable[str]) -> dict[str, str]:
    """A folder for each host: its name in plain characters, which no other one has."""
    taken: dict[str, str] = {}
    for host in hosts:
        taken[safe_name(host.replace("/", "-"), taken)] = host
    return {host: folder for folder, host in taken.items()}
