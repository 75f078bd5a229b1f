"""Made-up credentials of the kinds that rule sets of secret scanners know, each in a line of a log."""

# ruff: noqa: UP031

from __future__ import annotations

import base64
import string
from random import Random

_RANDOM = Random(77)
_LETTERS = string.ascii_letters + string.digits
_CAPITALS = string.ascii_uppercase + string.digits
_HEX = "0123456789abcdef"
_SITE = "(APIServer pid=5) WARNING 03-04 10:12:00 [weird_site.py:93] "
PLANTED: list[tuple[str, str, str]] = []
"""What it is, a part of it that must not survive, the line or lines that hold it."""


def _text(length: int, of: str = _LETTERS) -> str:
    return "".join(_RANDOM.choice(of) for _ in range(length))


def _add(name: str, core: str, line: str) -> None:
    PLANTED.append((name, core, line))


def _key() -> str:
    return "Qz" + _text(24)


# env dumps
for n in (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "WANDB_API_KEY",
    "HF_TOKEN",
    "GITHUB_TOKEN",
    "DB_PASSWORD",
    "SLACK_BOT_TOKEN",
    "MLFLOW_TRACKING_PASSWORD",
    "AZURE_STORAGE_KEY",
    "SECRET_KEY",
    "JWT_SECRET",
    "S3_SECRET",
    "MINIO_ROOT_PASSWORD",
    "REDIS_PASSWORD",
    "SENTRY_DSN_SECRET",
    "DATADOG_API_KEY",
    "COHERE_API_KEY",
    "VLLM_HTTP_TOKEN",
    "RUNPOD_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "LANGFUSE_SECRET_KEY",
    "PRIVATE_KEY",
):
    x = _key()
    _add("env " + n, x, f"{n}={x}")
x = _key()
_add("export quoted", x, f"+ export MY_API_TOKEN='{x}'")
x = _key()
_add("docker -e", x, _SITE + f"docker run --gpus all -e HUGGING_FACE_HUB_TOKEN={x} vllm/vllm-openai")
x = _key()
_add("os.environ repr", x, _SITE + f"environ({{'PATH': '/bin', 'OPENAI_API_KEY': '{x}', 'HOME': '/root'}})")
x = _key()
_add("curl bearer", x, _SITE + f"curl -H 'Authorization: Bearer {x}' http://localhost:8000/v1/models")
x = _key()
_add("curl -u", x, _SITE + f"curl -u admin:{x} http://host/x")
x = _key()
_add("curl api-key header", x, _SITE + f"curl -H 'api-key: {x}' https://x.openai.azure.com")
x = _key()
_add("x-goog-api-key", x, _SITE + f'"x-goog-api-key": "{x}"')
x = _key()
_add("url user:password", x, _SITE + f"proxy http://bob:{x}@proxy.corp:3128 failed")
x = _key()
_add("git url token", x, _SITE + f"git clone https://oauth2:{x}@gitlab.com/a/b.git")
x = _key()
_add("mongodb+srv", x, _SITE + f"mongodb+srv://app:{x}@cluster0.mongodb.net/db")
x = _key()
_add("amqp", x, _SITE + f"amqps://u:{x}@mq/vh")
x = _key()
_add(
    "mssql conn string", x, _SITE + f"Server=tcp:x.database.windows.net;User ID=sa;Password={x};Encrypt=True"
)
x = base64.b64encode(_RANDOM.randbytes(64)).decode()
_add(
    "azure AccountKey",
    x[:40],
    _SITE + f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={x};EndpointSuffix=core.windows.net",
)
x = base64.b64encode(_RANDOM.randbytes(32)).decode()
_add(
    "azure SharedAccessKey",
    x[:30],
    _SITE + f"Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={x}",
)
x = _key()
_add("json nested", x, _SITE + '{"auth": {"client_id": "abc", "client_secret": "%s"}}' % x)
x = _key()
_add("json escaped", x, _SITE + '{\\"access_token\\": \\"%s\\", \\"expires_in\\": 3600}' % x)
x = _key()
_add("yaml", x, f"  api_key: {x}")
x = _key()
_add("yaml password quoted", x, f'  password: "{x}"')
x = _key()
_add("toml", x, f'hf_token = "{x}"')
x = _key()
_add(
    "Namespace repr",
    x,
    "(APIServer pid=5) INFO 03-04 10:11:12 [api_server.py:1] args: Namespace(model='m/x', api_key=['%s'], port=8000)"
    % x,
)
x, y = _key(), _key()
_add(
    "Namespace list second",
    y,
    "(APIServer pid=5) INFO 03-04 10:11:12 [api_server.py:1] args: Namespace(model='m/x', api_key=['%s', '%s'], port=8000)"
    % (x, y),
)
x, y = _key(), _key()
_add("API_KEYS list", y, _SITE + f"API_KEYS={x},{y}")
x, y = _key(), _key()
_add("api_keys json list", y, _SITE + '"api_keys": ["%s", "%s"]' % (x, y))
x = _key()
_add(
    "hf_token in config",
    x,
    "(EngineCore_DP0 pid=9) INFO 03-04 10:11:20 [core.py:93] config: model='m/x', hf_token='%s', dtype=torch.bfloat16"
    % x,
)
x = _text(64)
_add(
    "PEM EC multi-line",
    x,
    _SITE + "key\n-----BEGIN EC PRIVATE KEY-----\n%s\n%s\n-----END EC PRIVATE KEY-----" % (_text(64), x),
)
x = _text(64)
_add(
    "PEM in JSON \\n",
    x,
    _SITE + '"private_key": "-----BEGIN PRIVATE KEY-----\\n%s\\n-----END PRIVATE KEY-----\\n"' % x,
)
x = _text(70)
_add(
    "OPENSSH key",
    x,
    "-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n%s\n-----END OPENSSH PRIVATE KEY-----" % (_text(70), x),
)
x = _key()
_add("Cookie session", x, _SITE + f"Cookie: session={x}; theme=dark")
x = _key()
_add("Set-Cookie", x, _SITE + f"Set-Cookie: auth_token={x}; HttpOnly")
x = _text(16, _CAPITALS)
_add("AWS AKIA", "AKIA" + x, _SITE + f"using AKIA{x} for s3")
x = _text(40, _LETTERS + "/+")
_add("aws secret in ini", x[:30], f"aws_secret_access_key = {x}")
x = _text(48)
_add("openai sk-proj", x, _SITE + f"Incorrect API key provided: sk-proj-{x}.")
x = _text(48)
_add("openai sk old", x, _SITE + f"key sk-{x} rejected")
x = _text(64, _HEX)
_add("openrouter", x, _SITE + f"key sk-or-v1-{x} rejected")
x = _text(95)
_add("anthropic", x[:40], _SITE + f"x sk-ant-api03-{x} y")
x = _text(24)
_add("slack bot", x, _SITE + f"xoxb-123456789012-1234567890123-{x}")
x = _text(24)
_add("slack hook", x, _SITE + f"https://hooks.slack.com/services/T00000000/B00000000/{x}")
x = _text(36)
_add("github ghp", x, _SITE + f"token ghp_{x}")
x = _text(59)
_add("github fine", x, _SITE + f"github_pat_{_text(22)}_{x}")
x = _text(20)
_add("gitlab", x, _SITE + f"glpat-{x}")
x = _text(36)
_add("npm", x, _SITE + f"//registry.npmjs.org/:_authToken=npm_{x}")
x = _text(80)
_add("pypi", x[:40], _SITE + f"pypi-AgEIcHlwaS5vcmc{x}")
x = _text(34)
_add("hf in quotes", x, _SITE + f"login(token='hf_{x}')")
x = _text(43)
_add("GCP oauth", x, _SITE + f"ya29.{x}")
x = _text(35)
_add("AIza", x, _SITE + f"key=AIza{x}")
x = _text(24)
_add("stripe", x, _SITE + f"sk_live_{x}")
x = _text(52)
_add("groq", x, _SITE + f"gsk_{x}")
x = _text(40)
_add("replicate", x[:30], _SITE + f"r8_{x}")
x = _text(64, _HEX)
_add("together hex by name", x, _SITE + f"TOGETHER_API_KEY: {x}")
x = _text(32, _HEX)
_add("twilio auth token", x, _SITE + f"twilio auth_token={x}")
x = _text(64)
_add("nvapi", x[:40], _SITE + f"nvapi-{x}")
x = _text(43)
_add("dd app key", x, _SITE + f"DD_APP_KEY={x}")
x = _text(40, _HEX)
_add("wandb hex", x, _SITE + f"wandb: Using key api_key={x}")
x = _key()
_add("k8s secret env", x, _SITE + 'env: [{"name": "API_TOKEN", "value": "%s"}]' % x)
x = base64.b64encode(_key().encode()).decode()
_add("k8s secret data", x, "  password: %s" % x)
x = base64.b64encode(("u:" + _key()).encode()).decode()
_add("docker config auth", x, _SITE + '{"auths": {"nvcr.io": {"auth": "%s"}}}' % x)
x = _key()
_add("jdbc", x, _SITE + f"jdbc:postgresql://db/x?user=app&password={x}")
x = _key()
_add(
    "query access_token",
    x,
    f'(APIServer pid=5) INFO:     10.0.0.1:4000 - "GET /v1/models?access_token={x} HTTP/1.1" 200 OK',
)
x = _key()
_add(
    "presigned s3",
    x,
    _SITE + f"https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIAAAAAAAAAAAAAAAAA&X-Amz-Signature={x}",
)
x = _key()
_add("cli --hf-token=", x, _SITE + f"vllm serve m --hf-token={x} --port 80")
x = _key()
_add("cli --api-key ", x, _SITE + f"vllm serve m --api-key {x}")
x = _key()
_add("list argv", x, _SITE + "['vllm', 'serve', 'm', '--api-key', '%s', '--port', '8000']" % x)
x = _key()
_add("launch json args", x, _SITE + '"args": ["--model", "m", "--api-key", "%s"]' % x)
x = _key()
_add("ldap bindpw", x, _SITE + f"bind_password: {x}")
x = _key()
_add("sshpass", x, _SITE + f"sshpass -p {x} ssh h")
x = _key()
_add("mysql -p", x, _SITE + f"mysql -u root -p{x} db")
x = _key()
_add("PGPASSWORD", x, _SITE + f"PGPASSWORD={x} psql")
x = _key()
_add("redis-cli -a", x, _SITE + f"redis-cli -a {x} ping")
x = "eyJ" + _text(30) + ".eyJ" + _text(50) + "." + _text(43)
_add("jwt", x[-40:], _SITE + f"jwt {x}")
x = _key()
_add("traceback local", x, "    api_key = '%s'" % x)
x = _key()
_add("dict repr bytes header", x, _SITE + "[(b'host', b'x'), (b'authorization', b'Bearer %s')]" % x)
x = _key()
_add("pydantic SecretStr reveal", x, _SITE + f"token=SecretStr('{x}')")
x = _key()
_add(
    "kv transfer config",
    x,
    "(APIServer pid=5) INFO 03-04 10:11:12 [utils.py:253] non-default args: {'model': 'm/x', 'kv_transfer_config': {'kv_connector_extra_config': {'s3_secret_key': '%s'}}}"
    % x,
)
x = _key()
_add(
    "middleware args",
    x,
    "(APIServer pid=5) INFO 03-04 10:11:12 [utils.py:253] non-default args: {'model': 'm/x', 'ssl_keyfile_password': '%s'}"
    % x,
)
x = _key()
_add(
    "model https creds",
    x,
    "(APIServer pid=5) INFO 03-04 10:11:12 [utils.py:253] non-default args: {'model': 'https://u:%s@h/m'}"
    % x,
)
x = _key()
_add(
    "hf_overrides",
    x,
    "(APIServer pid=5) INFO 03-04 10:11:12 [utils.py:253] non-default args: {'model': 'm/x', 'hf_overrides': {'api_token': '%s'}}"
    % x,
)
x = _key()
_add(
    "error URL in exception",
    x,
    "(APIServer pid=5) ERROR 03-04 10:12:00 [x.py:9] requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://h/x?token=%s"
    % x,
)
x = _text(84)
_add("vault hvs", x[:40], _SITE + f"hvs.{x}")
x = _text(64, _HEX)
_add("digitalocean", x, _SITE + f"dop_v1_{x}")
x = _text(58, _CAPITALS)
_add("age", x, _SITE + f"AGE-SECRET-KEY-1{x}")
x = _text(43)
_add("fastapi csrf", x, _SITE + f"csrf_token={x}")
x = _text(32)
_add("basic dict", x, _SITE + f"auth=('user', '{x}')")
x = _key()
_add("netrc", x, f"machine huggingface.co login me password {x}")
x = _key()
_add("passphrase", x, _SITE + f"passphrase is {x}")
x = _key()
_add("http header X-Auth-Token", x, _SITE + f"X-Auth-Token: {x}")
x = _key()
_add("Ray redis password", x, _SITE + f"ray start --address=h:6379 --redis-password='{x}'")
x = _text(48, _HEX)
_add("jupyter url", x, f"http://127.0.0.1:8888/lab?token={x}")
# Over several lines, in tables, and behind prefixes.
for name, text in (
    ("Kubernetes env", "        - name: DB_PASSWORD\n          value: {}"),
    ("YAML list", "api-key:\n  - first-key-8Qx\n  - {}\nport: 8000"),
    ("YAML arguments", "    args:\n    - --api-key\n    - {}\n    - --port"),
    ("arguments with headers", _SITE + "    - --api-key\n" + _SITE + "    - {}"),
    ("pydantic", "api_key\n  Input should be None [type=none_required, input_value='{}', input_type=str]"),
    ("table", "| api_key           | {} |"),
    ("arrow", "api_key -> {}"),
    ("XML", '<add key="ApiSecret" value="{}"/>'),
    ("percent-encoded bearer", "/cb?header=Authorization%3A%20Bearer%20{}"),
    ("minio alias", "mc alias set s3 https://minio.example.com minioadmin {}"),
    ("framed table", "│ api_key              │ {} │"),
    (
        "kubectl describe",
        "    Environment:\n      HF_TOKEN:             {}\n      VLLM_PORT:            8000",
    ),
    ("encoded twice", "next=%252Fcb%253Faccess_token%253D{}"),
    ("ODBC", "Driver={{ODBC Driver 18}};Server=db;UID=app;PWD={{{}}};"),
    ("Unicode escapes", "{{\\u0022api_key\\u0022: \\u0022{}\\u0022}}"),
    ("vault", "vault kv put secret/hf value={}"),
    ("name in one word", '{{"apiKeyValue": "{}"}}'),
    ("registry credentials", '{{"auths": {{"registry.example.com": {{"auth": "{}"}}}}}}'),
):
    x = _key()
    _add(name, x, text.format(x))
for name, text in (
    ("mailgun", "key-{}"), ("kaggle", "KGAT_{}"), ("rubygems", "rubygems_{}"), ("gitlab trigger", "glptt-{}"), ("pulumi", "pul-{}"), ("infracost", "ico-{}"),
    ("twilio", "SK{}"), ("origin CA", "v1.0-" + _text(24, _HEX) + "-{}" + _text(114, _HEX)), ("shippo", "shippo_live_{}"), ("readme", "rdme_{}"),
):  # fmt: skip
    x = _text(32, _HEX)
    _add(name, x, _SITE + f"unexpected {text.format(x)} here")
x = base64.b64encode(b'{"auths": {"r": {"auth": "' + _text(30).encode()).decode()
_add("dockerconfigjson", x, f"  .dockerconfigjson: {x}")
for before in (_SITE, "(EngineCore_DP0 pid=9) ", "    ", ""):
    x = _text(64)
    lines = [
        "-----BEGIN RSA PRIVATE KEY-----",
        _text(64),
        x,
        _text(20) + "==",
        "-----END RSA PRIVATE KEY-----",
    ]
    _add(f"private key behind {before!r}", x, "\n".join(before + line for line in lines))
x = _text(64)
_add(
    "encrypted private key",
    x,
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{_text(32, _CAPITALS)}\n\n{x}",
)
x = _text(64)
_add("private key whose beginning is lost", x, f"{x}\n{_text(64)}\n{_text(20)}==\n-----END PRIVATE KEY-----")
x = "cfut_" + _text(48)
_add("cloudflare", x, _SITE + f"cf: {x} invalid")
x = "k" + _text(51, "abcdefghijklmnopqrstuvwxyz234567")
_add(
    "token of one case as the user of a URL",
    x,
    f"Looking in indexes: https://{x}@packages.example/_packaging/f/pypi/simple/",
)

for n in ("facebook_token", "codecov_token", "snyk_token"):
    # The last letter of the name is one that keys of attention have for a name: k, q, v.
    x = _text(15, _HEX + "ghijkl") + "7g9"
    _add(n, x, f'{_SITE}{n} = "{x}"')
x = f"{_text(8, _HEX)}-{_text(4, _HEX)}-{_text(4, _HEX)}-{_text(4, _HEX)}-{_text(12, _HEX)}"
_add("a token that is a UUID", x, f"{_SITE}foo_token: '{x}'")
x = _text(21) + "Q7"
_add("a number and a run behind it", x, f"{_SITE}foo_token=25983463485279126-{x}")
x = _text(29)
_add("MaxMind license", x, f"{_SITE}failed with {_text(6)}_{x}_mmk in cache")
x = _text(27, _HEX) + "7q0k"
_add("Facebook app token", x, f"{_SITE}failed with 1087442440254977|{x} in cache")
x = _text(32, string.ascii_lowercase + string.digits)
_add("Authress key", x, f"{_SITE}failed with sc_{_text(9)}.{_text(5)}.acc_{_text(14)}.{x} in cache")
x = _text(18, _CAPITALS)
_add("Slack trigger", x, f"{_SITE}POST https://hooks.slack.com/triggers/{x}/{_text(24)} failed")
