"""The files that Binder and CI read are what their readers expect; and the notebook is fit to be kept in git."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import nbformat
import pytest
import yaml
from cases import each

REPO = Path(__file__).parents[2]
NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))
SCRIPTS = [
    *(REPO / "binder" / name for name in ("postBuild",)),
    *(REPO / ".ci" / name for name in ("run",)),
    *(REPO / "scripts" / name for name in ("setup", "system-packages", "check")),
]


def test_the_environment_is_what_repo2docker_reads() -> None:
    environment = yaml.safe_load((REPO / "binder" / "environment.yml").read_text())
    assert set(environment) == {"name", "channels", "dependencies"}
    plain = [d for d in environment["dependencies"] if isinstance(d, str)]
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    assert {"python=3.11", "pip"} <= set(plain)  # repo2docker picks its base environment by the minor version
    assert any(requirement.startswith("torch==") for requirement in pip)
    # A local path would make repo2docker install everything anew for every commit; postBuild installs the package.
    assert not any(re.match(r"(-e\s|\.|/|file:)", requirement) for requirement in pip)
    assert "pip install" in (REPO / "binder" / "postBuild").read_text()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_scripts_run(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", script], check=True, timeout=20)


@each("notebook", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_are_valid_and_kept_without_outputs(notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(content)
    code = [cell for cell in content.cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)
