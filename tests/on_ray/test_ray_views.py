"""The views of a Ray job: its trainers change together, its workers have a table, what it refuses is said with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_clusters import RAY_TEST_S, Cluster, Submitted
from view_pages import Page

from jupyter_traindbg.job import attach

pytestmark = pytest.mark.timeout(RAY_TEST_S)


@pytest.fixture
def page(ray_training: tuple[Submitted, Path], ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    ray_cluster.use(monkeypatch)
    with attach(f"ray:{ray_training[0].id}@{ray_cluster.gcs}", timeout=60) as job:
        opened = Page(job)
        yield opened
        opened.close()


def test_the_views_of_a_ray_job(page: Page, tmp_path: Path) -> None:
    page.show("learning_rate")
    said = page.ask("learning_rate", "preview", "preview", mode="scale", value=0.5)
    assert "on all 2 ranks, or on none" in said["lines"][0]
    applied = page.ask("learning_rate", "apply", "applied", preview=said["preview"])
    assert [row["ranks"] for row in applied["ranks"]] == ["ranks 0, 1"]
    undone = page.ask("learning_rate", "preview", "preview", mode="undo")
    page.ask("learning_rate", "apply", "applied", preview=undone["preview"])

    page.show("checkpoint")
    plan = page.ask("checkpoint", "plan", "plan", directory=str(tmp_path / "saved"))
    assert plan["against"] == []
    assert dict(plan["facts"])["ranks"].startswith("ranks 0, 1 of 2")
    since = len(page.messages)
    page.say("checkpoint", do="save", plan=plan["plan"])
    assert page.wait("checkpoint", "verified", since=since)[0]["good"]

    page.show("diagnosis")
    page.wait("diagnosis", "diagnosis")
    page.say("diagnosis", do="hello")
    assert "workers" in page.wait("diagnosis", "hello")[0]["can"]
    workers = page.ask("diagnosis", "workers", "workers")
    assert {"rank 0", "rank 1", "driver"} <= {row["who"] for row in workers["rows"]}
    page.show("gradients")
    look, buffers = page.wait("gradients", "look", lambda told: told["step"] is not None)
    assert look["who"] == "ranks 0, 1"
    assert len(buffers) == 8
