"""Made-up secrets in the forms in which logs hold them: text with {}, and how the secret in it is made."""

from __future__ import annotations

import base64
import random
import string

_RANDOM = random.Random(17)
_ALL = string.ascii_letters + string.digits


def token(length: int = 22, letters: str = _ALL) -> str:
    """Return a random token that holds a digit and letters of both sizes where they are allowed."""
    end = "".join(letter for letter in "k3Vq9Zb" if letter in letters)
    return "".join(_RANDOM.choice(letters) for _ in range(length - len(end))) + end


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits

BY_NAME = """\
api_key='{}'
api_key="{}"
api_key=['{}']
'api_key': ['{}'], 'port': 8000
"api_key": "{}"
\\"api_key\\": \\"{}\\"
{{"headers": {{"api-key": "{}"}}}}
('api_key', '{}')
[(b'x-api-key', b'{}')]
argv: ['vllm', 'serve', 'm', '--api-key', '{}', '--port', '1']
vllm serve m --api-key {} --port 8000
vllm serve m --api-key={} --port 8000
vllm serve m --api-key "{}"
vllm serve m --hf-token {}
vllm serve m --ssl-keyfile-password {}
api_key=b'{}'
api_key=SecretStr('{}')
ApiKey: {}
api key: {} rejected
Incorrect API key provided: {}. You can find yours online
X-API-Key: {}
Api-Key={}
OPENAI_API_KEY={}
export VLLM_API_KEY={}
VLLM_API_KEY='{}' vllm serve m
docker run -e HF_TOKEN={} image
environ({{'HF_TOKEN': '{}', 'PATH': '/bin'}})
HUGGING_FACE_HUB_TOKEN: {}
WANDB_API_KEY={}
MLFLOW_TRACKING_PASSWORD={}
MYSQL_PWD={}
PGPASSWORD={}
SLURM_JWT={}
AWS_SECRET_ACCESS_KEY={}
aws_session_token='{}'
aws_access_key_id={}
AZURE_CLIENT_SECRET={}
DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x
Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}
Server=x;Uid=sa;Pwd={};
client_secret={}
refresh_token: "{}"
access_token={}
id_token='{}'
csrf_token={}
GITHUB_TOKEN={}
CI_JOB_TOKEN={}
GITHUB_PAT={}
password: {}
password={}
'password': '{}'
passwd={}
passphrase='{}'
<password>{}</password>
machine x login y password {}
{{"name": "HF_TOKEN", "value": "{}"}}
- name: HF_TOKEN, value: {}
api_key%3D{}
%22api_key%22%3A%22{}%22
api_key = {}
"secret": "{}"
secrets=['{}']
private_key="{}"
signing_key: '{}'
encryption_key={}
auth_token=`{}`
**api_key**: {}
token = '{}'
token={}
'token': '{}'
"auth": "{}"
credential='{}'
credentials={}
's3_credential': '{}'
session_id={}
'otlp_traces_headers': 'x-honeycomb-team={}'
'otlp_traces_headers': 'x-tenant=a,x-custom={}'
jupyter_token={}
key={}
AuthToken={}
accessToken: '{}'
apiKey: '{}'
clientSecret: "{}"
secretAccessKey: "{}"
dbPassword={}
REDIS_PASS={}
""".splitlines()

BY_PLACE = """\
headers: Authorization: Bearer {}
'authorization': 'Bearer {}'
"Authorization": "Token {}"
Authorization: {}
Authorization=Bearer {}
Authorization: ApiKey {}
[(b'authorization', b'Bearer {}')]
Proxy-Authorization: Basic {}
Authorization: Digest username="a", response={}
curl -H 'Authorization: Bearer {}' http://x
curl -u user:{} http://x
curl --user user:{} http://x
sshpass -p {} ssh host
docker login -u me -p {} registry
wandb login {}
huggingface-cli login --token {}
http://user:{}@proxy.example:3128/
https://{}@huggingface.co/x/y
https://user:{}@
postgresql://app:{}@db.example/p
postgresql://app:p@{}@db.example/p
postgresql://app:p/{}@db.example/p
redis://:{}@cache:6379/0
mongodb+srv://u:{}@cluster.example/
s3://AK:{}@bucket/x
GET /v1/models?api_key={} HTTP/1.1
GET /v1/models?key={}&x=1 HTTP/1.1
GET https://x.blob.core.windows.net/c?sv=2024&sig={}&se=2026
https://x/y?X-Amz-Signature={}&X-Amz-Date=1
https://x/y?access_token={}
https://x/cb#access_token={}
https://x/y?X-Amz-Security-Token={}
Cookie: session={}; theme=dark
Set-Cookie: sid={}; HttpOnly
'cookie': 'session={}'
""".splitlines()

BY_SHAPE = {
    "aws": "AKIA" + token(16, UPPER),
    "aws temporary": "ASIA" + token(16, UPPER),
    "hugging face": "hf_" + token(34),
    "openai": "sk-" + token(48),
    "openai project": "sk-proj-" + token(20) + "_T3BlbkFJ" + token(20),
    "anthropic": "sk-ant-api03-" + token(60),
    "openrouter": "sk-or-v1-" + token(64, HEX),
    "nvidia": "nvapi-" + token(60),
    "groq": "gsk_" + token(50),
    "replicate": "r8_" + token(37),
    "perplexity": "pplx-" + token(48),
    "xai": "xai-" + token(60),
    "google": "AIza" + token(35),
    "google oauth": "ya29." + token(60),
    "google client": "GOCSPX-" + token(28),
    "github": "ghp_" + token(36),
    "github oauth": "gho_" + token(36),
    "github server": "ghs_" + token(36),
    "github fine-grained": "github_pat_" + token(22) + "_" + token(59),
    "gitlab": "glpat-" + token(20),
    "gitlab deploy": "gldt-" + token(20),
    "slack": "xoxb-123456789012-" + token(24),
    "slack webhook": "hooks.slack.com/services/T01/B02/" + token(24),
    "stripe": "sk_live_" + token(24),
    "pypi": "pypi-AgEI" + token(60),
    "npm": "npm_" + token(36),
    "docker": "dckr_pat_" + token(27),
    "sendgrid": "SG." + token(22) + "." + token(43),
    "digitalocean": "dop_v1_" + token(64, HEX),
    "databricks": "dapi" + token(32, HEX),
    "grafana": "glsa_" + token(32) + "_" + token(8, HEX),
    "vault": "hvs." + token(40),
    "langsmith": "lsv2_pt_" + token(32, HEX) + "_" + token(10, HEX),
    "pinecone": "pcsk_" + token(60),
    "telegram": "1234567890:AA" + token(33),
    "telegram in an address": "https://api.telegram.org/bot1234567890:AA" + token(33),
    "discord": "M" + token(24) + "." + token(6) + "." + token(30),
    "terraform": token(14) + ".atlasv1." + token(60),
    "jwt": "eyJ" + token(30) + ".eyJ" + token(60) + "." + token(40),
    "jwt unsigned": "eyJ" + token(30) + ".eyJ" + token(60) + ".",
    "alibaba": "LTAI" + token(20),
    "bcrypt": "$2b$12$" + token(53),
    "private key in one line": "-----BEGIN RSA PRIVATE KEY-----\\n"
    + token(64)
    + "\\n-----END RSA PRIVATE KEY-----",
    "basic authorization": "Basic " + base64.b64encode(("user:" + token()).encode()).decode(),
}

NONE = """\
api_key = requestor.request(
    api_key=self.api_key,
client = OpenAI(api_key=openai_api_key, base_url=x)
api_key: Optional[str] = None
def f(password: str, token=token)
api_key=None
api_key=['EMPTY']
PWD={password} TOKEN={token}
api_key_value: required
0e9e39f249a16976918f6564b8830bc894c896593f2c1e9a7b8d4c5e6f70819a
torch.compile cache key: 2f1d9a7c3e5b8046
kv_transfer_config: KVTransferConfig(engine_id='b6f1c2d3-4e5f-6071-8293-a4b5c6d7e8f9')
eos_token='<|im_end|>'
pad_token: <|endoftext|>
eos_token_id=2
max_num_batched_tokens=2048, key='model.layers.0.self_attn.q_proj'
KeyError: 'layers.0.mlp.down_proj.weight'
cache key: 0723b7f20ae6a1bca084773616613e6c0947545a4a81175e1d0b7bfa9644
/home/user/.cache/vllm/torch_compile_cache/0723b7f20ae6a1bca084773616613e6c/rank_0
image_token_id=151655, video_token='<|video_pad|>'
Authentication error, API key is missing
--api-key is required
GPU KV cache size: 100,000 tokens, key: 5
Authorization: required for this
http://127.0.0.1:8000/v1?x=a@b.c
at http://localhost:8000
ray://head-node:ready
git@github.com:vllm/x
ssh://git@github.com/x
HF_TOKEN not set
Please set a HF_TOKEN to enable higher rate limits and faster downloads
hf_token=None, token=True
request_id=chatcmpl-4f3b8ac2b1d64a6e9a7b8c9d0e1f2a3b
total_num_scheduled_tokens=4, scheduled_spec_decode_tokens={cmpl-7c1e5a90b2d34f68-0-1b9d3e57: [-1, -1, -1]}, num_output_tokens=[1203]
num_scheduled_tokens={cmpl-7c1e5a90b2d34f68-0-1b9d3e57: 4}, total_num_scheduled_tokens=4, new_token_ids={cmpl-7c1e5a90b2d34f68-0-1b9d3e57: [17]}
num_scheduled_tokens={chatcmpl-4f3b8ac2b1d64a6e9a7b8c9d0e1f2a3b: 1, chatcmpl-6505bbb4a369474fb64b00f9e8e36de7: 1, chatcmpl-a0b407784af14747b4a9af20d4d69829: 1}
ssl_keyfile='/etc/ssl/key.pem', private_key=/etc/x.key
Bearer token is required
model='Qwen/Qwen3-235B-A22B-Instruct-2507-FP8', tokenizer_mode=auto
encoder cache key 'abc1234567890'
Resolved model key 'base_coder_30b_fp8' -> 'org/Base-Coder-30B-FP8'
frame #3: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs
sort_key=lambda x: x
AttributeError: 'X' object has no attribute 'api_key'
for key, value in x: auth = self._auth(user)
docker run -u 1000:1000 curl http://x
Basic usage: see the docs
secret_name: vllm-hf-token
libcudart-d0da41ae.so.11.0
GPU-3f2a9c1e-7b44-4c1d-9e6f-0a1b2c3d4e5f
models--Qwen--Qwen3-8B/snapshots/b968826d9c46dd6066d109eabc6255188de91218
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
key=layers.0.self_attn.q_proj.weight_scale_inv
tokenizer='a/b', new_tokens: 12
git commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b (HEAD -> main)
model revision b968826d9c46dd6066d109eabc6255188de91218
code_revision=4f2a9c1e7b444c1d9e6f0a1b2c3d4e5f60718293
vllm/vllm-openai@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3f2a9c1e-7b44-4c1d-9e6f-0a1b2c3d4e5f)
engine_id='b6f1c2d3-4e5f-6071-8293-a4b5c6d7e8f9'
block hash 1234567890123456789
BlockHash(0x9f86d081884c7d65)
prefix cache key: 9f86d081884c7d659a2feaa0c55ad015
File "/tmp/torchinductor_root/3p/c3pqx4bnh5dmjmrf2vkp6ijyx7kd4j2o5sqtvxwzq3l5t6hyu2vm.py", line 41, in call
/home/user/.triton/cache/IVCTQ2XJ7KZLHQ3WNV5MDGRYE6BUFSPAO4XCH7TQZ2LJ5NWKD3YA/fused_moe_kernel.cubin
/home/user/.cache/huggingface/hub/models--Qwen--Qwen3-30B-A3B-Instruct-2507-FP8/snapshots/b968826d9c46dd6066d109eabc6255188de91218/config.json
hash of the compiled graph: fxcfkbq4zj7rqfd3xlbn2hkqvy5e6wgtmsp
request id cmpl-4f3b8ac2b1d64a6e9a7b8c9d0e1f2a3b
call_id call_4f3b8ac2b1d64a6e
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
node_id=4f3b8ac2b1d64a6e9a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f7
pod vllm-7d9c6b5f4-x2k8p in namespace default
undefined symbol: _ZN3c1017RegisterOperatorsD1Ev
frame #5: at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>) + 0x1a2 (0x7f3c8a1b2c3d in /usr/lib/libtorch_cpu.so)
void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>
sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas
Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM
CompressedTensorsW8A8Fp8MoEMethod(quant_config)
DeepGemmFp8BlockScaledMMKernel
Glm4MoeLiteForCausalLM, MiniMaxM3SparseForCausalLM, Qwen3NextForCausalLM, PanguProMoEV2ForCausalLM
Qwen3VLMoeForConditionalGeneration, Llama4ForConditionalGeneration, Phi4MMForCausalLM, InternVLChatModel
AscendW4A4MXFP4DynamicFusedMoEMethod
token_ids=[151644, 8948, 198], num_tokens=128
special_tokens_map_file=None, added_tokens: 26
KeyError: 'model.layers.0.mlp.experts.w13_weight_scale_inv'
session_id=4f3b8ac2 closed
--api-key is not set; anyone can use this server
os.environ.get("HF_TOKEN")
password = getpass.getpass("Password: ")
token = tokens[0]; key = keys[i]
def login(token: str | None = None, *, new_session: bool = True) -> None:
Enter the container and paste the output here: see docs
GET /v1/models/org%2Fmodel-name-7b?limit=100&after=b968826d9c46dd60 HTTP/1.1
https://huggingface.co/Qwen/Qwen3-235B-A22B-Instruct-2507-FP8/resolve/main/model-00001-of-00024.safetensors
init_method='tcp://192.168.10.24:51217', shm://psm_4f3b8ac2
NCCL WARN NET/IB : Got completion from peer 10.0.0.1<51217> with status=12 opcode=0 len=0 vendor err 129
libnccl.so.2.27.5+cuda12.9 BuildID[sha1]=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
torch 2.8.0+cu129 triton 3.4.0 flashinfer 0.3.1.post1 xgrammar 0.1.25
wheel vllm-0.11.2-cp38-abi3-manylinux1_x86_64.whl --hash=sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
ETag: "9f86d081884c7d659a2feaa0c55ad015"
md5sum 9e107d9d372bb6826bd81d3542a419d6  model.bin
MODULE_d08d38a9f6d6c66f2c9d+b770cf3c.hlo_module.pb
E=512,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json
SLURM_JOB_ID=482910 SLURM_NODELIST=node[001-004] CUDA_VISIBLE_DEVICES=0,1,2,3
secretName: vllm-hf-token
imagePullSecrets: [{name: regcred}]
Secret "hf-token-secret" not found
""".splitlines()
