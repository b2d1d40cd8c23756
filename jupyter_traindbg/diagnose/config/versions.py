"""Installed packages that do not fit each other, by their own metadata; and a driver that is too old for torch's CUDA."""

from __future__ import annotations

from ...language import text
from ...model import Finding, Plan, UnmetRequirement
from ..preflight import DRIVERS
from .reading import finding

__all__ = ["rule"]

METADATA = "https://packaging.python.org/en/latest/specifications/core-metadata/#requires-dist-multiple-use"
COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"


def rule(plan: Plan) -> list[Finding]:
    return [*(_unmet(one) for one in plan.machine.unmet), *_driver(plan)]


def _unmet(one: UnmetRequirement) -> Finding:
    name = one.wants.partition(";")[0].strip()
    return finding(
        "import_error",
        "warning",
        text(
            f"{one.package} {one.version} asks for {name}, and {one.has} is installed",
            f"{one.package} {one.version} 要求 {name}，而安装的是 {one.has}",
        ),
        arithmetic=[f"{one.package} {one.version}: Requires-Dist: {one.wants}", one.has],
        at=[],
        cause=text(
            "By the package's own metadata. Compiled packages fail at import (undefined symbol); others fail where an API changed.",
            "依据该包自己的元数据。编译的包会在导入时失败（undefined symbol），其他包在 API 变动处失败。",
        ),
        steps=[
            f"pip install '{name}'",
            text(f"Or another {one.package}, made for {one.has}.", f"或换适配 {one.has} 的 {one.package}。"),
        ],
        reference=METADATA,
        confidence="high" if "==" in name else "medium",
    )


def _driver(plan: Plan) -> list[Finding]:
    cuda, driver = plan.machine.versions.get("CUDA", ""), plan.machine.versions.get("driver", "")
    major, has = cuda.partition(".")[0], driver.partition(".")[0]
    if not (major.isdigit() and has.isdigit()) or int(has) >= DRIVERS.get(int(major), 0):
        return []
    torch = plan.machine.versions.get("torch", "")
    return [
        finding(
            "cuda_version_mismatch",
            "critical",
            text(f"The driver {driver} is too old for CUDA {cuda}", f"驱动 {driver} 对 CUDA {cuda} 来说太旧"),
            arithmetic=[f"torch {torch}, CUDA {cuda}: driver {driver} < {DRIVERS[int(major)]}"],
            at=[],
            cause=text(
                f"CUDA {major} needs {DRIVERS[int(major)]} at least.", f"CUDA {major} 至少需要 {DRIVERS[int(major)]}。"
            ),
            steps=[
                text(
                    "Update the driver, or install a torch for an older CUDA.", "升级驱动，或安装面向旧 CUDA 的 torch。"
                )
            ],
            reference=COMPATIBILITY,
        )
    ]
