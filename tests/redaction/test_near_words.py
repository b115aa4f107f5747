"""A random value near a word for secrets is found, wherever the word stands; ids and names are not."""

import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

from open_token.redaction.detector import Detector
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import load_near_words, load_rules
from open_token.redaction.validators import character_model
from open_token.redaction.validators.character_model import measure_randomness

SECRETS = [
    "the key I use is {alnum:24}",
    "token - '{alnum:24}'",
    "here is the api key that you asked for yesterday, please be careful: {alnum:30}",
    "I gave the bot this secret yesterday\n\n{alnum:30}\n",
    "{alnum:28} is what we use as webhook secret",
    "use {alnum:26} when the service asks for the token",
    "| service | token |\n|---|---|\n| billing | {alnum:24} |",
    "name,api_key\nfoo,{alnum:24}",
    "<secret><![CDATA[{alnum:24}]]></secret>",
    "the credentials are admin / {alnum:24}",
    "const k = '{alnum:24}' // api key",
    "nuestra clave de API para pruebas es {alnum:24}",
    "我们的令牌 {alnum:24} 请不要分享",
    "the password for the staging box is still Tiger!{alnum:5}7a",
    "пароль от базы данных теперь Katze#{alnum:5}7a",
    "Use Blue%{alnum:5}7a as password for the demo user",
    "token (read only): {alnum:24}",
    "token, as discussed:\n{alnum:24}",
    "the placeholder was replaced with {alnum:24} as token",
    "{alnum:24} (our API token)",
    "for the api key enter {alnum:24}",
]
HARMLESS = [
    "the token count of commit {hex:40}",
    "tokens used by msg_01{alnum:22}",
    '{"input_tokens": 12, "cursor": "{alnum:30}"}',
    "the secret is in src/{word:6}/{word:8}2.py",
    "name,token,file\nx,none,{alnum:24}",
    "checksum of the key file\n{hex:64} key.pem",
    "our token is described below. More follows, in the next part of this long text, which is about {alnum:24}",
    "Volume {alnum:24} stores the credentials",
    "device {alnum:24} unlocked with passphrase",
    "Deleted secret bundle {alnum:24} again",
    "password policy {alnum:24} applies",
]


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize("text", SECRETS)
def test_a_value_near_a_word_is_found(text: str, engine: str) -> None:
    filled = fill_placeholders(text, "near")[0]
    ((_, findings),) = Detector(load_rules("secrets"), None, engine).find([filled])
    values = [item.get_value(filled.encode()) for item in findings]
    assert len(values) == 1
    assert len(values[0]) >= 12


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_named_otherwise_stays(text: str, engine: str) -> None:
    filled = fill_placeholders(text, "near")[0]
    assert Detector(load_rules("secrets"), None, engine).find([filled]) == []


def test_the_model_separates_random_strings_from_names() -> None:
    chance = random.Random(3)
    alphabet = string.ascii_letters + string.digits
    drawn = ["".join(chance.choices(alphabet, k=24)) for _ in range(500)]
    assert sum(measure_randomness(text) > 2 for text in drawn) >= 495
    names = ["getElementById2", "tests/redaction/test_media.py", "claude-3-5-sonnet-20241022"]
    assert all(measure_randomness(name) < 0 for name in names)


def test_words_come_in_many_languages() -> None:
    assert len(load_near_words("password")) >= 40
    assert {"пароль", "密码", "contraseña", "şifre", "كلمة المرور"} <= set(
        load_near_words("password")
    )


@pytest.mark.full
def test_the_training_is_reproducible(tmp_path: Path) -> None:
    """With the Python that trained it, the script writes the file of the tree."""
    script = Path(__file__).parents[2] / "scripts" / "train_character_model.py"
    code = (
        "import runpy, pathlib, open_token.redaction.validators.character_model as model;"
        f"model.PATH = pathlib.Path({str(tmp_path / 'model.txt')!r});"
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    if sys.version_info[:3] == (3, 11, 7):
        assert (tmp_path / "model.txt").read_bytes() == character_model.PATH.read_bytes()
