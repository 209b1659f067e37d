"""PyTorch files: those that PyTorch wrote are read whole, and no other file is, nor does its code run."""

import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from tests.networks.state_dicts import ARRAYS, FILES
from tfdml.networks.pytorch_files import read_state_dict


@pytest.mark.parametrize("name", FILES)
def test_both_formats_give_every_array_with_its_type_and_shape(name):
    state = read_state_dict(FILES[name])
    assert state.keys() == ARRAYS.keys()
    for key, expected in ARRAYS.items():
        assert state[key].dtype == expected.dtype, key
        np.testing.assert_array_equal(state[key], expected, err_msg=key, strict=True)


def test_views_of_one_storage_become_arrays_of_their_own():
    state = read_state_dict(FILES["older"])
    state["a.weight"][:] = 0
    np.testing.assert_array_equal(state["a.transposed"], ARRAYS["a.transposed"])


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def archive(path, content):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))


def older(path, content):
    values = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, content, []]
    path.write_bytes(b"".join(pickle.dumps(value, protocol=2) for value in values))


@pytest.mark.parametrize("write", [archive, older])
def test_code_of_a_file_does_not_run(write, tmp_path):
    path, victim = tmp_path / "state.pth", tmp_path / "victim"
    victim.write_text("still here")
    write(path, {"weight": Call(victim.unlink)})
    with pytest.raises(ValueError, match=r"'.*state.pth' could not be read \(ValueError: it holds .*, expected a"):
        read_state_dict(path)
    write(path, {"weight": Call(eval, "__import__('os').remove(" + repr(str(victim)) + ")")})
    with pytest.raises(ValueError, match=r"it holds (__builtin__|builtins).eval"):
        read_state_dict(path)
    assert victim.read_text() == "still here"


@pytest.mark.parametrize("write", [archive, older])
@pytest.mark.parametrize("content", [{"state_dict": {}, "epoch": 3}, [1, 2], {"weight": "text"}])
def test_another_content_is_named(write, content, tmp_path):
    write(tmp_path / "state.pth", content)
    with pytest.raises(ValueError, match=r"it holds (state_dict, epoch|list|weight)\), expected a state dict of"):
        read_state_dict(tmp_path / "state.pth")


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_gives_an_error_that_names_it_or_arrays(name, tmp_path):
    content, rng, refused = FILES[name].read_bytes(), np.random.default_rng(0), 0
    path = tmp_path / "damaged.pth"
    cut = [content[:length] for length in rng.integers(0, len(content), 60)]
    flipped = [_flipped(content, position, rng) for position in rng.integers(0, len(content), 200)]
    for damaged in cut + flipped:
        path.write_bytes(damaged)
        try:
            assert all(isinstance(array, np.ndarray) for array in read_state_dict(path).values())
        except ValueError as error:
            refused += "damaged.pth' could not be read" in str(error)
    assert refused > 100


def _flipped(content, position, rng):
    changed = bytearray(content)
    changed[position] ^= int(rng.integers(1, 256))
    return bytes(changed)


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_state_dict(tmp_path / "missing.pth")


STORAGE = b"((X\x07\x00\x00\x00storagectorch\nByteStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ\x00\x00\x10\x00tQ"
VIEW = b"K\x00J\x00\x00\x10\x00\x85K\x01\x85\x89}t"  # offset 0, shape (2**20,), strides (1,), and no gradient


def views(number):
    """A dict of tensors that all are one storage of 1 MiB."""
    name = b"X\x04\x00\x00\x00%04d"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n" + STORAGE + VIEW + b"R"
    return b"\x80\x02}(" + b"".join(name % i + tensor for i in range(number)) + b"u."


def packed(path, pickled, data=b"", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/data/0", data)


HOSTILE = {
    "an index of 2**26 in the memo": (b"\x80\x02Nr\x00\x00\x00\x04.", "NoneType"),
    "a key of tuples that double 30 times": (b"\x80\x02})" + b"q\x00h\x00\x86" * 30 + b"Ns.", "other keys than texts"),
    "a text of 4 GiB": (b"\x80\x02X\xf0\xff\xff\xff.", "expected 4294967280 bytes"),
    "an operation of other protocols": (pickle.dumps({"a": {1}}, protocol=4), "the operation FRAME"),
    "3 million lists": (b"\x80\x02(" + b"]" * 3_000_000 + b"l.", "a longer pickle"),
    "500 views of one storage": (views(500), "tensors of 524,288,000 bytes"),
}


@pytest.mark.parametrize("case", [pytest.param(n, marks=[pytest.mark.nightly] * ("million" in n)) for n in HOSTILE])
def test_hostile_files_are_refused_in_little_memory(case, tmp_path):
    pickled, message = HOSTILE[case]
    packed(tmp_path / "archive.pth", pickled, bytes(2**20))
    head = b"".join(
        pickle.dumps(value, protocol=2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    )
    (tmp_path / "older.pth").write_bytes(
        head + pickled + pickle.dumps(["0"], protocol=2) + bytes([0, 0, 16] + [0] * 2000)
    )
    for name in ("archive.pth", "older.pth"):
        tracemalloc.start()
        with pytest.raises(ValueError, match=message if name == "archive.pth" else "could not be read"):
            read_state_dict(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < (200 if "million" in case else 16) * 2**20
        tracemalloc.stop()


def test_a_pickle_of_too_many_operations_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tfdml.networks.pytorch_pickles._MOST_OPERATIONS", 99)
    packed(tmp_path / "state.pth", b"\x80\x02(" + b"]" * 100 + b"l.")
    with pytest.raises(ValueError, match="a longer pickle, expected at most 99 operations"):
        read_state_dict(tmp_path / "state.pth")


def test_views_of_one_storage_are_read_up_to_a_few_times_the_file(tmp_path):
    packed(tmp_path / "state.pth", views(4), bytes(2**20))
    assert [array.shape for array in read_state_dict(tmp_path / "state.pth").values()] == [(2**20,)] * 4


def test_compressed_members_are_refused_before_they_are_unpacked(tmp_path):
    packed(tmp_path / "state.pth", views(1), bytes(2**26), zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"members of 67,1.* bytes, unpacked, expected at most"):
        read_state_dict(tmp_path / "state.pth")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
