"""What a cause says of a failed build holds for this log: the disk, the toolkit, the linker and the tools that it names."""

from __future__ import annotations

from tests.failure.judging import ENGINE, raised, root


def test_a_full_disk_during_a_build_asks_for_no_model_caches() -> None:
    full = root(
        "Collecting vllm\n  Installing build dependencies: started\n  error: subprocess-exited-with-error\n"
        "      Collecting torch==2.4.0\n"
        "      ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
    )
    assert full.id == "disk-full-or-quota"
    assert any("TMPDIR" in one for one in full.alternatives)
    assert not any("HF_HOME" in one or "compile cache" in one for one in full.alternatives)


def test_a_toolkit_of_another_release_than_torch_is_named_with_both_releases() -> None:
    differ = root(
        "Collecting vllm\n      Traceback (most recent call last):\n"
        '        File "/tmp/pip-build-env-a1/overlay/lib/python3.10/site-packages/torch/utils/cpp_extension.py", line 391, in check\n'
        "          raise RuntimeError(CUDA_MISMATCH_MESSAGE.format(cuda_str_version, torch.version.cuda))\n"
        "      RuntimeError:\n      The detected CUDA version (12.9) mismatches the version that was used to compile\n"
        "      PyTorch (11.8). Please make sure to use the same CUDA versions.\n"
    )
    assert "toolkit that compiles is of release 12.9, torch was built with 11.8" in differ.explanation
    assert "toolkit of release 11.8" in differ.alternatives[0]
    assert "CUDA release 12.x" in differ.alternatives[1], (
        "torch refuses a toolkit of another major release only"
    )


def test_what_a_linker_does_not_find_is_named_behind_long_commands_of_the_compiler() -> None:
    compiled = "\n".join(
        f"[{n}/9] /usr/local/cuda/bin/nvcc -I/opt/include " + "-DX=1 " * 400 for n in range(1, 10)
    )
    refused = "FAILED: ops.so\n/usr/bin/ld: cannot find -lnvrtc: No such file or directory\ncollect2: error: ld returned 1 exit status"
    frame = (
        "/opt/site-packages/flashinfer/jit/cpp_ext.py",
        380,
        "run_ninja",
        "raise RuntimeError(msg) from e",
    )
    found = root(
        raised(ENGINE, frame, error=f"RuntimeError: Ninja build failed. Ninja output:\n{compiled}\n{refused}")
    )
    assert "libnvrtc.so" in found.explanation
    assert found.confidence == "high"


def test_a_build_tool_that_ran_is_not_said_to_be_missing() -> None:
    frame = ("/opt/site-packages/flashinfer/jit/cpp_ext.py", 368, "run_ninja", "subprocess.run(")
    found = root(
        raised(
            ENGINE,
            frame,
            above="ops.cu:3:10: fatal error: own/header.cuh: No such file or directory",
            error="subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
        )
    )
    assert "own/header.cuh" in found.explanation
    assert "not found" not in found.title
    assert "Missing" not in found.explanation


def test_the_error_of_a_compiler_deep_in_the_output_of_pip_is_the_cause() -> None:
    above = [f"Requirement already satisfied: package{n} in /opt/env (from vllm)" for n in range(130)]
    log = """\
  error: subprocess-exited-with-error
      [1/8] Building CXX object CMakeFiles/_C.dir/csrc/cpu/cache.cpp.o
      FAILED: CMakeFiles/_C.dir/csrc/cpu/cache.cpp.o
      /src/vllm/csrc/cpu/cache.cpp:81:40: error: use of undeclared identifier 'omp_get_num_procs'
         81 |     const int n = omp_get_num_procs();
      1 error generated.
      [2/8] Building CXX object CMakeFiles/_C.dir/csrc/cpu/utils.cpp.o
      ninja: build stopped: subcommand failed.
      Traceback (most recent call last):
        File "<string>", line 220, in build_extensions
        File "/opt/env/lib/python3.12/subprocess.py", line 415, in check_call
          raise CalledProcessError(retcode, cmd)
      subprocess.CalledProcessError: Command '['cmake', '--build', '.']' returned non-zero exit status 1.
  ERROR: Failed building editable for vllm"""
    below = [f"      line {n} of advice" for n in range(80)]
    found = root("\n".join([*above, *log.split("\n"), *below]))
    assert "cache.cpp:81:40: error: use of undeclared identifier" in found.evidence[0].text
    assert "first error" in found.explanation
