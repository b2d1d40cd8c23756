"""Secrets go, by name, by shape and by having been seen; figures and names of training stay."""

from __future__ import annotations

import base64
import json
import random
import sys
import urllib.parse
from dataclasses import dataclass

import hostile
import planted
import pytest
from cases import each

from jupyter_traindbg.model import Excerpt, Finding
from jupyter_traindbg.redact import PLACEHOLDER, Redactor, redact
from jupyter_traindbg.redact.names import is_secret, secret_kind


@each("kind", planted.BY_SHAPE)
@each("around", ["{}", "value is {}.", '"{}"', "a,{},b", "x={}\n", "({})", "<td>{}</td>"])
def test_a_secret_with_a_shape_goes_wherever_it_stands(kind: str, around: str) -> None:
    secret = planted.BY_SHAPE[kind]
    said = redact(around.format(secret))
    assert secret not in said
    assert said.replace(PLACEHOLDER.findall(said)[0], "{}") == around


@each("kind", planted.IN_WORDS)
@each("around", ["{}", "[rank3]: 2026-01-02 10:11:12 INFO {}", "loss=1\n{}\nlr: 1e-4"])
def test_a_secret_behind_its_name_goes_and_the_rest_stays(kind: str, around: str) -> None:
    line, secret = planted.IN_WORDS[kind]
    before, after = line.format("\0").split("\0")
    said = redact(around.format(line.format(secret)))
    assert secret not in said
    assert len(PLACEHOLDER.findall(said)) == 1
    for kept in (before, after):
        assert kept in said


@each("line", planted.HARMLESS)
def test_what_training_writes_all_the_time_stays(line: str) -> None:
    assert redact(line) == line
    assert redact(f"[rank0]: step 5 {line}, and so on") == f"[rank0]: step 5 {line}, and so on"


@pytest.mark.parametrize("text", [planted.PEM, planted.PEM.replace("\n", "\\n"), planted.PEM.split("-----END")[0]])
def test_a_private_key_goes_also_escaped_or_cut_off(text: str) -> None:
    said = redact(f"before\n{text}")
    assert said.startswith("before\n")
    assert not any(line in said for line in planted.PEM_BODY.split("\n"))


def test_the_end_of_a_private_key_goes_too() -> None:
    said = redact(planted.PEM.split("\n", 2)[2] + "\nafter")
    assert said.endswith("\nafter")
    assert not any(line in said for line in planted.PEM_BODY.split("\n"))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("api_keys:\n  - first-K3y\n  - second-K3y\nlr: 1", "lr: 1"),
        ("db:\n  password: |\n    first-K3y\n    second-K3y\n  port: 5", "  port: 5"),
        ('{"api_keys": ["first-K3y", "second-K3y"], "lr": 1}', '"lr": 1}'),
    ],
)
def test_lists_and_blocks_below_a_name_go(text: str, kept: str) -> None:
    said = redact(text)
    assert "K3y" not in said
    assert said.endswith(kept)


def test_the_same_secret_has_the_same_number_and_another_one_another() -> None:
    redactor = Redactor()
    said = redactor.text("token=abc123def token=zzz999yyy token=abc123def", "a.log")
    first, second, third = PLACEHOLDER.findall(said)
    assert first == third != second
    assert first in redactor.text("later: api_key='abc123def'", "b.log")
    rows = {(row.number, row.where): row.times for row in redactor.found}
    assert rows == {(1, "a.log"): 2, (1, "b.log"): 1, (2, "a.log"): 1}


def test_what_was_named_once_goes_without_its_name_and_in_every_coding() -> None:
    secret = 'Paß/w0rd "42" &<x>'
    redactor = Redactor()
    redactor.learn_from({"SERVICE_PASSWORD": secret})
    raw = secret.encode()
    forms = [
        secret,
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
        json.dumps(secret),
        raw.hex(),
        *(base64.b64encode(before + raw + b":tail").decode() for before in (b"", b"u", b"us", b"usr:")),
        base64.urlsafe_b64encode(b"me:" + raw).decode(),
    ]
    for form in forms:
        said = redactor.text(f"it is {form} here")
        assert PLACEHOLDER.search(said), form
        assert not any(part in said for part in (secret, form)), form
        assert said.endswith(" here")


def test_a_common_word_that_is_a_password_goes_only_where_it_is_a_value() -> None:
    redactor = Redactor()
    redactor.learn_from({"DB_PASSWORD": "swordfish"})
    assert redactor.text('connect("swordfish")') == 'connect("«redacted:password#1»")'
    assert redactor.text("the swordfish dataset") == "the swordfish dataset"


@dataclass(frozen=True)
class Row:
    name: str
    lines: tuple[str, ...]


@each("order", [0, 1])
def test_what_was_read_before_or_after_a_secret_was_given_away_is_redacted_all_the_same(order: int) -> None:
    redactor, said = Redactor(), "sent Quite-Private-4711 on"
    for value in [{"TEAM_PASSWORD": "Quite-Private-4711"}, said][:: (1, -1)[order]]:
        redactor.learn_from(value)
    assert redactor.text(said) == "sent «redacted:password#1» on"


def test_plain_data_is_gone_through_by_its_keys() -> None:
    data = {
        "optimizer": {"lr": 0.1, "max_tokens": 4096},
        "wandb": {"api_key": "wand-3rful", "mode": "online"},
        "passwords": ["first-1", "second-2"],
        "pin": {"password": 12345678, "secret": None, "token": True},
        "argv": ["train.py", "--api-key", "argument-1", "--lr", "0.1", "--auth-token=argument-2"],
        "row": Row("x", ("api_key=row-s3cret", "step 3")),
    }
    said = Redactor().value(data)
    words = repr(said)
    for secret in ("wand-3rful", "first-1", "second-2", "12345678", "argument-1", "argument-2", "row-s3cret"):
        assert secret not in words
    assert said["optimizer"] == {"lr": 0.1, "max_tokens": 4096}
    assert said["wandb"]["mode"] == "online"
    assert said["pin"]["secret"] is None
    assert said["pin"]["token"] is True
    assert said["argv"][3:5] == ["--lr", "0.1"]
    assert said["row"].lines[1] == "step 3"


def test_a_secret_that_was_cut_off_goes_too() -> None:
    redactor = Redactor()
    secret = planted.BY_SHAPE["hugging face"]
    whole = redactor.text(secret)
    assert redactor.text(f"a long line {secret[:12]}…") == f"a long line {whole}…"
    assert redactor.text("a long line hf_abcdefghi…") == "a long line hf_abcdefghi…"


def test_a_caption_is_no_name() -> None:
    lines = {"/tmp/my_secret_run/train.log (last lines)": ["step one", "step two"]}
    assert Redactor().value(lines) == lines


def test_the_lines_of_a_private_key_go_one_by_one_as_well() -> None:
    redactor = Redactor()
    redactor.learn_from(planted.PEM)
    for line in planted.PEM_BODY.split("\n"):
        assert line not in redactor.text(f"[rank0]: {line}")


def test_a_working_directory_is_no_password_and_a_pod_names_its_secrets() -> None:
    data = {
        "PWD": "/home/me/my run",
        "env": [{"name": "DB_PASSWORD", "value": "p0d-pass"}, {"name": "LR", "value": "0.1"}],
    }
    said = Redactor().value(data)
    assert said["PWD"] == data["PWD"]
    assert said["env"][0]["value"] == "«redacted:password#1»"
    assert said["env"][1] == {"name": "LR", "value": "0.1"}


def test_what_is_no_secret_stays_also_when_it_knows_many_secrets() -> None:
    """What that costs: benchmarks/bounds.py, which has a line of each kind."""
    redactor = Redactor()
    redactor.learn_from([f"token=tok-{n:05d}-x{n * 7919:08x}" for n in range(200)])
    text = "[rank0]: step 123 loss=0.234 lr: 1e-4 tokens/s=12345.6 max_tokens=4096 mem 12.3GiB\n" * 100
    assert redactor.text(text) == text
    assert "tok-00199" not in redactor.text(f"{text}it was tok-00199-x{199 * 7919:08x}\n")


def test_a_result_stays_what_it_is() -> None:
    finding = Finding("x", "info", "password=hunter22 was tried", who=["rank 1"], evidence=("token=abc123def",))
    said = Redactor().value(finding)
    assert isinstance(said, Finding)
    assert said.title == "password=«redacted:password#1» was tried"
    assert said.who == ["rank 1"]
    assert finding.title.endswith("hunter22 was tried"), "the original is left alone"


def test_redacting_twice_is_redacting_once() -> None:
    """Texts put together at random from secrets, names, separators and placeholders."""
    chance = random.Random(7)
    pieces = [
        *planted.BY_SHAPE.values(),
        *(line.format(secret) for line, secret in planted.IN_WORDS.values()),
        *planted.HARMLESS,
        planted.PEM,
        *("password", "api_key", "Authorization", "Bearer", "Cookie", "--token", "secret", "key"),
        *("=", ": ", '"', "'", "\n", " ", ",", "@", "://", "&", "«redacted:token#1»", "«", "»", "\\", "[", "]", "<", ">", "- "),
    ]  # fmt: skip
    for _ in range(150):
        text = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 12)))
        once = redact(text)
        assert redact(once) == once, text


@pytest.mark.timeout(60)
@each("name", hostile.secrets(1))
def test_a_secret_behind_hostile_text_goes_and_what_follows_stays(name: str) -> None:
    """What that costs: benchmarks/bounds.py."""
    said = redact(hostile.secrets(20_000)[name] + "\napi_key=first-K3y9\nloss=1")
    assert "K3y9" not in said
    if "private" not in name:  # whatever stands behind the beginning of a key may be the key
        assert said.endswith("\nloss=1")


@each(
    ("name", "kind"),
    [
        ("WANDB_API_KEY", "api-key"), ("wandbApiKey", "api-key"), ("wandb.api-key", "api-key"), ("HF_TOKEN", "token"),
        ("hf-token", "token"),
        ("db_password", "password"), ("PGPASSWORD", "password"), ("MYSQL_PWD", "password"), ("client_secret", "secret"),
        ("AWS_SECRET_ACCESS_KEY", "key"), ("sentry_dsn", "connection-string"), ("SLACK_WEBHOOK_URL", "webhook"),
        ("max_tokens", None), ("tokenizer", None), ("pad_token", None), ("token_count", None), ("author", None), ("OLDPWD", None),
        ("password_file", None), ("SSH_AUTH_SOCK", None), ("public_key", None), ("monkey_see", None), ("keyboard", None),
        ("forward_pass", None),
    ],
)  # fmt: skip
def test_names(name: str, kind: str | None) -> None:
    assert secret_kind(name) == kind


@each("value", ["", "None", "true", "${X}", "$X", "<token>", "****", "(hidden)", "4096", "0.1", "1.5e-3"])
def test_values_that_are_none(value: str) -> None:
    assert not is_secret("token", value, explicit=True)


def test_the_source_beside_a_verdict_keeps_no_secret() -> None:
    lines = (
        'client = Client(api_key="sk-abcdefghijklmnopqrstuvwxyz123456")',
        'password = "correct-horse-battery"',
        "client.wait()",
    )
    finding = Finding("hang", "critical", "It waits", source=Excerpt("/home/ada/train.py", 3, 1, lines))
    redactor = Redactor()
    redactor.learn_from(finding)
    told = redactor.value(finding).source
    assert told is not None
    assert told.lines[2] == "client.wait()"
    assert not [line for line in told.lines if "sk-abc" in line or "battery" in line]


def test_a_secret_is_found_again_as_well_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another host our code has the standard library alone."""
    secret = "Hk29xx81-pQ7wZ"
    again = base64.b64encode(f"user:{secret}".encode()).decode()
    said = f"at {secret}, {urllib.parse.quote(secret)}{secret} and {again}"

    def redacted() -> str:
        redactor = Redactor()
        redactor.learn(secret, "password")
        return redactor.text(said)

    found = redacted()
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    assert redacted() == found
    assert secret not in found
    assert again not in found
