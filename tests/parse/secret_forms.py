"""Made-up credentials by form: one a line, with `{}` for a generated value, `\\n` for a line end and `[20x]` for so many letters and digits."""

from __future__ import annotations

import re
import string
from random import Random

_ALPHABETS = {
    "": string.ascii_letters + string.digits,
    "x": "0123456789abcdef",
    "C": string.ascii_uppercase + string.digits,
    "L": string.ascii_lowercase + string.digits,
}
_ESCAPES = {"n": "\n", "0": "\0", "e": "\x1b"}

# Launch scripts, commands, tables, markup, source, headers, addresses, and what continues on the next line.
PLACES = r"""
declare -x HF_TOKEN="{}"
setenv HF_TOKEN {}
$env:HF_TOKEN = "{}"
export APPTAINERENV_WANDB_API_KEY={}
export API_KEY_OPENAI={}
export HF_TOKEN_2={}
export HUGGING_FACE_HUB_TOKEN_FOR_THE_LAUNCH_OF_THIS_JOB={}
+ mongosh -u admin -p {} --authenticationDatabase admin
+ htpasswd -bc f user {}
+ echo "ubuntu:{}" | chpasswd
+ echo {} | sudo -S true
+ echo {} | kinit user
+ echo '{}' | docker login -u x --password-stdin
+ rabbitmqctl add_user app {}
+ ldapsearch -D cn=x -w {} -b dc=y
swanlab login -k {}
huggingface_hub.login('{}')
HTTPBasicAuth('bob', '{}')
Enter your token (input will not be visible): {}
Please paste the API key of your account here: {}
X-Consul-Token: {}
--gateway-token {}
GATEWAY_KEY={}
X-Hub-Signature-256: {}
Authorization: Snowflake Token="{}"
Authorization: AWS AKIAIOSFODNN7EXAMPLE:{}
GET /x?auth=Basic%20{}
Auth.BEARER:{}
(APIServer pid=5) INFO:     10.0.0.1:4000 - "GET /v1/models?a=1&code={}&b=2 HTTP/1.1" 200 OK
(APIServer pid=5) INFO:     10.0.0.1:4000 - "GET /v1/models?a=1&SAMLResponse={}&b=2 HTTP/1.1" 200 OK
(APIServer pid=5) INFO:     10.0.0.1:5 - "GET /bot123456789:AA[11]{}/getMe HTTP/1.1" 404 Not Found
code={}&state=x
https://b.example.com/k?q-sign-algorithm=sha1&q-signature={}
https://host.example/open-apis/bot/v2/hook/{}
https://conda.example/t/me-{}/channel
connecting to nats://{}@nats:4222
cannot reach http://svc:{}@host.example:1234
db.example.com:5432:prod:app:{}
connect.sid=s%3A{}.[43]
db_password=p%40{}
api_key: |-\n  {}
hf_token: >-\n  {}\nport: 8000
"api_key": {\n  "value": "{}"\n}
export HF_TOKEN=\\n{}
vllm serve m --api-key \\n  {} \\n  --port 8000
vllm\0serve\0m\0--api-key\0{}\0--port
{"api_key": {"value": "{}"}}
  password: &pw {}
  api_key: !secret {}
  client-key-data: {}
  secret_key              = "{}"
password=ab\{}
HF_TOKEN='$xyz{}'
os.environ["HF_TOKEN"] = "{}"
config["api_key"] = "{}"
api_key: str = "{}"
api_key (str): {}
HF_TOKEN is set to "{}"
token mismatch: {} != expected
token: <{}>
\x22api_key\x22: \x22{}\x22
API key：{}
Passwort: {}
密码: {}
api_key ⇒ {}
HF_TOKEN ← {}
psk="{}"
db_pw="{}"
tok={}
Secret ID      = {}
HF_TOKEN            {}
HF_TOKEN ........ {}
<apiKey>{}</apiKey>
<key>api_key</key><string>{}</string>
<td>api_key</td><td>{}</td>
<wsse:Password Type="x">{}</wsse:Password>
<password><![CDATA[{}]]></password>
'{}' is not a valid API key
{} was used as token
expected a token, got {}
get_secret() -> {}
get_api_key() = '{}'
password & {} \\
API key:\n----------------\n{}
NAME        TOKEN\nfirst       {}
| user | password |\n|---|---|\n| bob | {} |
VLLM_API_KEYS=abc1;{};abc2
api_keys={'bob': 'abc', 'eve': '{}'}
tokens=(('a', 'abc'), ('b', '{}'))
valid_tokens={'Kx47kUnse', '{}'}
+ echo {} | gh auth login --with-token
""".strip("\n").split("\n")

# Tokens that nothing announces.
SHAPES = r"""
rpa_[40C]
pa-[43]
pat[14].[64x]
sl.[130]
EAACEdEose0cBA[60]
[32x].[8]5K[8]q7
AKLT[40]
bce-v3/ALTAK-[21]/[40x]
y0_[55]
secret_[20]_[32x].[32]
FlyV1 fm2_[100]
SCW[17C]
A3-[6C]-[11C]-[5C]-[5C]-[5C]
SSWS 00[40]
CFPAT-[43]
hf_oauth_[60]
ABSK[80]
[32]AAAAACOG[4]
[76L]AZDO[4]
oy2[43L]
snyk_uat.[8].[80]
AKCp[69]
ATBB[32]
CLOJARS_[60L]
vcp_[56]
1//0[60]
wandb_v1_[40]_[30]
csa_[36]
bkua_[40x]
CCIPAT_[22]_[40x]
phx_[43]
sb_secret_[22]_[8]
mdb_sa_sk_[40]
AVNS_[19]
polar_oat_[43]
napi_[64L]
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
LTAIpuaspex4nlxdj82dantl
AKCpagfa8pdakhoshosr89egsm[44]
API-[26C]
ACCASUPYEOSGLH2OOKPE
dapi[32x]
p8e-[32L]
sm_pat_[16]
EAAM[80L]
FLWSECK_TEST-[12L]
lin_api_[40L]
tfp_[44L]
sat.[22].[24].[20]
--gateway-token qmqafwyrlgokvs2vwd3a3mj5dfvjsyqy
seed SUA2V3NQSOBPKXO7ISSV6YAYXXCIHQWWADK7FUJMZC6PSZ2LTSRT44GOQN
[86]==
""".strip("\n").split("\n")


def filled(form: str, seed: int) -> tuple[str, str]:
    """Return a form with its values, and the end of the text that must not survive."""
    random = Random(seed)

    def value(match: re.Match[str]) -> str:
        return "".join(random.choices(_ALPHABETS[match[2]], k=int(match[1])))

    form = re.sub(r"\\([n0e])", lambda match: _ESCAPES[match[1]], form)
    form = re.sub(r"\[(\d+)([xCL]?)\]", value, form)
    # A digit and letters of both sizes, as in every generated value of this length but for a few.
    secret = "Zq7" + "".join(random.choices(_ALPHABETS[""], k=19))
    return (form.replace("{}", secret), secret) if "{}" in form else (form, form.rstrip("=")[-12:])
