"""`GpuReport`: one row per device, its processes with ours named by rank; what is wrong with the driver comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from ...model import Device, DeviceProcess, GpuReport, NotAvailable
from ..blocks import Block, Card, Column, Inline, Items, Line, Span, Table
from ..common import DASH, measured
from ..grouping import group_by
from ..units import age, duration, percent, plural, size

IDENTITY = ("index", "uuid", "cuda_index", "mig_parent", "fault", "xids")
"""Fields of a device that are no measurements."""


def view(result: GpuReport) -> Iterator[Block]:
    yield Line(_title(result), title=True)
    if result.problem and result.problem != result.failure:
        yield Card(
            [Span("the GPUs could not be read in full", "warn")], [Line(result.problem), *_stuck(result)], "warn", "▲"
        )
    for same in group_by((d for d in result.devices if _dark(d)), _dark):
        who = ", ".join(f"GPU {_name(d)}" for d in same) if len(same) <= 2 else f"{len(same)} GPUs"
        yield Line([Span(who, "strong"), f": nothing could be read ({_dark(same[0])})"])
    lit = [d for d in result.devices if not _dark(d)]
    if lit:
        yield _devices(lit)
        yield from _xids(lit)
        yield from _processes(lit)
    if result.notes:
        yield Items(list(result.notes))


def _title(result: GpuReport) -> list[str | Span]:
    words: list[str | Span] = [plural(len(result.devices), "GPU") if result.devices else "no GPU is seen"]
    for name, version in (("driver", result.driver), ("CUDA", result.cuda_driver)):
        if not isinstance(version, NotAvailable):
            words.append(f" · {name} {version}")
    return [*words, f" · {duration(result.taken_s)}"]


def _stuck(result: GpuReport) -> Iterator[Block]:
    if result.hung_call:
        yield Line(["the call that got no answer: ", Span(result.hung_call, "code")])
    if result.stuck_pids:
        yield Line(["in uninterruptible sleep (state D): pid ", Span(", ".join(map(str, result.stuck_pids)), "strong")])


def _dark(d: Device) -> str:
    """The reason where not one measurement of `d` exists, else empty."""
    measurements = [getattr(d, f.name) for f in fields(d) if f.name not in IDENTITY]
    reasons = {m.reason if isinstance(m, NotAvailable) else "" for m in measurements}
    return reasons.pop() if len(reasons) == 1 else ""


def _devices(devices: Sequence[Device]) -> Table:
    names = {str(d.name) for d in devices}
    alike = len(names) == 1 and not isinstance(devices[0].name, NotAvailable)
    columns = [Column("GPU"), *([] if alike else [Column("name", wrap=True)]), Column("memory", right=True)]
    columns += [Column("busy", right=True), Column("power", right=True), Column("°C", right=True)]
    columns += [Column("slowed down by", wrap=True), Column("ECC errors", wrap=True), Column("Xid", right=True)]
    caption = f"{len(devices)} x {devices[0].name}" if alike else "Devices"
    return Table(caption, columns, [_row(d, named=not alike) for d in devices], 64, "devices")


def _row(d: Device, *, named: bool) -> list[Inline]:
    return [
        [Span(_name(d), "strong"), *([Span(f" {d.fault}", "bad")] if d.fault else [])],
        *([measured(d.name, str)] if named else []),
        _memory(d),
        measured(d.utilization_percent, lambda p: f"{p} %"),
        _power(d),
        measured(d.temperature_c, str),
        _throttled(d),
        _ecc(d),
        _xid(d),
    ]


def _name(d: Device) -> str:
    name = str(d.index) if d.mig_parent is None else f"{d.mig_parent} MIG {d.index}"
    return name if d.cuda_index is None else f"{name} (cuda:{d.cuda_index})"


def _memory(d: Device) -> Inline:
    used, total = d.memory_used_bytes, d.memory_total_bytes
    if isinstance(used, NotAvailable) or isinstance(total, NotAvailable):
        return measured(used, size)
    share = f" ({percent(used / total)})" if total else ""
    return f"{size(used)} of {size(total)}{share}"


def _power(d: Device) -> Inline:
    if isinstance(d.power_w, NotAvailable):
        return measured(d.power_w, str)
    limit = "" if isinstance(d.power_limit_w, NotAvailable) else f" of {d.power_limit_w:.0f}"
    return f"{d.power_w:.0f}{limit} W"


def _throttled(d: Device) -> Inline:
    if isinstance(d.throttle_reasons, NotAvailable):
        return measured(d.throttle_reasons, str)
    return Span(", ".join(d.throttle_reasons), "warn") if d.throttle_reasons else "nothing"


def _ecc(d: Device) -> Inline:
    """Uncorrected ones are the news; corrected ones are added where there are any."""
    if isinstance(d.ecc_uncorrected, NotAvailable):
        return measured(d.ecc_uncorrected, str)
    shown = Span(f"{d.ecc_uncorrected} uncorrected", "bad") if d.ecc_uncorrected else Span("0")
    corrected = 0 if isinstance(d.ecc_corrected, NotAvailable) else d.ecc_corrected
    return [shown, f", {corrected} corrected"] if corrected else shown


def _xid(d: Device) -> Inline:
    if isinstance(d.xid_errors, NotAvailable):
        return measured(d.xid_errors, str)
    if not d.xid_errors:
        return "0"
    return Span(str(d.xid_errors), "bad")


def _xids(devices: Sequence[Device]) -> Iterator[Block]:
    """What the driver wrote to the kernel log, the newest of each device."""
    items: list[Inline] = []
    for d in devices:
        blamed = [f"{x.code}, {age(x.age_s)} ago" + (f", pid {x.pid}" if x.pid is not None else "") for x in d.xids[:3]]
        if blamed:
            items.append([Span(f"GPU {_name(d)}", "strong"), f": Xid {'; '.join(blamed)}"])
    if items:
        yield Items(items, "Latest errors in the kernel log (Xid)")


def _processes(devices: Sequence[Device]) -> Iterator[Block]:
    found: list[tuple[Device, DeviceProcess]] = []
    for d in devices:
        if not isinstance(d.processes, NotAvailable):
            found += [(d, process) for process in d.processes]
    if found:
        found.sort(key=lambda f: (f[1].ours is None, f[1].ours or 0))
        columns = [
            Column("pid"),
            Column("whose"),
            Column("GPU"),
            Column("name", wrap=True),
            Column("memory", right=True),
        ]
        rows = [_process(d, p) for d, p in found]
        yield Table("Processes with memory on a GPU", columns, rows, 24, "processes")
    unknown = [d for d in devices if isinstance(d.processes, NotAvailable)]
    for reason in dict.fromkeys(d.processes.reason for d in unknown if isinstance(d.processes, NotAvailable)):
        yield Line([Span("processes", "muted"), f": not available ({reason})"])


def _process(d: Device, process: DeviceProcess) -> list[Inline]:
    return [
        Span(str(process.pid), "strong"),
        DASH if process.ours is None else Span(f"rank {process.ours} (ours)", "good"),
        _name(d),
        measured(process.name, str),
        measured(process.memory_bytes, size),
    ]
