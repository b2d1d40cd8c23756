"""The child process that joins clusters for us: what it is told. What it does: tests/integration/test_ray_brokers.py."""

from __future__ import annotations

from jupyter_traindbg.attach.ray.brokers import environment


def test_its_environment_says_nothing_of_ours_and_has_the_token() -> None:
    ours = {
        "PATH": "/bin",
        "RAY_ADDRESS": "x",
        "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}",
        "RAY_TLS_CA_CERT": "ca",
        "PYTHONPATH": "/p",
    }
    theirs = environment(ours, "10.0.0.1:6379", "secret")
    assert "RAY_ADDRESS" not in theirs
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in theirs
    assert theirs["RAY_TLS_CA_CERT"] == "ca"
    assert (theirs["RAY_AUTH_MODE"], theirs["RAY_AUTH_TOKEN"]) == ("token", "secret")
    assert theirs["PYTHONPATH"].endswith(":/p")
    assert environment(ours, "10.0.0.1:6379", None)["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in theirs
    assert environment({}, "127.0.0.1:6379", None)["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
