"""`report` on a real NVIDIA driver and GPU, checked against what nvidia-smi and CUDA itself say."""

from __future__ import annotations

import csv
import ctypes
import os
import shutil
import subprocess
import sys

import pytest

from jupyter_traindbg.model import NotAvailable
from jupyter_traindbg.outside import cuda_order, gpu

SMI = shutil.which("nvidia-smi")


def why_not() -> str | None:
    """Why these tests cannot run here; None where they can."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "no NVIDIA driver library here"
    problem = gpu.report().problem
    return f"NVML does not work here: {problem}" if problem else None


REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def smi(*fields: str) -> list[dict[str, str]]:
    assert SMI is not None
    query = [SMI, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    rows = csv.reader(subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines())
    return [dict(zip(fields, [word.strip() for word in row], strict=True)) for row in rows]


@pytest.mark.skipif(SMI is None, reason="needs nvidia-smi")
def test_the_figures_are_those_of_nvidia_smi() -> None:
    report = gpu.report()
    whole = [device for device in report.devices if device.mig_parent is None]
    seen = smi(
        "index", "uuid", "name", "driver_version", "memory.total", "memory.used", "power.limit", "temperature.gpu"
    )
    assert len(whole) == len(seen)
    for device, row in zip(whole, seen, strict=True):
        assert (device.index, device.uuid, device.name) == (int(row["index"]), row["uuid"], row["name"])
        assert report.driver == row["driver_version"]
        assert isinstance(device.memory_total_bytes, int)
        assert isinstance(device.memory_used_bytes, int)
        assert device.memory_total_bytes // 2**20 == int(row["memory.total"])
        assert device.memory_used_bytes / 2**20 == pytest.approx(int(row["memory.used"]), abs=2048)
        assert device.power_limit_w == pytest.approx(float(row["power.limit"]))
        assert device.temperature_c == pytest.approx(int(row["temperature.gpu"]), abs=5)


def test_a_process_of_ours_is_listed_with_its_memory() -> None:
    pytest.importorskip("torch")
    program = "import torch, sys; x = torch.ones(2**28, device='cuda'); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        assert job.stdout.readline() == b"ready\n"
        report = gpu.report(ours={job.pid: 0})
        job.stdin.close()
    first = report.devices[0]
    assert not isinstance(first.processes, NotAvailable)
    mine = [process for process in first.processes if process.ours == 0]
    if not mine:
        assert any("pid" in note for note in report.notes)
        pytest.skip(f"the driver lists other pids here: {report.notes}")
    assert isinstance(mine[0].memory_bytes, int)
    assert mine[0].memory_bytes > 2**30


COUNT = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
cuda.cuInit(0)
cuda.cuDeviceGetCount(ctypes.byref(count))
print(count.value)
"""


@pytest.mark.parametrize(
    "visible",
    [None, "", "0", " 0", "0 ", "0,-1", "-1,0", "0,0", "7", "+0", "-0", "0gpu", "abc", "UUID", "PREFIX", "uuid"],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(visible: str | None) -> None:
    devices = gpu.report().devices
    if len(devices) != 1:
        pytest.skip("written for a machine with one whole GPU")
    uuid = devices[0].uuid
    visible = {"UUID": uuid, "PREFIX": uuid[:12], "uuid": uuid.lower()}.get(visible or "", visible)
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    counted = subprocess.run(
        [sys.executable, "-c", COUNT], env=environment, capture_output=True, check=True, timeout=60
    )
    indices, _ = cuda_order.cuda_indices(devices, visible, None)
    assert len(indices) == int(counted.stdout)
