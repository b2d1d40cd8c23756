"""`Preflight`: whether anything speaks against a start; ways to the other machines, the port, interfaces, this machine, the trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import counted, later_counted, pgettext, text
from ...model import AllReduce, Finding, Interface, Maybe, NotAvailable, Preflight, PreflightHost, PreflightPort
from ...words.durations import duration
from ..blocks import Answer, Block, Card, Column, Inline, Items, Line, Pair, Pairs, Span, Table, Tone
from ..common import DASH, measured
from ..notations import durations, sizes_per_s, unit_of
from ..short_commands import short_command
from ..units import size

HOLDER = 60
"""Characters of the command that holds a port."""
SPEEDS = unit_of(((1.0, "Mbit/s"), (1000.0, "Gbit/s")))


def port_state(state: str) -> str:
    """Of a port, in words."""
    said = {
        "free": pgettext("a port", "free"),
        "taken": pgettext("a port", "taken"),
        "open": pgettext("a port", "open"),
        "refused": pgettext("a port", "refused"),
        "filtered": pgettext("a port", "filtered"),
        "unreachable": pgettext("a port", "unreachable"),
        "not permitted": pgettext("a port", "not permitted"),
        "unresolved": pgettext("a port", "unresolved"),
    }
    return said.get(state, state)


STATES: dict[str, Tone] = {"free": "good", "open": "good", "refused": "plain"}


def view(result: Preflight) -> Iterator[Block]:
    words, tone = verdict(result.findings)
    if not result.findings and result.all_reduce is not None and result.all_reduce.problem:
        words, tone = text("the trial all_reduce failed"), "bad"
    machines = counted("{n:,} machine", "{n:,} machines", result.nodes)
    processes = counted("{n:,} process", "{n:,} processes", result.per_node)
    each = text("{machines} x {processes}", machines=machines, processes=processes)
    yield Answer(words, [result.host, each, result.backend, duration(result.taken_s)], tone)
    if result.hosts:
        columns = [Column(text("host")), Column(text("address"), wrap=True), Column(text("through"))]
        columns += [Column(text("handshake"), right=True, notation=durations)]
        yield Table(text("Names and ways"), columns, [_host(h) for h in result.hosts], 40, pgettext("more", "hosts"))
    if result.ports:
        columns = [
            Column(text("where they meet")),
            Column(pgettext("a state", "is")),
            Column(text("held by"), wrap=True),
        ]
        yield Table(text("Port"), columns, [_port(p) for p in result.ports], 20, pgettext("more", "ports"))
    if result.interfaces:
        columns = [
            Column(text("interface")),
            Column(text("state")),
            Column(text("addresses"), wrap=True),
            Column(text("speed"), right=True, spare=True, notation=SPEEDS),
            Column(pgettext("an interface", "used")),
        ]
        rows = [_interface(i, result) for i in result.interfaces]
        caption = text("Interfaces: {chosen_by}", chosen_by=result.chosen_by)
        yield Table(caption, columns, rows, 12, pgettext("more", "interfaces"))
    yield Pairs(list(_machine(result)))
    if result.all_reduce is not None:
        yield from _trial(result.all_reduce)
    if result.notes:
        yield Items(list(result.notes), Span(text("Note"), "strong"))


def verdict(findings: Sequence[Finding]) -> tuple[str, Tone]:
    """Whether what was found speaks against a start."""
    against = sum(f.severity == "critical" for f in findings)
    doubts = sum(f.severity == "warning" for f in findings)
    if against:
        words = later_counted("{n} finding speaks against starting it", "{n} findings speak against starting it")
        return counted(*words, against), "bad"
    if doubts:
        words = later_counted(
            "nothing forbids starting it; {n:,} thing to look at before",
            "nothing forbids starting it; {n:,} things to look at before",
        )
        return counted(*words, doubts), "warn"
    return text("nothing here speaks against starting it"), "good"


def _host(host: PreflightHost) -> list[Inline]:
    name: Inline = [Span(host.name, "strong"), text(" (this machine)")] if host.local else Span(host.name, "strong")
    problem = Span(host.problem or text("does not resolve"), "bad")
    where: Inline = ", ".join(host.addresses[:4]) if host.addresses else problem
    return [name, where, measured(host.interface, str), measured(host.latency_s, duration)]


def _port(port: PreflightPort) -> list[Inline]:
    state: list[str | Span] = [
        Span(port_state(port.state), STATES.get(port.state, "bad")),
        f" ({port.detail})" if port.detail else "",
    ]
    holder: Inline = DASH
    if port.holder_pid is not None:
        command = short_command(port.holder, HOLDER)
        holder = text("pid {pid}: {command}", pid=port.holder_pid, command=command)
    return [Span(f"{port.host}:{port.port}", "strong"), state, holder]


def _interface(interface: Interface, result: Preflight) -> list[Inline]:
    used = Span(text("yes"), "good") if interface.name in result.chosen else DASH
    state = pgettext("an interface", "up") if interface.up else pgettext("an interface", "down")
    state += text(", loopback") if interface.loopback else ""
    return [
        Span(interface.name, "strong"),
        state,
        ", ".join(interface.addresses) or DASH,
        _speed(interface.speed_mbit_per_s),
        used,
    ]


def _speed(mbit: Maybe[int]) -> Inline:
    if not isinstance(mbit, NotAvailable) and mbit <= 0:
        return text("not said")
    return measured(mbit, lambda n: f"{n / 1000:g} Gbit/s" if n >= 1000 else f"{n} Mbit/s")


def _machine(result: Preflight) -> Iterator[Pair]:
    yield Pair(text("CPUs"), [str(result.cpus)])
    yield Pair(text("GPUs"), [measured(result.gpus, str)])
    free, all_of_it = result.shm_free_bytes, result.shm_bytes
    shm: Inline = measured(free, size)
    if not isinstance(free, NotAvailable) and not isinstance(all_of_it, NotAvailable):
        shm = text("{free} of {total} free", free=size(free), total=size(all_of_it))
    yield Pair("/dev/shm", [shm])
    no_limit = text("no limit")
    limits = ", ".join(f"{name} {no_limit if limit < 0 else f'{limit:,}'}" for name, limit in result.limits.items())
    yield Pair(text("limits"), [limits] if limits else [])
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield Pair(text("versions"), [versions] if versions else [DASH])


def _trial(trial: AllReduce) -> Iterator[Block]:
    if trial.problem:
        title: list[str | Span] = [Span(text("the trial all_reduce failed"), "bad"), text(": "), trial.problem]
        yield Card(title, [Line(Span(line, "code")) for line in trial.last_lines], "bad", "✖")
    columns = [
        Column(text("bytes"), right=True),
        Column(text("calls"), right=True),
        Column(pgettext("of a call", "time"), right=True, notation=durations),
        Column(text("bus bandwidth"), right=True, notation=sizes_per_s),
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
        caption = text(
            "all_reduce over {backend} among {processes} processes of this machine; every sum was right",
            backend=trial.backend,
            processes=trial.processes,
        )
        yield Table(caption, columns, rows, 20, pgettext("more", "sizes"))
    times: list[str | Span] = ["init_process_group ", measured(trial.init_s, duration)]
    yield Line([*times, text(" · from the start to the first result "), measured(trial.start_s, duration)])
