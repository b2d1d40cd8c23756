"""Write docs/failures.md and docs/failures.zh.md from jupyter_traindbg/diagnose/knowledge/failures/. --check only says whether they are stale."""

# ruff: noqa: E501 - the pages have long lines

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PAGES = {"en": REPO / "docs" / "failures.md", "zh": REPO / "docs" / "failures.zh.md"}
sys.path.insert(0, str(REPO))

from jupyter_traindbg.diagnose.log import knowledge  # noqa: E402 - of this checkout, installed or not
from jupyter_traindbg.diagnose.log.family import Cause, Family, Signal, Text  # noqa: E402

GUIDES = {
    "000": Text(
        "training stuck at “Collecting trajectories...” with many Ray workers",
        "大量 Ray worker 时训练卡在 “Collecting trajectories...”",
    ),
    "001": Text("quick card for a stuck distillation run", "GKD 蒸馏训练卡死快速诊断卡片"),
    "002": Text("live inspection of a running job", "训练调试示例（在线查看）"),
    "003": Text("troubleshooting an RL fine-tuning framework", "RL 微调框架故障排除指南"),
    "004": Text("troubleshooting a DDP/MoE trainer", "DDP/MoE 训练框架故障排查"),
}
HEAD = Text(
    """\
# Failures that a log shows

<!-- Written by scripts/failures_page.py from jupyter_traindbg/diagnose/knowledge/failures/*.toml. Edit those, then run it. -->

[中文](failures.zh.md)

`traindbg diagnose FILE`, `%diagnose FILE` and `traindbg.diagnose_log` name these. Each section is one file of knowledge: what shows the failure, what speaks against
it, its causes in the order of probability with the condition under which each is told, what to do, and how far the usual guides are right. In the texts,
`{free_bytes}` stands for the number in your log; what is in brackets with such a name is told only if the log has it.

## What comes first

A log shows several failures at once, and the last line is seldom the cause. The first finding is chosen by these rules, in this order: what the run got over comes
last; what ends a run before what only slows or spoils it; a root before a symptom before a wrapper (printed last, says nothing itself) before what is only likely; surer signals first; the exception within before
those it was wrapped in; what happened first, by the clock of all files or by the line. What a family *explains* is shown as its evidence, not as another finding.
""",
    """\
# 日志能说明的故障

<!-- 由 scripts/failures_page.py 根据 jupyter_traindbg/diagnose/knowledge/failures/*.toml 生成。请修改那些文件后重新运行。 -->

[English](failures.md)

`traindbg diagnose 日志文件`、`%diagnose 日志文件` 与 `traindbg.diagnose_log` 会给出这些结论。每一节对应一个知识文件：表现、反证、按可能性排列的原因及其成立条件、处理步骤，
以及常见排查指南在多大程度上正确。文中的 `{free_bytes}` 代表你的日志里的数字；方括号中带这种名字的部分只在日志里有该数字时才会说出。

## 先后次序

一份日志往往同时呈现多个故障，最后一行很少是原因。第一条结论按以下规则依次选出：训练已经挺过去的排在最后；使训练终止的先于只让它变慢或变差的；根因先于症状，症状先于外层包装（最后打印、本身不说明问题），再后是仅仅可能的；
更确定的信号在前；内层异常先于包装它的异常；按各文件的时钟（没有时钟则按行号）先发生的在前。某类故障“会引起”的后果作为它的证据显示，不另列结论。
""",
)
ADDING = Text(
    """\
## Adding a family

One file `CODE.toml` beside the others; nothing else is edited. `pytest tests/unit/diagnose/log` says what is not right in it, `python scripts/failures_page.py` writes
these pages.

| key | what |
|---|---|
| `code`, `severity` | the file's name; critical, warning or info |
| `title`, `about` | `{en = "...", zh = "..."}`; `{name}` is filled from captured groups and facts, also `{micro * world}`; `[[ ... ]]` is left out where a name in it is unknown |
| `explains` | codes of the consequences that this commonly has |
| `[[signal]]` | `id`; `anchor`: literals, one of which is in the line, case does not matter; `regex`: searched in that line and the 6 after it; or `fact`: a computed one (diagnose/log/facts/); `role`: root, symptom, wrapper, or hint (only decides between causes); `weight` 0 to 1; `unless_progress`: harmless if the run goes on; `unless_over`: harmless if the work was complete before, by a full bar (`"shown"`) or by words (`"said"`), and nothing minds; `blame = false`: whoever writes it is a victim, and is not named as the one to look at; `example`: must match |
| `[[refute]]` | like a signal; `of`: the signals that do not count then (none: all); `near`: only within so many lines |
| `[[cause]]` | `id`, `when` (all must hold: `"seen:ID"`, `"not seen:ID"`, `"free_bytes < 100 MiB"`; `[]` = always, the last one), `text`, `steps`, `confidence`, `title` if it needs another one |
| `[[question]]` | `text`: what would settle between the causes |
| `[[guide]]` | `guide`, `entry`, `truth`: what a usual guide says and how far it holds |
| `[[source]]` | `url`, `about` |

Groups called `*_bytes` (`*_gib`, `*_mib` where the log leaves the unit out), `*_s`, `*_ms` and `*_count` are numbers with units; `rank`, `pid`, `node`, `parameter` say who is
to blame, `file`, `line`, `path` where.
""",
    """\
## 添加一类故障

在同一目录新建 `CODE.toml` 即可，不必改别的文件。`pytest tests/unit/diagnose/log` 会指出其中的错误，`python scripts/failures_page.py` 重新生成这些页面。

| 键 | 含义 |
|---|---|
| `code`、`severity` | 文件名；critical、warning 或 info |
| `title`、`about` | `{en = "...", zh = "..."}`；`{name}` 由正则捕获组和计算出的事实填充，也可写 `{micro * world}`；`[[ ... ]]` 在其中某个名字未知时整段省略 |
| `explains` | 它通常引起的后果的 code |
| `[[signal]]` | `id`；`anchor`：行中必须出现其一的字面串，不分大小写；`regex`：在该行及其后 6 行中搜索；或 `fact`：计算出的事实（diagnose/log/facts/）；`role`：root、symptom、wrapper 或 hint（只用于在原因之间取舍）；`weight` 0 到 1；`unless_progress`：训练继续则无害；`unless_over`：此前工作已完成（进度条已满 `"shown"`，或有文字说明 `"said"`）且无人受影响则无害；`blame = false`：写出它的只是受害者，不会被列为要查的对象；`example`：必须能匹配 |
| `[[refute]]` | 同 signal；`of`：由此不再算数的信号（不写：全部）；`near`：只在这么多行之内有效 |
| `[[cause]]` | `id`、`when`（须全部成立：`"seen:ID"`、`"not seen:ID"`、`"free_bytes < 100 MiB"`；最后一个写 `[]`，总成立）、`text`、`steps`、`confidence`，需要时另写 `title` |
| `[[question]]` | `text`：靠什么在这些原因之间分辨 |
| `[[guide]]` | `guide`、`entry`、`truth`：常见指南怎么说，在多大程度上成立 |
| `[[source]]` | `url`、`about` |

名为 `*_bytes`（日志没写单位时用 `*_gib`、`*_mib`）、`*_s`、`*_ms`、`*_count` 的捕获组是带单位的数；`rank`、`pid`、`node`、`parameter` 说明是谁，`file`、`line`、`path` 说明在哪。
""",
)
WORDS = {
    "all": Text("All of them", "目录"),
    "table": Text("| shown by | as | sure |", "| 表现 | 角色 | 确定程度 |"),
    "computed": Text("computed: ", "计算得出："),
    "or": Text(" or ", " 或 "),
    "refutes": Text("It is not this, if the log has: ", "若日志里有下列内容，则不是它："),
    "explains": Text("Explains: ", "会引起："),
    "causes": Text("Causes and what to do:", "原因与处理："),
    "if": Text("if", "当"),
    "questions": Text("What would settle it:", "如何分辨："),
    "guides": Text("The usual guides:", "常见指南："),
    "sources": Text("Sources:", "出处："),
    "index": Text("What the usual guides name", "常见指南里的条目"),
    "index_table": Text("| guide | entry | here |", "| 指南 | 条目 | 本页 |"),
}


class Page:
    """The page in one language."""

    def __init__(self, language: str) -> None:
        self.language = language

    def text(self) -> str:
        """The whole of it."""
        families = list(knowledge.families().values())
        sections = ("\n".join(self._section(f)) for f in families)
        return "\n".join(
            [self._said(HEAD), self._contents(families), *sections, self._guides(families), self._said(ADDING)]
        )

    def _said(self, text: Text) -> str:
        return text.zh if self.language == "zh" else text.en

    def _word(self, name: str) -> str:
        return self._said(WORDS[name])

    def _plain(self, text: Text) -> str:
        return _cell(self._said(text).replace("[[", "[").replace("]]", "]"))

    def _contents(self, families: Sequence[Family]) -> str:
        rows = [f"| [`{f.code}`](#{f.code}) | {self._plain(f.title)} |" for f in families]
        return "\n".join([f"## {self._word('all')}", "", "| code | |", "|---|---|", *rows, ""])

    def _section(self, family: Family) -> Iterator[str]:
        yield from (f"## {family.code}", "", f"**{self._plain(family.title)}**", "", self._plain(family.about), "")
        yield from (self._word("table"), "|---|---|---|")
        for signal in family.signals:
            if signal.role != "hint":
                yield f"| {self._shown(signal)} | {signal.role} | {signal.weight:g} |"
        yield ""
        if family.refutes:
            yield from (self._word("refutes") + "; ".join(self._shown(r) for r in family.refutes), "")
        if family.explains:
            yield from (self._word("explains") + ", ".join(f"[`{code}`](#{code})" for code in family.explains), "")
        yield from (self._word("causes"), "")
        for n, cause in enumerate(family.causes, 1):
            yield from self._cause(n, cause)
        yield from self._list("questions", (self._plain(q) for q in family.questions))
        yield from self._list("guides", (f"{g.guide}, {_cell(g.entry)}: {self._plain(g.truth)}" for g in family.guides))
        yield from self._list("sources", (f"<{s.url}>: {_cell(s.about)}" for s in family.sources))

    def _cause(self, number: int, cause: Cause) -> Iterator[str]:
        when = ", ".join(f"`{_cell(e.text)}`" for e in cause.when)
        condition = f" ({self._word('if')} {when})" if when else ""
        yield f"{number}. {self._plain(cause.text)}{condition}"
        for step in cause.steps:
            yield f"   - {self._plain(step)}"
        yield ""

    def _list(self, head: str, lines: Iterable[str]) -> Iterator[str]:
        items = [f"- {line}" for line in lines]
        if items:
            yield from (self._word(head), "", *items, "")

    def _guides(self, families: Sequence[Family]) -> str:
        rows = sorted((g.guide, g.entry, f.code) for f in families for g in f.guides)
        lines = [f"## {self._word('index')}", "", self._word("index_table"), "|---|---|---|"]
        lines += [
            f"| {number}: {self._said(GUIDES[number])} | {_cell(entry)} | [`{code}`](#{code}) |"
            for number, entry, code in rows
        ]
        return "\n".join([*lines, ""])

    def _shown(self, signal: Signal) -> str:
        if signal.fact:
            return self._word("computed") + signal.fact.replace("_", " ")
        return self._word("or").join(f"`{_cell(a)}`" for a in signal.anchors)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def pages() -> dict[Path, str]:
    """Both pages as they should be."""
    return {path: Page(language).text() for language, path in PAGES.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a page is stale")
    check = parser.parse_args().check
    stale = {
        path: text for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        print(f"{path.relative_to(REPO)} {'is stale; run scripts/failures_page.py' if check else 'written'}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
