"""`Preflight`: whether anything speaks against a start; ways to the other machines, the port, interfaces, this machine, the trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import text
from ...model import AllReduce, Finding, Interface, Maybe, NotAvailable, Preflight, PreflightHost, PreflightPort
from ...words.durations import duration
from ..blocks import Answer, Block, Card, Column, Inline, Items, Line, Pair, Pairs, Span, Table, Tone
from ..common import DASH, measured
from ..notations import durations, sizes_per_s, unit_of
from ..short_commands import short_command
from ..units import plural, size

HOLDER = 60
"""Characters of the command that holds a port."""
SPEEDS = unit_of(((1.0, "Mbit/s"), (1000.0, "Gbit/s")))
STATES: dict[str, Tone] = {"free": "good", "open": "good", "refused": "plain"}


def view(result: Preflight) -> Iterator[Block]:
    words, tone = verdict(result.findings)
    if not result.findings and result.all_reduce is not None and result.all_reduce.problem:
        words, tone = text("the trial all_reduce failed"), "bad"
    processes = text(
        "{machines} x {processs}",
        machines=plural(result.nodes, "machine"),
        processs=plural(result.per_node, "process", "processes"),
        nodes=result.nodes,
        per_node=result.per_node,
    )
    yield Answer(words, [result.host, processes, result.backend, duration(result.taken_s)], tone)
    if result.hosts:
        columns = [Column("host"), Column("address", wrap=True), Column("through")]
        columns += [Column("handshake", right=True, notation=durations)]
        yield Table("Names and ways", columns, [_host(h) for h in result.hosts], 40, "hosts")
    if result.ports:
        columns = [Column("where they meet"), Column("is"), Column("held by", wrap=True)]
        yield Table("Port", columns, [_port(p) for p in result.ports], 20, "ports")
    if result.interfaces:
        columns = [
            Column("interface"),
            Column("state"),
            Column("addresses", wrap=True),
            Column("speed", right=True, spare=True, notation=SPEEDS),
        ]
        rows = [_interface(i, result) for i in result.interfaces]
        yield Table(f"Interfaces: {result.chosen_by}", [*columns, Column("used")], rows, 12, "interfaces")
    yield Pairs(list(_machine(result)))
    if result.all_reduce is not None:
        yield from _trial(result.all_reduce)
    if result.notes:
        yield Items(list(result.notes), Span("Note", "strong"))


def verdict(findings: Sequence[Finding]) -> tuple[str, Tone]:
    """Whether what was found speaks against a start."""
    against = sum(f.severity == "critical" for f in findings)
    doubts = sum(f.severity == "warning" for f in findings)
    if against:
        speak = "finding speaks" if against == 1 else "findings speak"
        return text("{against} {speak} against starting it", against=against, speak=speak), "bad"
    if doubts:
        return text(
            "nothing forbids starting it; {things} to look at before", things=plural(doubts, "thing"), doubts=doubts
        ), "warn"
    return text("nothing here speaks against starting it"), "good"


def _host(host: PreflightHost) -> list[Inline]:
    name: Inline = [Span(host.name, "strong"), " (this machine)"] if host.local else Span(host.name, "strong")
    where: Inline = ", ".join(host.addresses[:4]) if host.addresses else Span(host.problem or "does not resolve", "bad")
    return [name, where, measured(host.interface, str), measured(host.latency_s, duration)]


def _port(port: PreflightPort) -> list[Inline]:
    state: list[str | Span] = [
        Span(port.state, STATES.get(port.state, "bad")),
        f" ({port.detail})" if port.detail else "",
    ]
    holder: Inline = DASH if port.holder_pid is None else f"pid {port.holder_pid}: {short_command(port.holder, HOLDER)}"
    return [Span(f"{port.host}:{port.port}", "strong"), state, holder]


def _interface(interface: Interface, result: Preflight) -> list[Inline]:
    used = Span("yes", "good") if interface.name in result.chosen else DASH
    state = ("up" if interface.up else "down") + (", loopback" if interface.loopback else "")
    return [
        Span(interface.name, "strong"),
        state,
        ", ".join(interface.addresses) or DASH,
        _speed(interface.speed_mbit_per_s),
        used,
    ]


def _speed(mbit: Maybe[int]) -> Inline:
    if not isinstance(mbit, NotAvailable) and mbit <= 0:
        return "not said"
    return measured(mbit, lambda n: f"{n / 1000:g} Gbit/s" if n >= 1000 else f"{n} Mbit/s")


def _machine(result: Preflight) -> Iterator[Pair]:
    yield Pair("CPUs", [str(result.cpus)])
    yield Pair("GPUs", [measured(result.gpus, str)])
    free, all_of_it = result.shm_free_bytes, result.shm_bytes
    shm: Inline = measured(free, size)
    if not isinstance(free, NotAvailable) and not isinstance(all_of_it, NotAvailable):
        shm = f"{size(free)} of {size(all_of_it)} free"
    yield Pair("/dev/shm", [shm])
    limits = ", ".join(f"{name} {'no limit' if limit < 0 else f'{limit:,}'}" for name, limit in result.limits.items())
    yield Pair("limits", [limits] if limits else [])
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield Pair("versions", [versions] if versions else [DASH])


def _trial(trial: AllReduce) -> Iterator[Block]:
    if trial.problem:
        title: list[str | Span] = [Span("the trial all_reduce failed", "bad"), f": {trial.problem}"]
        yield Card(title, [Line(Span(line, "code")) for line in trial.last_lines], "bad", "✖")
    columns = [
        Column("bytes", right=True),
        Column("calls", right=True),
        Column("time", right=True, notation=durations),
        Column("bus bandwidth", right=True, notation=sizes_per_s),
    ]
    rows: list[list[Inline]] = [
        [
            measured(s.size_bytes, size),
            f"{s.calls:,}",
            measured(s.median_s, duration),
            measured(s.bus_bytes_per_s, lambda rate: f"{size(rate)}/s"),
        ]
        for s in trial.sizes
    ]
    if rows:
        caption = (
            f"all_reduce over {trial.backend} among {trial.processes} processes of this machine; every sum was right"
        )
        yield Table(caption, columns, rows, 20, "sizes")
    times: list[str | Span] = ["init_process_group ", measured(trial.init_s, duration)]
    yield Line([*times, " · from the start to the first result ", measured(trial.start_s, duration)])
