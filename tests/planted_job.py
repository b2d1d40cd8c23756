"""A live process that is full of secrets, and the search for any of them in every byte of a bundle."""

from __future__ import annotations

import base64
import html
import json
import time
import urllib.parse
import zipfile
from pathlib import Path

import planted
import pytest
from support import Program, Start

PROGRAM = """
import os, sys, time

def connect(password):
    time.sleep(600)

print(open({log!r}).read())
print("ready", flush=True)
connect(password={source!r})
"""
ENVIRONMENT = {
    "TEAM_PASSWORD": "Env!Pass w0rd",
    "WANDB_API_KEY": "00aa11bb22cc33dd44ee55ff66007788990a1b2c",
    "NCCL_PLUGIN_SECRET": "nccl-S3cret-9",
    "HTTPS_PROXY": "http://proxyuser:Pr0xyPass@proxy.example.org:3128",
}
ARGUMENTS = {"--api-key": "arg-Key-77123", "--db-password=": "arg=Pass=551"}
IN_CONFIG = {"wandb_api_key": "conf-Key-4411", "db_password": "conf Pass 99"}
IN_NAMES = "ghp_" + "Nm7Qw2Er5Ty8Ui1Op4As6Df9Gh3Jk0Lz2Xc5"
SOURCE = "in-Frame-8841"


def secrets() -> list[str]:
    proxy = ENVIRONMENT["HTTPS_PROXY"].split(":")[2].split("@")[0]
    named = [value for name, value in ENVIRONMENT.items() if name != "HTTPS_PROXY"]
    written = [secret for _, secret in planted.IN_WORDS.values()]
    return [
        *named, proxy, *ARGUMENTS.values(), *IN_CONFIG.values(), IN_NAMES, SOURCE, *planted.BY_SHAPE.values(), *written,
        *planted.PEM_BODY.split("\n"),
    ]  # fmt: skip


def forms(secret: str) -> set[bytes]:
    """`secret` as it could stand in a file that we write."""
    raw = secret.encode()
    quoted = {
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
        json.dumps(secret)[1:-1],
        html.escape(secret),
    }
    coded = {base64.b64encode(b"x" * n + raw)[(0, 2, 3)[n] : -4] for n in range(3)} if len(raw) > 9 else set()
    return {raw, raw.hex().encode(), *(q.encode() for q in quoted), *(c for c in coded if len(c) > 8)}


def assert_clean(path: Path, *more: str) -> dict[str, str]:
    """Search every byte of the archive and of what is in it; its files by name."""
    wanted = {form: secret for secret in (*secrets(), *more) for form in forms(secret)}
    assert len(wanted) > 150
    with zipfile.ZipFile(path) as archive:
        assert archive.comment == b""
        texts = {info.filename: archive.read(info) for info in archive.infolist()}
        haystack = {**texts, "(names)": "\n".join(texts).encode(), "(raw)": path.read_bytes()}
    found = [(name, wanted[form]) for name, raw in haystack.items() for form in wanted if form in raw]
    assert found == []
    return {name: raw.decode() for name, raw in texts.items()}


@pytest.fixture
def full_of_secrets(start: Start, tmp_path: Path) -> Program:
    password = ENVIRONMENT["TEAM_PASSWORD"]
    lines = [
        *(line.format(secret) for line, secret in planted.IN_WORDS.values()),
        *(f"found {secret} in passing" for secret in planted.BY_SHAPE.values()),
        planted.PEM,
        f"sent {password} to the server",
        f"sent {urllib.parse.quote(password, safe='')} to the server",
        f"sent {base64.b64encode(b'me:' + password.encode()).decode()} to the server",
        f"sent {ARGUMENTS['--api-key']!r}",
        *planted.HARMLESS,
    ]
    (tmp_path / "said.txt").write_text("\n".join(lines))
    config = tmp_path / f"conf-{IN_NAMES}.yaml"
    config.write_text("lr: 0.1\nmax_tokens: 4096\nlogger:\n" + "".join(f"  {k}: {v}\n" for k, v in IN_CONFIG.items()))
    program = tmp_path / "leaky.py"
    program.write_text(PROGRAM.format(log=str(tmp_path / "said.txt"), source=SOURCE))
    time.sleep(0.05)  # the program is older than the process, or its lines are not shown
    words = [
        word for name, value in ARGUMENTS.items() for word in ([name + value] if name.endswith("=") else [name, value])
    ]
    return start(str(program), "--config", str(config), *words, env=ENVIRONMENT)
