"""Reads NVML in a process of its own: a call into a sick NVIDIA driver may never return, and cannot be interrupted.

Run by `jupyter_traindbg.outside.gpu` as ``python -I -S nvml_helper.py SITE_DIR KERNEL_LOG LIFE_S``; it imports nothing
of the package.
It prints one JSON list a line, as it goes, so that what was read before a hang is not lost:

    ["call", NAME, DEVICE]                    about to call; no further line means that it hung there
    ["is", DEVICE, FIELD, VALUE]              measured
    ["not", DEVICE, FIELD, REASON, CODE]      NVML refused, with its error code (0: not NVML's)
    ["crash", TEXT]                           a mistake of ours
    ["end"]

DEVICE is ``"0"`` for a GPU, ``"0/1"`` for its MIG instance 1, ``""`` for the system.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 13, 25, 6, 15, 16
VOLATILE, CORRECTED, UNCORRECTED = 0, 0, 1  # since the driver was loaded; NVML's ECC counter and error types
GPU_SENSOR = 0

XID = re.compile(rb"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)(?:, pid=(\d+))?")
KERNEL_LOG_RECORDS = 100_000  # more than the largest ring buffer holds; the end of a reader that cannot keep up

Alternative = tuple[str, tuple[Any, ...]]


out = 1


def say(*words: Any) -> None:
    """One line, written whole: the reader may kill us at any moment."""
    os.write(out, json.dumps(words).encode() + b"\n")


def crashed(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    say("crash", f"{kind.__name__}: {error}")


class Nvml:
    """The calls, each announced before and answered with a value or a reason."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.gone: set[str] = set()
        """Devices that said they are lost: asking on takes long and tells nothing."""

    def ask(self, device: str, field: str, *ways: Alternative, read: Callable[[Any], Any] | None = None) -> Any:
        """Call the first of `ways` that both library and driver have, and report it as `field`; None where refused."""
        if device in self.gone:
            return None
        reason, code = f"this nvidia-ml-py has no {ways[-1][0]}: pip install -U nvidia-ml-py", 0
        for name, arguments in ways:
            function = getattr(self.module, name, None)
            if function is None:
                continue
            say("call", name, device)
            try:
                answer = function(*arguments)
                value = answer if read is None else read(answer)
            except (self.module.NVMLError, UnicodeDecodeError) as error:
                reason, code = str(error), getattr(error, "value", 0)
                if code in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
                    continue  # an older driver: the next way is the older call
                break
            if field:
                say("is", device, field, value)
            return answer
        if field:
            say("not", device, field, reason, code)
        if code in (GPU_IS_LOST, RESET_REQUIRED):
            self.gone.add(device)
        return None

    def identity(self, device: str, handle: Any) -> None:
        """What tells devices apart, and their memory: asked of every device before anything else is asked of any."""
        self.ask(device, "uuid", ("nvmlDeviceGetUUID", (handle,)))
        self.ask(device, "name", ("nvmlDeviceGetName", (handle,)))
        version = getattr(self.module, "nvmlMemory_v2", None)
        self.ask(
            device,
            "memory",
            ("nvmlDeviceGetMemoryInfo", (handle, version)),  # as nvidia-smi counts: without what the driver reserves
            ("nvmlDeviceGetMemoryInfo", (handle,)),
            read=lambda memory: [memory.used, memory.total],
        )

    def processes(self, device: str, handle: Any) -> None:
        for kind in ("Compute", "Graphics"):
            self.ask(
                device,
                f"{kind.lower()}_processes",
                (f"nvmlDeviceGet{kind}RunningProcesses_v3", (handle,)),
                (f"nvmlDeviceGet{kind}RunningProcesses_v2", (handle,)),
                read=lambda listed: [[process.pid, process.usedGpuMemory] for process in listed],
            )

    def state(self, device: str, handle: Any) -> None:
        """Everything that a whole GPU has, and a MIG instance has not."""
        one = (handle,)
        self.ask(
            device, "utilization", ("nvmlDeviceGetUtilizationRates", one), read=lambda rates: [rates.gpu, rates.memory]
        )
        self.ask(device, "power_mw", ("nvmlDeviceGetPowerUsage", one))
        self.ask(device, "power_limit_mw", ("nvmlDeviceGetEnforcedPowerLimit", one))
        self.ask(
            device,
            "temperature_c",
            ("nvmlDeviceGetTemperatureV", (handle, GPU_SENSOR)),
            ("nvmlDeviceGetTemperature", (handle, GPU_SENSOR)),
        )
        self.ask(
            device,
            "throttle_bits",
            ("nvmlDeviceGetCurrentClocksEventReasons", one),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", one),
        )
        for field, kind in (("ecc_uncorrected", UNCORRECTED), ("ecc_corrected", CORRECTED)):
            self.ask(device, field, ("nvmlDeviceGetTotalEccErrors", (handle, kind, VOLATILE)))

    def mig_instances(self, device: str, handle: Any) -> dict[str, Any]:
        """The handles of the MIG instances of one GPU; empty where MIG is off or unknown to it."""
        mode = self.ask(device, "", ("nvmlDeviceGetMigMode", (handle,)))
        if not mode or not mode[0]:
            return {}
        say("is", device, "mig", True)
        slots = self.ask(device, "", ("nvmlDeviceGetMaxMigDeviceCount", (handle,))) or 0
        handles = {f"{device}/{i}": self._instance(f"{device}/{i}", handle, i) for i in range(slots)}
        return {key: instance for key, instance in handles.items() if instance is not None}

    def _instance(self, key: str, parent: Any, index: int) -> Any:
        say("call", "nvmlDeviceGetMigDeviceHandleByIndex", key)
        try:
            return self.module.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
        except self.module.NVMLError as error:
            if error.value != NOT_FOUND:  # NOT_FOUND is an empty slot, and slots are sparse
                say("not", key, "handle", str(error), error.value)
            return None


def read_all(nvml: Nvml) -> None:
    """Every fact, the telling ones first."""
    say("call", "nvmlInit", "")
    try:
        nvml.module.nvmlInit()
    except nvml.module.NVMLError as error:
        say("not", "", "init", str(error), error.value)
        return
    nvml.ask("", "driver", ("nvmlSystemGetDriverVersion", ()))
    nvml.ask("", "cuda", ("nvmlSystemGetCudaDriverVersion_v2", ()))
    count = nvml.ask("", "count", ("nvmlDeviceGetCount", ())) or 0
    gpus: dict[str, Any] = {}
    instances: dict[str, Any] = {}
    for index in range(count):
        key = str(index)
        handle = nvml.ask(key, "handle", ("nvmlDeviceGetHandleByIndex", (index,)), read=lambda _: True)
        if handle is None:
            continue
        gpus[key] = handle
        nvml.identity(key, handle)
        nvml.ask(
            key,
            "pci",
            ("nvmlDeviceGetPciInfo", (handle,)),
            read=lambda pci: [pci.domain, pci.bus, pci.device],
        )
        instances.update(nvml.mig_instances(key, handle))
    for key, handle in instances.items():
        nvml.identity(key, handle)
    for key, handle in gpus.items():
        nvml.state(key, handle)
    for key, handle in {**gpus, **instances}.items():
        nvml.processes(key, handle)


def xids(log: bytes, now_s: float) -> list[list[Any]]:
    """``[[domain, bus, device], code, age_s, pid or None]`` per Xid line of `log` (as in /dev/kmsg), in its order."""
    found = []
    for line in log.splitlines():
        match = XID.search(line)
        if match:
            address = [int(part, 16) for part in match[1].split(b":")]
            written_s = int(line.split(b",", 3)[2]) / 1e6
            found.append([address, int(match[2]), max(now_s - written_s, 0.0), int(match[3]) if match[3] else None])
    return found


def kernel_log(path: str) -> bytes:
    """All of the kernel's ring buffer, without waiting. Raises OSError where it may not be read."""
    records: list[bytes] = []
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while len(records) < KERNEL_LOG_RECORDS:
            try:
                record = os.read(fd, 8192)
            except BrokenPipeError:
                continue  # overwritten while we read: the next read goes on behind the gap
            except BlockingIOError:
                break
            if not record:
                break
            records.append(record)
    finally:
        os.close(fd)
    return b"".join(records)


def read_kernel_log(path: str) -> None:
    """The driver's Xid lines: NVML itself only hands out those that happen while somebody waits for them."""
    try:
        log = kernel_log(path)
    except OSError as error:
        say("not", "", "xids", f"the kernel log {path} cannot be read: {error.strerror}", 0)
        return
    from_boot = not log or log.split(b",", 2)[1] == b"0"
    if from_boot and b"NVRM" not in log:
        say("not", "", "xids", "the kernel log here has no messages of the NVIDIA driver", 0)
        return
    say("is", "", "xids", xids(log, time.monotonic()))


def main(site_directory: str, log_path: str, life_s: str) -> None:
    global out
    sys.excepthook = crashed
    out = os.dup(1)
    os.dup2(2, 1)  # what the NVIDIA library prints is no line of ours
    # Whatever becomes of the parent, a helper that can be killed does not outlive its purpose.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(life_s))
    read_kernel_log(log_path)
    sys.path.append(site_directory)
    import pynvml

    read_all(Nvml(pynvml))
    say("end")
    os._exit(0)  # no nvmlShutdown, no destructors: each is one more chance to hang


if __name__ == "__main__":
    main(*sys.argv[1:])
