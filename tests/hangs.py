"""Scenes of tests/programs/hangs/: what each expects, how it is started, and whether a diagnosis of it is right.

The benchmark uses these too, so nothing here needs pytest's fixtures.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scarce import control_group, swap_file
from support import PROGRAMS, Program

HANGS = PROGRAMS / "hangs"
SHARED = ("parts", "trainers")
"""Modules of the scenes that are none themselves."""
HERE = "# HERE"
_LAUNCHERS: Mapping[str, Sequence[str]] = {
    "torchrun": ("-m", "torch.distributed.run"),
    "patient": (str(HANGS / "torchrun"),),
    "reaping": (str(HANGS / "torchrun"), "--reap"),
    "full": (str(HANGS / "torchrun"),),
    "full_shm": (str(HANGS / "torchrun"),),
    "little_memory": (str(HANGS / "torchrun"),),
    "swap": ("-m", "torch.distributed.run"),
}
IN_OWN_MOUNTS = ("sh", str(PROGRAMS / "in_own_mounts.sh"))
"""A small disk in front of the launchers "full" and, as /dev/shm, "full_shm": needs root."""
LITTLE_BYTES, SWAP_BYTES = 256 << 20, 1 << 30
"""The memory for whoever joins the control group of "little_memory" and "swap", and the swap of the latter."""
NEED_ROOT = ("full", "full_shm", "little_memory", "swap")
_RANK = re.compile(r"rank (\d+)\b")
_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>\S+)")


@dataclass(frozen=True)
class Scene:
    """One file of tests/programs/hangs/: what a diagnosis has to say of it. The README there explains the fields."""

    name: str
    codes: tuple[str, ...]
    """Empty for a job in which nothing is wrong."""
    ranks: str | Sequence[int]
    functions: tuple[str, ...]
    """Empty where there is no place: the process is gone."""
    lines: frozenset[int]
    states: tuple[str, ...]
    also: tuple[str, ...]
    launcher: str
    worlds: Sequence[int] | None
    doubt: bool
    beside: tuple[str, ...] = ()
    """What the processes are called that the same file runs as beside the job, started before it."""
    names: tuple[str, ...] = ()
    """Which of these the first finding has to name."""
    says: tuple[str, ...] = ()
    """Regular expressions; the first finding has to say each somewhere."""

    @property
    def path(self) -> Path:
        return HANGS / f"{self.name}.py"

    def works_with(self, world: int) -> bool:
        return self.worlds is None or world in self.worlds

    def blamed(self, culprit: int | None, world: int) -> set[int]:
        """The ranks that the first finding has to name."""
        everybody = set(range(world))
        if not isinstance(self.ranks, str):
            return set(self.ranks)
        if self.ranks in ("culprit", "others"):
            assert culprit is not None, f"{self.name} did not say whose turn it was"
            return {culprit} if self.ranks == "culprit" else everybody - {culprit}
        return {"all": everybody, "half": set(range(1, world, 2))}[self.ranks]


def scenes() -> list[Scene]:
    """All scenes, by name."""
    return [scene(path.stem) for path in sorted(HANGS.glob("*.py")) if path.stem not in SHARED]


def scene(name: str) -> Scene:
    source = (HANGS / f"{name}.py").read_text()
    expected = _expected(source)
    return Scene(
        name,
        codes=_several(expected["code"]),
        ranks=expected.get("ranks", "all"),
        functions=_several(expected.get("where")),
        lines=frozenset(n for n, line in enumerate(source.splitlines(), 1) if line.endswith(HERE)),
        states=_several(expected.get("state", "stuck")),
        also=_several(expected.get("also")),
        launcher=expected.get("launcher", "torchrun"),
        worlds=expected.get("worlds"),
        doubt=expected.get("doubt", False),
        beside=_several(expected.get("beside")),
        names=_several(expected.get("names")),
        says=_several(expected.get("says")),
    )


def _expected(source: str) -> dict[str, Any]:
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "EXPECTED":
            found = ast.literal_eval(statement.value)
            assert isinstance(found, dict)
            return found
    raise AssertionError("a scene needs a dict literal EXPECTED")


def _several(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


# --- running them --------------------------------------------------------------------------------------------------


class Hang(Program):
    """A scene that has been started."""

    def __init__(
        self,
        of: Scene,
        world: int,
        process: subprocess.Popen[bytes],
        log: Path,
        scarce: contextlib.ExitStack | None = None,
        *,
        beside: Mapping[str, Program] | None = None,
    ) -> None:
        """``scarce`` is what the scene runs short of; it is taken away when the scene has stopped. ``beside``: its other processes."""
        super().__init__(process, log)
        self.scene, self.world, self.beside = of, world, beside or {}
        self._scarce = scarce or contextlib.ExitStack()

    @property
    def target(self) -> str:
        return f"torchrun:{self.pid}"

    @property
    def culprit(self) -> int | None:
        """Whose turn it was, as the scene said last."""
        found = re.findall(r"^culprit (\d+)$", self.output(), re.MULTILINE)
        return int(found[-1]) if found else None

    def called(self, role: str) -> str:
        """What a finding calls one of its other processes."""
        return f"pid {self.beside[role].pid}"

    def stop(self) -> None:
        super().stop()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._scarce.close()


@contextlib.contextmanager
def running(name: str, folder: Path, *, world: int = 2, seed: int = 0, launcher: str | None = None) -> Iterator[Hang]:
    """Start a scene, and end it and all its processes afterwards. Does not wait: ``hang.wait_for("ready")`` does.

    ``launcher`` in place of the scene's own: ``"patient"`` starts in half the time, as it does without torch.
    """
    hang = launch(scene(name), folder, world=world, seed=seed, launcher=launcher)
    try:
        yield hang
    finally:
        hang.stop()


def launch(of: Scene, folder: Path, *, world: int, seed: int = 0, launcher: str | None = None) -> Hang:
    """As `running`; the caller stops it."""
    words = ["--nproc-per-node", str(world), "--master-port", str(_free_port()), str(of.path), "--seed", str(seed)]
    log = folder / f"{of.name}-{world}-{seed}.log"
    launcher = launcher or of.launcher
    disks = _small_disks(launcher, folder)
    with contextlib.ExitStack() as scarce, log.open("wb") as out:
        memory = _little_memory(launcher, folder, scarce)
        beside = {role: _start_beside(of, role, folder, seed, scarce) for role in of.beside}
        process = subprocess.Popen(
            [*(IN_OWN_MOUNTS if disks else ()), sys.executable, "-u", *_LAUNCHERS[launcher], *words],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.PIPE,  # a terminal at which nobody types
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONUNBUFFERED": "1",
                "SCENE_FOLDER": str(folder),
                **disks,
                **memory,
            },
            start_new_session=True,
        )
        return Hang(of, world, process, log, scarce.pop_all(), beside=beside)


def _start_beside(of: Scene, role: str, folder: Path, seed: int, running: contextlib.ExitStack) -> Program:
    """The scene's file as a process of its own, which is none of the job's; stopped with `running`."""
    log = folder / f"{of.name}-{role}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", str(of.path), "--seed", str(seed)],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "SCENE_FOLDER": str(folder), "BESIDE": role},
            start_new_session=True,
        )
    program = Program(process, log)
    running.callback(program.stop)
    return program


def _small_disks(launcher: str, folder: Path) -> dict[str, str]:
    """What in_own_mounts.sh is to mount; nothing for other launchers."""
    if launcher not in ("full", "full_shm"):
        return {}
    disks = {"FULL": folder / "full", "READ_ONLY": folder / "read-only"}
    for directory in disks.values():
        directory.mkdir(exist_ok=True)
    return {name: str(d) for name, d in disks.items()} | ({"FULL": "/dev/shm"} if launcher == "full_shm" else {})


def _little_memory(launcher: str, folder: Path, scarce: contextlib.ExitStack) -> dict[str, str]:
    """How a rank joins the small control group; nothing for other launchers."""
    if launcher not in ("little_memory", "swap"):
        return {}
    if launcher == "swap":
        scarce.enter_context(swap_file(folder, SWAP_BYTES))
    group = f"traindbg-scene-{os.getpid()}-{folder.name}"
    return {"LITTLE_MEMORY": str(scarce.enter_context(control_group(group, LITTLE_BYTES, swaps=launcher == "swap")))}


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


# --- judging -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What is right in a diagnosis; None where the scene has nothing to compare with."""

    cause: bool
    rank: bool | None
    place: bool | None
    state: bool
    false_alarms: tuple[str, ...]
    """Codes of findings that accuse something that is in order."""
    said: str
    """The first finding in a line, for people."""

    @property
    def right(self) -> bool:
        return self.found and self.state and not self.false_alarms

    @property
    def found(self) -> bool:
        """The first finding is right; in a job without trouble there is none."""
        return self.cause and self.rank is not False and self.place is not False


def judge(hang: Hang, answer: Mapping[str, Any]) -> Judged:
    """Compare ``traindbg diagnose --json`` with what the scene expects."""
    of, findings = hang.scene, answer["findings"]
    first = findings[0] if findings else None
    alarms = tuple(f["code"] for f in findings if f["code"] not in (*of.codes, *of.also))
    said = f"{answer['state']}: " + ("nothing" if first is None else f"{first['code']} {first['who']} {first['where']}")
    state = answer["state"] in of.states
    if not of.codes:
        return Judged(not alarms, None, None, state, alarms, said)
    cause = first is not None and first["code"] in of.codes and _says(of, first)
    rank = first is not None and _right_ranks(hang, first["who"]) and _names_beside(hang, first["who"])
    place = (first is not None and _right_place(of, first["where"])) if of.functions else None
    return Judged(cause, rank, place, state, alarms if cause else (), said)


def _right_ranks(hang: Hang, who: Sequence[str]) -> bool:
    named = {int(rank) for text in who for rank in _RANK.findall(text)}
    blamed = hang.scene.blamed(hang.culprit, hang.world)
    return named == blamed or (hang.scene.doubt and hang.world == 2 and blamed <= named)


def _says(of: Scene, first: Mapping[str, Any]) -> bool:
    words = "\n".join([first["title"], *first["evidence"], first["cause"]]) if of.says else ""
    return all(re.search(pattern, words) for pattern in of.says)


def _names_beside(hang: Hang, who: Sequence[str]) -> bool:
    return {hang.called(role) for role in hang.scene.names} <= set(who)


def _right_place(of: Scene, where: str | None) -> bool:
    found = _PLACE.fullmatch(where or "")
    return (
        found is not None
        and Path(found["file"]).name == of.path.name
        and int(found["line"]) in of.lines
        and found["function"].rpartition(".")[2] in of.functions
    )


def parse(output: str) -> dict[str, Any]:
    """The one JSON document that a verb prints."""
    found = json.loads(output)
    assert isinstance(found, dict)
    return found


# --- asking from a cold shell ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What ``traindbg diagnose --json`` said of one scene."""

    status: int
    said: str
    errors: str
    judged: Judged | None

    @property
    def first(self) -> dict[str, Any]:
        found: dict[str, Any] = parse(self.said)["findings"][0]
        return found


AT_ONCE = 3
"""They wait more than they work; but each rank costs two seconds of CPU to start."""
ANSWERED_S = 290.0


class Answers(Mapping[str, Answer]):
    """Of scenes that are being asked: each answer is waited for where somebody wants it."""

    def __init__(self, asked: Mapping[str, Future[Answer]]) -> None:
        self._asked = asked

    def __getitem__(self, name: str) -> Answer:
        return self._asked[name].result(ANSWERED_S)

    def __iter__(self) -> Iterator[str]:
        return iter(self._asked)

    def __len__(self) -> int:
        return len(self._asked)


@contextlib.contextmanager
def asking(worlds: Mapping[str, int], folder_of: Callable[[str], Path], *, alone: str = "") -> Iterator[Answers]:
    """Ask several scenes, each with so many ranks and in a folder of its own, `AT_ONCE` side by side, and one ``alone`` after all others.

    Raises `TimeoutError` where an answer is waited for that does not come.
    """
    folders = {name: folder_of(name) for name in worlds}
    pool = ThreadPoolExecutor(AT_ONCE)

    def one(name: str, after: Sequence[Future[Answer]] = ()) -> Answer:
        wait(after)
        return ask(name, folders[name], world=worlds[name])

    asked = {name: pool.submit(one, name) for name in worlds if name != alone}
    if alone:
        asked[alone] = pool.submit(one, alone, list(asked.values()))
    try:
        yield Answers(asked)
    finally:
        pool.shutdown(cancel_futures=True)


def ask(name: str, folder: Path, *, world: int) -> Answer:
    """Run a scene and diagnose it in a new process. Raises what `launch` does where this machine cannot be made short of something."""
    own = scene(name).launcher
    with running(name, folder, world=world, launcher="patient" if own == "torchrun" else own) as hang:
        hang.wait_for("ready", 100)
        return asked(hang)


def asked(hang: Hang, **variables: str) -> Answer:
    """The diagnosis of a scene that runs, by a new process with these variables."""
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_traindbg.cli", "diagnose", hang.target, "--json"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env={**os.environ, **variables},
    )
    return Answer(done.returncode, done.stdout, done.stderr, judge(hang, parse(done.stdout)) if done.stdout else None)


def assert_right(answer: Answer, name: str) -> None:
    """The first finding names cause, rank and line, and the command's exit status says that there is one."""
    assert answer.judged is not None, answer.errors
    assert answer.judged.right, f"{answer.judged}\n{answer.said}"
    assert (answer.status, answer.errors) == (1 if scene(name).codes else 0, "")
