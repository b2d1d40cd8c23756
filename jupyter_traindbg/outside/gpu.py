"""What the NVIDIA driver says about this machine's GPUs, asked so that a sick driver hangs nobody.

A call into a sick driver may sleep uninterruptibly, for ever: no timeout, signal or thread helps. So NVML is called by
a helper process (`nvml_helper`), which streams each fact as it has it. Where it falls silent, we keep what came, name
the call it sits in, kill it, and do not wait for its death, which may never come. No thread or exit hook stays behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jupyter_traindbg.language import later, text
from jupyter_traindbg.model import NA, Device, DeviceProcess, GpuReport, NotAvailable, Problem, Xid, available
from jupyter_traindbg.verbose import milliseconds

from .cuda_order import cuda_indices

__all__ = ["report"]

log = logging.getLogger(__name__)

HELPER = str(Path(__file__).with_name("nvml_helper.py").resolve())
KERNEL_LOG = "/dev/kmsg"
QUIET_S = 2.0
KILL_S = 0.25
XIDS_KEPT = 20

NOT_SUPPORTED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, NO_PERMISSION, VERSION_MISMATCH = 3, 9, 12, 4, 18
FAULTS: dict[int, Literal["lost", "reset required"]] = {15: "lost", 16: "reset required"}

START_PROBLEMS = {
    LIBRARY_NOT_FOUND: (
        later("no NVIDIA driver library (libnvidia-ml.so.1) on this machine"),
        later("if it should have GPUs, install the driver, or start the container with `--gpus all`"),
    ),
    DRIVER_NOT_LOADED: (
        later("the NVIDIA library is here but the kernel driver is not loaded"),
        later("`sudo modprobe nvidia`, and `sudo dmesg | grep NVRM` says why where that fails"),
    ),
    VERSION_MISMATCH: (
        later(
            "the NVIDIA library and the loaded kernel driver are of different versions (the driver was updated under a running "
            "system), so no new process can use the GPUs"
        ),
        later(
            "reboot, or stop all GPU processes and reload the driver "
            "(`sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`)"
        ),
    ),
    NO_PERMISSION: (
        later("the NVIDIA driver refuses this user"),
        later("check who may open it (`ls -l /dev/nvidia*`)"),
    ),
}
SICK = later("see `sudo dmesg | grep -E 'NVRM|Xid'`; where it stays so, only a GPU reset or a reboot helps")

SLOWDOWNS = {
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x200: "board limit",
    0x400: "reliability limit",
}
"""NVML's clock event bits that mean "slower than asked"; idle, user-set, synchronised and display clocks do not."""

START = later("its start")
MIG_FIELDS = ("uuid", "name", "memory", "compute_processes", "graphics_processes")


def report(
    deadline_s: float = 10.0,
    *,
    visible: str | None = None,
    device_order: str | None = None,
    ours: Mapping[int, int] | None = None,
) -> GpuReport:
    """Ask NVML about every GPU and MIG instance. Never raises for what is missing: see ``problem`` and the fields.

    `visible` and `device_order` are the job's CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (None: not set there); `ours`
    maps the pids of attached processes to their ranks. The driver is given up on after 2 s of silence (a fifth of
    `deadline_s` where that is longer, half of one under 4 s), and the whole call after `deadline_s`. Cost: one
    short-lived process, some 35 ms plus the driver's own time.
    """
    started = time.monotonic()
    reading = _Reading()
    stuck = _still_stuck()
    if stuck is None:
        _read(reading, started, deadline_s)
    else:
        reading.hung_call, reading.problem = stuck.call, stuck.problem()
    log.debug("NVML: %s, after %s", reading.problem or "answered", milliseconds(started))
    devices = _devices(reading, ours or {})
    notes = _xid_notes(reading)
    if devices and reading.problem is None:
        indices, why_not = cuda_indices(devices, visible, device_order)
        devices = [dataclasses.replace(device, cuda_index=indices.get(i)) for i, device in enumerate(devices)]
        notes += [*why_not, *_pid_notes(devices, ours or {})]
    return GpuReport(
        devices=devices,
        driver=reading.get("", "driver"),
        cuda_driver=_cuda_version(reading.get("", "cuda")),
        problem=reading.problem,
        stuck_pids=_uninterruptible() if reading.hung_call else (),
        taken_s=time.monotonic() - started,
        hung_call=reading.hung_call,
        notes=notes,
    )


# --- the helper process --------------------------------------------------------------------------------------------


class _Helper(subprocess.Popen[bytes]):
    """A child that may be unkillable, of which Popen's destructor would complain."""

    call = ""
    since = 0.0

    def __del__(self) -> None:
        """Nothing: `_left` has the reaping."""

    def problem(self) -> Problem:
        return Problem(
            text(
                "the NVIDIA driver does not answer: a helper (pid {pid}) has been stuck in {call} for {for_s:.0f} s and cannot be "
                "killed, so no other was started",
                pid=self.pid,
                call=self.call,
                for_s=time.monotonic() - self.since,
            ),
            text(SICK),
        )


_left: list[_Helper] = []
"""Helpers that outlived their SIGKILL. One is enough: as long as it lives, the driver is not asked again."""


@dataclass
class _Reading:
    """What has come from the helper. A device is ``"0"``, its MIG instance 1 ``"0/1"``, the system ``""``."""

    facts: dict[tuple[str, str], Any] = field(default_factory=dict)
    refused: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    call: str | None = None
    ended: bool = False
    crash: str | None = None
    problem: Problem | None = None
    hung_call: str | None = None

    def take(self, line: bytes) -> None:
        """One line of the helper's (the protocol is in `nvml_helper`)."""
        kind, *words = json.loads(line)
        if kind == "call":
            self.call = text("{call} on GPU {gpu}", call=words[0], gpu=words[1]) if words[1] else words[0]
        elif kind == "is":
            self.facts[words[0], words[1]] = words[2]
        elif kind == "not":
            self.refused[words[0], words[1]] = (words[2], words[3])
        elif kind == "crash":
            self.crash = words[0]
        else:
            self.ended = True

    def fault(self, device: str) -> Literal["lost", "reset required"] | None:
        codes = [code for (key, _), (_, code) in self.refused.items() if key == device]
        return next((FAULTS[code] for code in codes if code in FAULTS), None)

    def get(self, device: str, name: str) -> Any:
        """The fact, or a `NotAvailable` with the best reason there is."""
        if (device, name) in self.facts:
            return self.facts[device, name]
        if (device, name) in self.refused:
            reason, code = self.refused[device, name]
            mig = code == NOT_SUPPORTED and (device, "mig") in self.facts
            return NA(text("NVML does not give it while MIG is on") if mig else f"NVML: {reason}")
        if fault := self.fault(device):
            return NA(text("the GPU is lost") if fault == "lost" else text("the GPU must be reset"))
        if "/" in device and name not in MIG_FIELDS:
            return NA(text("NVML does not give it for a MIG instance"))
        cause = self.problem.cause if self.problem is not None else text("NVML did not say")
        return NA(text("not read: {why}", why=cause))


def _read(reading: _Reading, started: float, deadline_s: float) -> None:
    """Run the helper, and leave in `reading` what it said and what went wrong."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        reading.problem = Problem(
            text("the Python package nvidia-ml-py is not installed here"), "`pip install nvidia-ml-py`"
        )
        return
    site_directory = os.path.dirname(
        spec.origin if spec.submodule_search_locations is None else os.path.dirname(spec.origin)
    )
    life_s = f"{deadline_s + 2:.1f}"
    try:
        helper = _Helper(
            # -I -S: the job's environment and everybody's .pth files stay out, and starting is twice as quick
            [sys.executable, "-I", "-S", HELPER, site_directory, KERNEL_LOG, life_s],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the notebook is not for it
        )
    except OSError as error:
        reading.problem = Problem(
            text("no helper process could be started: {why}", why=error),
            text("check {python!r} and the process limit (`ulimit -u`)", python=sys.executable),
        )
        return
    quiet_s = min(max(QUIET_S, deadline_s / 5), deadline_s / 2)
    try:
        silent = _listen(helper, reading, started + deadline_s, quiet_s)
        state = _state(helper.pid)
        if silent is None and not reading.ended:
            _reap(helper, KILL_S)  # it is ending by itself: let it leave its exit status
    finally:
        _dispose(helper, reading)
    _judge(helper, reading, silent, quiet_s, state)


def _listen(helper: _Helper, reading: _Reading, deadline: float, quiet_s: float) -> float | None:
    """Take lines until the end (None), or until silence or `deadline` (for how long it had been silent)."""
    assert helper.stdout is not None
    fd = helper.stdout.fileno()
    poller = select.poll()  # not select(): a notebook can have more than 1024 files open
    poller.register(fd, select.POLLIN)
    heard = time.monotonic()
    patience = heard + quiet_s
    rest = b""
    while not reading.ended:
        now = time.monotonic()
        if now >= deadline:
            return now - heard
        if now >= patience:
            if _state(helper.pid) != "R":
                return now - heard
            patience = now + quiet_s / 8  # it is at work, or the machine is too busy to run it
        if not poller.poll(1000 * max(min(deadline, patience) - now, 0.001)):
            continue
        chunk = os.read(fd, 65536)
        if not chunk:
            return None
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            reading.take(line)
        heard = time.monotonic()
        patience = heard + quiet_s
    return None


def _judge(helper: _Helper, reading: _Reading, silent_s: float | None, quiet_s: float, state: str | None) -> None:
    """Put what went wrong, if anything, into words."""
    if reading.ended:
        reading.problem = _refusal(reading)
    elif silent_s is None:
        status = helper.returncode
        ending = (
            signal.strsignal(-status)
            if status is not None and status < 0
            else text("exit status {status}", status=status)
        )
        where = reading.call or text(START)
        reading.problem = Problem(
            text("the NVML helper failed in {where} ({how})", where=where, how=reading.crash or ending),
            text("see whether `nvidia-smi` works"),
        )
    elif reading.call is None:
        reading.problem = Problem(
            text("the NVML helper did not start in {silent_s:.1f} s", silent_s=silent_s),
            text("try a longer --timeout, this machine is busy"),
        )
    elif silent_s >= quiet_s:
        reading.hung_call = reading.call
        silent = later("the NVIDIA driver does not answer: no reply to {call} in {silent_s:.1f} s")
        if state == "D":
            silent = later(
                "the NVIDIA driver does not answer: no reply to {call} in {silent_s:.1f} s (the asking process is in uninterruptible "
                "sleep)"
            )
        reading.problem = Problem(text(silent, call=reading.call, silent_s=silent_s), text(SICK))
    else:
        slow = text("the NVIDIA driver is slow: time was up in {call}", call=reading.call)
        reading.problem = Problem(slow, text("try a longer --timeout"))


def _refusal(reading: _Reading) -> Problem | None:
    """Why a helper that came to its end has no devices; None where it has."""
    if ("", "init") in reading.refused:
        reason, code = reading.refused["", "init"]
        if code in START_PROBLEMS:
            return Problem(*map(text, START_PROBLEMS[code]))
        cause = text("NVML could not start: {reason} (error {code})", reason=reason, code=code)
        return Problem(cause, text("run `nvidia-smi`, and {then}", then=text(SICK)))
    if ("", "count") in reading.refused:
        why = reading.refused["", "count"][0]
        return Problem(text("NVML could not count the GPUs: {why}", why=why), text("run `nvidia-smi`"))
    if not reading.facts["", "count"]:
        return Problem(
            text("the NVIDIA driver works but shows no GPU here"),
            text("a container needs `--gpus all`, a host: `lspci`"),
        )
    return None


def _dispose(helper: _Helper, reading: _Reading) -> None:
    """Kill the helper and reap it if it dies at once; else it goes to `_left`. Never waits longer than `KILL_S`."""
    assert helper.stdout is not None
    helper.stdout.close()
    helper.call = text("its end (closing the driver)") if reading.ended else reading.call or text(START)
    helper.since = time.monotonic()
    _left.append(helper)  # before the wait: an interrupt of it must not lose the child
    if helper.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(helper.pid, signal.SIGKILL)
    if _reap(helper, KILL_S):
        _left.remove(helper)


def _reap(helper: _Helper, within_s: float) -> bool:
    """True once the helper is dead and reaped."""
    deadline = time.monotonic() + within_s
    while helper.poll() is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _still_stuck() -> _Helper | None:
    """A helper of an earlier call that still cannot die; those that could meanwhile are reaped."""
    _left[:] = [helper for helper in _left if helper.poll() is None]
    return _left[0] if _left else None


def _state(pid: int) -> str | None:
    """The state letter of a process (``"R"``, ``"S"``, ``"D"`` ...), None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return chr(f.read().rpartition(b") ")[2][0])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _uninterruptible() -> list[int]:
    from jupyter_traindbg.outside import procfs

    helpers = {helper.pid for helper in _left}
    return [pid for pid in procfs.uninterruptible() if pid not in helpers]


# --- facts to devices ----------------------------------------------------------------------------------------------


def _devices(reading: _Reading, ours: Mapping[int, int]) -> list[Device]:
    """Every GPU that NVML counted, whatever could be read of it, each followed by its MIG instances."""
    keys = {str(i) for i in range(reading.facts.get(("", "count"), 0))}
    keys |= {key for key, _ in (*reading.facts, *reading.refused) if key}
    return [_device(reading, key, ours) for key in sorted(keys, key=lambda key: [int(part) for part in key.split("/")])]


def _device(reading: _Reading, key: str, ours: Mapping[int, int]) -> Device:
    gpu, _, instance = key.partition("/")
    used, total = _pair(reading.get(key, "memory"))
    utilization, memory_utilization = _pair(reading.get(key, "utilization"))
    uuid = reading.get(key, "uuid")
    count, xids = _xids(reading, gpu)
    return Device(
        index=int(instance or gpu),
        uuid=uuid if available(uuid) else "",
        name=reading.get(key, "name"),
        memory_used_bytes=used,
        memory_total_bytes=total,
        utilization_percent=utilization,
        memory_utilization_percent=memory_utilization,
        power_w=_watts(reading.get(key, "power_mw")),
        power_limit_w=_watts(reading.get(key, "power_limit_mw")),
        temperature_c=reading.get(key, "temperature_c"),
        throttle_reasons=_slowdowns(reading.get(key, "throttle_bits")),
        ecc_uncorrected=reading.get(key, "ecc_uncorrected"),
        ecc_corrected=reading.get(key, "ecc_corrected"),
        xid_errors=NA(text("the driver logs them for the whole GPU")) if instance else count,
        processes=_processes(reading, key, ours),
        mig_parent=int(gpu) if instance else None,
        fault=reading.fault(key),
        xids=() if instance else xids,
    )


def _pair(value: Any) -> tuple[Any, Any]:
    return (value, value) if isinstance(value, NotAvailable) else (value[0], value[1])


def _watts(milliwatts: Any) -> Any:
    return milliwatts / 1000 if available(milliwatts) else milliwatts


def _slowdowns(bits: Any) -> Any:
    return [words for bit, words in SLOWDOWNS.items() if bits & bit] if available(bits) else bits


def _cuda_version(number: Any) -> Any:
    """NVML's 12040 as ``"12.4"``."""
    return f"{number // 1000}.{number % 1000 // 10}" if available(number) else number


def _xids(reading: _Reading, gpu: str) -> tuple[int | NotAvailable, Sequence[Xid]]:
    log, address = reading.get("", "xids"), reading.get(gpu, "pci")
    if not available(log):
        # NVML has no counter of them, so the kernel log is the only source.
        return NA(reading.refused["", "xids"][0] if ("", "xids") in reading.refused else log.reason), ()
    if not available(address):
        return NA(text("its PCI address is unknown: {why}", why=address.reason)), ()
    mine = [Xid(code, age_s, pid) for where, code, age_s, pid in log if where == address]
    return len(mine), tuple(mine[::-1][:XIDS_KEPT])


def _xid_notes(reading: _Reading) -> list[str]:
    """The kernel log's last word on GPUs that NVML did not list: lost ones, or all where the driver hung early."""
    listed = [value for (_, name), value in reading.facts.items() if name == "pci"]
    logged = reading.facts.get(("", "xids"), ())
    last = {tuple(where): (code, age_s) for where, code, age_s, _ in logged if where not in listed}
    return [
        text(
            "kernel log: Xid {code}, {age_s:.0f} s ago, on {address}, a GPU that NVML did not list",
            code=code,
            age_s=age_s,
            address=f"{domain:04x}:{bus:02x}:{slot:02x}",
        )
        for (domain, bus, slot), (code, age_s) in last.items()
    ]


def _processes(reading: _Reading, key: str, ours: Mapping[int, int]) -> Sequence[DeviceProcess] | NotAvailable:
    compute, graphics = reading.get(key, "compute_processes"), reading.get(key, "graphics_processes")
    if not available(compute):
        unavailable: NotAvailable = compute
        return unavailable
    used: dict[int, int | None] = {}
    for pid, memory in [*compute, *(graphics if available(graphics) else ())]:
        used[pid] = max(filter(None, (memory, used.get(pid))), default=None)
    return [
        DeviceProcess(
            pid, _process_name(pid), NA(text("the driver does not say")) if memory is None else memory, ours.get(pid)
        )
        for pid, memory in used.items()
    ]


def _process_name(pid: int) -> str | NotAvailable:
    """From comm, never cmdline: reading the latter takes a lock that a process stuck in the driver may hold."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().rstrip("\n")
    except OSError:
        return NA(text("no such process to be seen: it has ended, or lives in another pid namespace"))


def _pid_notes(devices: Sequence[Device], ours: Mapping[int, int]) -> list[str]:
    listed = [
        process for device in devices if not isinstance(device.processes, NotAvailable) for process in device.processes
    ]
    from jupyter_traindbg.outside import procfs

    if listed and not procfs.numbers_are_the_hosts():
        return [text("this is a container: the driver may list the host's pids, which name other processes here")]
    if ours and not any(process.ours is not None for process in listed):
        return [
            text("the driver lists none of the attached processes: they use no GPU, or a container hides their pids")
        ]
    return []
