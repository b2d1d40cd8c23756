"""Resuming a job of several ranks from checkpoints of it, running and hung; one process: tests/smoke/test_rescue.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from resuming import goes_on
from support import Start


@pytest.mark.parametrize("how", [(), ("--fsdp2",)], ids=["ddp", "fsdp2"])
def test_the_next_losses_are_those_of_the_uninterrupted_run(
    start: Start, tmp_path: Path, free_port: str, how: Sequence[str]
) -> None:
    goes_on(start, tmp_path, free_port, ranks=2, how=how)
