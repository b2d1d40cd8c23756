"""The GPU rules: each fires on its own scene, none on a healthy one, and both languages are spoken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jupyter_traindbg.diagnose.gpu import findings
from jupyter_traindbg.model import Device, DeviceProcess, Finding, GpuReport, NotAvailable, Problem, Xid

GIB = 1024**3
ABSENT = NotAvailable("a test")

HEALTHY = Device(
    index=0,
    uuid="GPU-a",
    name="NVIDIA Test",
    memory_used_bytes=60 * GIB,
    memory_total_bytes=80 * GIB,
    utilization_percent=99,
    memory_utilization_percent=50,
    power_w=699.0,
    power_limit_w=700.0,
    temperature_c=70,
    throttle_reasons=["power cap"],  # what a busy GPU runs at
    ecc_uncorrected=0,
    ecc_corrected=12,
    xid_errors=0,
    processes=[DeviceProcess(10, "python", 60 * GIB, ours=0)],
)
MEASURED = [
    "name",
    "memory_used_bytes",
    "memory_total_bytes",
    "utilization_percent",
    "memory_utilization_percent",
    "power_w",
    "power_limit_w",
    "temperature_c",
    "throttle_reasons",
    "ecc_uncorrected",
    "ecc_corrected",
    "xid_errors",
    "processes",
]
NOTHING: dict[str, Any] = dict.fromkeys(MEASURED, ABSENT)
BLIND = replace(HEALTHY, **NOTHING)


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def judge(*devices: Device, **more: Any) -> list[Finding]:
    return findings(replace(GpuReport(devices=devices, driver="580", cuda_driver="13.1"), **more))


def the_one(*devices: Device, **more: Any) -> Finding:
    (finding,) = judge(*devices, **more)
    assert finding.evidence
    assert finding.next_steps
    assert finding.cause
    return finding


def test_nothing_wrong_gives_nothing() -> None:
    assert judge(HEALTHY, replace(HEALTHY, index=1, processes=[])) == []
    assert judge() == []


def test_nothing_measured_gives_nothing() -> None:
    assert judge(BLIND) == []
    assert judge(problem=Problem("no NVIDIA driver library on this machine")) == []


def test_a_silent_driver_blames_the_stuck_processes() -> None:
    finding = the_one(
        HEALTHY,
        hung_call="nvmlInit",
        problem=Problem("the driver does not answer", "see dmesg"),
        stuck_pids=[41, 42],
        notes=["Xid 79"],
    )
    assert (finding.code, finding.severity, finding.confidence) == ("gpu_driver_hang", "critical", "high")
    assert finding.who == ["pid 41", "pid 42"]
    evidence = " ".join(finding.evidence)
    assert "nvmlInit" in evidence
    assert "41, 42" in evidence
    assert "Xid 79" in evidence
    assert the_one(HEALTHY, hung_call="nvmlInit").confidence == "medium"  # it may be slow only


def test_a_lost_gpu_tells_its_xids_as_evidence() -> None:
    finding = the_one(replace(BLIND, index=3, fault="lost", xids=[Xid(79, 30.0)]))
    assert (finding.code, finding.severity, finding.who) == ("gpu_lost", "critical", ["GPU 3"])
    assert "Xid 79, 30 s ago" in finding.evidence


def test_a_gpu_that_must_be_reset() -> None:
    finding = the_one(replace(BLIND, fault="reset required"))
    assert finding.code == "gpu_reset_required"
    assert "nvidia-smi --gpu-reset -i 0" in " ".join(finding.next_steps)


def test_uncorrected_ecc_errors_are_counted() -> None:
    finding = the_one(replace(HEALTHY, ecc_uncorrected=2, cuda_index=5))
    assert (finding.code, finding.severity, finding.who) == ("gpu_ecc_uncorrected", "critical", ["GPU 0 (cuda:5)"])
    assert "2 uncorrected ECC errors" in finding.evidence
    assert "12 corrected ones" in finding.evidence


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [
        (["hardware slowdown", "hardware thermal slowdown"], "hot"),
        (["software thermal slowdown"], "hot"),
        (["power cap", "hardware power brake"], "power supply"),
        (["hardware slowdown"], "hardware slows it down"),
    ],
)
def test_a_real_slowdown_is_found_with_its_cause(reasons: list[str], cause: str) -> None:
    finding = the_one(replace(HEALTHY, throttle_reasons=reasons))
    assert (finding.code, finding.severity) == ("gpu_slowdown", "warning")
    assert cause in finding.cause
    assert "70 °C" in finding.evidence
    assert "699 W / 700 W" in finding.evidence


@pytest.mark.parametrize("reasons", [[], ["power cap"], ["board limit"]])
def test_limits_that_are_no_fault_are_not_found(reasons: list[str]) -> None:
    assert judge(replace(HEALTHY, throttle_reasons=reasons)) == []


def test_memory_is_full_from_97_percent_on() -> None:
    finding = the_one(replace(HEALTHY, memory_used_bytes=97 * GIB, memory_total_bytes=100 * GIB))
    assert (finding.code, finding.severity) == ("gpu_memory_full", "warning")
    assert "97.0 / 100.0 GiB (97.0 %)" in finding.evidence
    assert "pid 10 = rank 0: 60.0 GiB" in finding.evidence
    assert judge(replace(HEALTHY, memory_used_bytes=96 * GIB, memory_total_bytes=100 * GIB)) == []


def test_a_full_mig_instance_is_blamed_instead_of_its_gpu() -> None:
    full: dict[str, Any] = {"memory_used_bytes": 10 * GIB, "memory_total_bytes": 10 * GIB}
    finding = the_one(replace(HEALTHY, **full), replace(BLIND, index=2, mig_parent=0, **full))
    assert finding.who == ["GPU 0 MIG 2"]


def test_others_on_the_jobs_gpu_are_named_and_elsewhere_ignored() -> None:
    stranger = DeviceProcess(77, "jupyter", 5 * GIB)
    finding = the_one(replace(HEALTHY, processes=[*HEALTHY.processes, stranger]))  # type: ignore[misc]
    assert (finding.code, finding.severity, finding.who) == ("gpu_shared", "info", ["pid 77"])
    assert "pid 77 jupyter 5.0 GiB" in finding.evidence
    assert judge(replace(HEALTHY, processes=[stranger])) == []


@pytest.mark.parametrize(
    ("code", "age_s", "severity", "confidence"),
    [
        (79, 10.0, "critical", "high"),
        (63, 10.0, "warning", "high"),
        (31, 10.0, "warning", "medium"),
        (999, 10.0, "warning", "medium"),
        (79, 8000.0, "info", "high"),
    ],
)
def test_an_xid_weighs_by_its_code_and_age(code: int, age_s: float, severity: str, confidence: str) -> None:
    finding = the_one(replace(HEALTHY, xid_errors=1, xids=[Xid(code, age_s, pid=9)]))
    assert (finding.code, finding.severity, finding.confidence) == ("gpu_xid", severity, confidence)
    assert finding.who == ["GPU 0", "pid 9"]
    assert f"Xid {code}" in finding.title


def test_equal_xids_are_one_finding_dated_by_the_newest() -> None:
    xids = [Xid(31, 8000.0, 9), Xid(31, 60.0, 8), Xid(74, 5.0)]
    nvlink, faults = judge(replace(HEALTHY, xid_errors=3, xids=xids))
    assert "Xid 74" in nvlink.title
    assert "2 in the kernel log, the last 1 min ago" in faults.evidence
    assert faults.who == ["GPU 0", "pid 8", "pid 9"]


def test_the_worst_comes_first() -> None:
    hot = replace(HEALTHY, throttle_reasons=["hardware thermal slowdown"])
    shared = replace(HEALTHY, processes=[*HEALTHY.processes, DeviceProcess(77, "x", ABSENT)])  # type: ignore[misc]
    codes = [finding.code for finding in judge(shared, hot, replace(BLIND, fault="lost"), hung_call="nvmlInit")]
    assert codes == ["gpu_driver_hang", "gpu_lost", "gpu_slowdown", "gpu_shared"]


def test_chinese_is_spoken_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = replace(HEALTHY, ecc_uncorrected=2, throttle_reasons=["hardware power brake"], xids=[Xid(79, 9.0)])
    spoken = [f.title for f in judge(sick, hung_call="nvmlInit")]
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    chinese = [f.title for f in judge(sick, hung_call="nvmlInit")]
    assert len(chinese) == len(spoken) == 4
    assert all(any("一" <= letter <= "鿿" for letter in title) for title in chinese)
