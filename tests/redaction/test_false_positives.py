"""Code, logs and documents that look like secrets and are none stay as they are."""

from pathlib import Path

import pytest

from open_token.redaction.detector import Detector
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import load_rules

COLONS = ":".join(["{upperhex:2}"] * 20)
MET = [
    'enc = tiktoken.get_encoding("cl100k_base")',
    "tiktoken.get_encoding('o200k_base')",
    "    proxy_pass http://localhost:8000;",
    "proxy_pass http://127.0.0.1:3000/;",
    "    fastcgi_pass unix:/run/php/php8.2-fpm.sock;",
    "proxy_pass http://backend_v2;",
    "rich/box.py,sha256={b64url:43},10686",
    "weaviate.py,sha256={b64url:43},2158",
    "pkg/_keywords.py,sha256=r8_{b64url:40},14949",
    "pkg/version.py,sha256=qaN-fw_{alnum:36},160",
    "joint/joint-revolute.hxx,sha256={b64url:43},27940",
    "graph/badge.svg?token=VqJjL474Z7)](https://codecov.io/gh/x/y)",
    'https://codecov.io/gh/o/r/branch/main/graph/badge.svg?token={alnum:10}"',
    "ann_key = f\"comment_{element.attrib['type']}\"",
    "db_key = '{0}-{1:015d}'.format(prefix, num)",
    'environ_key = f"VIRTUALENV_{key.upper()}"',
    'type_var_key = f"typevar={thing!r}"',
    'auth_str += f":{auth[1]}"',
    "_FLOW_KEY = 'google_oauth2_flow_{0}'",
    'toolskey = "VS%0.f0COMNTOOLS" % version',
    'token_range = "%d,%d-%d,%d:" % (token.start + token.end)',
    'parser.add_argument("--secret", type=str, help="x")',
    '{"--token", "--quiet", "--type"}',
    "have been renamed to --http-password and --proxy-password respectively, and",
    "'--password --inputbox'",
    "Add `--secret SECRET` to derive",
    "CONTEXT_CREATION_API = 0x0002200B",
    "#if Py_LIMITED_API >= 0x030d0000",
    "OPENSSL_API_COMPAT=0x10100000L",
    "access_addr=0x8E89BED6",
    "KPASSWD_REQ(\n            pvno=0xFF80 if setpassword else 1",
    "token: JiraOauth2Token",
    "x25519_key: x25519.X25519PrivateKey,",
    ":vartype pubkey: ~ecdsa.ecdsa.Public_key",
    'key, value = "heightOfGeoidAboveWGS84", "46.9"',
    "len(key) == crypto_aead_aes256gcm_KEYBYTES,",
    "this._noAuthorization = !req.headers.authorization;",
    'authorization = b64encode(self.username + b":")',
    '"state: "+x+", token: "+f);switch(E[0]){case 1:s.push(f)',
    "o.key=s.C0.ESC+s.C0.ESC),o.cancel=!0;",
    "o.key=e.altKey?s.C0.ESC+s.C0.CR:s.C0.CR,o.cancel=!0;",
    "Network(os.path.join(pwd, 'wr2p2,line.s2p'))",
    "ntwk = Network(os.path.join(self.pwd, 'wr1p5_1in_swg_Al_0rough.s2p'))",
    "my $pwd  = CPAN::anycwd();",
    '"Langesloot","Langesân","Langeweg"',
    '"Sec-WebSocket-Key": "{alnum:22}==",',
    "Sec-WebSocket-Key: {alnum:22}==",
    "Sec-WebSocket-Accept: {alnum:27}=",
    "perldoc -u Some::Modulename",
    "$ corelist -a Test::More",
    "    return -a[1:].reshape(1, 1)",
    "Usage: --auth %s[:ArgString]\\n",
    "    PASSWORD=password,",
    'shareKey:"@rjsf/validator-ajv8",',
    'new _.Token("@jupyter-notebook/application:INotebookShell");',
    "oauth_callback=https%3A%2F%2F127.0.0.1%2Fcallback'",
    '    r"access[-_]?token|refresh[-_]?token|token|password|secret|client[-_]?secret|"',
    "PSVersionTable|Pwd|ShellId|StackTrace|VerbosePreference/,",
    "X509v3 Authority Key Identifier: \n                keyid:" + COLONS,
    "sig_key:        " + COLONS,
    "gpg:                using RSA key {upperhex:40}",
    "Add new upstream signing key {upperhex:40}\n    to debian",
    "+ Add file (GnuPG key: 0x7EC2DBB6F4DBF434).",
    "NO_PUBKEY {upperhex:16}",
    "Primary key fingerprint: {upperhex:40}",
    'elif keyAlgorithm.startswith(b"curve25519-sha256"):',
    'if key.endswith("[sdk=iphoneos*]"):',
    'self.setdefault("id_token_encrypted_response_enc", "A128CBC-HS256")',
    "[legacy URL API]: url.md#legacy-url-api",
    "* etc/login.defs: s/chkpasswd/chpasswd/",
    'ed25519x25519-key-pairs">Ed25519/X25519 key pairs</a>',
    "{AlgorithmIdentifier|EcdhKeyDeriveParams|HkdfParams|Pbkdf2Params}",
    "Use a string to represent the public key.\n\t* ed25519-sha512-sign.c (ed25519)",
    "warn about insecurity in using\n\t--password.\n\t* man/groupmod.8.xml: Removed",
    "password-cache.c.\n\t* gtk+-2/pinentry-gtk-2.c (may_save_passphrase)",
    "const pubkey256 = '{b64:43}=';",
    "man/{readpassphrase.3 => readpassphrase.3bsd}   |  0",
    "{b64:60}cKEY\n{b64:60}\n-----END CERTIFICATE-----",
    '"AAAChAAAHUSAACtEgAAghMAAE8UAAB/EAAA{b64:70}/TcLAQEA"',
    "A02EC35D1048394F4EF2177FC5EB726DE5EF2DE7997166B8BE5B5105D08\nEAAC{upperhex:60}\n{upperhex:64}\n{upperhex:64}\n",
    "PASSWD_MIN = nacl.bindings.crypto_pwhash_scryptsalsa208sha256_PASSWD_MIN\n"
    "PASSWD_MAX = nacl.bindings.crypto_pwhash_scryptsalsa208sha256_PASSWD_MAX\n",
    "MLKEM768X25519PrivateKey = rust_openssl.hpke.MLKEM768X25519PrivateKey\n"
    "MLKEM768X25519PublicKey = rust_openssl.hpke.MLKEM768X25519PublicKey\n",
    'Invalid or missing stateId from key:",JSON.stringify(e));let r=y',
    "t.ProgressType=t.ProgressToken=t.createMessageConnection=t.NullLogger=void 0",
    'enc = SimpleBytePairEncoding.from_tiktoken("cl100k_base")',
    "return keys.Key.fromFile(file, password=ans).keyObject",
    '"private_eye.bin": "{hex:32}",',
    "https://youtu.be/yeWKywCrFtk?list=PL{alnum:32}",
    "of the user password.\n            use_128bit: flag as to whether",
    "# lib.SECP256K1_TAG_PUBKEY_EVEN\n# lib.SECP256K1_TAG_PUBKEY_ODD\n",
    "__pyx_ptype_3MPI_Session = __Pyx_ImportType_3_2_4(module)",
    "_AUTH_QUERY_TEMPLATE = '?client_id=%s'",
    "base_api_tmpl = '%s-prod-cdn.video-api.test.com/api'",
]
"""Each was met in the sources of a package or of a system, and masked."""


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Detector:
    cache: Path = tmp_path_factory.mktemp("rules")
    return Detector(load_rules("secrets"), cache, "hyperscan")


@pytest.mark.parametrize("example", MET)
def test_false_positive_is_not_masked(example: str, detector: Detector) -> None:
    assert detector.find([fill_placeholders(example, "left alone")[0]]) == []


HEADER = (
    "Authorization: Basic {b64:30}\n            Content-Type: application/x-www-form-urlencoded"
)


@pytest.mark.parametrize(
    "example",
    [
        "            so it sent again what it had sent before: " + HEADER,
        "https://example.org/what/else/there/is/to/see/here?access_token={alnum:14}\n   :target: https://example.org/",
    ],
)
def test_a_line_that_begins_with_a_name_does_not_go_on_with_a_value(
    example: str, detector: Detector
) -> None:
    text, values = fill_placeholders(example, "left alone")
    ((_, findings),) = detector.find([text])
    assert [text[item.start : item.end] for item in findings] == values
