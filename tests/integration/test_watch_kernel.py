"""The widget in a real kernel, without a browser: what a notebook is given to save, also by a kernel that ends."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from kernels import Kernel
from support import REPO

pytestmark = pytest.mark.timeout(300)

SHOW = f"""
import sys
sys.path.insert(0, {str(REPO / "tests")!r})
sys.path.insert(0, {str(REPO)!r})
from synthetic import Synthetic
from jupyter_traindbg.widgets import watch
w = watch(Synthetic(2, hz=50, before=200))
w
"""
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def kernel(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    import sys

    made = Kernel(sys.executable, tmp_path, "watch")
    yield made
    made.close()


def bundles(kernel: Kernel, kind: str) -> list[dict[str, Any]]:
    kernel.drain()
    return [m["content"] for m in kernel.published if m["msg_type"] == kind and WIDGET in m["content"]["data"]]


def test_the_output_holds_the_widget_and_a_picture_under_one_name(kernel: Kernel) -> None:
    cell = kernel.run(SHOW)
    assert cell.finish()["status"] == "ok", kernel.log.read_text()
    (shown,) = bundles(kernel, "display_data")
    assert shown["data"]["text/plain"].startswith("synthetic: ")
    assert base64.b64decode(shown["data"]["image/png"]).startswith(b"\x89PNG")
    assert shown["transient"]["display_id"]
    assert bundles(kernel, "execute_result") == []


def test_stopping_brings_the_picture_up_to_date(kernel: Kernel) -> None:
    kernel.run(SHOW).finish()
    kernel.run("import time\nwhile w.feed.last_step < 250: time.sleep(0.05)\nw.stop()").finish()
    (shown,), (updated,) = bundles(kernel, "display_data"), bundles(kernel, "update_display_data")
    assert updated["transient"] == shown["transient"]
    assert updated["data"]["image/png"] != shown["data"]["image/png"]


def test_a_kernel_that_ends_leaves_its_last_state(kernel: Kernel) -> None:
    kernel.run(SHOW).finish()
    kernel.run("import time\nwhile w.feed.last_step < 250: time.sleep(0.05)").finish()
    kernel.control("shutdown_request", restart=False)
    kernel.until(lambda: bundles(kernel, "update_display_data") != [], "the last picture", 60)
    kernel.until(lambda: kernel.process.poll() is not None, "the kernel's end", 60)
    assert "Traceback" not in kernel.log.read_text()
