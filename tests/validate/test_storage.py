"""Files of saved policies: whatever is wrong with one, it is refused as such."""

import io
import zipfile

import numpy as np
import pytest

import conebandit as cb
from conebandit.validate.storage import PolicyFileError


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header_alone(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.fixture
def saved(tmp_path):
    cb.ParetoUCB1(2, cb.Cone.orthant(1), 1).save(tmp_path / "policy.npz")
    return tmp_path / "policy.npz"


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("counts.npy", header_alone((10**14,))),  # more memory than there is
        ("counts.npy", header_alone((1,)).replace(b"'descr'", b"(((((('")),
        ("counts.npy", b"not an array"),
        ("header.npy", npy(np.frombuffer(b"[" * 100_000, dtype=np.uint8))),
        ("header.npy", npy(np.frombuffer(b"[1]", dtype=np.uint8))),
    ],
    ids=["huge", "header of an array", "no array", "deep", "list"],
)
def test_files_with_a_wrong_member_are_refused(saved, tmp_path, member, content):
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(tmp_path / "wrong.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name == member else old.read(name))
    with pytest.raises(PolicyFileError, match=r"wrong\.npz"):
        cb.load_policy(tmp_path / "wrong.npz")


def test_encrypted_files_are_refused(saved):
    content = bytearray(saved.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # of each member, twice
        at = content.find(mark)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(mark, at + 4)
    saved.write_bytes(content)
    with pytest.raises(PolicyFileError, match="encrypted"):
        cb.load_policy(saved)


def test_a_file_that_is_not_there_is_told_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        cb.load_policy(tmp_path / "none.npz")


def test_a_folder_that_is_not_there_is_told_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none'; path must be that of a file in one"):
        cb.ParetoUCB1(2, cb.Cone.orthant(1), 1).save(tmp_path / "none" / "policy.npz")


def test_a_folder_is_no_file_and_nothing_is_left_beside_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match="must be that of a file"):
        cb.ParetoUCB1(2, cb.Cone.orthant(1), 1).save(folder)
    assert list(tmp_path.iterdir()) == [folder]
