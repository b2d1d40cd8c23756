"""What a node works on before a worker is up, by the command lines of its processes. On a real cluster: on_ray/test_ray_harm."""

from __future__ import annotations

from cases import each

from jupyter_traindbg.outside import ray_coming

PIP = "/tmp/ray/session_1/runtime_resources/pip/8af/virtualenv/bin/python"


@each(
    "words, told",
    [
        ((PIP, "-m", "pip", "install", "--index-url", "https://ada:secret@pypi.example", "gym"), "pip install"),
        ((PIP, "-m", "virtualenv", "--app-data", "/tmp/x", "/tmp/y"), "virtualenv"),
        (("/usr/bin/conda", "env", "create", "--file", "/tmp/env.yaml"), "conda env"),
        (("/usr/bin/git", "clone", "https://ada:secret@example.org/a.git"), "git clone"),
        (("/opt/my-fetch.sh", "--all"), "my-fetch.sh"),
        (("podman", "run", "image"), "podman run"),
    ],
)
def test_a_build_is_named_in_two_words(words: tuple[str, ...], told: str) -> None:
    assert ray_coming._in_short(words) == told


@each(
    "words, agent",
    [
        (("ray::RuntimeEnvAgent",), True),
        (("python", "/x/ray/_private/runtime_env/agent/main.py", "--node-ip-address=10.0.0.1"), True),
        (("ray::DashboardAgent",), False),
        ((), False),
    ],
)
def test_whose_children_build(words: tuple[str, ...], agent: bool) -> None:
    assert ray_coming._is_agent(words) == agent
