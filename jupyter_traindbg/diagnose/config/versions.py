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
            "{package} {version} asks for {name}, and {has} is installed",
            package=one.package,
            version=one.version,
            name=name,
            has=one.has,
        ),
        arithmetic=[f"{one.package} {one.version}: Requires-Dist: {one.wants}", one.has],
        at=[],
        cause=text(
            "By the package's own metadata. Compiled packages fail at import (undefined symbol); others fail "
            "where an API changed."
        ),
        steps=[
            f"pip install '{name}'",
            text("Or another {package}, made for {has}.", package=one.package, has=one.has),
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
            text("The driver {driver} is too old for CUDA {cuda}", driver=driver, cuda=cuda),
            arithmetic=[f"torch {torch}, CUDA {cuda}: driver {driver} < {DRIVERS[int(major)]}"],
            at=[],
            cause=text("CUDA {major} needs {DRIVERS} at least.", major=major, DRIVERS=DRIVERS[int(major)]),
            steps=[text("Update the driver, or install a torch for an older CUDA.")],
            reference=COMPATIBILITY,
        )
    ]
