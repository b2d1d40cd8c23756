"""Secrets that are known by their shape alone.

The shapes are those that the issuers document, or that https://github.com/gitleaks/gitleaks lists (config/gitleaks.toml).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .spans import Span

__all__ = ["spans"]

_B = r"(?<![A-Za-z0-9])"
_ARMOUR = r"(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"


def _signs_in(found: str) -> bool:
    """Whether the word after ``Basic`` is base64 of ``user:password``."""
    try:
        return b":" in base64.b64decode(found + "=" * (-len(found) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _random(found: str) -> bool:
    return any(c.isdigit() for c in found) or len(found) >= 24


def _any(found: str) -> bool:
    return True


@dataclass(frozen=True)
class _Shape:
    """`regex` finds a secret: its group ``s``, else all of it, in a text that has one of `hints` (lower case). `check` may still refuse."""

    kind: str
    hints: tuple[str, ...]
    regex: re.Pattern[str]
    check: Callable[[str], bool]
    learn: bool


def _shape(kind: str, hints: str, regex: str, check: Callable[[str], bool] = _any, *, learn: bool = True) -> _Shape:
    return _Shape(kind, tuple(hints.split()), re.compile(regex), check, learn)


_SHAPES = (
    _shape("private-key", "-----begin", rf"-----BEGIN {_ARMOUR}(?:(?!-----BEGIN)[^«»]){{0,20000}}?(?:-----END {_ARMOUR}|\Z)"),
    _shape("private-key", "-----end",
        rf"(?m)(?:^[^\n«»]{{0,80}}?[A-Za-z0-9+/=]{{16,76}}[ \t]*\n){{1,200}}[^\n«»]{{0,80}}-----END {_ARMOUR}"),
    _shape("aws-key", "akia asia abia acca", rf"{_B}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Za-z0-9])"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", rf"{_B}(?:gh[pousr]_[A-Za-z0-9]{{20,255}}|github_pat_\w{{20,255}})"),
    _shape("gitlab-token", "glpat gldt glrt glcbt glptt", rf"{_B}gl(?:pat|dt|rt|cbt|ptt)-[\w-]{{18,}}(?:\.[\w-]+){{0,3}}"),
    _shape("hf-token", "hf_ api_org_", rf"{_B}(?:hf_|api_org_)[A-Za-z0-9]{{20,}}"),
    _shape("anthropic-key", "sk-ant-", rf"{_B}sk-ant-[\w-]{{16,}}"),
    _shape("openai-key", "sk-", rf"{_B}sk-(?!ant-)[\w-]{{18,}}", _random),
    _shape("google-key", "aiza ya29. gocspx-", rf"{_B}(?:AIza[\w-]{{30,}}|ya29\.[\w.-]{{20,}}|GOCSPX-[\w-]{{20,}})"),
    _shape("slack-token", "xox xapp-", rf"{_B}(?:xox[a-z]|xapp)-[A-Za-z0-9-]{{8,}}"),
    _shape(
        "webhook",
        "hooks.slack.com /webhooks/",
        r"https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks)/(?P<s>[\w/-]{8,})",
    ),
    _shape("jwt", "eyj", rf"{_B}eyJ[\w-]{{6,}}\.[\w-]{{6,}}(?:\.[\w-]+){{0,3}}"),
    _shape("stripe-key", "k_live_ k_test_", rf"{_B}[srp]k_(?:live|test)_\w{{12,}}"),
    _shape("npm-token", "npm_", rf"{_B}npm_[A-Za-z0-9]{{30,}}"),
    _shape("pypi-token", "pypi-", rf"{_B}pypi-[\w-]{{20,}}", _random),
    _shape("nvidia-key", "nvapi-", rf"{_B}nvapi-[\w-]{{20,}}"),
    _shape("api-key", "r8_ gsk_ xai- tgp_v1_", rf"{_B}(?:r8_[A-Za-z0-9]{{30,}}|(?:gsk_|xai-|tgp_v1_)[\w-]{{20,}})", _random),
    _shape("databricks-token", "dapi", rf"{_B}dapi[0-9a-f]{{32}}"),
    _shape("sendgrid-key", "sg.", rf"{_B}SG\.[\w-]{{16,}}\.[\w-]{{16,}}"),
    _shape("telegram-token", ":aa", rf"{_B}\d{{8,10}}:AA[\w-]{{32,}}"),
    _shape("wandb-key", "wandb_v", rf"{_B}wandb_v\d_[\w-]{{20,}}"),
    _shape(
        "wandb-key",
        "wandb weights",
        r"(?i)\b(?:wandb|weights ?& ?biases)(?:(?!commit|sha|rev|wandb)[^\n«»]){0,160}?(?<![0-9a-z])(?P<s>[0-9a-f]{40})(?![0-9a-z])",
    ),
    _shape("password", "machine", r"(?i)\bmachine\s{1,8}\S{1,200}\s{1,8}login\s{1,8}\S{1,200}\s{1,8}password\s{1,8}(?P<s>[^\s«»]+)"),
    _shape("password", "sshpass", r"\bsshpass\s+-p\s*['\"]?(?P<s>[^\s'\"«»]+)"),
    _shape("password", "curl", r"\bcurl\b[^\n«»]{0,400}?\s(?:-u|--user)[ =]['\"]?[^\s:'\"«»]{1,80}:(?P<s>[^\s'\"«»]+)"),
    _shape("url-credentials", "://", r"\b(?i:[a-z][a-z0-9+.-]{0,30})://[^\s/:@\"'<>«»]{0,200}:(?P<s>[^\s\"'<>«»/?#]{1,400})@(?=[\w\[])"),
    _shape("url-credentials", "http",
        r"\b(?i:https?)://(?P<s>[^\s/:@\"'<>«»]{1,400})(?::[^\s/@\"'<>]{0,400})?@(?=[\w\[])", _random, learn=False),
    _shape(
        "url-signature",
        "? & amp;",
        r"(?i)(?:[?&]|&amp;)(?:x-(?:amz|goog|oss|cos|tos)-(?:signature|credential|security-token)|signature|sign|sig|awsaccesskeyid"
        r"|googleaccessid|ossaccesskeyid|key-pair-id|policy|access_token|id_token|refresh_token|auth(?:_token)?|token|api[_-]?key|key"
        r"|password|secret|code)=(?P<s>[^&\s\"'<>«»]{4,})",
    ),
    _shape(
        "auth",
        "authorization",
        r"(?i)\bauthorization\b\\{0,4}[\"']?\]?\s{0,4}[:=,]\s{0,4}\\{0,4}[\"']?(?:[a-z][\w-]{2,20} {1,4})?"
        r"(?P<s>(?![a-z][\w-]{2,20} *«)[^\s\"'\\«»][^\n\"'\\«»]{0,4000})",
    ),
    _shape("auth", "bearer", r"(?i)\bbearer +(?P<s>[\w.~+/=-]{8,})", _random),
    _shape("auth", "basic", r"(?i)\bbasic +(?P<s>[A-Za-z0-9+/=_-]{8,})", _signs_in),
    _shape(
        "cookie",
        "cookie",
        r"(?i)\b(?:set-)?cookie\\{0,4}[\"']?\s{0,4}:\s{0,4}\\{0,4}[\"']?(?P<s>[^\s\"'\\«»=]{1,200}=[^\n\"'\\«»]{0,4000})",
    ),
    _shape("account-key", "key= signature=", r"(?i)\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=(?P<s>[^;\s\"'«»]{8,})"),
)  # fmt: skip


def spans(text: str) -> Iterator[Span]:
    """Every secret in `text` that has one of the shapes."""
    low = text.lower()
    for shape in _SHAPES:
        if not any(hint in low for hint in shape.hints):
            continue
        for match in shape.regex.finditer(text):
            group = "s" if "s" in match.groupdict() else 0
            if shape.check(match[group]):
                yield Span(*match.span(group), shape.kind, shape.learn)
