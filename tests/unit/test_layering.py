"""Data flows one way (docs/architecture.md): a module imports only what lies upstream of it. Read from the source, nothing is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import each
from layers import HEAVY, LEAVES, MAY_IMPORT, MAY_IMPORT_RAY, STANDARD_LIBRARY_ONLY

REPO = Path(__file__).parents[2]
PACKAGE = "jupyter_traindbg"
MODULES = {
    ".".join(file.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((REPO / PACKAGE).rglob("*.py"))
}


def is_within(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


def short(module: str) -> str:
    """``jupyter_traindbg.attach.base`` -> ``attach.base``; the package itself is ``__init__``."""
    return "__init__" if module == PACKAGE else module.removeprefix(PACKAGE + ".")


def imported(module: str, tree: ast.AST, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that `tree` imports, at its top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".") if is_package else module.split(".")[:-1]
                anchor = parents[: len(parents) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if inner in MODULES else base


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """The imports in `source` that run against the flow, were it the module called `module`."""
    importer = short(module)
    part = max((part for part in MAY_IMPORT if is_within(importer, part)), key=len)
    bad = []
    for line, name in imported(module, ast.parse(source), is_package=is_package):
        if is_within(name, PACKAGE):
            wanted = short(name)
            allowed = is_within(wanted, part) or any(is_within(wanted, ok) for ok in MAY_IMPORT[part])
        else:
            top = name.split(".")[0]
            besides = [extra for only, extra in STANDARD_LIBRARY_ONLY.items() if is_within(importer, only)]
            allowed = top in sys.stdlib_module_names or not besides or any(top in extra for extra in besides)
        if not allowed:
            bad.append(f"{importer}:{line} imports {name}")
    return bad


def test_every_part_has_its_place_in_the_flow() -> None:
    assert {short(module).split(".")[0] for module in MODULES} - {"__main__"} <= MAY_IMPORT.keys()


@each("module", MODULES, ids=short)
def test_imports_follow_the_flow(module: str) -> None:
    file = MODULES[module]
    assert violations(module, file.read_text(), is_package=file.name == "__init__.py") == []


@each(
    ("module", "line"),
    [
        ("agent.core", "from ..model import Step"),
        ("agent.core", "from jupyter_traindbg import errors"),
        ("agent.probes.grads", "import torch"),
        ("agent.probes.grads", "def run():\n    import numpy.linalg"),
        ("model", "from . import errors"),
        ("outside.stacks", "from ..attach import base"),
        ("outside.stacks", "from ..agent.core import Agent"),
        ("diagnose.gpu", "from ..outside import procfs"),
        ("diagnose.gpu", "def f():\n    from ..job import attach"),
        ("attach.process", "from ..job import Job"),
        ("attach.ptrace", "import psutil"),
        ("render.text", "from ..attach.discover import targets"),
        ("job", "from .magics import base"),
        ("magics.attach", "from ..attach.process import enter"),
        ("evidence", "from .render import units"),
        ("actions.tuning", "from ..job import Job"),
        ("actions.tuning", "from ..agent.core import Agent"),
        ("gather.watched", "from ..job import Job"),
        ("report.parts.stacks", "from ...job import Job"),
        ("redact.names", "from ..outside import procfs"),
        ("diagnose.hang", "from ..gather.whole_job import gather"),
        ("preflight.network", "from ..job import Job"),
        ("questions.memory", "from ..job import Job"),
        ("questions.memory", "from ..render import units"),
        ("live.feed", "from ..job import Job"),
        ("live.feed", "from ..attach.base import Link"),
        ("export.parquet", "from ..job import Job"),
        ("checkpoints.reading", "import torch"),
        ("checkpoints.reading", "from ..job import Job"),
    ],
)
def test_an_arrow_against_the_flow_is_seen(module: str, line: str) -> None:
    assert violations(f"{PACKAGE}.{module}", line) != []


def test_nothing_of_ours_joins_a_ray_cluster_but_the_broker_and_its_helpers() -> None:
    importers = {
        short(module)
        for module, file in MODULES.items()
        for _, name in imported(module, ast.parse(file.read_text()), is_package=file.name == "__init__.py")
        if name.split(".")[0] == "ray"
    }
    assert [name for name in importers if not any(is_within(name, part) for part in MAY_IMPORT_RAY)] == []


@each("name", ["agent"])
def test_the_agent_is_python_3_9(name: str) -> None:
    for module, file in MODULES.items():
        if is_within(short(module), name):
            ast.parse(file.read_text(), feature_version=(3, 9))


def test_leaves_import_nothing_of_the_package() -> None:
    for leaf in LEAVES:
        module = f"{PACKAGE}.{leaf}"
        for inner, file in MODULES.items():
            if is_within(inner, module):
                is_package = file.name == "__init__.py"
                names = [name for _, name in imported(inner, ast.parse(file.read_text()), is_package=is_package)]
                assert [n for n in names if is_within(n, PACKAGE) and not is_within(n, module)] == []


@pytest.mark.parametrize("code", ["import traindbg", "import jupyter_traindbg.cli"])
def test_the_first_import_is_light(code: str) -> None:
    """Neither the package nor its command line pulls in anything heavy before it is needed."""
    show = f"{code}, sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    seen = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, timeout=60)
    assert HEAVY & set(seen.stdout.split()) == set()


def test_traindbg_is_the_same_objects() -> None:
    import jupyter_traindbg
    import traindbg

    assert traindbg.__all__ == jupyter_traindbg.__all__
    for name in traindbg.__all__:
        assert getattr(traindbg, name) is getattr(jupyter_traindbg, name)
