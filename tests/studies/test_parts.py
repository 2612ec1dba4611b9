"""Parts on disk: whole or not there, each run once, whatever was cut short."""

import pytest

from conebandit.studies import parts as module
from conebandit.studies.parts import Parts


def row(run, value=0.5):
    return {
        "run": run, "policy": "p", "environment": "e", "horizon": 10, "seed": run, "after": 0,
        "play": value, "play_curve": [value, float("nan"), float("inf")], "versions": "v",
    }  # fmt: skip


def test_what_is_appended_is_read_again_bit_for_bit(tmp_path):
    parts = Parts(tmp_path / "parts")
    assert parts.open() == set()
    assert parts.read() is None
    parts.append([row(3, 0.1 + 0.2), row(1, -0.0)])
    parts.append([row(2, float("inf"))])
    frame = Parts(tmp_path / "parts").read()
    assert frame["run"].to_list() == [1, 2, 3]
    assert frame["play"].to_list() == [-0.0, float("inf"), 0.1 + 0.2]
    assert str(frame["play"].to_list()[0]) == "-0.0"
    assert str(frame["play_curve"].to_list()[0]) == "[-0.0, nan, inf]"
    assert Parts(tmp_path / "parts").open() == {1, 2, 3}


def test_small_parts_are_merged_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_SMALL", 4)
    parts = Parts(tmp_path)
    parts.open()
    for run in range(23):
        parts.append([row(run)])
        assert len(list(tmp_path.glob("*.parquet"))) <= 4
    assert parts.read()["run"].to_list() == list(range(23))


@pytest.mark.parametrize("after", range(1, 6))
def test_a_merge_that_is_cut_short_loses_nothing_and_doubles_nothing(tmp_path, monkeypatch, after):
    """The process dies before a small part is removed, after the merged one was written."""
    monkeypatch.setattr(module, "MAX_SMALL", 5)
    parts = Parts(tmp_path)
    parts.open()
    removed = []

    def dying(path):
        if len(removed) >= after - 1:
            raise KeyboardInterrupt
        removed.append(path)
        original(path)

    original = type(tmp_path).unlink
    monkeypatch.setattr(type(tmp_path), "unlink", dying)
    for run in range(4):
        parts.append([row(run, run / 7)])
    with pytest.raises(KeyboardInterrupt):
        parts.append([row(4, 4 / 7)])
    monkeypatch.undo()
    again = Parts(tmp_path)
    assert again.open() == set(range(5))
    again.append([row(5)])
    assert again.read()["run"].to_list() == list(range(6))
    assert again.read()["play"].to_list() == [run / 7 for run in range(5)] + [0.5]


def test_what_was_being_written_is_removed_and_is_not_read(tmp_path):
    parts = Parts(tmp_path)
    parts.open()
    parts.append([row(0)])
    half = tmp_path / "000000001-abc.parquet.writing"
    half.write_bytes(b"PAR1 half")
    assert parts.read()["run"].to_list() == [0]
    assert Parts(tmp_path).open() == {0}
    assert not half.exists()


def test_a_damaged_part_is_named_with_what_to_do(tmp_path):
    parts = Parts(tmp_path)
    parts.open()
    parts.append([row(0)])
    part = next(tmp_path.glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(ValueError, match=f"{part.name} is damaged.*Remove it and start the study again"):
        Parts(tmp_path).open()


def test_a_reader_does_not_mind_a_merge_under_way(tmp_path, monkeypatch):
    parts = Parts(tmp_path)
    parts.open()
    parts.append([row(0)])
    gone, listed = tmp_path / "000000007-gone.parquet", Parts._files
    answers = iter([[gone], [gone]])
    monkeypatch.setattr(Parts, "_files", lambda self: next(answers, None) or listed(self))
    assert parts.read()["run"].to_list() == [0]
