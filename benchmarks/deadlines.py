"""When does an answer come from somebody who does not answer? Each question is asked, with its deadline, of a real process that cannot.

Nobody here ever gives way: processes are stopped, hold the GIL for ever, sit in a driver, accept a connection and say nothing, or die while
they are asked. An answer that is another than the one expected ends the benchmark. What is told rather than waited for has a goal of
its own; everything else is to be there at its deadline, and a tenth of it for winding up. At the end: how long a process is paused, and
`import traindbg`. No other way is measured beside: without a deadline these questions have no end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from common import REPO, TRAINDBG, Row, Sample, arguments, call_ms, print_table, python_ms
from questions import Question, halted, refused, s, since_killed, stop, sure, until

import traindbg
from jupyter_traindbg.agent import rendezvous
from jupyter_traindbg.attach import discover, resolve
from jupyter_traindbg.attach.inject import inject, why_not
from jupyter_traindbg.attach.kernel_channel import run_in_kernel
from jupyter_traindbg.attach.ray.brokers import MODULE, Broker
from jupyter_traindbg.errors import (
    ActionRefused,
    CannotAttach,
    DeadlineExceeded,
    GilHeld,
    NotPermitted,
    TargetGone,
)
from jupyter_traindbg.gather.whole_job import gather
from jupyter_traindbg.job import connect
from jupyter_traindbg.outside import gpu, procfs, raystate, stacks
from jupyter_traindbg.questions.jobless import preflight
from jupyter_traindbg.questions.jobless.preflight import PlannedJob

sys.path.insert(0, str(REPO / "tests"))
from kernels import TRAINING, Kernel
from ray_clusters import start_cluster
from support import PROGRAMS, Program, launch, running

HEAD = ("asked of", "answered after, s", "its deadline, s", "of its deadline", "goal, s")
SLACK = 1.1
"""Of a deadline: when an answer may come that waits for it."""
IMPORT = "import time; t = time.perf_counter(); import traindbg; print((time.perf_counter() - t) * 1e3)"
STATES = ("asleep", "gil", "exit:3", "asleep", "uninterruptible", "busy", "family", "signal:9")
STOPPED = 3
NETWORK = """
ip link set lo up && ip link add v0 type veth peer name v1 && ip addr add 10.9.0.1/24 dev v0 && ip link set v0 up && ip link set v1 up
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev v0 nud permanent || exit 77
exec "$@"
"""
"""A network namespace of its own, where 10.9.0.2 swallows what is sent to it."""


Scene = Callable[[Path], contextlib.AbstractContextManager[list[Question]]]


# -- a job whose process is stopped --


@contextlib.contextmanager
def one_process(folder: Path) -> Iterator[list[Question]]:
    with running(folder, "train.py", "--sleep", "0.005") as program, traindbg.attach(program.pid) as job:

        def asked(what: str, deadline_s: float, ask: Callable[[], float], goal_s: float | None = None) -> Question:
            return Question(f"a stopped process: {what}", deadline_s, halted(job, program.pid, ask), goal_s)

        silent = DeadlineExceeded
        path = str(folder / "report.zip")
        yield [
            asked("stacks, from outside", 10, s(lambda: job.stacks(timeout=10)), 2.0),
            asked("grads", 2, refused(silent, lambda: job.grads(timeout=2))),
            asked("steps", 2, refused(silent, lambda: job.steps(timeout=2))),
            asked("lr", 2, refused(silent, lambda: job.lr(timeout=2))),
            asked("a new lr is refused", 4, refused(ActionRefused, lambda: job.set_lr(1e-3, timeout=4))),
            asked("threads, from outside", 4, s(lambda: job.threads(timeout=4))),
            asked("diagnose", 4, s(lambda: job.diagnose(timeout=4))),
            asked("report, at most three times", 4, s(lambda: job.report(path, force=True, timeout=4)), 12.0),
        ]


@contextlib.contextmanager
def two_ranks(folder: Path) -> Iterator[list[Question]]:
    with running(folder, "tuned.py", "--sleep", "0.005") as program, traindbg.attach(f"torchrun:{program.pid}") as job:
        pid, who = job.ranks[1].pid, "two ranks, one stopped"

        def one_answers() -> None:
            answer = job.lr(timeout=2)
            sure([r.rank for r in answer.ranks] == [0] and answer.silent[0].rank == 1, "rank 1 is silent")

        change = refused(ActionRefused, lambda: job.set_lr(1e-3, timeout=4))
        yield [
            Question(f"{who}: lr of the other", 2, halted(job, pid, s(one_answers))),
            Question(f"{who}: a new lr is refused", 4, halted(job, pid, change)),
        ]


@contextlib.contextmanager
def killed(folder: Path) -> Iterator[list[Question]]:
    def ask() -> float:
        with running(folder, "hung_after_steps.py") as program, traindbg.attach(program.pid) as job:
            stop(program.pid)  # so that no answer comes before its end
            return since_killed(program.pid, refused(TargetGone, lambda: job.grads(timeout=20)))

    yield [Question("a process killed in mid-request, since then", 20, ask, 5.0)]


@contextlib.contextmanager
def hung(folder: Path) -> Iterator[list[Question]]:
    with running(folder, "hung_after_steps.py") as program, traindbg.attach(program.pid) as job:
        yield [
            Question("a hung job: grads, read where it stands", 4, s(lambda: job.grads(timeout=4)), 4.0),
            Question("a hung job: a new lr, armed", 20, s(lambda: job.set_lr(1e-3, timeout=20)), 4.0),
        ]
        job.detach()


# -- the GIL is held --


@contextlib.contextmanager
def gil(folder: Path) -> Iterator[list[Question]]:
    with (
        running(folder, "gil_held_later.py", ready="free") as unprepared,
        running(folder, "gil_held_later.py", ready="free") as entered,
        traindbg.attach(entered.pid) as job,
    ):
        for program in (unprepared, entered):
            os.kill(program.pid, signal.SIGUSR1)
            program.wait_for("held")

        def enter() -> None:
            with traindbg.attach(unprepared.pid, timeout=5) as attached:
                sure("GIL" in attached.ranks[0].note, attached.ranks[0].note)

        def look() -> None:
            sure(job.stacks(timeout=10).processes[0].source == "py-spy", "nobody else can")

        yield [
            Question("the GIL is held, nobody was there: attach", 5, s(enter)),
            Question("the GIL is held, an agent is there: stacks, from outside", 10, s(look), 2.0),
            Question("the GIL is held, an agent is there: lr", 2, refused(DeadlineExceeded, lambda: job.lr(timeout=2))),
        ]
        for program in (unprepared, entered):
            program.stop()  # or the farewell waits for it


@contextlib.contextmanager
def from_outside(folder: Path) -> Iterator[list[Question]]:
    """Stacks without an agent, within two seconds whatever the process is in."""
    with (
        running(folder, "hung_lock.py") as lock,
        running(folder, "gil_held.py") as holder,
        running(folder, "hung_lock.py") as halted,
        running(folder, "in_driver.py") as driver,
    ):
        stop(halted.pid)
        until(lambda: procfs.uninterruptible([driver.pid]), "in uninterruptible sleep")
        asked = {"a lock": lock, "the GIL": holder, "a stop": halted, "a driver (state D)": driver}
        yield [
            Question(f"stacks from outside: {what}", 2, s(lambda pid=program.pid: stacks.dump(pid)), 2.0)  # type: ignore[misc]
            for what, program in asked.items()
        ]


# -- kernels --


@contextlib.contextmanager
def a_kernel(folder: Path) -> Iterator[Kernel]:
    kernel = Kernel(sys.executable, folder, uuid.uuid4().hex)
    try:
        yield kernel
    finally:
        kernel.close()


@contextlib.contextmanager
def kernels(folder: Path) -> Iterator[list[Question]]:
    endless = "import time\nwhile True: time.sleep(1)"
    hold = "import ctypes, os\nos.write(os.open('held', os.O_CREAT | os.O_WRONLY), b'-')\nctypes.PyDLL(None).pause()"
    pid = "import os\nresult = {'pid': os.getpid()}"
    die = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"

    def dies() -> float:
        with a_kernel(folder) as kernel:
            return refused(TargetGone, lambda: run_in_kernel(kernel.file, die, 10))()

    with a_kernel(folder) as free, a_kernel(folder) as holder, a_kernel(folder) as halted, a_kernel(folder) as gone:
        holder.run(hold)
        until((folder / "held").exists, "the GIL of a kernel is held")
        time.sleep(0.5)
        stop(halted.pid)
        gone.kill()
        wrong = free.wrong_key_file()
        yield [
            Question("a kernel, a source without end", 2, refused(DeadlineExceeded, lambda: run_in_kernel(free.file, endless, 2))),
            Question("a kernel whose GIL is held", 2, refused(GilHeld, lambda: run_in_kernel(holder.file, pid, 2))),
            Question("a stopped kernel", 10, refused(DeadlineExceeded, lambda: run_in_kernel(halted.file, pid, 10)), 3.0),
            Question("a wrong key", 10, refused(NotPermitted, lambda: run_in_kernel(wrong, pid, 10)), 1.5),
            Question("a dead kernel", 10, refused(TargetGone, lambda: run_in_kernel(gone.file, pid, 10)), 3.0),
            Question("a kernel that dies in mid-request", 10, dies, 3.0),
        ]  # fmt: skip


@contextlib.contextmanager
def busy_cell(folder: Path) -> Iterator[list[Question]]:
    def attach() -> None:
        with traindbg.attach(kernel.pid) as again:
            sure([rank.way for rank in again.ranks] == ["found running"], "an agent is there")

    with a_kernel(folder) as kernel:
        kernel.run(TRAINING).finish()
        kernel.run("print(train(10**9))").wait_for("training")
        with traindbg.attach(kernel.pid):
            yield [Question("a kernel busy in a cell: attach, for the second time", 10, s(attach), 5.0)]


# -- the driver of the GPUs --


@contextlib.contextmanager
def nvml(folder: Path) -> Iterator[list[Question]]:
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, PROGRAMS / "fake_nvml.c"], check=True)

    def report(deadline_s: float, **behaviour: str) -> Callable[[], float]:
        def ask() -> None:
            told = {f"FAKE_NVML_{name}": value for name, value in behaviour.items()}
            with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML": "normal", **told}):
                sure(gpu.report(deadline_s).hung_call, "its driver hangs")

        return s(ask)

    yield [
        Question("a driver that hangs: gpu", 2, report(2, BLOCK="Init")),
        Question("a driver that hangs: gpu, by default", 10, report(10, BLOCK="Name@0"), 3.5),
        Question("a driver that hangs in state D: gpu", 2, report(2, STUCK="PowerUsage@1")),
    ]


@contextlib.contextmanager
def nvml_again(folder: Path) -> Iterator[list[Question]]:
    """A helper that could not be killed is there already."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, PROGRAMS / "fake_nvml.c"], check=True)
    told = {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML": "normal", "FAKE_NVML_BLOCK": "Init"}
    with mock.patch.dict(os.environ, told), mock.patch("os.killpg"):
        sure(gpu.report(8.0).hung_call, "its driver hangs")
        try:
            yield [
                Question("a driver that hung before: gpu", 10, s(lambda: sure(gpu.report().hung_call, "still")), 0.5)
            ]
        finally:
            for helper in list(gpu._left):
                helper.kill()
                helper.wait(10)
            gpu._still_stuck()


@contextlib.contextmanager
def real_nvml(folder: Path) -> Iterator[list[Question]]:
    """Only where there is a driver; it answers."""
    works = gpu.report().problem is None
    yield [Question("this machine's own driver, which answers: gpu", 10, s(gpu.report), 1.0)] if works else []


# -- everything about a job at once --


@contextlib.contextmanager
def odd_job(folder: Path) -> Iterator[list[Question]]:
    """One rank in each of `STATES`, and one of them stopped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = ["--nproc-per-node", str(len(STATES)), "--master-port", port, str(PROGRAMS / "odd_ranks.py"), str(folder)]
    program = launch(folder, "hangs/torchrun", *words, *STATES)
    try:
        for rank in range(len(STATES)):
            program.wait_for(f"rank {rank} is ")
        stop(procfs.children([program.pid], procfs.processes())[STOPPED].pid)
        target = f"torchrun:{program.pid}"

        def look(timeout: float) -> None:
            links = resolve(target, timeout)
            seen = gather(target, links, timeout=timeout)
            for link in links:
                link.leave()
            sure(len(seen.ranks) == len(STATES), "all ranks are there")

        yield [
            Question("eight ranks, five of which cannot answer: evidence", 10, s(lambda: look(10))),
            Question("the same in a hurry", 2, s(lambda: look(2)), 3.0),
        ]
    finally:
        program.stop()


@contextlib.contextmanager
def listing(folder: Path) -> Iterator[list[Question]]:
    with running(folder, "prepared.py", "--serve") as program:
        sure([t.agent for t in discover.targets() if t.pid == program.pid] == [True], "its agent answers")
        stop(program.pid)

        def often() -> None:
            for _ in range(20):  # more than its backlog holds
                (seen,) = [t for t in discover.targets() if t.pid == program.pid]
            sure(not seen.agent, "it cannot answer")

        yield [Question("targets, twenty times, beside an agent that is stopped", None, s(often), 5.0)]
        os.kill(program.pid, signal.SIGCONT)


# -- networks --


@contextlib.contextmanager
def networks(folder: Path) -> Iterator[list[Question]]:
    del folder

    def trial() -> None:
        found = preflight.ask(PlannedJob(backend="gloo", all_reduce=6), timeout=1.0).all_reduce
        sure(found is not None and "not done" in found.problem, "six processes take longer to start")

    asked = [Question("an all_reduce that does not come about", 1, s(trial), 3.0)]
    inside = ["unshare", "--user", "--map-root-user", "--net", "bash", "-c", NETWORK, "bash"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode == 0:
        words = ["nccl-check", "--nnodes", "2", "--rdzv-endpoint", "10.9.0.2:29400", "--timeout", "3"]
        whole = [*inside, TRAINDBG, *words]
        asked.append(
            Question("a firewall that swallows it: nccl-check, command", 3, lambda: call_ms(*whole) / 1e3, 4.0)
        )
    yield asked


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[list[Question]]:
    """The child that joins clusters; no ray is needed to ask it."""
    del folder
    asked = Broker("10.0.0.1:6379")

    def killed_while_asked() -> float:
        asked.call("jupyter_traindbg.outside.procfs:exists", 1, deadline_s=30)
        (child,) = [
            p.pid for p in procfs.children([os.getpid()], procfs.processes()) if MODULE in procfs.command(p.pid)
        ]
        look = "jupyter_traindbg.outside.standing:look"
        return since_killed(child, refused(TargetGone, lambda: asked.call(look, [os.getpid()], 3600.0, deadline_s=20)))

    try:
        yield [Question("the broker of a Ray cluster killed in mid-request, since then", 20, killed_while_asked, 5.0)]
    finally:
        asked.end("")


@contextlib.contextmanager
def ray_addresses(folder: Path) -> Iterator[list[Question]]:
    """Whole commands; starting and ending one takes half a second."""
    del folder
    with socket.socket() as silent:  # accepts, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        def ask(of: str) -> Callable[[], float]:
            return lambda: call_ms(TRAINDBG, "ray-workers", of, "--timeout", "5", ok=(3,)) / 1e3

        gone = refused(CannotAttach, lambda: connect("ray:@127.0.0.1:9", timeout=5))
        yield [
            Question("a silent server as Ray's GCS: ray-workers", 5, ask(address), 6.5),
            Question("a silent server as Ray's dashboard: ray-workers", 5, ask(f"http://{address}"), 6.5),
            Question("a Ray cluster that is not there: connect", 5, gone),
        ]


@contextlib.contextmanager
def ray_cluster(folder: Path) -> Iterator[list[Question]]:
    del folder
    with start_cluster(num_cpus=1, token=True) as cluster, mock.patch.dict(os.environ, cluster.env):
        wrong = {**cluster.env, "RAY_AUTH_TOKEN": "0" * 64}
        sure(raystate.resolve(cluster.gcs).token == cluster.token, "it lets us in")

        def command() -> float:
            return call_ms(TRAINDBG, "diagnose", f"ray:@{cluster.gcs}", ok=(3,), env=wrong) / 1e3

        with mock.patch.dict(os.environ, wrong):
            told = refused(NotPermitted, lambda: raystate.resolve(cluster.gcs))
            yield [
                Question("a Ray cluster with another token", 10, told, 3.0),
                Question("a Ray cluster with another token: diagnose, whole command", 10, command, 3.0),
            ]


# -- pauses, and the import --


@contextlib.contextmanager
def pauses(folder: Path) -> Iterator[list[Question]]:
    with (
        running(folder, "hung_lock.py") as parked,
        running(folder, "chain.py", "library") as computing,
        running(folder, "train.py", "--sleep", "0.02") as healthy,
        traindbg.attach(healthy.pid) as job,
    ):

        def injected(program: Program) -> float:
            return inject(program.pid, {}, "pass").paused_s

        def checkpoint() -> float:
            pause_s: Any = job.checkpoint(str(folder / "checkpoint"), overwrite=True).ranks[0].pause_s
            return float(pause_s)

        def refusals() -> None:
            for _ in range(100):
                sure(why_not(parked.pid) is None, "it can be entered")

        yield [
            Question("whether a process can be entered, a hundred times", None, s(refusals), 0.5),
            Question("pause of an injection, a thread that waits", None, lambda: injected(parked), 1.0),
            Question("pause of an injection, a thread that computes", None, lambda: injected(computing), 1.0),
            Question("pause of a checkpoint of a small model", None, checkpoint, 1.0),
        ]
        for program in (parked, computing):
            rendezvous.remove(rendezvous.directory(program.pid, os.getuid()))


@contextlib.contextmanager
def importing(folder: Path) -> Iterator[list[Question]]:
    del folder
    python_ms(IMPORT)  # compiles the bytecode
    yield [Question("import traindbg, in a fresh interpreter", None, lambda: python_ms(IMPORT) / 1e3, 0.3)]


GROUPS: Mapping[str, tuple[Scene, ...]] = {
    "stopped": (one_process, two_ranks, killed, hung),
    "gil": (gil, from_outside),
    "kernel": (kernels, busy_cell),
    "nvml": (nvml, nvml_again, real_nvml),
    "job": (odd_job, listing),
    "network": (networks,),
    "ray": (broker, ray_addresses, ray_cluster),
    "pause": (pauses, importing),
}
QUICK = (killed, gil, nvml, ray_addresses, importing)


def row(question: Question, times: int) -> Row:
    """The question asked that often. The goal is for every single answer, and not for their median."""
    seen = Sample(tuple(question.ask() for _ in range(times)))
    deadline_s = question.deadline_s
    goal_s = question.goal_s if question.goal_s is not None else SLACK * (deadline_s or 0.0)
    return Row(
        question.what,
        str(seen),
        "" if deadline_s is None else f"{deadline_s:g}",
        "" if deadline_s is None else f"{seen.median / deadline_s:.2f}",
        f"<= {goal_s:g}",
        max(seen.values) <= goal_s,
    )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=GROUPS, nargs="+", help="some of the scenes (default: all)")
    args = parser.parse_args()
    times = 1 if args.quick else 3
    chosen = [scene for name in args.only or GROUPS for scene in GROUPS[name]]
    if args.quick and not args.only:
        chosen = list(QUICK)
    rows: list[Row] = []
    for scene in chosen:
        with tempfile.TemporaryDirectory() as folder, scene(Path(folder)) as questions:
            for question in questions:
                rows.append(row(question, times))
                print(" | ".join(rows[-1].cells()), file=sys.stderr, flush=True)  # it takes minutes
    print_table(
        "Asked of somebody who does not answer", HEAD, rows, [f"n = {times} of each; the goal is for the slowest."]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
