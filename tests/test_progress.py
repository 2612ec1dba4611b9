"""Progress: one kind of argument, one bar."""

import pytest

from conebandit.progress import steps


@pytest.mark.parametrize("progress", [True, False])
def test_a_bar_is_shown_if_wanted_and_goes_away(progress, monkeypatch, capsys):
    for name, value in {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "1", "TERM": "xterm", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    with steps(progress, "beginning", 2) as step:
        step("first")
        step("second")
    assert ("2/2" in capsys.readouterr().out) == progress


def test_files_and_pipes_get_no_bar(monkeypatch, capsys):
    for name in ("FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    with steps(True, "beginning", 1) as step:
        step("first")
    assert not capsys.readouterr().out


def test_a_function_is_called_after_each_step(capsys):
    seen = []
    with steps(seen.append, "beginning", 2) as step:
        step("first")
        step("second")
    assert seen == ["first", "second"]
    assert not capsys.readouterr().out
