"""Trainings that leak, and some that do not: how each is started, and what a cold `traindbg memory` has to say of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import PROGRAMS, Program, launch, until

ASKED_S = 90
MARK = "# leaks"


@dataclass(frozen=True)
class Leak:
    """A program of tests/programs. ``holder``: how the first finding begins; ``line``: whether it names the marked one; ``within``: the
    file where that is, if it is another one.
    """

    name: str
    code: str
    holder: str
    line: bool = True
    folder: str = "leaks"
    within: str = ""

    @property
    def file(self) -> str:
        return self.within or f"{self.name}.py"


LEAKS = (
    Leak("losses", "graphs_kept", "`losses` in main() keeps"),
    Leak("outputs", "graphs_kept", "`outputs`, a global of __main__, keeps"),
    Leak("average", "graphs_kept", "`total_loss` in main() has a graph"),
    Leak("carried", "graphs_kept", "`meter.smooth` in main() has a graph"),
    Leak("history", "container_grows", "`trainer.history['batches']` in main() keeps"),
    Leak("cache_by_step", "container_grows", "`masks`, a global of __main__, keeps"),
    Leak("cached_method", "cache_grows", "`Encoder.encode`, of the class Encoder, keeps"),
    Leak("hooks", "hooks_pile_up", "`training.model[2]._forward_hooks` in main() has"),
    Leak("closure", "container_grows", "`collected` of collect() keeps"),
    Leak("class_attribute", "container_grows", "`Batch.parts`, of the class Batch, keeps"),
    Leak("default_argument", "container_grows", "`window` of smooth() keeps"),
    Leak("cycles", "cycles_not_collected", "garbage is not collected:"),
    Leak("tracebacks", "tracebacks_kept", "`errors` in main() keeps"),
    Leak("optimizers", "optimizers_kept", "`self.optimizers` in Rounds.run() keeps"),
    Leak("chained", "chain_grows", "each Batch keeps the one before it, by `batch.before`"),
    Leak("wide", "container_grows", "`seen` in main() keeps"),
    Leak("arrays", "container_grows", "`recent` in main() keeps"),
    Leak("native", "native_growth", "", line=False),
    Leak("workers", "workers_grow", "2 DataLoader workers grow: each makes its own copy of `Texts.texts`"),
    Leak("worker_cache", "workers_grow", "2 DataLoader workers grow at each batch"),
)
SOUND = (
    "no_leaks/metrics.py",
    "no_leaks/bounded.py",
    "no_leaks/replay.py",
    "no_leaks/warm_up.py",
    "no_leaks/cyclic.py",
    "no_leaks/gathers.py",
    "sound/ordinary.py",
    "sound/gan.py",
    "sound/mixed.py",
    "train.py --workers 2",
)
APART = (
    Leak("callbacks", "container_grows", "`callback.log['gradient']` in Trainer.fit() keeps", folder="leaks_apart"),
    Leak("records", "graphs_kept", "`state.stats.records` in run() keeps", folder="leaks_apart"),
    Leak("averages", "container_grows", "`ema.snapshots` in train() keeps", folder="leaks_apart"),
    Leak("meters", "graphs_kept", "`metrics.by_name['loss'].values` in main() keeps", folder="leaks_apart"),
    Leak("transitions", "container_grows", "`learner.memory.memory` in play() keeps", folder="leaks_apart"),
    Leak("episodes", "graphs_kept", "`agent.episodes` in main() keeps", folder="leaks_apart"),
    Leak("board", "container_grows", "`WRITER.queue.queue`, a global of __main__, keeps", folder="leaks_apart"),
    Leak("features", "container_grows", "`bank.features` in main() keeps", folder="leaks_apart"),
    Leak("streams", "container_grows", "`remembered` in the generator stream() keeps", folder="leaks_apart"),
    Leak(
        "evaluation",
        "container_grows",
        "`_everything['inputs']`, a global of gathered, keeps",
        folder="leaks_apart",
        within="gathered.py",
    ),
    Leak("scalars", "graphs_kept", "`scalars.by_tag['train/loss']` in train() keeps", folder="leaks_apart"),
    Leak("priorities", "container_grows", "`hardest.heap` in main() keeps", folder="leaks_apart"),
    Leak("clipped", "hooks_pile_up", "`net.head.weight._backward_hooks` in main() has", folder="leaks_apart"),
    Leak("log_entries", "container_grows", "`self.log` in Loop.run() keeps", folder="leaks_apart"),
    Leak("subscribers", "graphs_kept", "`BUS.subscribers['step']`, a global of __main__, keeps", folder="leaks_apart"),
)
"""Written after the rules, by nobody's knowledge of them, to see whether these hold for other programs."""
SOUND_APART = tuple(
    f"no_leaks_apart/{name}.py" for name in ("first_epoch", "capped", "epoch_outputs", "rings", "lengths", "evicting")
)


def marked_line(leak: Leak) -> int:
    """The number of the line that makes it leak."""
    rows = (PROGRAMS / leak.folder / leak.file).read_text().splitlines()
    (line,) = (number for number, row in enumerate(rows, 1) if row.partition(MARK)[1])
    return line


@contextmanager
def leaking(leak: Leak, folder: Path, seed: int = 0) -> Iterator[Program]:
    """One of these programs, once it has leaked for a dozen steps."""
    yield from _running(launch(folder, f"{leak.folder}/{leak.name}.py", "--seed", str(seed)), ("ready",))


@contextmanager
def sound(program: str, folder: Path) -> Iterator[Program]:
    """One in which nothing leaks, once it trains."""
    words = program.split()
    yield from _running(launch(folder, *words, env={"TMPDIR": str(folder)}), ("ready", "loss", "critic"))


def _running(program: Program, ready: tuple[str, ...]) -> Iterator[Program]:
    try:
        until(
            lambda: any(word in program.output() for word in ready) or program.process.poll() is not None,
            "it does not train",
            120,
        )
        assert program.process.poll() is None, program.output()
        yield program
    finally:
        program.stop()


def ask(pid: int, *options: str) -> dict[str, Any]:
    """A cold `traindbg memory`, as somebody at a shell asks it."""
    command = [sys.executable, "-m", "jupyter_traindbg.cli", "memory", str(pid), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ASKED_S, check=False)
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def warnings(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings by which somebody would be alarmed."""
    return [finding for finding in answer["findings"] if finding["severity"] != "info"]


def assert_right(answer: dict[str, Any], leak: Leak) -> None:
    """The first finding is the leak: what holds it, and the line."""
    told = json.dumps(answer["findings"], indent=1)
    assert answer["findings"], json.dumps(answer["ranks"][0]["look"], indent=1)
    first = answer["findings"][0]
    assert first["code"] == leak.code, told
    assert first["title"].startswith(leak.holder), told
    if leak.line:
        assert f"{leak.file}:{marked_line(leak)} " in (first["where"] or ""), told
