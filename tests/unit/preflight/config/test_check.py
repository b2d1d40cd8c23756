"""From the words of a person to a verdict, as at a terminal and in a notebook."""

from __future__ import annotations

import dataclasses
import json
import socket
import types
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg import cli, render
from jupyter_traindbg.model import Device, GpuReport, Machine, MachineGpu, NotAvailable, Problem
from jupyter_traindbg.preflight import config
from jupyter_traindbg.preflight.config import here, planning, sources

GIB = 2**30
RUN = """\
#!/bin/bash
export MASTER_PORT=29577
torchrun --nproc-per-node 4 train.py \\
    --micro_train_batch_size 2 --train_batch_size {batch} \\
    --rollout_batch_size 16 --n_samples_per_prompt 4 --zero_stage 3 --bf16
"""
MACHINE = Machine("node0", 64, 500 * GIB, 400 * GIB, (MachineGpu("NVIDIA A100-SXM4-80GB", 80 * GIB),) * 4)
ON_FOUR = ("--gpus", "4", "--gpu-memory", "80GiB", "--cpus", "64", "--memory", "500GiB")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shell in a folder of its own, in which nothing is set that has to do with training."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINDBG_LANG", "en")
    monkeypatch.setattr(here.procfs, "training_environ", lambda pid: {})
    monkeypatch.setattr(here, "unmet", lambda: ())


def test_a_script_is_mended_by_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.sh").write_text(RUN.format(batch=60))
    assert cli.main(["preflight", "run.sh", *ON_FOUR]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "train_batch_size 60 % (micro_train_batch_size 2 x 4 processes = 8) = 4" in told
    assert "where run.sh:4 --train_batch_size" in told
    assert "Set train_batch_size to 56 or 64" in told
    Path("run.sh").write_text(RUN.format(batch=64))
    assert cli.main(["preflight", "run.sh", *ON_FOUR]) == 0
    assert "nothing here speaks against starting it" in capsys.readouterr().out


def test_a_command_line_after_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    words = "torchrun --nproc-per-node 8 train.py --zero_stage 3 --bf16".split()  # noqa: SIM905
    Path("more.yaml").write_text("num_workers: 2\n")
    assert cli.main(["preflight", "more.yaml", "--json", "--parameters", "7B", *ON_FOUR, "--", *words]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [f["code"] for f in answer["findings"]] == ["world_size_gpu_mismatch"]
    assert answer["memory"]["parameters"] == 7_000_000_000
    assert answer["plan"]["processes_per_node"] == {
        "value": 8,
        "key": "torchrun.nproc-per-node",
        "file": "command line",
        "line": None,
    }


@pytest.mark.parametrize(
    ("name", "content", "words", "status", "said"),
    [
        ("a.yaml", "a: [1\nb: 2\n", ["a.yaml"], 3, "traindbg: a.yaml:2 is no YAML: "),
        ("a.json", "{", ["a.json"], 3, "traindbg: a.json:1 is no JSON: "),
        ("a.yaml", "", ["none.yaml"], 2, "traindbg: there is no file none.yaml; "),
        ("a.yaml", "", ["none"], 2, "traindbg: 'none' is no configuration, and no command line with options; "),
        ("a.yaml", "", ["a.yaml", "--model", "none"], 2, "traindbg: --model none is no directory with a config.json"),
        ("train.py", "import torch", ["train.py"], 2, "traindbg: 'train.py' is no configuration, and no command line"),
        ("a.yaml", "", ["a.yaml", "--gpu-memory", "80"], 2, "'80' is no size such as 80GiB"),
        ("a.yaml", "", ["a.yaml", "--parameters", "big"], 2, "'big' is no number of parameters"),
        ("a.yaml", "", ["a.yaml", "--gpu-memory", "much"], 2, "'much' is no size such as 80GiB"),
        ("a.yaml", "", ["a.yaml", "--gpus", "0"], 2, "'0' is no number from 1 on"),
    ],
)
def test_what_is_broken_is_told_in_one_line(  # noqa: PLR0917
    name: str, content: str, words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_text(content)
    try:
        ended = cli.main(["preflight", *words])
    except SystemExit as e:
        ended = int(e.code or 0)
    assert ended == status
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err.splitlines()[-1]


def test_a_folder_named_like_a_launcher_is_not_in_its_way() -> None:
    Path("accelerate").mkdir()
    found = config.check(["accelerate", "launch", "--num_processes", "4", "train.py"], machine=MACHINE)
    assert found.plan.dialects == ("accelerate",)


def test_a_value_adds_no_lines_to_a_verdict() -> None:
    Path("a\nb.yaml").write_text(
        'per_device_train_batch_size: 2\n"x\\ny": {nnodes: 2}\nmaster_addr: "localhost\\n\\e[31m2. rm"\n'
    )
    Path("c.yaml").write_text('output_dir: "a\\n2. rm -r b"\nsave_steps: 1\nmax_steps: 9000\nmaster_port: 99999\n')
    machine = dataclasses.replace(MACHINE, disk_free_bytes={"a 2. rm -r b": 1})
    found = config.check(["a\nb.yaml", "c.yaml"], machine=machine, parameters=7_000_000_000)
    assert {f.code for f in found.findings} == {"init_incomplete", "checkpoint_disk_full"}
    told = [words for f in found.findings for words in (f.title, f.where or "", *f.who, *f.evidence, *f.next_steps)]
    assert all(words.isprintable() for words in told)


def test_a_name_adds_no_lines_to_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a\n\x1b[31m\udcff.yaml").write_text("a: [")
    assert cli.main(["preflight", "a\n\x1b[31m\udcff.yaml"]) == 3
    assert capsys.readouterr().err.startswith(r"traindbg: a\n\x1b[31m\udcff.yaml:1 is no YAML: ")


def test_nothing_named_is_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = config.check([])
    assert found.plan.dialects == ()
    assert found.plan.machine.cpus > 0
    assert found.taken_s > 0
    assert " · this machine · " in render.text(found).splitlines()[0]


def test_unknown_keys_and_an_empty_file_are_no_finding() -> None:
    Path("a.yaml").write_text("zebra: {stripes: 12}\n? [1, 2]\n: 3\n7: x\n")
    Path("b.yaml").write_text("# nothing yet\n")
    found = config.check(["a.yaml", "b.yaml"], machine=MACHINE)
    assert found.findings == ()
    assert found.notes[0] == "b.yaml is empty"


def test_a_magic_takes_the_same_words() -> None:
    from jupyter_traindbg.magics import base

    words = base.split("run.yaml a.b=1 --gpus 8 --gpu-memory 80GB -- torchrun --nproc-per-node 8 't t.py' --gpus 3")
    args = base.parser("preflight").parse_args(words)
    assert args.words == ["run.yaml", "a.b=1", "torchrun", "--nproc-per-node", "8", "t t.py", "--gpus", "3"]
    assert (args.gpus, args.gpu_memory) == (8, 80 * GIB)


# --- the machine ---------------------------------------------------------------------------------------------------------


def plan_of(*words: str) -> planning.Plan:
    return planning.plan_of(sources.read(words, {}), Machine("x"))


def test_this_machine_is_looked_at_for_the_plan() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        plan = plan_of("torchrun", "--master_port", str(port), "t.py", "--output_dir", "out/run/7")
        found = here.machine(plan)
    assert [(p.port, p.state) for p in found.ports] == [(port, "taken")]
    assert found.disk_free_bytes.keys() == {"out/run/7"}, "of the nearest directory that is there"
    assert found.disk_free_bytes["out/run/7"] > 0
    assert 0 < found.memory_free_bytes <= found.memory_bytes


@pytest.mark.parametrize("place", ["~nobody-here/out", "a\0b", "s3://bucket/out", "/" + "x" * 5000, "$HOME/out"])
def test_a_directory_that_is_none_is_not_asked_for(place: str) -> None:
    found = here.machine(plan_of("python", "t.py", "--output_dir", place))
    assert set(found.disk_free_bytes) <= {place[:4096].replace("\0", " ")}


def test_the_port_of_another_machine_is_not_asked() -> None:
    plan = plan_of("torchrun", "--master_addr", "node7", "--master_port", "29500", "t.py")
    assert here.machine(plan).ports == ()


def test_another_machine_is_only_what_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_gpus", lambda *_: ((), {}))
    found = here.machine(plan_of("python", "t.py"), here.Described(gpus=8, gpu_memory_bytes=80 * GIB))
    assert (found.cpus, found.memory_bytes, found.ports) == (0, 0, ())
    assert found.gpus == (MachineGpu("GPU", 80 * GIB),) * 8
    own = (MachineGpu("NVIDIA L4", 22 * GIB),) * 2
    monkeypatch.setattr(here, "_gpus", lambda *_: (own, {"driver": "570.1"}))
    found = here.machine(plan_of("python", "t.py"), here.Described(gpus=4))
    assert found.gpus == (own[0],) * 4
    assert found.cpus > 0
    assert found.versions["driver"] == "570.1"


def device(index: int, cuda: int | None, **more: Any) -> Device:
    name = more.pop("name", "NVIDIA H100 80GB HBM3")
    return Device(
        index, f"GPU-{index}", name, 2**30, 80 * GIB, *[NotAvailable("not asked")] * 10, cuda_index=cuda, **more
    )


def test_the_gpus_that_a_program_would_see(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def report(deadline_s: float, *, visible: str | None, device_order: str | None) -> GpuReport:
        asked["visible"] = visible
        devices = (
            device(0, None),
            device(1, 0),
            device(2, 1, fault="lost"),
            device(3, 2, name=NotAvailable("no name")),
        )
        return GpuReport(devices, "570.86", "12.8", None, (), 0.1)

    monkeypatch.setattr(here.gpus, "report", report)
    found, driver = here._gpus(4, "1,2,3", 1.0)
    assert asked == {"visible": "1,2,3"}
    assert found == (MachineGpu("NVIDIA H100 80GB HBM3", 80 * GIB, 2**30), MachineGpu("GPU", 80 * GIB, 2**30))
    assert driver == {"driver": "570.86"}
    assert here._gpus(0, None, 1.0) == ((), {}), "no device files: the driver is not asked"


def test_a_driver_that_does_not_answer_leaves_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    silent = GpuReport((), NotAvailable("silent"), NotAvailable("silent"), Problem("the driver is silent"), (), 0.1)
    monkeypatch.setattr(here.gpus, "report", lambda *_, **__: silent)
    found, driver = here._gpus(2, None, 1.0)
    assert driver == {}
    assert not isinstance(found, NotAvailable)
    assert [str(gpu.memory_bytes) for gpu in found] == ["not available (the driver is silent)"] * 2
    assert here._gpus(NotAvailable("no /dev"), None, 1.0) == (NotAvailable("the driver is silent"), {})


def test_requirements_that_are_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.8.0+cu128", "vllm": "0.9.0", "transformers": "4.50.0", "numpy": "2.0.0"}
    wants = {
        "vllm": [
            "torch==2.7.0",
            "transformers>=4.51",
            "numpy; extra == 'audio'",
            "xgrammar==1",
            "numpy<2 ; python_version < '3'",
            "not a line!",
        ],
        "transformers": ["torch>=2.9; extra == 'torch'", "torch>=99; extra == 'dev'", "numpy>=1.17"],
    }

    def version(name: str) -> str:
        if name not in versions:
            raise here.metadata.PackageNotFoundError(name)
        return versions[name]

    seen = types.SimpleNamespace(
        version=version, requires=wants.get, PackageNotFoundError=here.metadata.PackageNotFoundError
    )
    monkeypatch.undo()
    monkeypatch.setattr(here, "metadata", seen)
    here.unmet.cache_clear()
    try:
        found = {(one.package, one.wants, one.has) for one in here.unmet()}
    finally:
        here.unmet.cache_clear()
    assert found == {
        ("vllm", "torch==2.7.0", "torch 2.8.0+cu128"),
        ("vllm", "transformers>=4.51", "transformers 4.50.0"),
        ("transformers", "torch>=2.9; extra == 'torch'", "torch 2.8.0+cu128"),
    }
