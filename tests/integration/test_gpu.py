"""`report` against a compiled stand-in for the NVIDIA library: the real pynvml, a real helper process, real hangs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_traindbg.model import Device, GpuReport, NotAvailable, available
from jupyter_traindbg.outside import gpu

GIB = 1024**3

DriverMaker = Callable[..., None]


@pytest.fixture
def driver(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DriverMaker:
    """``driver("mig", FAIL="PowerUsage:3", log=b"...")``: a driver that behaves so, and a kernel log."""

    def make(mode: str = "normal", log: bytes | None = None, **behaviour: str) -> None:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_nvml))
        monkeypatch.setenv("FAKE_NVML", mode)
        for name, value in behaviour.items():
            monkeypatch.setenv(f"FAKE_NVML_{name}", value)
        path = tmp_path / "kmsg"
        if log is not None:
            path.write_bytes(log)
        monkeypatch.setattr(gpu, "KERNEL_LOG", str(path))

    return make


@pytest.fixture(autouse=True)
def no_helper_survives() -> Iterator[None]:
    """Whatever a test does, its helpers are dead and reaped, and its files closed, when `report` has returned."""
    files = set(os.listdir("/proc/self/fd"))
    yield
    assert gpu._left == []
    assert children("nvml_helper") == []
    assert len(set(os.listdir("/proc/self/fd"))) <= len(files)


def children(of: str) -> list[str]:
    """Processes, zombies too, that are ours and whose command line names `of` (a zombie has none: it counts)."""
    mine = []
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if of in command or not command:
                mine.append(f"{pid} {command}")
    return mine


def missing(device: Device) -> dict[str, str]:
    """The fields that are not available, and why."""
    values = {name: getattr(device, name) for name in device.__dataclass_fields__}
    return {name: value.reason for name, value in values.items() if isinstance(value, NotAvailable)}


def healthy_first(report: GpuReport) -> Device:
    assert report.problem is None
    return report.devices[0]


# --- a driver that answers -----------------------------------------------------------------------------------------


def test_a_normal_driver_gives_every_field(driver: DriverMaker) -> None:
    driver(log=b"6,9,100,-;NVRM: loading\n", PIDS=f"{os.getpid()},1")
    report = gpu.report(ours={os.getpid(): 3})
    first, second = report.devices
    assert (report.problem, report.driver, report.cuda_driver, report.hung_call) == (None, "580.01", "13.1", None)
    assert missing(first) == {}
    assert (first.index, first.uuid, first.name) == (0, "GPU-aaaaaaaa-0000", "NVIDIA Fake")
    assert (first.memory_used_bytes, first.memory_total_bytes) == (GIB, 80 * GIB)
    assert (first.utilization_percent, first.memory_utilization_percent) == (90, 40)
    assert (first.power_w, first.power_limit_w, first.temperature_c) == (350.5, 700.0, 61)
    assert (first.ecc_uncorrected, first.ecc_corrected, first.xid_errors) == (0, 3, 0)
    assert first.throttle_reasons == []  # its bit says idle, which is no throttling
    assert second.throttle_reasons == ["hardware slowdown", "hardware thermal slowdown"]
    assert [device.cuda_index for device in report.devices] == [0, 1]
    assert second.processes == []


def test_processes_carry_name_memory_and_rank(driver: DriverMaker) -> None:
    driver(PIDS=f"{os.getpid()},1,4194305")  # the last is above the kernel's largest pid
    processes = healthy_first(gpu.report(ours={os.getpid(): 3})).processes
    assert not isinstance(processes, NotAvailable)
    mine, other, elsewhere = processes
    assert (mine.pid, mine.ours, mine.memory_bytes) == (os.getpid(), 3, 5 * GIB)
    assert mine.name == Path("/proc/self/comm").read_text().strip()
    assert (other.pid, other.ours) == (1, None)
    assert isinstance(other.memory_bytes, NotAvailable)
    assert isinstance(elsewhere.name, NotAvailable)
    assert "namespace" in elsewhere.name.reason


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("Name", {"name"}),
        ("MemoryInfo", {"memory_used_bytes", "memory_total_bytes"}),
        ("UtilizationRates", {"utilization_percent", "memory_utilization_percent"}),
        ("PowerUsage", {"power_w"}),
        ("EnforcedPowerLimit", {"power_limit_w"}),
        ("Temperature", {"temperature_c"}),
        ("CurrentClocksEventReasons", {"throttle_reasons"}),
        ("TotalEccErrors", {"ecc_uncorrected", "ecc_corrected"}),
        ("ComputeRunningProcesses", {"processes"}),
        ("GraphicsRunningProcesses", set()),
        ("PciInfo", {"xid_errors"}),
        ("MigMode", set()),
    ],
)
@pytest.mark.parametrize(("code", "words"), [(3, "Not Supported"), (999, "Unknown Error"), (77, "a fake error")])
def test_a_field_that_fails_fails_alone(
    driver: DriverMaker, call: str, fields: set[str], code: int, words: str
) -> None:
    driver(log=b"6,9,100,-;NVRM: loading\n", FAIL=f"{call}:{code}@1")
    report = gpu.report()
    first, second = report.devices
    assert report.problem is None
    assert missing(first) == {}
    assert set(missing(second)) == fields
    assert all(words in reason for reason in missing(second).values())


def test_an_older_driver_is_asked_by_its_older_calls(driver: DriverMaker) -> None:
    driver(FAIL="MemoryInfo_v2:13")
    assert healthy_first(gpu.report()).memory_used_bytes == 2 * GIB  # as the older call counts


def test_mig_instances_follow_their_gpu_with_their_own_memory(driver: DriverMaker) -> None:
    driver("mig")
    report = gpu.report(visible="MIG-dddd")
    whole, parent, one, two = report.devices
    assert [(d.index, d.mig_parent) for d in report.devices] == [(0, None), (1, None), (0, 1), (3, 1)]
    assert [d.memory_used_bytes for d in (one, two)] == [3 * GIB, 4 * GIB]
    assert one.memory_total_bytes == 10 * GIB
    assert available(whole.utilization_percent)
    assert missing(parent)["utilization_percent"] == "NVML does not give it while MIG is on"
    assert missing(one)["utilization_percent"] == "NVML does not give it for a MIG instance"
    assert [d.cuda_index for d in report.devices] == [None, None, None, 0]
    assert "MIG is on" in " ".join(gpu.report(visible="0").notes)


def test_a_lost_gpu_does_not_take_the_others_along(driver: DriverMaker) -> None:
    driver(FAIL="Handle:15@0")
    lost, other = gpu.report().devices
    assert lost.fault == "lost"
    assert "lost" in missing(lost)["name"]
    assert "lost" in missing(lost)["power_w"]
    assert (other.fault, other.power_w) == (None, 350.5)


def test_a_gpu_lost_between_two_calls_keeps_what_was_read(driver: DriverMaker) -> None:
    driver(FAIL="PowerUsage:15@1")
    _, lost = gpu.report().devices
    assert (lost.fault, lost.name, lost.utilization_percent) == ("lost", "NVIDIA Fake", 89)
    assert missing(lost)["temperature_c"] == "the GPU is lost"


def test_xids_come_from_the_kernel_log(driver: DriverMaker) -> None:
    began = time.monotonic()

    def at(age_s: float) -> int:
        return int((began - age_s) * 1e6)

    driver(
        log=(
            f"4,7,{at(50)},-;NVRM: Xid (PCI:0000:86:00): 31, pid=1234, name=python, Ch 00000008, MMU Fault\n"
            f" SUBSYSTEM=pci\n"
            f"4,8,{at(9)},-;NVRM: Xid (PCI:0000:86:00): 79, pid='<unknown>', name=<unknown>, fell off\n"
            f"4,9,{at(5)},-;NVRM: Xid (PCI:0000:af:00): 48, something\n"
        ).encode()
    )
    report = gpu.report()
    first, second = report.devices
    assert (first.xid_errors, second.xid_errors) == (0, 2)
    assert [(xid.code, xid.pid) for xid in second.xids] == [(79, None), (31, 1234)]
    assert 9 <= second.xids[0].age_s <= 9 + time.monotonic() - began
    assert any("Xid 48" in note and "0000:af:00" in note for note in report.notes)


def test_without_a_kernel_log_only_the_xids_are_missing(driver: DriverMaker) -> None:
    driver()  # the path does not exist
    assert list(missing(healthy_first(gpu.report()))) == ["xid_errors"]
    driver(log=b"6,0,100,-;Linux version 6\n")  # complete since boot, and not a word of the driver's
    assert "no messages of the NVIDIA driver" in missing(healthy_first(gpu.report()))["xid_errors"]


# --- no driver -----------------------------------------------------------------------------------------------------


def one_line(report: GpuReport) -> str:
    assert (report.devices, report.hung_call) == ([], None)
    assert report.problem is not None
    assert "\n" not in report.problem
    return report.problem


def test_no_library_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")  # hides a real one from the loader
    problem = one_line(gpu.report())
    assert "no NVIDIA driver library (libnvidia-ml.so.1) on this machine" in problem
    assert "install the driver" in problem
    assert not available(gpu.report().driver)


@pytest.mark.parametrize(
    ("code", "cause", "step"),
    [
        (9, "kernel driver is not loaded", "modprobe nvidia"),
        (18, "different versions", "reboot, or stop all GPU processes and reload the driver"),
        (4, "refuses this user", "ls -l /dev/nvidia*"),
        (999, "Unknown Error (error 999)", "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start_is_one_clear_line(driver: DriverMaker, code: int, cause: str, step: str) -> None:
    driver(FAIL=f"Init:{code}")
    problem = one_line(gpu.report())
    assert cause in problem
    assert step in problem


def test_no_gpus_and_a_count_that_fails(driver: DriverMaker) -> None:
    driver("none")
    assert "shows no GPU" in one_line(gpu.report())
    driver(FAIL="Count:999")
    assert "could not count" in one_line(gpu.report())


def test_without_the_python_package_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install nvidia-ml-py" in one_line(gpu.report())


def test_a_crash_in_the_library_keeps_what_was_read(driver: DriverMaker) -> None:
    driver(CRASH="PowerUsage@1")
    report = gpu.report()
    assert report.problem is not None
    assert "nvmlDeviceGetPowerUsage on GPU 1 (Segmentation fault)" in report.problem
    assert report.hung_call is None
    assert [device.utilization_percent for device in report.devices] == [90, 89]


# --- a driver that does not answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["BLOCK", "STUCK"])
@pytest.mark.parametrize(
    ("call", "name"),
    [("Init", "nvmlInit"), ("PowerUsage@1", "nvmlDeviceGetPowerUsage on GPU 1"), ("Count", "nvmlDeviceGetCount")],
)
def test_a_hang_is_named_and_what_was_read_is_kept(driver: DriverMaker, how: str, call: str, name: str) -> None:
    driver(**{how: call})
    report = gpu.report(deadline_s=2.0)
    assert report.hung_call == name
    assert report.problem is not None
    assert f"no reply to {name}" in report.problem
    assert ("uninterruptible sleep" in report.problem) == (how == "STUCK")
    if call == "PowerUsage@1":
        first, second = report.devices
        assert (first.power_w, second.power_w) == (350.5, NotAvailable(f"not read: {report.problem.split('; ')[0]}"))
        assert (second.name, second.memory_used_bytes) == ("NVIDIA Fake", 2 * GIB)


def test_silence_is_given_two_seconds_of_the_default_deadline(
    driver: DriverMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float] = []
    listen = gpu._listen

    def noted(helper: gpu._Helper, reading: gpu._Reading, deadline: float, quiet_s: float) -> float | None:
        patience.append(quiet_s)
        return listen(helper, reading, deadline, quiet_s)

    monkeypatch.setattr(gpu, "_listen", noted)
    driver(BLOCK="Name@0")
    assert gpu.report().hung_call == "nvmlDeviceGetName on GPU 0"
    assert patience == [2.0]


def wait_for_state(pid: int, letter: str) -> None:
    deadline = time.monotonic() + 60
    while gpu._state(pid) != letter:
        assert time.monotonic() < deadline, gpu._state(pid)
        time.sleep(0.01)


def test_a_hang_tells_who_else_is_stuck(driver: DriverMaker, tmp_path: Path) -> None:
    source = tmp_path / "stuck.c"
    source.write_text(
        "#include <unistd.h>\n#include <sys/prctl.h>\n"
        "int main(void) { if (vfork() == 0) { prctl(PR_SET_PDEATHSIG, 9); sleep(60); _exit(0); } return 0; }\n"
    )
    subprocess.run(["cc", "-o", tmp_path / "stuck", source], check=True)
    with subprocess.Popen([tmp_path / "stuck"], stdout=subprocess.DEVNULL) as victim:
        try:
            wait_for_state(victim.pid, "D")
            driver(BLOCK="Init", log=b"4,9,1,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
            report = gpu.report(deadline_s=2.0)
        finally:
            victim.kill()
    assert victim.pid in report.stuck_pids
    assert any("Xid 79" in note for note in report.notes)


def test_a_helper_that_cannot_be_killed_is_not_joined_by_another(
    driver: DriverMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(BLOCK="Init")
    with monkeypatch.context() as unkillable:
        unkillable.setattr(os, "killpg", lambda group, number: None)
        first = gpu.report(deadline_s=2.0)
    (helper,) = gpu._left
    try:
        with monkeypatch.context() as no_second:
            no_second.setattr(gpu, "_Helper", never)
            again = gpu.report()
        assert first.hung_call == again.hung_call == "nvmlInit"
        assert again.problem is not None
        assert f"pid {helper.pid}" in again.problem
        assert gpu._left == [helper]
    finally:
        helper.kill()
        deadline = time.monotonic() + 60
        while gpu._still_stuck() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert gpu._left == []


def never(*_: object, **__: object) -> None:
    raise AssertionError("another helper was started")


def run_python(program: str) -> list[str]:
    """What `program` prints, which ends, with warnings as errors and not a word on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("how", ["BLOCK", "STUCK"])
def test_the_interpreter_exits_after_a_hang(driver: DriverMaker, how: str) -> None:
    """Nothing of ours waits for the driver at its exit."""
    driver(**{how: "Count"})
    said = run_python(
        "import sys\n"
        "from jupyter_traindbg.outside import gpu\n"
        "assert 'pynvml' not in sys.modules\n"
        "print(gpu.report().hung_call)\n"
        "assert 'pynvml' not in sys.modules\n"
    )
    assert said == ["nvmlDeviceGetCount"]


def test_a_helper_left_behind_at_exit_ends_by_its_own_timer(driver: DriverMaker) -> None:
    driver(STUCK="Count")
    (helper,) = run_python(
        "import os\n"
        "from jupyter_traindbg.outside import gpu\n"
        "os.killpg = lambda group, number: None\n"
        "gpu.report(deadline_s=2.0)\n"
        "print(gpu._left[0].pid)\n"
    )
    assert gpu._state(int(helper)) == "D"
    deadline = time.monotonic() + 60
    while gpu._state(int(helper)) not in (None, "Z"):  # whether init reaps it is init's business
        assert time.monotonic() < deadline, gpu._state(int(helper))
        time.sleep(0.05)


# --- CUDA_VISIBLE_DEVICES ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        (None, {0: 0, 1: 1}),
        ("0,1", {0: 0, 1: 1}),
        (" 1 , 0 ", {1: 0, 0: 1}),
        ("1", {1: 0}),
        ("", {}),
        ("-1", {}),
        ("1,-1,0", {1: 0}),
        ("1,2,0", {1: 0}),  # there is no GPU 2
        ("1,x,0", {1: 0}),
        ("+1,-0", {1: 0, 0: 1}),
        ("1gpu", {1: 0}),
        ("1,1", {}),
        ("GPU-aabb", {1: 0}),
        ("GPU-aa", {}),  # fits both
        ("GPU-aabbbbbb-1111,GPU-aaaa", {1: 0, 0: 1}),
        ("aabbbbbb", {}),
    ],
)
def test_cuda_indices_follow_cuda_visible_devices(
    driver: DriverMaker, visible: str | None, seen: dict[int, int]
) -> None:
    driver()
    report = gpu.report(visible=visible)
    assert {device.index: device.cuda_index for device in report.devices if device.cuda_index is not None} == seen
    words = len(visible.split(",")) if visible else 0
    assert bool(report.notes) == (visible is not None and (words == 0 or len(seen) < words))


def test_among_different_models_only_uuids_and_pci_order_are_sure(driver: DriverMaker) -> None:
    driver("mixed")
    for visible in (None, "0", "1,0"):
        report = gpu.report(visible=visible)
        assert [device.cuda_index for device in report.devices] == [None, None]
        assert "CUDA_DEVICE_ORDER" in report.notes[0]
    assert [d.cuda_index for d in gpu.report(visible="GPU-aabb").devices] == [None, 0]
    assert [d.cuda_index for d in gpu.report(visible="1", device_order="PCI_BUS_ID").devices] == [None, 0]


def test_an_old_mig_name_is_said_to_be_unknown(driver: DriverMaker) -> None:
    driver("mig")
    report = gpu.report(visible="MIG-GPU-aabbbbbb/1/0")
    assert "not known here" in report.notes[0]
