"""Which names name a secret, and which values are none all the same: ``max_tokens=4096``, ``token: "<pad>"``, ``auth: true``.

Names are judged by their words (``wandbApiKey``, ``WANDB_API_KEY`` and ``wandb.api-key`` have the same three), because in machine learning
"token" and "key" mostly mean something else. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["is_secret", "secret_kind"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_ABOUT = _set(
    "file files path paths dir directory name names type types length len count counts policy required enabled enable disabled"
    " expires expiry expiration ttl size scheme manager provider mask masks padding format version algorithm field fields column"
    " columns regex pattern usage limit budget rate sock socket mode method level prob probs logprob logprobs embedding embeddings"
    " hash ids idx index url uri host port timeout error errors valid invalid states cache heads dim dims lens position positions"
)
"""A name that ends with one of these is about a secret, or about something else altogether."""

_TOKENS_OF_TEXT = _set(
    "pad eos bos unk mask sep cls special image video audio next last per max min num first stop end start decoder forced suppress"
    " begin think thinking each new current prev previous reward value loss time s ms us vision unused added extra boi eoi of"
    " separator tool mm prompt draft sampled target label single class register latent empty blank bad sub text input output"
    " n m k true false generated response every additional padding final total mean avg average seconds second byte word char model patch"
    " cost"
)
"""What stands before "token" where it is a piece of text."""

_KEYS_TO_SOMETHING = _set(
    "api access secret private encryption encrypt decryption signing sign ssh account auth storage service license deploy"
    " subscription client app application shared server ssl tls rsa dsa ecdsa pem aws azure gcp google openai anthropic hf"
    " huggingface wandb comet neptune mlflow clearml swanlab dashscope deepseek gemini mistral cohere replicate together groq"
    " ngc nvidia github gitlab slack sentry datadog dd wolfram serpapi tavily master hmac jwt session consumer user admin webhook"
)
_WITH_A_PASS = _set(
    "db database smtp imap mysql pg postgres postgresql redis user admin root http https proxy mail email ftp ssh sudo login account"
    " service mongo mongodb rabbitmq amqp ldap vault basic http mssql sql server keystore key"
)
_ONE_WORD = {
    "apikey": "api-key",
    "authtoken": "token",
    "accesstoken": "token",
    "accesskey": "key",
    "secretkey": "secret",
    "privatekey": "key",
    "passwd": "password",
    "password": "password",
    "passphrase": "password",
    "passcode": "password",
    "secret": "secret",
    "credential": "credentials",
    "connectionstring": "connection-string",
    "connstr": "connection-string",
    "sessionid": "cookie",
    "sessid": "cookie",
}
"""Found anywhere in the name, its words written together."""


@lru_cache(maxsize=4096)
def secret_kind(name: str) -> str | None:  # noqa: PLR0911 - a list of rules reads best as one
    """What kind of secret `name` names (``"api-key"``, ``"password"``), None where it names none."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or "public" in words or "tokenizer" in words or "tokens" in words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if before == "webhook" and last == "url":
        return "webhook"
    if (last in _ABOUT and words[-2:] != ["session", "id"]) or words[-2:] in (["token", "id"], ["key", "id"]):
        return None
    joined = "".join(words)
    for part, kind in _ONE_WORD.items():
        if part in joined:
            return kind
    if last in ("pass", "pw", "pwd", "psw"):
        return "password" if before in _WITH_A_PASS or name in ("pwd", "PWD") else None
    if last in ("key", "keys"):
        return _key(name, before)
    if last == "token":
        return None if before in _TOKENS_OF_TEXT else "token"
    return {
        "auth": "auth",
        "authorization": "auth",
        "oauth": "auth",
        "bearer": "auth",
        "cookie": "cookie",
        "cookies": "cookie",
        "dsn": "connection-string",
        "webhook": "webhook",
        "jwt": "jwt",
    }.get(last)


def _key(name: str, before: str) -> str | None:
    """``api_key`` opens something, ``prompt_key`` is a column; which of them a ``foo_key`` is, its value has to show."""
    if before in _KEYS_TO_SOMETHING:
        return "api-key" if before == "api" else "key"
    return "key-by-value" if name.lower().endswith("key") else None


_NOTHING = _set(
    "none null nil true false yes no on off unset empty undefined default auto hidden redacted masked set missing required optional"
    " enabled disabled str int bool float bytes string str] any secretstr invalid expired valid unknown not is was the a"
)
_INSTEAD = re.compile(
    r"[*.xX•_#-]+|\(hidden\)|<[^<>]*>|\[[A-Z_]+\]|\$\{?[\w:.-]+\}?|\{\{?[^{}]*\}?\}|%\([\w.]+\)s|\$\([^)]*\)|`[^`]*`|\(hidden|your[-_ ].*",
    re.IGNORECASE,
)
"""What stands where a secret would."""
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@+/-]*|file:.*|[A-Za-z]:\\.*")
_KERNEL_KEY = re.compile(r"[0-9a-f][0-9a-f_-]{30,}")
_FIGURE = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?|nan|[-+]?inf|\d+(?:\.\d+)?[kKmMgGbB]?(?:/s|/it)?", re.IGNORECASE)


def is_secret(kind: str, value: str, *, name: str = "", explicit: bool = False) -> bool:  # noqa: PLR0911
    """Whether `value` behind a name of `kind` is a secret, and not a placeholder, a figure, a path or a reference to where it is kept.

    `explicit`: it stands where only a value can (an environment, an option, in quotes), so that short words count as well.
    """
    bare = value.strip().strip("\"'")
    if len(bare) < 3 or bare.lower() in _NOTHING or _INSTEAD.fullmatch(bare) or bare.lower() == name.lower():
        return False
    if name.lower() == "pwd" and bare.startswith(("/", "~", ".", "C:")):
        return False  # the working directory
    if kind == "key-by-value":
        a_variables = name.isupper() and "_" in name and _has_digit(bare) and not _PATH.fullmatch(bare)
        return bool(_KERNEL_KEY.fullmatch(bare)) or _looks_random(bare) or a_variables
    if _FIGURE.fullmatch(bare):
        return kind in ("password", "secret") and len(bare) >= 4 and bare.isdigit()
    may_be_path = (
        kind in ("credentials", "auth", "key", "cookie", "connection-string", "token") or name.lower() == "pwd"
    )
    if may_be_path and _PATH.fullmatch(bare) and (len(bare) < 40 or "." in bare or bare.count("/") > 2):
        return False
    if kind in ("password", "api-key", "connection-string", "webhook"):
        return True
    if kind == "token":
        return len(bare) >= (6 if explicit else 8) and (explicit or _has_digit(bare) or len(bare) >= 20)
    return explicit or len(bare) >= 20 or (len(bare) >= 6 and _has_digit(bare))


def _has_digit(words: str) -> bool:
    return any(c.isdigit() for c in words)


def _looks_random(words: str) -> bool:
    """Letters and digits mixed, long, and no words or numbers joined by underscores."""
    return (
        len(words) >= 20
        and re.fullmatch(r"[A-Za-z0-9+/=_-]+", words) is not None
        and sum(c.isdigit() for c in words) >= 4
        and any(c.isalpha() for c in words)
        and max(map(len, re.split(r"[_/-]", words))) >= 12
    )
