"""The widget itself, without a page: what it shows where, what it answers, what it says when something is missing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from synthetic import Synthetic

from jupyter_traindbg.errors import MissingPiece, UsageError
from jupyter_traindbg.live import Feed
from jupyter_traindbg.widgets import container, watch
from jupyter_traindbg.widgets.container import WatchWidget

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def widget() -> Iterator[WatchWidget]:
    source = Synthetic(1, before=200)
    feed = Feed(source)  # type: ignore[arg-type]
    feed.round()
    made = watch(source, feed=feed)
    yield made
    made.close()


def test_it_is_a_widget_a_picture_and_words(widget: WatchWidget) -> None:
    data, _ = widget._repr_mimebundle_()
    assert data[VIEW]["model_id"] == widget.model_id
    assert base64.b64decode(data["image/png"]) == widget.picture
    assert data["text/plain"] == "synthetic: training"
    assert repr(widget) == "<Watch of synthetic: training>"


def test_a_page_is_told_the_language_in_which_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for language in ("zh", "en"):
        monkeypatch.setenv("TRAINDBG_LANG", language)
        made = watch(Synthetic(), view="curves")
        monkeypatch.setenv("TRAINDBG_LANG", "other")
        made.hub.paused = True
        assert made.about["language"] == language
        made.close()


def test_a_view_that_there_is_not_is_told_with_those_that_there_are() -> None:
    source = Synthetic()
    with pytest.raises(UsageError, match="curves, gradients"):
        watch(source, view="kurven", feed=Feed(source))  # type: ignore[arg-type]


def test_a_front_end_that_was_not_built_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(container, "STATIC", tmp_path)
    source = Synthetic()
    with pytest.raises(MissingPiece, match="scripts/frontend"):
        watch(source, feed=Feed(source))  # type: ignore[arg-type]


def test_a_feed_of_its_own_ends_with_it_and_one_that_was_given_goes_on(widget: WatchWidget) -> None:
    own = watch(Synthetic(), rate_hz=4)
    assert own.feed.running
    own.stop()
    assert not own.feed.running
    assert own.about["stopped"]
    own.close()
    widget.feed.start()
    widget.stop()
    assert widget.feed.running
    widget.feed.stop()


def test_it_answers_a_page_that_comes_and_does_what_it_asks(
    widget: WatchWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda message, buffers=None: sent.append(message))
    widget._got(None, {"view": "", "from": "page", "body": {"kind": "hello"}}, [])
    assert sent[0]["to"] == "page"
    assert sent[0]["body"]["kind"] == "state"
    widget._got(None, {"view": "", "from": "page", "body": {"kind": "pause", "paused": True}}, [])
    assert widget.about["paused"]
    assert widget.hub.paused
    for nonsense in (None, [], "words", {"view": "", "from": "page", "body": {"kind": ["pause"]}}):
        widget._got(None, nonsense, [])


def test_shown_twice_in_one_cell_it_is_there_once_and_its_picture_can_be_renewed(widget: WatchWidget) -> None:
    shell = InteractiveShell.instance()
    shell.user_ns["w"] = widget
    with capture_output() as shown:
        shell.run_cell("display(w)\nw", store_history=True)
    assert len(shown.outputs) == 1
    with capture_output() as again:
        shell.run_cell("w", store_history=True)
    assert len(again.outputs) == 1
    with capture_output() as updated:
        widget._place.update_picture()
        widget._place.update_picture()
    assert len(updated.outputs) <= 1, "the same state needs no new picture"
    InteractiveShell.clear_instance()
