"""A release's facts are read from its sources; the package here is a small one, written by hand."""

from pathlib import Path

import pytest

from tests.tables import for_each
from tools.build_catalogue import main
from tools.extract.messages import extract_messages, messages_of_source
from tools.extract.package import release_from_package
from tools.extract.release import PrintedMessage

FILES = {
    "_version.py": 'version = "7.8.9"\n',
    "envs.py": """
if TYPE_CHECKING:
    VLLM_A: int = 3
    VLLM_B: str | None = None
environment_variables = {
    "VLLM_A": lambda: int(os.getenv("VLLM_A", "4")),
    "VLLM_B": lambda: os.environ.get("VLLM_B"),
    "VLLM_C": env_with_choices("VLLM_C", "x", ["x", "y"]),
}
""",
    "config/cache.py": """
CacheKind = Literal["auto", "fp8"]
class CacheConfig:
    gpu_memory_utilization: float = 0.92
    cache_dtype: CacheKind = "auto"
    enable_prefix_caching: bool | None = None
    skip_layers: list[str] = field(default_factory=list)
    old: int = 1
    \"\"\"Deprecated: does nothing.\"\"\"
""",
    "engine/arg_utils.py": """
class EngineArgs:
    gpu_memory_utilization: float = CacheConfig.gpu_memory_utilization
    enable_lora: bool = False
    @staticmethod
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        parser.add_argument("--gpu-memory-utilization", **cache_kwargs["gpu_memory_utilization"])
        parser.add_argument("--kv-cache-dtype", "-kv", **cache_kwargs["cache_dtype"])
        parser.add_argument(
            "--enable-prefix-caching", **{**cache_kwargs["enable_prefix_caching"], "default": None}
        )
        parser.add_argument("--skip-layers", **cache_kwargs["skip_layers"])
        parser.add_argument("--old", **cache_kwargs["old"])
        parser.add_argument("--enable-lora", action=argparse.BooleanOptionalAction)
        parser.add_argument("--seed", type=int, default=EngineArgs.gpu_memory_utilization)
        parser.add_argument("--verbose", action="store_true")
""",
    "entrypoints/openai/cli_args.py": """
class FrontendArgs:
    host: str | None = None
    allow_credentials: bool = False
""",
    "worker.py": """
def start(size):
    logger.info("Reserved %s GiB.", size)
    logger.info_once(
        "Ready."
    )
    message = f"Only {size} left"
    if size < 1:
        message += "; giving up"
        raise RuntimeError(message)
    warnings.warn("Slow path.", FutureWarning)
""",
    "model_executor/models/one.py": "logger.info('A model.')\n",
    "tests/test_it.py": "logger.info('A test.')\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "vllm"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_version_is_the_packages_own_unless_given(package: Path) -> None:
    assert release_from_package(package).version == "7.8.9"
    assert release_from_package(package, "1.2.3").version == "1.2.3"


def test_variables_have_the_fallback_of_their_reader(package: Path) -> None:
    variables = release_from_package(package).variables
    assert {name: facts["default"] for name, facts in variables.items()} == {
        "VLLM_A": "'4'",
        "VLLM_B": "None",
        "VLLM_C": "'x'",
    }


def test_fields_have_defaults_as_source_text(package: Path) -> None:
    fields = release_from_package(package).fields
    assert fields["CacheConfig.gpu_memory_utilization"] == {"default": "0.92"}
    assert fields["CacheConfig.skip_layers"] == {"default": "factory: list"}


def test_flags_take_after_the_fields_that_they_fill(package: Path) -> None:
    flags = release_from_package(package).flags
    assert flags["--gpu-memory-utilization"]["default"] == 0.92
    assert flags["--kv-cache-dtype"]["choices"] == ["auto", "fp8"]
    assert flags["--kv-cache-dtype"]["aliases"] == ["-kv"]
    assert flags["--enable-prefix-caching"]["form"] == "switch-pair"
    assert flags["--skip-layers"]["default"] == []
    assert flags["--old"]["deprecated"] is True
    assert flags["--enable-lora"]["default"] is False
    assert flags["--seed"]["default"] == 0.92
    assert (flags["--verbose"]["form"], flags["--verbose"]["default"]) == ("switch", False)
    assert (flags["--host"]["owner"], flags["--host"]["default"]) == ("server", None)
    assert flags["--allow-credentials"]["form"] == "switch-pair"


def test_messages_are_known_by_what_puts_them_out(package: Path) -> None:
    found = {m.template: m for m in extract_messages(package) if m.file == "worker.py"}
    assert found["Reserved %s GiB."].style == "percent"
    assert (found["Ready."].line, found["Ready."].once) == (4, True)
    assert found["Only {} left; giving up"].exception == "RuntimeError"
    assert found["Slow path."].kind == "warnings.warn"
    assert found["Slow path."].function == "start"


def test_tests_of_the_package_are_left_out(package: Path) -> None:
    assert "A test." not in {message.template for message in extract_messages(package)}


def test_messages_have_a_level_and_the_lines_of_loggers_outside_the_models(package: Path) -> None:
    assert release_from_package(package).messages == {
        PrintedMessage("worker.py", "Reserved %s GiB.", "percent", "info"): (3,),
        PrintedMessage("worker.py", "Ready.", "plain", "info"): (4,),
        PrintedMessage("worker.py", "Only {} left", "brace", "raise"): (),
        PrintedMessage("worker.py", "Only {} left; giving up", "brace", "raise"): (),
        PrintedMessage("worker.py", "Slow path.", "plain", "warn"): (),
        PrintedMessage("model_executor/models/one.py", "A model.", "plain", "info"): (),
    }


@for_each(
    ("statement", "templates"),
    [
        ("logger.warning('a %s' % x)", ["a %s"]),
        ("logger.warning('a {} {b:>{w}}'.format(x))", ["a {} {}"]),
        ("logger.error(f'got {x!r} of {{}}')", ["got {} of {{}}"]),
        ("logger.info('one' if x else 'two')", ["one", "two"]),
        ("print('hello')", ["hello"]),
        ("assert x, f'bad {x}'", ["bad {}"]),
        ("parser.error('no such thing')", ["no such thing"]),
        ("log = logger.debug if x else logger.info\nlog('via alias')", ["via alias"]),
        ("logger.info('%s', x)", []),
        ("logger.info(x)", []),
        ("math.log('no')", []),
        ("this is no Python", []),
    ],
)
def test_ways_to_write_a_message(statement: str, templates: list[str]) -> None:
    assert [message.template for message in messages_of_source(statement, "a.py")] == templates


def test_merging_a_release_twice_changes_nothing(package: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert main([str(package), "-o", str(data)]) == 0
    first = {path.name: path.read_bytes() for path in data.iterdir()}
    assert main([str(package), "-o", str(data)]) == 0
    assert {path.name: path.read_bytes() for path in data.iterdir()} == first


def test_releases_are_kept_in_order_whatever_the_order_of_merging(package: Path, tmp_path: Path) -> None:
    contents = []
    for number, order in enumerate([("1.0", "1.1.post1", "1.1"), ("1.1", "1.0", "1.1.post1")]):
        data = tmp_path / str(number)
        for version in order:
            main([str(package), "--release", version, "-o", str(data)])
        contents.append({path.name: path.read_bytes() for path in data.iterdir()})
    assert contents[0] == contents[1]
    assert b'["1.0","1.1","1.1.post1"]' in contents[0]["versions.json"]


def test_what_is_no_package_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "-o", str(tmp_path / "data")]) == 2
    assert "no vLLM package" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
