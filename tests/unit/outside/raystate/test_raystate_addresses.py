"""Addresses that can be none, and what comes where nothing is there, with real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from cases import each

from jupyter_traindbg.errors import CannotAttach, DeadlineExceeded, NoTarget, UsageError
from jupyter_traindbg.model import parse_cluster
from jupyter_traindbg.outside.raystate import addresses, local, resolve


@each(
    "text",
    ["ray:@head", "ray:x@head:99999", "ray:x@ftp://head:1", "ray://head", "ray:x@http://", "ray:x@:6379", "head:0"],
)
def test_an_address_that_can_be_none_is_told_with_what_one_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no address of a Ray cluster.*ray://host:port"):
        resolve(parse_cluster(text).address)


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of somebody who accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    accepted.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for connection in accepted:
            connection.close()


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "http://127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_nobody_there_is_told_at_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "DASHBOARD_PORT", closed_port())
    with pytest.raises(CannotAttach, match=r"answers at .*127\.0\.0\.1"):
        resolve(form.format(closed_port()))  # not `DeadlineExceeded`: nothing was waited for


@pytest.mark.timeout(30)
def test_a_dashboard_that_never_answers_costs_the_deadline_and_no_more(silent: int) -> None:
    with pytest.raises(DeadlineExceeded, match="has not answered in time"):
        resolve(f"http://127.0.0.1:{silent}", 0.2)


@pytest.mark.timeout(30)
def test_a_gcs_whose_dashboard_never_answers_is_still_an_address(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "DASHBOARD_PORT", silent)
    monkeypatch.setattr(addresses.brokered, "dashboard_of", lambda *_: "")
    found = resolve(f"127.0.0.1:{silent}", 0.5)
    assert (found.gcs, found.dashboard) == (f"127.0.0.1:{silent}", "")


def test_without_a_cluster_auto_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(local, "clusters", lambda **_: [])
    with pytest.raises(
        NoTarget, match=r"no Ray cluster runs on this machine, and RAY_ADDRESS is not set; start one, or name its"
    ):
        resolve("auto")


def test_a_wrong_ray_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head")
    with pytest.raises(UsageError, match="'head' is no address"):
        resolve("auto")


def test_this_machine_goes_by_many_names() -> None:
    assert local.is_here("127.0.0.1")
    assert local.is_here("localhost")
    assert not local.is_here("192.0.2.77")
    assert local.same_host("localhost:1", "127.0.0.1:2")
    assert not local.same_host("localhost:1", "192.0.2.77:1")
