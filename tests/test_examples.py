"""Every example runs as its first lines say, from anywhere, without warnings."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples():
    names = {path.name for path in EXAMPLES}
    assert {"past_traffic.py", "clinical_trial.py", "service_log.py", "own_policy.py", "own_environment.py"} <= names


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )  # kernels may compile
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""
    made = {made.name for made in tmp_path.iterdir()}
    assert all(name.startswith(path.stem) and name.endswith(".png") for name in made)
    assert bool(made) == ("matplotlib" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_says_how_to_run_it(path):
    text = path.read_text(encoding="utf-8")
    assert f"python examples/{path.name}" in text
    assert 'if __name__ == "__main__":\n    main()' in text
