"""The table of environment variables against the installed torch, and what follows from it for a job."""

from __future__ import annotations

import mmap
import re
from functools import cache
from importlib import util
from pathlib import Path

import many_ranks
import pytest
from cases import each
from environ_evidence import job, judged
from support import REPO, need

from jupyter_traindbg.diagnose import environment, knowledge
from jupyter_traindbg.diagnose.environment.meeting import gloo_interfaces, nccl_interfaces
from jupyter_traindbg.diagnose.knowledge import Variable, reading
from jupyter_traindbg.diagnose.knowledge.checking import parsed

FILES = reading.files()
WRITTEN = [row for rows in FILES.values() for row in rows]


# --- the table -----------------------------------------------------------------------------------------------------------


@each("row", WRITTEN, ids=lambda row: row.name)
def test_a_row_says_who_reads_it_what_it_does_and_where_that_was_checked(row: Variable) -> None:
    assert re.fullmatch(r"https://\S+", row.source) or (REPO / row.source).is_file()
    assert row.reader
    assert row.en.isascii() or "µ" in row.en or "·" in row.en
    assert re.search("[\u4e00-\u9fff]", row.zh) or row.zh == row.en
    assert row.en[-1] != "."
    if row.values:
        assert re.compile(row.values).fullmatch("surely nothing understands this") is None
        assert row.default == "" or re.compile(row.values).fullmatch(row.default)
    if row.status != "real":
        assert row.instead_en, "what to use instead"
        assert row.instead_zh
    assert bool(row.until) == (row.status == "dead")
    assert (row.reader == "nobody") == (row.status == "folklore")


def test_no_variable_has_two_rows() -> None:
    names = [row.name for row in WRITTEN]
    assert sorted(set(names)) == sorted(names)
    assert len(knowledge.variables()) >= 450


def test_what_replaces_a_variable_is_real() -> None:
    for row in WRITTEN:
        named = re.findall(r"\b(?:NCCL|TORCH|GLOO)_[A-Z0-9_]+\b", row.instead_en) if row.status != "real" else []
        for name in named:
            found = knowledge.find(name)
            assert found is not None, f"{row.name}: {name}"
            assert found.status == "real", f"{row.name}: {name}"


def test_every_name_of_nccls_that_we_describe_is_one_that_its_source_reads() -> None:
    file = REPO / "jupyter_traindbg/diagnose/knowledge/variables/nccl.toml"
    (read,) = (set(group["names"]) for group in parsed(file.read_text(), file.name)["group"] if "names" in group)
    assert len(read) > 230
    for row in FILES["nccl"]:
        assert (row.name in read) == (row.status in ("real", "old name")), row.name
    assert not read & {row.name for row in FILES["nccl"] if row.status == "dead"}


def test_a_reader_is_spelled_in_one_way() -> None:
    """Whether a variable is dead goes by it."""
    readers = {row.reader for row in WRITTEN}
    assert len({reader.lower() for reader in readers}) == len(readers)


@cache
def names_in_torch() -> set[str]:
    """Every word like a variable's name in torch's headers, in the Python of its distributed part, and in its libraries."""
    spec = util.find_spec("torch")
    need("torch", spec is not None)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    word = re.compile(rb"\b(?:TORCH[A-Z]*|GLOO|NCCL|PYTORCH|MASTER|USE)_[A-Z0-9_]{3,}|\b(?:RANK|WORLD_SIZE)\b")
    found: set[bytes] = set()
    files = [
        *root.glob("include/torch/csrc/distributed/c10d/*.hpp"),
        *root.glob("include/c10/c*/*.h"),
        *root.glob("distributed/**/*.py"),
        *root.glob("_inductor/**/*.py"),
        *root.glob("_dynamo/*.py"),
    ]
    for file in [*files, root / "cuda/__init__.py", root / "__init__.py"]:
        found |= set(word.findall(file.read_bytes()))
    for library in ("libtorch_cpu.so", "libc10.so"):
        with (root / "lib" / library).open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            found |= set(re.findall(rb"\0((?:TORCH|GLOO|NCCL|PYTORCH)_[A-Z0-9_]{3,})(?=\0)", mapped))
    return {name.decode() for name in found}


OF_CUDA_BUILDS = {
    "PYTORCH_HIP_ALLOC_CONF",
    "TORCH_CUDNN_V8_API_DISABLED",
    "TORCH_NCCL_USE_COMM_NONBLOCKING",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
}
ELSEWHERE = {"TORCH_LOGS", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCH_CUDA_ARCH_LIST", "TRITON_CACHE_DIR"}


def test_the_installed_torch_has_every_name_that_we_call_pytorchs() -> None:
    ours = {row.name for row in FILES["torch"] if row.status in ("real", "old name") and not row.name.endswith("*")}
    ours |= {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}
    assert ours - OF_CUDA_BUILDS - ELSEWHERE - names_in_torch() == set()


def test_the_installed_torch_has_no_name_that_we_call_folklore() -> None:
    folklore = {row.name for row in (*FILES["torch"], *FILES["nccl"]) if row.status == "folklore"}
    assert {"NCCL_TIMEOUT", "NCCL_BACKEND"} <= folklore
    assert folklore & names_in_torch() == set()


# --- a job ---------------------------------------------------------------------------------------------------------------


@each("backend", ["nccl", "gloo", "cpu:gloo,cuda:nccl", None])
def test_what_torchrun_sets_is_well(backend: str | None) -> None:
    assert judged(job(4), backend) == []
    standings = {row.standing for row in environment.rows(job(4), backend=backend, versions={})}
    assert standings <= {"real", "unused here"}


@each(
    ("changes", "severity", "words"),
    [
        ({"NCCL_TIMEOUT": "1800"}, "info", "NCCL_TIMEOUT does nothing here"),
        ({"NCCL_BACKEND": "gloo"}, "info", "NCCL_BACKEND does nothing here"),
        ({"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"}, "info", "does nothing here since PyTorch 2.8"),
        ({"NCCL_LL_THRESHOLD": "0"}, "info", "does nothing here since NCCL 2.5"),
        ({"RAY_DISABLE_MEMORY_MONITOR": "1"}, "info", "does nothing here since Ray 2.3"),
        ({"NCCL_SOCKET_IFNAMES": "eth0"}, "info", "NCCL_SOCKET_IFNAME is meant?"),
        ({"MASTER_ADDRESS": "node0"}, "info", "MASTER_ADDR is meant?"),
        ({"NCCL_DEBUG": "TRUE"}, "warning", "'TRUE' is not a value that NCCL understands"),
        ({"TORCH_DISTRIBUTED_DEBUG": "1"}, "critical", "'1' is not a value that PyTorch understands"),
        ({"MASTER_PORT": "port"}, "critical", "'port' is not a value"),
        ({"MASTER_PORT": "295000"}, "critical", "MASTER_PORT is no port"),
        ({"TORCH_NCCL_DESYNC_DEBUG": "1", "NCCL_DESYNC_DEBUG": "0"}, "warning", "contradict each other"),
        ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, "warning", "without a watchdog"),
        ({"NCCL_BLOCKING_WAIT": "1"}, "warning", "without a watchdog"),
        ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}, "warning", "never times out"),
        ({"TORCH_NCCL_ENABLE_MONITORING": "0"}, "warning", "nobody ends the job"),
        ({"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "10"}, "warning", "heartbeat is short"),
        ({"TORCH_FR_BUFFER_SIZE": "0"}, "info", "the flight recorder is off"),
        ({"NCCL_IB_TIMEOUT": "1800"}, "warning", "an exponent, not seconds"),
        ({"NCCL_IB_TIMEOUT": "0"}, "warning", "an exponent, not seconds"),
        ({"NCCL_P2P_DISABLE": "1"}, "info", "NCCL_P2P_DISABLE: GPUs of one machine talk through its memory"),
        ({"NCCL_IB_DISABLE": "1"}, "info", "machines talk over TCP"),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, "warning", "P2P and shared memory are off"),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "warning", "every kernel launch waits"),
        ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "warning", "preceded by another one"),
        ({"NCCL_PROTO": "LL128"}, "warning", "corrupts data"),
        ({"NCCL_COMM_ID": "10.0.0.1:5000"}, "warning", "meet at one address"),
        ({"NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "8"}, "info", "more than 64 sockets"),
        ({"NCCL_DEBUG": "TRACE"}, "info", "little more than INFO"),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segment:True"},
            "critical",
            "'expandable_segments' is meant?",
        ),
        ({"CUDA_VISIBLE_DEVICES": ""}, "critical", "hides all GPUs"),
        ({"CUDA_VISIBLE_DEVICES": "3"}, "warning", "LOCAL_RANK is beyond"),
        ({"WORLD_SIZE": "4"}, "critical", "MASTER_ADDR is the machine itself"),
        ({"WORLD_SIZE": "4", "MASTER_ADDR": "node0", "NCCL_SOCKET_IFNAME": "lo"}, "critical", "is the loopback"),
    ],
    ids=str,
)
def test_one_thing_is_wrong_and_it_is_said(changes: dict[str, str], severity: str, words: str) -> None:
    (finding,) = judged(job(**changes))
    assert (finding.code, finding.severity) == ("environment", severity)
    assert words in finding.title
    assert finding.evidence
    assert finding.cause
    assert finding.next_steps
    row = next(r for r in environment.rows(job(**changes), backend="nccl", versions={}) if r.name in changes)
    expected = {"info": {"does nothing", "dead", "unknown", "real"}, "warning": {"harmful"}, "critical": {"harmful"}}[
        severity
    ]
    assert row.standing in expected


@each(
    "changes",
    [
        {"TORCH_DISTRIBUTED_DEBUG": "INFO"},
        {"NCCL_DEBUG": "info"},
        {"NCCL_IB_TIMEOUT": "22"},
        {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "1800"},
        {"CUDA_LAUNCH_BLOCKING": "0"},
        {"NCCL_P2P_DISABLE": "0"},
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,roundup_power2_divisions:[256:1,512:2]"},
        {"CUDA_VISIBLE_DEVICES": "0,1"},
        {"NCCL_PROTO": "^LL128"},
        {"MY_OWN_VARIABLE": "1", "NCCL_SOMETHING_ELSE_ENTIRELY": "1"},
        {"NCCL_BLOCKING_WAIT": "0"},
        {"OMP_NUM_THREADS": "4"},
        {"TOKENIZERS_PARALLELISM": "false"},
        {"WORLD_SIZE": "16", "MASTER_ADDR": "node0"},
        {"PYTORCH_HOME": "/opt/pytorch/pytorch"},
    ],
    ids=str,
)
def test_ordinary_settings_are_no_findings(changes: dict[str, str]) -> None:
    assert judged(job(**changes)) == []


def test_what_container_images_are_labelled_with_is_known() -> None:
    """As in NVIDIA's image of PyTorch 23.10, in that of CUDA 13, and in PyTorch's own."""
    labels = {
        "CUBLAS_VERSION": "12.2.5.6",
        "CUDA_CACHE_DISABLE": "1",
        "CUDA_DRIVER_VERSION": "535.104.05",
        "CUDA_VERSION": "12.2.2.009",
        "CUDNN_VERSION": "8.9.5.29",
        "NCCL_VERSION": "2.19.3",
        "NVIDIA_BUILD_ID": "71422337",
        "NVIDIA_CPU_ONLY": "1",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,video",
        "NVIDIA_PRODUCT_NAME": "PyTorch",
        "NVIDIA_PYTORCH_VERSION": "23.10",
        "NVIDIA_REQUIRE_CUDA": "cuda>=9.0",
        "NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS": "",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "OPAL_PREFIX": "/opt/hpcx/ompi",
        "PYTORCH_BUILD_NUMBER": "0",
        "PYTORCH_BUILD_VERSION": "2.1.0a0+32f93b1",
        "PYTORCH_HOME": "/opt/pytorch/pytorch",
        "PYTORCH_VERSION": "2.1.0a0+32f93b1",
        "TORCH_CUDA_ARCH_LIST": "8.0 8.6 9.0+PTX",
        "UCC_CL_BASIC_TLS": "^sharp",
    }
    seen = environment.rows({0: labels}, backend="nccl", versions={"torch": "2.13.0", "nccl": "2.28.3"})
    assert {row.name: row.standing for row in seen} == dict.fromkeys(labels, "real")


@each(
    ("name", "most", "odd", "severity"),
    [
        ("MASTER_PORT", "29500", "29501", "critical"),
        ("WORLD_SIZE", "4", "3", "critical"),
        ("MASTER_ADDR", "node0", "node1", "warning"),
        ("NCCL_ALGO", "Ring", "Tree", "critical"),
        ("TORCH_DIST_INIT_BARRIER", "0", "1", "critical"),
        ("NCCL_SOCKET_IFNAME", "eth0", "eth1", "warning"),
        ("HF_HUB_OFFLINE", "0", "1", "warning"),
    ],
)
def test_the_rank_that_disagrees_is_named(name: str, most: str, odd: str, severity: str) -> None:
    environ = job(4, 2, **{name: most, f"{name}_odd": odd})
    finding = next(f for f in judged(environ) if "is not the same on all ranks" in f.title)
    assert (finding.severity, finding.who) == (severity, ["rank 2"])
    assert finding.title.startswith(f"{name} is not the same on all ranks: rank 2")
    assert finding.evidence == [f"ranks 0, 1, 3: {name}={most}", f"rank 2: {name}={odd}"]
    row = next(r for r in environment.rows(environ, backend="nccl", versions={}) if r.name == name)
    assert row.standing == "differs"
    assert [(v.value, tuple(v.ranks)) for v in row.values] == [(most, (0, 1, 3)), (odd, (2,))]


def test_a_variable_that_one_rank_has_alone_differs_as_well() -> None:
    (differs, harmful) = judged(job(4, 2, TORCH_DISTRIBUTED_DEBUG_odd="DETAIL"))
    assert (differs.severity, differs.who) == ("critical", ["rank 2"])
    assert differs.evidence[0] == "ranks 0, 1, 3: TORCH_DISTRIBUTED_DEBUG is not set"
    assert harmful.severity == "warning"


@each(
    "same",
    [
        {"MASTER_ADDR": "localhost", "MASTER_ADDR_odd": "127.0.0.1"},
        {"TORCH_DISTRIBUTED_DEBUG_odd": "INFO"},
        {"TORCH_DISTRIBUTED_DEBUG": "OFF", "TORCH_DISTRIBUTED_DEBUG_odd": "off"},
        {"NCCL_IB_DISABLE_odd": "0"},
        {"NCCL_DEBUG_odd": "INFO", "CUDA_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES_odd": "1,0"},
        {"RANK_odd": "1"},
    ],
    ids=str,
)
def test_what_means_the_same_does_not_differ(same: dict[str, str]) -> None:
    assert [f.title for f in judged(job(2, 1, **same)) if "not the same" in f.title] == []


def test_machines_may_have_interfaces_of_their_own() -> None:
    environ = job(4, WORLD_SIZE="4", LOCAL_WORLD_SIZE="2", MASTER_ADDR="node0")
    for rank, machine, name in ((0, "0", "eth0"), (1, "0", "eth0"), (2, "1", "ens1"), (3, "1", "ens1")):
        environ[rank] |= {"GROUP_RANK": machine, "LOCAL_RANK": str(rank % 2), "NCCL_SOCKET_IFNAME": name}
    assert judged(environ) == []
    environ[3]["NCCL_SOCKET_IFNAME"] = "ens2"
    (finding,) = judged(environ)
    assert finding.title.startswith("NCCL_SOCKET_IFNAME is not the same")


def test_a_rank_that_started_the_others_itself_does_not_disagree_with_them() -> None:
    """Lightning's first process: what it set for itself and the others is not in the environment that it was started with."""
    environ = job(3, NCCL_P2P_DISABLE="0", TORCH_DISTRIBUTED_DEBUG="DETAIL", NCCL_ALGO="Ring")
    environ[0] = {"HOME": "/home/ada"}
    assert [f.title for f in judged(environ) if "not the same" in f.title] == []
    environ[2]["NCCL_ALGO"] = "Tree"
    assert [f.who for f in judged(environ) if "not the same" in f.title] == [["rank 2"]]


def test_two_ranks_on_one_gpu_are_found_on_one_machine_only() -> None:
    environ = job(4, LOCAL_RANK="0")
    (finding,) = judged(environ)
    assert finding.severity == "critical"
    assert "same LOCAL_RANK: all ranks" in finding.title
    for rank in environ:
        environ[rank] |= {"LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank), "MASTER_ADDR": "node0"}
    assert judged(environ) == []


def test_an_interface_that_is_not_there_is_found_where_the_interfaces_are_known() -> None:
    environ = job(NCCL_SOCKET_IFNAME="enp", GLOO_SOCKET_IFNAME="eth")
    assert judged(environ) == []
    there = {0: ["lo", "eth0"], 1: ["lo", "eth0", "enp3s0"]}
    found = judged(environ, interfaces=there)
    assert [(f.title.split("=")[0], f.who) for f in found] == [
        ("NCCL_SOCKET_IFNAME", ["rank 0"]),
        ("GLOO_SOCKET_IFNAME", []),
    ]
    assert "lo, eth0" in found[0].cause


@each(
    ("value", "left"),
    [
        ("eth", ["eth0", "eth1"]),
        ("=eth0", ["eth0"]),
        ("=eth", []),
        ("^docker,lo", ["eth0", "eth1", "ib0"]),
        ("^=eth0", ["lo", "eth1", "ib0", "docker0"]),
        ("eth0,ib", ["eth0", "ib0"]),
        ("=eth0,=eth1", ["eth0"]),
        ("eth0:5000", ["eth0"]),
        ("wlan", []),
    ],
)
def test_interfaces_are_matched_as_nccl_does(value: str, left: list[str]) -> None:
    assert nccl_interfaces(value, ["lo", "eth0", "eth1", "ib0", "docker0"]) == left


def test_gloo_takes_exact_names() -> None:
    assert gloo_interfaces("eth0,lo", ["lo", "eth0"]) == []
    assert gloo_interfaces("eth", ["lo", "eth0"]) == ["eth"]


# --- who is asked --------------------------------------------------------------------------------------------------------


def test_what_speaks_to_nccl_is_unused_in_a_job_over_gloo() -> None:
    environ = job(
        NCCL_IB_TIMEOUT="1800", NCCL_BLOCKING_WAIT="1", NCCL_ALGO="Ring", NCCL_ALGO_odd="Tree", NCCL_TIMEOUT="9"
    )
    assert [f.title for f in judged(environ, "gloo")] == ["NCCL_TIMEOUT does nothing here"]
    standings = {row.name: row.standing for row in environment.rows(environ, backend="gloo", versions={})}
    assert (
        standings["NCCL_IB_TIMEOUT"]
        == standings["NCCL_ALGO"]
        == standings["TORCH_NCCL_ASYNC_ERROR_HANDLING"]
        == "unused here"
    )
    assert standings["NCCL_TIMEOUT"] == "does nothing"


def test_an_old_torch_reads_what_a_new_one_does_not() -> None:
    environ = job(TORCH_NCCL_AVOID_RECORD_STREAMS="1")
    assert environment.findings(environ, backend="nccl", versions={"torch": "2.5.1+cu124"}) == []
    assert len(environment.findings(environ, backend="nccl", versions={"torch": "2.8.0"})) == 1
    assert len(environment.findings(environ, backend="nccl", versions={})) == 1


def test_secrets_are_not_shown() -> None:
    environ = job(
        HF_TOKEN="hf_secret",
        WANDB_API_KEY="secret",
        https_proxy="http://ada:secret@proxy:3128",
        TOKENIZERS_PARALLELISM="true",
    )
    rows = {row.name: row for row in environment.rows(environ, backend=None, versions={})}
    assert rows["HF_TOKEN"].values[0].value == rows["WANDB_API_KEY"].values[0].value == "(hidden)"
    assert rows["https_proxy"].values[0].value == "http://(hidden)@proxy:3128"
    assert rows["TOKENIZERS_PARALLELISM"].values[0].value == "true"
    assert "secret" not in str(environment.findings(environ, backend=None, versions={}))


def test_it_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = job(
        4, 2, NCCL_TIMEOUT="9", NCCL_ALGO="Ring", NCCL_ALGO_odd="Tree", CUDA_LAUNCH_BLOCKING="1", MASTER_PRT="1"
    )
    english = judged(environ)
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    chinese = judged(environ)
    assert [(f.severity, f.who) for f in chinese] == [(f.severity, f.who) for f in english]
    for finding in chinese:
        for words in (finding.title, finding.cause, *finding.next_steps):
            assert re.search("[\u4e00-\u9fff]", words), words


def test_the_worst_comes_first_and_rows_to_look_at_do() -> None:
    environ = job(4, 2, NCCL_TIMEOUT="9", CUDA_LAUNCH_BLOCKING="1", MASTER_PORT_odd="1")
    assert [f.severity for f in judged(environ)] == ["critical", "warning", "info"]
    names = [row.name for row in environment.rows(environ, backend="nccl", versions={})][:3]
    assert names == ["CUDA_LAUNCH_BLOCKING", "MASTER_PORT", "NCCL_TIMEOUT"]


def test_of_many_ranks_the_one_that_disagrees_is_named() -> None:
    first, *_ = judged(many_ranks.environ(1_000, odd=17))
    assert first.who == ["rank 17"]
    assert all(len(line) < 200 for line in first.evidence)
