"""The spool of an edge: what was written is there after a crash, goes out in order, and is removed in the end."""

import json
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conebandit.service.edge import spool as spools
from conebandit.service.edge.lines import DECISION, OUTCOME, StateMark, is_whole, line
from conebandit.service.edge.spool import Spool

MARKS = [StateMark(n, f"{n:032x}", f"ConeTree-1.0-{n}") for n in range(3)]


def decision(id_):
    return line(DECISION, json.dumps({"id": id_}).encode())


def outcome(id_, value):
    return line(OUTCOME, json.dumps({"id": id_, "values": {"m": value}}).encode())


def opened(folder, *, remember=0, most=2**40, sync="os"):
    return Spool(folder, sync, remember, most)


def delivered(spool):
    """All that a courier would deliver, with the states of decisions."""
    found = []
    while (batch := spool.next_batch()) is not None:
        texts = [json.loads(text) for text in batch.texts]
        if batch.kind == OUTCOME:
            assert len({text["id"] for text in texts}) == len(texts)
            found += [(text["id"], text["values"]["m"]) for text in texts]
        else:
            found += [(text["id"], batch.place.mark) for text in texts]
        spool.acknowledge(batch)
    return found


def test_lines_are_whole_or_not():
    whole = decision("a")
    assert is_whole(whole)
    for i in range(len(whole)):
        assert not is_whole(whole[:i])
        changed = bytes([*whole[:i], whole[i] ^ 1, *whole[i + 1 :]])
        assert not is_whole(changed)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["os", "disk"]))
def test_a_spool_is_a_queue_whatever_happens(tmp_path_factory, seed, sync):
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("spool")
    spool, expected, got, told = opened(folder, remember=3, sync=sync), [], [], {}
    try:
        for step in range(30):
            match rng.randrange(6):
                case 0 | 1:
                    mark, ids = rng.choice(MARKS), [f"{step}-{i}" for i in range(rng.randrange(1, 4))]
                    spool.append(mark, [decision(id_) for id_ in ids], ids)
                    expected += [(id_, mark) for id_ in ids]
                    told |= dict.fromkeys(ids, mark)
                case 2:
                    id_ = f"{rng.randrange(3)}-0"
                    spool.append(rng.choice(MARKS), [outcome(id_, step)])
                    expected.append((id_, step))
                case 3 if rng.random() < 0.5:
                    got += delivered(spool)
                    assert got == expected
                case 4 if rng.random() < 0.3:
                    spool._begin_segment()
                case 5:
                    torn = rng.random() < 0.5
                    if torn:
                        os.write(spool._descriptor, decision("torn")[: rng.randrange(1, 20)])
                    spool.close()
                    spool = opened(folder, remember=3, sync=sync)
            for id_ in list(told)[-3:]:
                text, mark = spool.find(id_)
                assert (json.loads(text)["id"], mark) == (id_, told[id_])
            assert spool.pending == len(expected) - len(got)
        got += delivered(spool)
        assert got == expected
        assert (spool.pending, spool.waiting) == (0, 0)
    finally:
        spool.close()


def test_segments_that_are_uploaded_are_removed_when_enough_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "SEGMENT", 200)
    spool = opened(tmp_path, remember=10)
    for i in range(100):
        spool.append(MARKS[0], [decision(f"d{i}")], [f"d{i}"])
    assert len(list(tmp_path.glob("*.spool"))) > 10
    assert len(delivered(spool)) == 100
    kept = [i for i in range(100) if spool.find(f"d{i}") is not None]
    assert kept == list(range(kept[0], 100))
    assert 10 <= len(kept) <= 20
    spool.close()
    again = opened(tmp_path, remember=10)
    assert [i for i in range(100) if again.find(f"d{i}") is not None] == kept
    assert again.pending == 0
    again.close()


@pytest.mark.parametrize("remember", [0, 5])
def test_little_more_is_kept_than_is_to_be_remembered(tmp_path, remember, monkeypatch):
    spool = opened(tmp_path, remember=remember)
    for i in range(40):
        spool.append(MARKS[i % 2], [decision(f"d{i}")], [f"d{i}"])
        if i == 20:
            monkeypatch.setattr(spool, "_open", lambda _: (_ for _ in ()).throw(OSError(28, "No space")))
        if i == 22:
            monkeypatch.undo()
        assert delivered(spool) == [(f"d{i}", MARKS[i % 2])]
        assert spool.pending == spool.waiting == 0
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("*.spool"))
    assert remember <= kept.count(b"id") <= 2 * remember
    assert all(spool.find(f"d{i}") is not None for i in range(40 - remember, 40))
    spool.append(MARKS[0], [decision("last")], ["last"])
    spool.close()
    again = opened(tmp_path, remember=remember)
    assert delivered(again) == [("last", MARKS[0])]
    again.close()


def test_what_is_damaged_is_left_out_and_said(tmp_path, caplog):
    spool = opened(tmp_path)
    for id_ in "abc":
        spool.append(MARKS[0], [decision(id_)], [id_])
    spool.close()
    [path] = tmp_path.glob("*.spool")
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"'))
    spool = opened(tmp_path)
    assert [id_ for id_, _ in delivered(spool)] == ["a", "c"]
    assert "damaged" in caplog.text
    assert spool.pending == 0
    spool.close()


@pytest.mark.parametrize("place", [0, 3, 12, 40, -1])
def test_decisions_after_a_damaged_state_are_said_to_be_from_no_other(tmp_path, place):
    spool = opened(tmp_path)
    for id_, mark in zip("abcd", [0, 1, 1, 2], strict=True):
        spool.append(MARKS[mark], [decision(id_)], [id_])
    spool.close()
    [path] = tmp_path.glob("*.spool")
    text = bytearray(path.read_bytes())
    text[text.index(MARKS[1].line()) + place] ^= 1  # -1: the end of the line before
    path.write_bytes(text)
    spool = opened(tmp_path)
    before = [] if place == -1 else [("a", MARKS[0])]
    assert delivered(spool) == [*before, ("b", None), ("c", None), ("d", MARKS[2])]
    assert spool.find("b") is None
    assert spool.pending == 0
    spool.close()


def test_a_segment_that_cannot_be_begun_leaves_the_last_one_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "SEGMENT", 50)
    spool = opened(tmp_path)
    spool.append(MARKS[0], [decision("a")], ["a"])
    for function in ("open", "fsync"):  # of the file, of the folder
        with monkeypatch.context() as full:
            full.setattr(os, function, lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(OSError, match="No space"):
                spool.append(MARKS[0], [decision("b")], ["b"])
        with (tmp_path / "other").open("wb") as other:  # gets a descriptor that is free
            assert spool.find("b") is None
            spool.append(MARKS[0], [decision(function)], [function])
            other.write(b"here")
        assert (tmp_path / "other").read_bytes() == b"here"
    assert [id_ for id_, _ in delivered(spool)] == ["a", "open", "fsync"]
    spool.close()


def test_batches_are_small_enough_for_the_service(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "MAX_LINES", 7)
    monkeypatch.setattr(spools, "MAX_BYTES", 100)
    spool = opened(tmp_path)
    ids = [f"d{i}" for i in range(50)]
    spool.append(MARKS[0], [decision(id_) for id_ in ids], ids)
    sizes = []
    while (batch := spool.next_batch()) is not None:
        sizes.append((len(batch.texts), sum(map(len, batch.texts))))
        spool.acknowledge(batch)
    assert sum(n for n, _ in sizes) == 50
    assert max(n for n, _ in sizes) <= 7
    assert max(size for _, size in sizes) <= 100
    spool.close()


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    spool = opened(tmp_path)
    spool.append(MARKS[0], [decision("a")], ["a"])
    write = os.write

    def short_of_room(descriptor, text):
        write(descriptor, text[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", short_of_room)
    with pytest.raises(OSError, match="No space"):
        spool.append(MARKS[0], [decision("b")], ["b"])
    monkeypatch.setattr(os, "write", write)
    assert spool.find("b") is None
    spool.append(MARKS[0], [decision("c")], ["c"])
    assert [id_ for id_, _ in delivered(spool)] == ["a", "c"]
    spool.close()


def test_a_signal_that_ends_an_append_leaves_nothing_of_it(tmp_path):
    class Ended(dict):
        def __setitem__(self, id_, kept):
            if id_ == "c":
                raise KeyboardInterrupt
            super().__setitem__(id_, kept)

    spool = opened(tmp_path)
    spool.append(MARKS[0], [decision("a")], ["a"])
    spool._index = Ended(spool._index)
    with pytest.raises(KeyboardInterrupt):
        spool.append(MARKS[1], [decision("b"), decision("c")], ["b", "c"])
    assert spool.find("b") is None
    spool.append(MARKS[1], [decision("d")], ["d"])
    assert json.loads(spool.find("d")[0]) == {"id": "d"}
    assert delivered(spool) == [("a", MARKS[0]), ("d", MARKS[1])]
    assert spool.pending == spool.waiting == 0
    spool.close()


def test_only_so_much_may_wait(tmp_path):
    spool = opened(tmp_path, most=120)
    for id_ in "abc":
        spool.append(MARKS[0], [decision(id_)], [id_])
    with pytest.raises(OSError, match="more than 120 bytes wait"):
        spool.append(MARKS[0], [decision("d")], ["d"])
    assert [id_ for id_, _ in delivered(spool)] == ["a", "b", "c"]
    spool.append(MARKS[0], [decision("more")], ["more"])
    spool.close()


def test_a_place_that_is_lost_has_everything_sent_again(tmp_path):
    spool = opened(tmp_path, remember=100)
    spool.append(MARKS[1], [decision("a"), decision("b")], ["a", "b"])
    first = delivered(spool)
    spool.close()
    for content in (b"", b"[1,", b"[7, 3, null]", b"[1, 10000, null]"):
        (tmp_path / "uploaded").write_bytes(content)
        spool = opened(tmp_path, remember=100)
        assert delivered(spool) == first
        spool.close()
