"""Secrets of every kind, none of them real: the shapes are right, the letters are made up here."""

from __future__ import annotations

import base64

_LETTERS = "Zq7Rk2Vw9Xb4Ny6Tf1Hc8Jd3Lm5Ps0Gq7Rk2Vw9Xb4Ny6Tf1Hc8Jd3Lm5Ps0G"


def _random(length: int, seed: int = 0) -> str:
    """Letters and digits, other ones for each `seed`."""
    return "".join(_LETTERS[(i * 7 + seed * 11 + i // 5) % len(_LETTERS)] for i in range(length))


PEM_BODY = "\n".join(_random(64, seed) for seed in (3, 5, 8))

BY_SHAPE = {
    "aws": "AKIA" + _random(16, 1).upper(),
    "github": "ghp_" + _random(36, 2),
    "github fine-grained": "github_pat_" + _random(22, 3) + "_" + _random(59, 4),
    "hugging face": "hf_" + _random(34, 5),
    "openai": "sk-proj-" + _random(40, 6),
    "anthropic": "sk-ant-api03-" + _random(40, 7),
    "google": "AIza" + _random(35, 8),
    "slack": "xoxb-" + "1234567890-" + _random(24, 9),
    "jwt": f"eyJ{_random(20, 10)}.eyJ{_random(30, 11)}.{_random(43, 12)}",
    "gitlab": "glpat-" + _random(20, 13),
}
"""By their issuer: found wherever they stand."""

IN_WORDS = {
    "wandb": ("wandb: Appending key: {}", "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"),
    "url": ("pulling https://deploy:{}@git.example.org/team/repo.git", "Fresh-Paint.77"),
    "database": ("engine = postgresql+psycopg2://trainer:{}@10.0.0.4:5432/runs", "Gr8tWall_of"),
    "redis": ("redis://:{}@cache.example.org:6379/0", "r3d1sPass"),
    "signed url": ("GET https://b.s3.amazonaws.com/x.pt?X-Amz-Date=20260101&X-Amz-Signature={}&z=1", _random(64, 14).lower()),
    "azure": ("AccountName=acc;AccountKey={};EndpointSuffix=core.windows.net", _random(86, 15) + "=="),
    "bearer": ("> Authorization: Bearer {}", _random(30, 16)),
    "basic": ("curl -H 'Authorization: Basic {}' https://x", base64.b64encode(b"jane:Open.Sesame1").decode()),
    "cookie": ("Cookie: {}", "sid=81hf71hf; theme=dark"),
    "header": ("X-Api-Key: {}", "k3y-of-9-doors"),
    "export": ("export MODEL_REGISTRY_PASSWORD={}", "Tr0ub4dor&3x"),
    "option": ("python train.py --api-key {} --lr 1e-4", "opt-Ion-4417"),
    "option with =": ("python train.py --db-password={} --max-tokens 4096", "opt=Ion5512"),
    "argv": ("argv: ['train.py', '--hf-token', '{}']", "argv-Tok-9012"),
    "json": ('{{"client_secret": "{}", "lr": 0.1}}', "json secret 1"),
    "nested json": ('payload={{\\"token\\": \\"{}\\"}}', "n3sted-token-5"),
    "yaml": ("  secret_key: {}", "yaml-S3cret-8"),
    "toml": ('aws_secret_access_key = "{}"', _random(40, 17)),
    "python": ('client = Client(password="{}", retries=3)', "in-Source-31"),
    "environ": ("os.environ['OPENAI_API_KEY'] = '{}'", "Env-Line-6612"),
    "kernel": ('{{"shell_port": 4, "key": "{}", "signature_scheme": "hmac-sha256"}}', "5e0c1f77-90ab4c1de2f3a4b5c6d7e8f9"),
    "netrc": ("machine api.wandb.ai login user password {}", _random(40, 18).lower()),
    "pod": ("- name: HUGGINGFACE_HUB_TOKEN\n  value: {}", "pod-tok-3377"),
    "odbc": ("Driver={{SQL}};Server=db;UID=sa;PWD={}", "0dbc-pass"),
    "xml": ("<password>{}</password>", "Xm1-pass"),
}  # fmt: skip
"""A line for each, and what is secret in it."""

PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"

HARMLESS = (
    "max_tokens=4096", "tokens_per_second: 1234.5", "tokenizer=/models/llama/tokenizer.json", "num_tokens=3", "--max-tokens 4096",
    '"pad_token": "<pad>"', '"eos_token": "</s>"', "eos_token_id: 2", "loss per token: 0.23", "token_type_ids: [1, 2]", "n_token=3",
    "data.prompt_key=prompt", "reward_fn_key: data_source", "num_key_value_heads: 8", "key_padding_mask=None", "key=value step=3",
    "Missing key(s) in state_dict: \"transformer.h.0.attn.bias\"", "KeyError: 'input_ids'", '{"key": "input_ids"}', "sort_key=date",
    "author: jane", "SSH_AUTH_SOCK=/tmp/agent.1", "PWD=/home/me/run", "AWS_SHARED_CREDENTIALS_FILE=/root/.aws/credentials",
    "api_key=os.environ['X']", "token=tokenizer", "token: str", "password: null", "secret: ${SECRET}", "api_key=None", "password=********",
    "https://github.com/a/b@main", "git@github.com:x/y.git", "ssh://git@host/x",
    "https://huggingface.co/api/models?limit=10&full=true",
    "RuntimeError: invalid token: unexpected", "Basic configuration of the run", "Bearer certificates",
    "forward_pass: 12ms", "monkey: banana1",
    "wandb: run at commit 0123456789abcdef0123456789abcdef01234567", "grad_norm/key_proj=0.123",
    "first_token_latency_s: 0.31",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "tokens: [101, 2023, 102]", "next_token: hello",
    "auth: true", "METRIC_KEY=eval_loss",
)  # fmt: skip
"""What training writes all the time, and what is no secret."""
