"""`GpuReport`: how full and how busy the GPUs are and what ails them; one row per device; its processes, ours named by rank.

Findings come before it, as cards (`render.document`): what they say is not said again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

from ...language import counted, later, later_counted, pgettext, text
from ...language import named as said
from ...model import Device, DeviceProcess, GpuReport, NotAvailable
from ...words.durations import duration
from ...words.ranks import rank_list
from ..blocks import Answer, Block, Card, Column, Inline, Items, Line, Notation, Span, Table, spans
from ..common import DASH, measured
from ..findings import tone
from ..grouping import group_by
from ..notations import sizes
from ..units import percent, size

IDENTITY = ("index", "uuid", "cuda_index", "mig_parent", "fault", "xids", "host")
"""Fields of a device that are no measurements."""
FAULTS = {"lost": later("lost"), "reset required": later("reset required")}
SLOWDOWNS = {
    "hardware slowdown": later("hardware slowdown"),
    "software thermal slowdown": later("software thermal slowdown"),
    "hardware thermal slowdown": later("hardware thermal slowdown"),
    "hardware power brake": later("hardware power brake"),
    "power cap": later("power cap"),
    "board limit": later("board limit"),
    "reliability limit": later("reliability limit"),
}
MANY = 16
"""So many devices, and so many processes, are shown without unfolding."""
RECENT_S = 3600.0
"""An Xid that is older is history, for the rules as well."""


def view(result: GpuReport) -> Iterator[Block]:
    lit = [d for d in result.devices if not _dark(d)]
    yield _answer(result, lit)
    told = {line for finding in result.findings for line in finding.evidence}
    hangs = any(finding.code == "gpu_driver_hang" for finding in result.findings)
    if result.problem and result.problem != result.failure and not hangs:
        yield Card([Span(result.problem, "warn")], list(_stuck(result)), "warn", "▲")
    for same in group_by((d for d in result.devices if _dark(d)), _dark) if lit else ():
        named = pgettext("list", ", ").join(f"GPU {_name(d)}" for d in same)
        who = named if len(same) <= 2 else counted("{n} GPU", "{n} GPUs", len(same))
        yield Line([Span(who, "strong"), text(": nothing could be read ({reason})", reason=_dark(same[0]))])
    if lit:
        yield _devices(lit)
        yield from _processes(result, lit)
    notes = [note for note in result.notes if note not in told]
    if notes:
        yield Items(notes)


# --- the answer -----------------------------------------------------------------------------------------------------


def _answer(result: GpuReport, lit: Sequence[Device]) -> Answer:
    about = []
    if not isinstance(result.driver, NotAvailable):
        about.append(text("driver {version}", version=result.driver))
    if not isinstance(result.cuda_driver, NotAvailable):
        about.append(f"CUDA {result.cuda_driver}")
    about.append(duration(result.taken_s))
    if not lit:
        return Answer(_unread(result), about, "bad" if result.devices or result.problem else "warn")
    ails = _ailments(lit)
    if len(lit) < len(result.devices) or result.problem:
        ails.append(text("not all could be read"))
    words = text(", ").join([_count(result.devices), *filter(None, (_taken(lit), _busy(lit)))])
    worst = tone(result.findings)
    if worst not in ("bad", "warn"):
        worst = "warn" if ails else "info" if result.findings else "plain"
    return Answer(text("; ").join([words, *ails]), about, worst)


def _unread(result: GpuReport) -> str:
    """The reason only where no card has it."""
    n = len(result.devices)
    if not n:
        why = text("no GPU could be read")
        return why if result.problem else text("no GPU is seen")
    words = text("the GPU could not be read", n=n) if n == 1 else text("none of {n} GPUs could be read", n=n)
    reasons = dict.fromkeys(map(_dark, result.devices))
    return words if result.problem else text("{words}: {reasons}", words=words, reasons=text(", ").join(reasons))


def _count(devices: Sequence[Device]) -> str:
    gpus = len({(d.host, d.index if d.mig_parent is None else d.mig_parent) for d in devices})
    parts = sum(d.mig_parent is not None for d in devices)
    words = counted("{n} GPU", "{n} GPUs", gpus)
    return words + (counted(" in {n:,} MIG instance", " in {n:,} MIG instances", parts) if parts else "")


def _taken(devices: Sequence[Device]) -> str:
    """``61 to 78 of 80 GiB taken``; of GPUs that differ, in percent. A GPU in instances is counted by them."""
    divided = {(d.host, d.mig_parent) for d in devices}
    known = [
        (d.memory_used_bytes, d.memory_total_bytes)
        for d in devices
        if not isinstance(d.memory_used_bytes, NotAvailable)
        and not isinstance(d.memory_total_bytes, NotAvailable)
        and d.memory_total_bytes
        and not (d.mig_parent is None and (d.host, d.index) in divided)
    ]
    if not known:
        return ""
    totals = {size(total) for _, total in known}
    if len(totals) == 1:
        (total,) = totals
        taken = _range([used for used, _ in known], size).removesuffix(f" {total.rpartition(' ')[2]}")
        return text("{taken} of {total} taken", taken=taken, total=total)
    shares = _range([used / total for used, total in known], percent)
    return text("{shares} of memory taken", shares=shares)


def _busy(devices: Sequence[Device]) -> str:
    known = [d.utilization_percent for d in devices if not isinstance(d.utilization_percent, NotAvailable)]
    busy = _range(known, lambda p: f"{p:g} %") if known else ""
    return text("{busy} busy", busy=busy) if busy else ""


def _range(values: Sequence[float], show: Callable[[float], str]) -> str:
    """``61 to 78 GiB``."""
    low, high = show(min(values)), show(max(values))
    if low == high:
        return low
    low = low.removesuffix(f" {high.rpartition(' ')[2]}")
    return text("{low} to {high}", low=low, high=high)


def _ailments(devices: Sequence[Device]) -> list[str]:
    """What a GPU does not get over by itself, and what slows it down, worst first; at most two."""
    newest = {id(d): d.xids[0].code for d in devices if d.xids and d.xids[0].age_s <= RECENT_S}
    sick = [
        ([d for d in devices if d.fault == "lost"], later_counted("{who} is lost", "{who} are lost"), 0),
        (
            [d for d in devices if d.fault == "reset required"],
            later_counted("{who} must be reset", "{who} must be reset"),
            0,
        ),
        (
            [d for d in devices if not isinstance(d.ecc_uncorrected, NotAvailable) and d.ecc_uncorrected > 0],
            later_counted("{who} has uncorrected memory errors", "{who} have uncorrected memory errors"),
            0,
        ),
        *(
            (
                [d for d in devices if newest.get(id(d)) == code],
                later_counted("{who} reports Xid {code}", "{who} report Xid {code}"),
                code,
            )
            for code in dict.fromkeys(newest.values())
        ),
        (
            [d for d in devices if _slowed(d)],
            later_counted("{who} is slowed down by its hardware", "{who} are slowed down by their hardware"),
            0,
        ),
    ]
    return [counted(*words, len(d), who=_named(d), code=code) for d, words, code in sick if d][:2]


def _slowed(d: Device) -> bool:
    """By heat, by the power supply or by the hardware itself; not by a power cap, at which a busy GPU runs."""
    reasons = () if isinstance(d.throttle_reasons, NotAvailable) else d.throttle_reasons
    return any(word in reason for reason in reasons for word in ("thermal", "power brake", "hardware slowdown"))


def _named(devices: Sequence[Device]) -> str:
    if len(devices) == 1 or any(d.host for d in devices):
        return pgettext("list", ", ").join(f"GPU {_number(d)}" for d in devices)
    numbers = rank_list([d.index if d.mig_parent is None else d.mig_parent for d in devices])
    return text("GPUs {numbers}", numbers=numbers)


# --- the rest -------------------------------------------------------------------------------------------------------


def _stuck(result: GpuReport) -> Iterator[Block]:
    if result.hung_call:
        yield Line([text("the call that got no answer: "), Span(result.hung_call, "code")])
    if result.stuck_pids:
        pids = ", ".join(map(str, result.stuck_pids))
        yield Line([text("in uninterruptible sleep (state D): pid "), Span(pids, "strong")])


def _dark(d: Device) -> str:
    """The reason where not one measurement of `d` exists, else empty."""
    measurements = [getattr(d, f.name) for f in fields(d) if f.name not in IDENTITY]
    reasons = {m.reason if isinstance(m, NotAvailable) else "" for m in measurements}
    return reasons.pop() if len(reasons) == 1 else ""


def _devices(devices: Sequence[Device]) -> Table:
    names = {str(d.name) for d in devices}
    alike = len(names) == 1 and not isinstance(devices[0].name, NotAvailable)
    columns = [Column("GPU"), *([] if alike else [Column(text("name"), wrap=True)]), _memory_column()]
    columns += [
        Column(text("busy"), right=True),
        Column(text("power"), right=True, spare=True),
        Column("°C", right=True, spare=True),
    ]
    columns += [Column(text("slowed down by"), wrap=True), Column(text("ECC errors"), wrap=True)]
    columns += [Column("Xid", right=True)]
    caption = f"{len(devices)} x {devices[0].name}" if alike else text("Devices")
    rows = [_row(d, named=not alike) for d in devices]
    if len(rows) > MANY:
        rows.sort(key=lambda row: not any(span.tone in ("bad", "warn") for cell in row for span in spans(cell)))
        caption = text("{devices}, those that stand out first", devices=caption)
    return Table(caption, columns, rows, MANY, pgettext("more", "devices"))


def _memory_column(notation: Notation | None = None) -> Column:
    return Column(pgettext("of a GPU", "memory"), right=True, notation=notation)


def _row(d: Device, *, named: bool) -> list[Inline]:
    return [
        [Span(_name(d), "strong"), *([Span(f" {said(FAULTS, d.fault)}", "bad")] if d.fault else [])],
        *([measured(d.name, str)] if named else []),
        _memory(d),
        measured(d.utilization_percent, lambda p: f"{p} %"),
        _power(d),
        measured(d.temperature_c, str),
        _throttled(d),
        _ecc(d),
        _xid(d),
    ]


def _number(d: Device) -> str:
    """``0``, ``0 MIG 1``, ``node1:0``."""
    number = str(d.index) if d.mig_parent is None else f"{d.mig_parent} MIG {d.index}"
    return f"{d.host}:{number}" if d.host else number


def _name(d: Device) -> str:
    name = _number(d)
    return name if d.cuda_index is None else f"{name} (cuda:{d.cuda_index})"


def _memory(d: Device) -> Inline:
    used, total = d.memory_used_bytes, d.memory_total_bytes
    if isinstance(used, NotAvailable) or isinstance(total, NotAvailable):
        return measured(used, size)
    share = f" ({percent(used / total)})" if total else ""
    return Span(text("{used} of {total}", used=size(used), total=size(total)) + share, value=used)


def _power(d: Device) -> Inline:
    if isinstance(d.power_w, NotAvailable):
        return measured(d.power_w, str)
    power = f"{d.power_w:.0f}"
    if not isinstance(d.power_limit_w, NotAvailable):
        power = text("{used} of {total}", used=power, total=f"{d.power_limit_w:.0f}")
    return Span(f"{power} W", value=d.power_w)


def _throttled(d: Device) -> Inline:
    if isinstance(d.throttle_reasons, NotAvailable):
        return measured(d.throttle_reasons, str)
    told = pgettext("list", ", ").join(said(SLOWDOWNS, reason) for reason in d.throttle_reasons)
    return Span(told, "warn") if told else text("nothing")


def _ecc(d: Device) -> Inline:
    """Uncorrected ones are the news; corrected ones are added where there are any."""
    if isinstance(d.ecc_uncorrected, NotAvailable):
        return measured(d.ecc_uncorrected, str)
    shown = Span(text("{n} uncorrected", n=d.ecc_uncorrected), "bad") if d.ecc_uncorrected else Span("0")
    corrected = 0 if isinstance(d.ecc_corrected, NotAvailable) else d.ecc_corrected
    return [shown, text(", {n} corrected", n=corrected)] if corrected else shown


def _xid(d: Device) -> Inline:
    if isinstance(d.xid_errors, NotAvailable):
        return measured(d.xid_errors, str)
    if not d.xid_errors:
        return "0"
    return Span(str(d.xid_errors), "bad")


def _processes(result: GpuReport, devices: Sequence[Device]) -> Iterator[Block]:
    """Those that no finding has listed."""
    told = {one.id for finding in result.findings if finding.code == "gpu_shared" for one in finding.who}
    found: list[tuple[Device, DeviceProcess]] = []
    for d in devices:
        if not isinstance(d.processes, NotAvailable):
            found += [(d, process) for process in d.processes if process.pid not in told]
    if found:
        found.sort(key=lambda f: (f[1].ours is None, f[1].ours or 0))
        columns = [
            Column("pid"),
            Column(text("whose")),
            Column("GPU"),
            Column(text("name"), wrap=True),
            _memory_column(sizes),
        ]
        rows = [_process(d, p) for d, p in found]
        caption = text("Our processes on a GPU") if told else text("Processes with memory on a GPU")
        yield Table(caption, columns, rows, MANY, pgettext("more", "processes"))
    unknown = [d for d in devices if isinstance(d.processes, NotAvailable)]
    for reason in dict.fromkeys(d.processes.reason for d in unknown if isinstance(d.processes, NotAvailable)):
        yield Line([Span(pgettext("heading", "processes"), "muted"), text(": not available ({reason})", reason=reason)])


def _process(d: Device, process: DeviceProcess) -> list[Inline]:
    return [
        Span(str(process.pid), "strong"),
        DASH if process.ours is None else Span(text("rank {rank} (ours)", rank=process.ours), "good"),
        _name(d),
        measured(process.name, str),
        measured(process.memory_bytes, size),
    ]
