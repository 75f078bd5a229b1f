"""What others made is unchanged, and its license is beside it."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest

VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


@pytest.mark.parametrize(("name", "sha256"), VENDORED.items())
def test_vendored_file_is_unchanged(name, sha256):
    data = (files("vllm_logdoctor.report") / "assets" / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == sha256


def test_the_license_is_the_one_that_is_said():
    text = (files("vllm_logdoctor.report") / "assets" / "uPlot.LICENSE.txt").read_text(encoding="utf-8")
    assert text.startswith("The MIT License (MIT)")
