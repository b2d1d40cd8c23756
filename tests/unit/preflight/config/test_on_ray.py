"""What a configuration and a person say of Ray's workers, and which node of a cluster decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_traindbg import cli
from jupyter_traindbg.errors import UsageError
from jupyter_traindbg.model import Given, Machine, MachineGpu, NotAvailable, Plan, RayCluster, RayGpu, RayNode
from jupyter_traindbg.preflight.config import Described, OnRay, Worker, on_ray, planning, sources

GIB = 2**30


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def planned(written: str, asked: OnRay = OnRay(), *words: str) -> Plan:  # noqa: B008
    Path("run.yaml").write_text(written)
    read = sources.read(["run.yaml", *words], {})
    return on_ray.said_of_workers(planning.plan_of(read, Machine("x")), read, asked)


def values(plan: Plan) -> dict[str, Any]:
    names = (
        "ray_workers",
        "ray_cpus",
        "ray_gpus",
        "ray_memory",
        "ray_use_gpu",
        "ray_device",
        "ray_strategy",
        "workers",
    )
    return {name: given.value for name in names if (given := getattr(plan, name)) is not None}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("selfplay:\n  num_workers: 100\n  device: cuda\n", {"ray_workers": 100, "ray_device": "cuda"}),
        ("train: {collector: {n_workers: 4}}\n", {"ray_workers": 4}),
        ("data: {num_workers: 4}\nnum_workers: 3\n", {"workers": 3}),
        (
            "scaling_config: {num_workers: 8, use_gpu: true, resources_per_worker: {CPU: 2, GPU: 1}, placement_strategy: SPREAD}\n",
            {"ray_workers": 8, "ray_use_gpu": True, "ray_cpus": 2, "ray_gpus": 1, "ray_strategy": "SPREAD"},
        ),
        ("num_env_runners: 16\nnum_gpus_per_env_runner: 0.1\n", {"ray_workers": 16, "ray_gpus": 0.1}),
        ("actor_rollout_ref: {rollout: {agent: {num_workers: 8}}}\n", {}),
    ],
)
def test_whose_workers_they_are(written: str, found: dict[str, Any]) -> None:
    assert values(planned(written)) == found


def test_resources_with_names_of_their_own_are_kept_apart() -> None:
    plan = planned("scaling_config: {num_workers: 2, resources_per_worker: {CPU: 1, fast_disk: 2}}\n")
    assert {name: given.value for name, given in plan.ray_custom.items()} == {"fast_disk": 2.0}
    assert plan.ray_custom["fast_disk"].file == "run.yaml"


def test_the_persons_words_count_more() -> None:
    asked = OnRay(workers="12", each={"CPU": 0.5, "memory": float(GIB), "disk": 1.0})
    plan = planned("selfplay: {num_workers: 100, num_cpus_per_worker: 2}\n", asked)
    assert values(plan) == {"ray_workers": 12, "ray_cpus": 0.5, "ray_memory": GIB}
    assert plan.ray_custom["disk"].key == "--each disk"


def test_a_key_says_how_many_and_is_no_loaders_then() -> None:
    plan = planned("mine:\n  num_workers: 7\n", OnRay(workers="mine.num_workers"))
    assert values(plan) == {"ray_workers": 7}
    assert plan.ray_workers == Given(7, "mine.num_workers", "run.yaml", 2)


@pytest.mark.parametrize(
    ("workers", "said"), [("nosuch", "no such key"), ("a.word", "which is no number"), ("a.none", "is no number")]
)
def test_a_key_that_says_none_is_an_error(workers: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned("a: {word: x, none: 0}\n", OnRay(workers=workers))


# --- the cluster -------------------------------------------------------------------------------------------------------


def node(name: str, cpus: int, gpus: int = 0, **more: Any) -> RayNode:
    total = {"CPU": float(cpus), **({"GPU": float(gpus)} if gpus else {})}
    known: dict[str, Any] = {"cpus": cpus, "memory_total_bytes": 64 * GIB, "memory_used_bytes": 16 * GIB, **more}
    return RayNode(name, f"10.9.9.{sum(map(ord, name)) % 250}", name, name == "head", True, "", total, total, **known)


def cluster(*nodes: RayNode) -> RayCluster:
    return RayCluster("10.9.9.1:6379", "http://10.9.9.1:8265", "2.60.0", 0.0, 0.1, "state API", nodes)


def test_of_the_nodes_with_gpus_the_smallest_that_is_needed_decides() -> None:
    devices = tuple(RayGpu(n, "NVIDIA L4", 22 * GIB, GIB) for n in range(2))
    of = cluster(node("head", 96), node("big", 32, 8), node("small", 16, 2, devices=devices))
    one = on_ray.machine_of(of, Plan(Machine("")), Described())
    assert (one.cpus, isinstance(one.gpus, NotAvailable) or len(one.gpus)) == (32, 8)
    assert one.nodes is None
    assert one.memory_free_bytes == 48 * GIB
    two = on_ray.machine_of(of, Plan(Machine(""), nodes=Given(2, "nnodes", "f")), Described())
    assert (two.cpus, two.gpus) == (16, (MachineGpu("NVIDIA L4", 22 * GIB, GIB),) * 2)
    assert [n.name for n in two.ray_nodes] == ["head", "big", "small"]
    assert two.versions == {"cluster's ray": "2.60.0"}, "what is installed here says nothing of other machines"


def test_a_cluster_that_does_not_tell_its_devices_has_gpus_all_the_same() -> None:
    found = on_ray.machine_of(cluster(node("a", 8, 2)), Plan(Machine("")), Described(cpus=4))
    assert not isinstance(found.gpus, NotAvailable)
    assert [isinstance(gpu.memory_bytes, NotAvailable) for gpu in found.gpus] == [True, True]
    assert found.cpus == 4


# --- which worker to try ------------------------------------------------------------------------------------------------


def wanted(written: str, worker: Worker) -> Any:
    Path("run.yaml").write_text(written)
    read = sources.read(["run.yaml"], {})
    return on_ray.wanted_of(worker, planning.plan_of(read, Machine("x")), read)


def test_the_configuration_names_the_worker_and_its_arguments() -> None:
    found = wanted(
        "selfplay:\n  num_workers: 3\n  num_cpus_per_worker: 2\n  worker: {_target_: scai.worker.Worker, games: 2}\n",
        Worker(),
    )
    assert (found.module, found.name, found.arguments) == ("scai.worker", "Worker", {"games": 2})
    assert found.resources == {"CPU": 2.0}
    assert found.paths[0] == str(Path.cwd())


@pytest.mark.parametrize(
    ("written", "worker", "said"),
    [
        ("a: 1\n", Worker(), "no class"),
        ("a: {_target_: m.A}\nb: {_target_: m.B}\n", Worker(), r"2 classes \(a._target_, b._target_\)"),
        ("a: 1\n", Worker("Worker"), "'Worker' names no class"),
        ("a: 1\n", Worker("a b:C"), "names no class"),
        ("a: 1\n", Worker("m:C", working_dir="nowhere"), "is no directory"),
    ],
)
def test_a_worker_that_cannot_be_meant(written: str, worker: Worker, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wanted(written, worker)


# --- the command line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--time-worker", "m:C"], "--time-worker is about a Ray cluster, and none is named"),
        (["--workers", "3"], "--workers is about a Ray cluster"),
        (["--ray", "auto", "--call", "run"], "--init, --call and --working-dir are for a worker to time"),
        (["--ray", "auto", "--each", "CPU"], "'CPU' is no resource"),
        (["--ray", "auto", "--each", "CPU=-1"], "is no resource"),
        (["--ray", "auto", "--each", "memory=much"], "is no"),
        (["--ray", "auto", "--time-worker", "m:C", "--init", "[1]"], "is no JSON such as"),
        (["--ray", "auto", "--time-worker", "m:C", "--call-with", "{}"], "is no JSON such as"),
        (["--ray", "ray:02000000@127.0.0.1:1"], "names a job"),
        (["--ray", "nonsense"], "names a job"),
        (["--ray", "ftp://x:1"], "is no address of a Ray cluster"),
    ],
)
def test_what_is_off_is_told_in_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = cli.main(["preflight", *words])
    except SystemExit as e:
        status = int(e.code or 0)
    told = capsys.readouterr()
    assert (status, told.out) == (2, "")
    assert said in told.err.splitlines()[-1]


def test_a_cluster_that_is_not_there_is_told_soon(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["preflight", "--ray", "127.0.0.1:1", "--json", "--timeout", "5"]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "127.0.0.1:1" in told.err


def test_a_described_cluster_needs_no_cluster() -> None:
    """Whoever has the resources by other means hands them over."""
    from jupyter_traindbg.preflight import config

    Path("run.yaml").write_text("selfplay: {num_workers: 100, num_cpus_per_worker: 1}\n")
    machine = on_ray.machine_of(cluster(node("a", 8), node("b", 8)), Plan(Machine("")), Described())
    found = config.check(["run.yaml"], machine=machine)
    assert [f.code for f in found.findings] == ["ray_waiting_for_resources"]
    assert json.loads(json.dumps(found.to_dict()))["plan"]["machine"]["ray_nodes"][0]["resources_total"]["CPU"] == 8
