"""The code of tutorials runs in a folder of its own, since it writes pictures."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has the data, at the path at which a checkout has it."""
    shutil.copytree(Path(__file__).parents[1] / "data", tmp_path / "docs" / "data")
    monkeypatch.chdir(tmp_path)
