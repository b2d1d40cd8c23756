"""A GPU of the job's host and a rank that has memory on it; one on which no rank has any is one row, without a rank."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Device, DeviceProcess, GpuReport, NotAvailable
from .base import Column, Question, Row, fields

COST = later("some 35 ms and the driver's own time, in a process beside")
ASKS = (Question("gpu"),)
_OF_DEVICE = (
    "host",
    "uuid",
    "name",
    "cuda_index",
    "mig_parent",
    "utilization_percent",
    "memory_utilization_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_w",
    "power_limit_w",
    "temperature_c",
    "throttle_reasons",
    "ecc_corrected",
    "ecc_uncorrected",
    "xid_errors",
    "fault",
)
COLUMNS = (
    Column("rank", int, later("the rank; NULL where none of the job's has memory on it")),
    Column("pid", int, later("its process")),
    Column("rank_memory_bytes", int, later("what that process has there")),
    Column("gpu", int, later("NVML's number; of a MIG instance its own")),
    Column("host", str, later("where the job has several, the host that it is on")),
    Column("uuid", str, later("what tells it from all others")),
    Column("name", str, later("its model")),
    Column("cuda_index", int, later("its number in the job, under CUDA_VISIBLE_DEVICES")),
    Column("mig_parent", int, later("of a MIG instance the GPU that it is a part of")),
    Column("utilization_percent", int, later("the share of the time in which it ran a kernel")),
    Column("memory_utilization_percent", int, later("the share of the time in which its memory was read or written")),
    Column("memory_used_bytes", int, later("in use, by whomever")),
    Column("memory_total_bytes", int, later("what there is")),
    Column("power_w", float, later("what it draws")),
    Column("power_limit_w", float, later("what it may draw")),
    Column("temperature_c", int, later("how hot it is")),
    Column("throttle_reasons", list[str], later("why it is slower than asked; empty where it is not")),
    Column("ecc_corrected", int, later("memory errors that were corrected since the driver was loaded")),
    Column("ecc_uncorrected", int, later("memory errors that could not be corrected")),
    Column("xid_errors", int, later("errors that the driver wrote to the kernel log")),
    Column("fault", str, later("`lost` or `reset required`, where it does not answer at all")),
    Column("processes", int, later("how many processes have memory on it")),
)


def rows(report: GpuReport) -> Iterator[Row]:
    for device in report.devices:
        many = device.processes if isinstance(device.processes, NotAvailable) else len(device.processes)
        of_device = fields(device, *_OF_DEVICE) | {"gpu": device.index, "processes": many}
        for process in _ours(device) or (None,):
            yield of_device | (
                {}
                if process is None
                else {"rank": process.ours, "pid": process.pid, "rank_memory_bytes": process.memory_bytes}
            )


def _ours(device: Device) -> list[DeviceProcess]:
    processes = () if isinstance(device.processes, NotAvailable) else device.processes
    return [process for process in processes if process.ours is not None]
