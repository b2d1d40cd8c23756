"""A Prometheus endpoint on this machine's loopback: what the feed of a job knows, in the text format that scrapers read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ..errors import CannotAttach, MissingPiece
from ..language import text
from ..live import SERIES, Feed, Series

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["MetricsServer"]

LOOPBACK = "127.0.0.1"
PREFIX = "traindbg"
NAMES = {
    "lr": "learning_rate_scheduled",
    "lr_effective": "learning_rate",
    "gpu_utilisation": "gpu_utilisation_percent",
}
STATES = ("waiting", "training", "slow", "stalled", "hung", "diverged", "lost", "finished", "detached")


class MetricsServer:
    """Serves ``/metrics`` until `close`. A context manager. Only for processes of this machine: it listens on 127.0.0.1, and answers only
    to that name, so that no web page can have a browser read it.
    """

    def __init__(self, feed: Feed, port: int = 0) -> None:
        """`port` 0 takes a free one. Raises `MissingPiece` without prometheus-client, `CannotAttach` where the port is taken."""
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ImportError as e:
            raise MissingPiece(
                text("the endpoint needs prometheus-client"), "pip install 'jupyter-traindbg[metrics]'"
            ) from e
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(feed))
        app = _only_from_here(make_wsgi_app(registry, disable_compression=True))
        try:
            self._server = make_server(LOOPBACK, port, app, _Server, _Handler)
        except OSError as e:
            raise CannotAttach(
                text("port {port} of {host} cannot be had: {why}", port=port, host=LOOPBACK, why=e.strerror),
                text("use port=0 for a free one"),
            ) from e
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="traindbg-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/metrics"

    def __repr__(self) -> str:
        return f"<MetricsServer {self.url}>"

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving. A second time does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5.0)
            self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """A scrape every few seconds is no news."""


Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


def _only_from_here(app: Any) -> App:
    def checked(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", "")).rpartition(":")[0] or environ.get("HTTP_HOST", "")
        if host not in (LOOPBACK, "localhost"):
            start("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"only for this machine\n"]
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD") or environ.get("PATH_INFO") != "/metrics":
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"see /metrics\n"]
        answer: Iterable[bytes] = app(environ, start)
        return answer

    return checked


def _name(series: Series) -> str:
    """Prometheus wants the unit in full at the end."""
    plain = series.name.removesuffix("_s") + "_seconds" if series.unit == "s" else series.name
    return f"{PREFIX}_{NAMES.get(series.name, plain)}"


def _help(series: Series) -> str:
    return f"{series.label}, {'median of the last steps' if series.unit == 's' else 'of the latest step that has it'}"


class _Collector:
    """Reads the feed when it is scraped; nothing in between."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        feed, job = self._feed, self._feed.job.name
        state = GaugeMetricFamily(f"{PREFIX}_state", "1 for the state that the job is in", labels=["job", "state"])
        for code in STATES:
            state.add_metric([job, code], float(feed.state.code == code))
        yield state
        latest = feed.latest_by_rank()
        who = feed.rank_names
        steps = GaugeMetricFamily(
            f"{PREFIX}_step", "the latest optimizer step, counted since the attach", labels=["job", "rank"]
        )
        silent = GaugeMetricFamily(f"{PREFIX}_silent", "1 for a rank that does not answer", labels=["job", "rank"])
        for rank in feed.ranks:
            steps.add_metric([job, who[rank]], float(feed.step_of(rank)))
            silent.add_metric([job, who[rank]], float(rank in feed.silent))
        yield from (steps, silent)
        for series in SERIES:
            if series.name in latest:
                family = GaugeMetricFamily(_name(series), _help(series), labels=["job", "rank"])
                for rank, value in latest[series.name].items():
                    family.add_metric([job, who[rank]], value)
                yield family
