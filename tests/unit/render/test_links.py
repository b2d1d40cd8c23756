"""Where a name in a view leads, in the hands of whoever shows it."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from cases import each
from render_scenes import LARGE, SMALL

from jupyter_traindbg import documentation, notebook, render
from jupyter_traindbg.model import Excerpt, Finding, Frame
from jupyter_traindbg.render import as_html, as_text, blocks
from jupyter_traindbg.render.links import attributes, placed

OWN = Frame("/home/ada/src/train loop.py", 11, "step")
LIBRARY = Frame("/usr/lib/python3.11/threading.py", 327, "Condition.wait", library=True)
CELL = Frame("/tmp/ipykernel_77/1616987371.py", 11, "step", cell=4)
DOCS = "docs/failures.md#cuda_oom"


class Shell:
    def __init__(self, **variables: object) -> None:
        self.kernel, self.user_ns = object(), variables


@pytest.fixture
def jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "shell", Shell)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/notebooks/train.ipynb")


def names(frame: Frame) -> dict[str, str]:
    return {"data-traindbg-file": frame.file, "data-traindbg-line": str(frame.line)}


@pytest.mark.usefixtures("jupyter")
def test_jupyterlab_is_told_the_line_and_opens_the_users_own_files_also_without_our_extension() -> None:
    assert attributes(OWN) == {**names(OWN), "href": "./../src/train%20loop.py#line=10"}
    assert attributes(LIBRARY) == names(LIBRARY)
    assert attributes(CELL) == {**names(CELL), "data-traindbg-cell": "4"}
    assert attributes(Path("/home/ada/report/index.html"))["href"] == "./../report/index.html#line=0"


@pytest.mark.usefixtures("jupyter")
def test_a_notebook_of_which_nobody_tells_where_it_is_has_no_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "train.ipynb")
    assert attributes(OWN) == names(OWN)


def test_vscode_opens_any_file_here_and_on_the_machine_that_its_window_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "shell", lambda: Shell(__vsc_ipynb_file__="/home/ada/train.ipynb"))
    monkeypatch.delenv("VSCODE_AGENT_FOLDER", raising=False)
    assert attributes(OWN)["href"] == "vscode://file/home/ada/src/train%20loop.py:11"
    assert attributes(LIBRARY)["href"] == f"vscode://file{LIBRARY.file}:327"
    assert "href" not in attributes(CELL)
    assert re.fullmatch(r"vscode://file/.+/docs/failures\.md:\d+", attributes(DOCS)["href"])
    monkeypatch.setenv("VSCODE_AGENT_FOLDER", "/home/ada/.vscode-server")
    assert attributes(LIBRARY)["href"] == f"{LIBRARY.file}:327"


def test_colab_and_a_page_that_is_no_notebook_lead_to_the_web_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for link in (OWN, LIBRARY, CELL, DOCS):
        assert attributes(link) == {}
    monkeypatch.setattr(notebook, "shell", Shell)
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    for link in (OWN, LIBRARY, CELL, DOCS):
        assert attributes(link) == {}
    assert attributes("https://pytorch.org/docs")["href"] == "https://pytorch.org/docs"


@pytest.mark.usefixtures("jupyter")
@each(
    "link",
    [
        "javascript:alert(1)",
        "http://insecure.example",
        "docs/../../etc/passwd",
        "docs/no_such_page.md",
        "cfg.yaml",
        Frame("<stdin>", 1, "<module>"),
        Frame("train.py", 1, "<module>"),
    ],
)
def test_what_nothing_could_open_is_no_link(link: str | Frame) -> None:
    assert attributes(link) == {}


@pytest.mark.usefixtures("jupyter")
def test_a_name_of_a_file_can_do_nothing_but_be_one() -> None:
    hostile = Frame('/home/ada/notebooks/javascript:alert(1)"><b onclick=x>\x1b[31m.py', 1, "<module>")
    html = as_html.draw([blocks.Line(placed(f"{hostile.file}:1 f")), blocks.Frames([hostile])])
    assert "<b" not in html
    assert "\x1b" not in html
    assert 'href="./javascript%3A' in html


@pytest.mark.usefixtures("jupyter")
def test_a_finding_leads_to_its_line_and_to_its_page_and_a_terminal_says_where_that_is() -> None:
    source = Excerpt(CELL.file, 11, 11, ("loss.backward()",), cell=4)
    finding = Finding("hang", "critical", "it hangs", where="In [4], line 11 step", source=source, reference=DOCS)
    from jupyter_traindbg.render.findings import verdict

    html = as_html.draw([verdict([finding])])
    assert 'data-traindbg-cell="4"' in html
    assert f'data-traindbg-page="{DOCS}"' in html
    assert "<caption>In [4], line 11</caption>" in html
    text = as_text.draw([verdict([finding])], width=400, colour=False)
    path, line = re.findall(r"(/\S+/docs/failures\.md):(\d+)", text)[0]
    assert Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1] == "## cuda_oom"
    elsewhere = replace(finding, where="/home/ada/src/a.py:3 f", source=None)
    assert 'href="./../src/a.py#line=2"' in as_html.draw([verdict([elsewhere])])


def test_a_page_that_is_sent_to_others_leads_to_no_files_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(notebook, "shell", Shell)
    (tmp_path / "p.jinja").write_text('{% import "blocks.html.jinja" as v %}{{ v.blocks(body, notes) }}')
    body = [blocks.Frames([OWN]), blocks.Line(blocks.Span("more", link="https://pytorch.org"))]
    page = as_html.page(tmp_path, "p.jinja", body=body)
    assert "data-traindbg" not in page
    assert 'href="https://pytorch.org"' in page


@pytest.mark.usefixtures("jupyter")
def test_the_tables_of_ranks_lead_to_their_lines() -> None:
    for name in ("diagnosis", "collectives"):
        html = "".join(render.html(scene) for key, scene in {**SMALL, **LARGE}.items() if key.startswith(name))
        assert re.search(r'<td[^>]*><a class="traindbg-link"[^>]* data-traindbg-file="/', html), name


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_section_ends_where_the_next_of_its_rank_begins() -> None:
    title, text = documentation.section("docs/logs.md#following") or ("", "")
    assert title == "Following"
    assert text.startswith("## Following\n")
    assert text.count("\n## ") == 0
    assert "](" not in re.sub(r"\]\(https://", "", text), "what only the whole of docs/ has is no link"


def test_a_page_without_a_section_is_all_of_it() -> None:
    title, text = documentation.section("docs/attaching.md") or ("", "")
    assert title
    assert text.count("\n## ") > 2
    assert documentation.located("docs/attaching.md") == (str(documentation.PAGES / "attaching.md"), 1)


def test_every_reference_of_ours_is_there() -> None:
    """As findings write them: families of failures, what the knowledge names, and the constants in the source."""
    package = Path(render.__file__).parents[1]
    written = {
        reference
        for file in (*package.rglob("*.py"), *package.rglob("*.toml"))
        for reference in re.findall(r"\"(docs/[\w.-]+\.md(?:#[\w-]+)?)\"", file.read_text(encoding="utf-8"))
    }
    assert {"docs/logs.md#following", "docs/attaching.md"} <= written
    families = [file.stem for file in (package / "diagnose" / "knowledge" / "failures").glob("*.toml")]
    assert families
    for reference in [*written, *(f"docs/{page}#{f}" for f in families for page in ("failures.md", "failures.zh.md"))]:
        found = documentation.section(reference)
        assert found is not None, reference
        if "#" in reference:
            assert found[0].lower().replace(" ", "-") == reference.partition("#")[2], reference
