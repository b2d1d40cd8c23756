"""The machines that the ranks of a job are on, where that is not this one: what was read of each, and where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...diagnose import knowledge
from ...model import HostFacts
from ...words.ranks import compact_ranks, rank_list
from ...words.sizes import size
from ..comparing import Difference, differences, named, once, told
from ..context import Collected, Context, Hosts, OnHost, Part, Unavailable

if TYPE_CHECKING:
    from ...render.blocks import Block, Inline, Span

TITLE = "Hosts"
ORDER = 14
FROM_JOB = True
AFTER = ""
ASKS = "hosts"
COLUMNS = ("CPUs", "memory free", "load", "GPUs", "driver", "Python", "torch", "CUDA", "NCCL")
"""Of what is known of a host, what its row in the table has; the rest is told where hosts differ in it, or once."""
RIGHT = frozenset(("CPUs", "memory free", "load"))
MOVING = frozenset(("memory free", "load"))
"""What is different everywhere, and from one moment to the next."""
TOLD_ONCE = ("system", "release", "CPU")
SHOWN = 24
"""So many hosts are shown without unfolding; of more, those that stand out come first."""
MOST_VALUES = 4
MOST_EXCERPTS, EXCERPTS_OF_ONE = 8, 2
MOST_DIFFERING = 8
MOST_MISSING = 40
MOST_LINES = 3
"""So many lines of one kind, each of other hosts, go into issue.md."""


@dataclass(frozen=True)
class Row:
    """One host: what is known of it, by the name of the figure."""

    name: str
    ranks: Sequence[int]
    values: Mapping[str, str]
    problem: str = ""


def collect(context: Context) -> Part:
    found = context.ask(ASKS)
    if not isinstance(found, Hosts):
        raise Unavailable("the job said nothing of its hosts")
    read = [one for one in found.hosts if not one.problem]
    if not read:
        raise Unavailable("; ".join(f"{_who(one)}: {one.problem}" for one in found.hosts))
    differ = _differences(read)
    files = once({one.name: _texts(one) for one in read})
    return Part(
        _summary(found.hosts, len(read), differ),
        texts={file.name: file.text for file in files},
        about={
            file.name: f"the same on {named(file.hosts, [one.name for one in found.hosts])}"
            for file in files
            if len(file.hosts) > 1
        },
        data={
            "hosts": [Row(one.name, one.ranks, _figures(one), one.problem) for one in found.hosts],
            "differences": differ,
            "compared": {"packages": _count(map(_packages, read)), "variables": _count(map(_variables, read))},
            "read": _plain(read),
        },
        excerpts=_excerpts(read),
        issue=[*_issue(read), *(f"Differs: {_in_words(one)}" for one in differ[:MOST_DIFFERING])],
        missing=_missing(found.hosts),
        learn=[
            {"agent_token": [token for one in read for token in one.tokens]},
            *(part.part.learn for one in read for part in one.parts if part.part is not None),
        ],
    )


def _who(one: OnHost) -> str:
    return f"{one.name} ({compact_ranks(one.ranks)})" if one.ranks else one.name


def _summary(hosts: Sequence[OnHost], read: int, differ: Sequence[Difference]) -> str:
    ranks = sum(len(one.ranks) for one in hosts)
    words = [f"{_many(len(hosts), 'host')} with {_many(ranks, 'rank')}"]
    if read < len(hosts):
        words.append(f"{len(hosts) - read} gave no answer")
    return ", ".join([*words, *([_said(differ)] if read > 1 else [])])


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _said(differ: Sequence[Difference]) -> str:
    if not differ:
        return "alike in all that was compared"
    first = ", ".join(one.what for one in differ[:MOST_VALUES])
    more = f" and {len(differ) - MOST_VALUES:,} more" if len(differ) > MOST_VALUES else ""
    return f"they differ in {first}{more}"


# --- what is compared --------------------------------------------------------------------------------------------------


def _data(one: OnHost, part: str) -> Mapping[str, Any]:
    return next((c.part.data for c in one.parts if c.name == part and c.part is not None), {})


def _figures(one: OnHost) -> dict[str, str]:
    """What there is to say of a host in a few words each; what is not known is left out."""
    machine, versions = _data(one, "host"), _data(one, "versions").get("versions", {})
    facts = machine.get("host")
    if not isinstance(facts, HostFacts):
        return dict(versions)
    gpus = [c.part.summary for c in one.parts if c.name == "gpu" and c.part is not None and _has_gpus(c.part)]
    return {
        "system": machine["system"],
        "release": machine["release"],
        "CPU": machine["cpu"],
        "CPUs": str(facts.cpus),
        "memory free": f"{size(facts.memory_free_bytes)} of {size(facts.memory_bytes)}",
        "load": machine["load"].partition(" ")[0],
        **({"GPUs": gpus[0]} if gpus else {}),
        **facts.versions,
        **versions,
    }


def _differences(read: Sequence[OnHost]) -> list[Difference]:
    """In the order in which a reader asks. A host of which a kind of figures could not be had is not compared in these."""
    kinds = [_compared, _packages, _variables]
    by_kind = [{one.name: values for one in read if (values := kind(one))} for kind in kinds]
    found = [one for values in by_kind for one in differences(values)]
    return list({one.what: one for one in reversed(found)}.values())[::-1]  # torch is a package as well


def _compared(one: OnHost) -> dict[str, str]:
    machine = _data(one, "host")
    facts = machine.get("host")
    limits = facts.limits if isinstance(facts, HostFacts) else {}
    tunables = {path: words for path, words in machine.get("kernel", {}).items() if path != "/proc/cmdline"}
    figures = {name: value for name, value in _figures(one).items() if name not in MOVING}
    return {**figures, **{f"limit {name}": f"{limit:,}" for name, limit in limits.items()}, **tunables}


def _packages(one: OnHost) -> Mapping[str, str]:
    packages: Mapping[str, str] = _data(one, "versions").get("packages", {})
    return packages


def _variables(one: OnHost) -> dict[str, str]:
    """Those that all ranks of the host have alike, without what is a host's or a rank's own by nature."""
    variables = _data(one, "environment").get("variables", {})
    return {name: value for name, value in variables.items() if not _is_own(name)}


def _count(of_hosts: Iterable[Mapping[str, str]]) -> int:
    return len({name for values in of_hosts for name in values})


def _is_own(name: str) -> bool:
    row = knowledge.find(name)
    return name.endswith("RANK") or (row is not None and (row.alike == "rank" or row.name.endswith("*")))


# --- what is written ---------------------------------------------------------------------------------------------------


def _texts(one: OnHost) -> dict[str, str]:
    return {name: text for c in one.parts if c.part is not None for name, text in c.part.texts.items()}


def _plain(read: Sequence[OnHost]) -> list[dict[str, Any]]:
    """What each part found on each host, as data; what an earlier host has as well, once."""
    told: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    return [
        {"host": one.name, "parts": {c.name: _told(one.name, c, told.setdefault(c.name, [])) for c in one.parts}}
        for one in read
    ]


def _told(host: str, one: Collected, before: list[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    if one.part is None:
        return {"not_available": one.problem, **({"trace": one.trace} if one.trace else {})}
    same = next((other for other, data in before if data == one.part.data), None)
    if same is None:
        before.append((host, one.part.data))
    data = {"same_as": same} if same is not None and one.part.data else {"data": one.part.data}
    return {"summary": one.part.summary, **data, "missing": list(one.part.missing)}


def _excerpts(read: Sequence[OnHost]) -> dict[str, Sequence[str]]:
    """Of the logs of a few hosts the lines that matter, those that speak of errors first."""
    found = [
        (f"{one.name}: {caption}", lines)
        for one in read
        for c in one.parts
        if c.part is not None and c.name == "logs"
        for caption, lines in list(c.part.excerpts.items())[:EXCERPTS_OF_ONE]
    ]
    return dict(sorted(found, key=lambda one: not one[0].endswith(": errors"))[:MOST_EXCERPTS])


def _issue(read: Sequence[OnHost]) -> Iterator[str]:
    """Each line once, with the hosts that it is of where it is not of all."""
    names = [one.name for one in read]
    by_label: dict[str, dict[str, list[str]]] = {}
    told = [(one.name, line) for one in read for c in one.parts for line in _lines(c)]
    for name, line in told:
        label, _, words = line.partition(": ")
        by_label.setdefault(label, {}).setdefault(words, []).append(name)
    for label, lines in by_label.items():
        for words, hosts in list(lines.items())[:MOST_LINES]:
            yield f"{label}: {words}" if hosts == names else f"{label} on {named(hosts)}: {words}"
        if len(lines) > MOST_LINES:
            yield f"{label}: another one on each of {len(lines) - MOST_LINES} more hosts"


def _lines(one: Collected) -> Sequence[str]:
    """For issue.md. Why a machine without GPUs has none is no news."""
    if one.part is None or (one.name == "gpu" and not _has_gpus(one.part)):
        return ()
    return one.part.issue


def _has_gpus(gpus: Part) -> bool:
    return any(getattr(result, "devices", ()) for result in gpus.results)


def _in_words(one: Difference) -> str:
    said = [f"{value or 'none'} on {who}" for value, who in told(one)[:MOST_VALUES]]
    return f"{one.what}: {'; '.join(said)}"


def _missing(hosts: Sequence[OnHost]) -> list[str]:
    """Who gave no answer; then what could not be had of the others, each reason once."""
    names = [one.name for one in hosts]
    by_words: dict[str, list[str]] = {}
    for one in hosts:
        for words in _missing_of(one):
            by_words.setdefault(words, []).append(one.name)
    lost = [f"{_who(one)}: {one.problem}" for one in hosts if one.problem]
    rest = [f"{named(those, names)}: {words}" for words, those in by_words.items()]
    more = len(rest) - MOST_MISSING
    return [*lost, *rest[:MOST_MISSING], *([f"{more:,} more of the kind: report.json has them"] if more > 0 else [])]


def _missing_of(one: OnHost) -> Iterable[str]:
    for c in one.parts:
        yield from (f"{c.title}: {words}" for words in (c.part.missing if c.part is not None else [c.problem]))


# --- what is shown -----------------------------------------------------------------------------------------------------


def draw(data: Mapping[str, Any]) -> list[Block]:
    """Whether hosts differ, and in what; a row for each; what all have alike."""
    from ...render.blocks import Answer, Pair, Pairs

    rows: Sequence[Row] = data["hosts"]
    differ: Sequence[Difference] = data["differences"]
    read = [row for row in rows if not row.problem]
    compared = [f"{_many(count, noun.removesuffix('s'))}" for noun, count in data["compared"].items() if count]
    blocks: list[Block] = []
    if len(read) > 1:
        words = f"The hosts differ in {_many(len(differ), 'thing')}" if differ else "The hosts are alike"
        about = f"compared: system, limits, {', '.join(compared)}" if compared else ""
        blocks.append(Answer(words, [about], "warn" if differ else "good"))
    if differ:
        blocks.append(_differing(differ))
    blocks.append(_table(rows, differ))
    alike = {name: {row.values.get(name, "") for row in read} for name in TOLD_ONCE}
    pairs = [Pair(name, list(values)) for name, values in alike.items() if len(values) == 1 and any(values)]
    return [*blocks, Pairs(pairs)] if pairs else blocks


def _differing(differ: Sequence[Difference]) -> Block:
    from ...render.blocks import Column, Span, Table

    rows: list[list[Inline]] = []
    for one in differ:
        said: list[str | Span] = []
        for value, who in told(one)[:MOST_VALUES]:
            said += ["; " if said else "", Span(value, "strong") if value else "none", f" on {who}"]
        more = len(one.values) - MOST_VALUES
        rows.append([one.what, [*said, *([f"; {more:,} more values"] if more > 0 else [])]])
    return Table("What differs", [Column("what"), Column("on which hosts", wrap=True)], rows, 12, "differences")


def _table(rows: Sequence[Row], differ: Sequence[Difference]) -> Block:
    from ...render.blocks import Column, Span, Table

    columns = [name for name in COLUMNS if any(name in row.values for row in rows)]
    odd = {(one.what, host) for one in differ for host in _odd(one)}
    cells: list[list[Inline]] = []
    if len(rows) > SHOWN:
        outstanding = {host for _, host in odd} | {row.name for row in rows if row.problem}
        rows = sorted(rows, key=lambda row: row.name not in outstanding)
    for row in rows:
        figures: list[Inline] = [
            Span(row.values.get(name, "–"), "warn" if (name, row.name) in odd else "plain") for name in columns
        ]
        if row.problem:
            figures = [Span("no answer", "bad"), *([""] * (len(columns) - 1))]
        cells.append([Span(row.name, "strong"), rank_list(row.ranks) if row.ranks else "–", *figures])
    heads = [Column("host"), Column("ranks", wrap=True), *(Column(name, right=name in RIGHT) for name in columns)]
    return Table("Host by host", heads, cells, SHOWN, "hosts")


def _odd(one: Difference) -> Iterator[str]:
    """The hosts that have another value than most; all, where no value is that of most."""
    most = len(one.values[0][1])
    alone = len(one.values[1][1]) < most
    yield from (host for _, hosts in one.values[1 if alone else 0 :] for host in hosts)
