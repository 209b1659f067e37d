"""PyTorch files: those that PyTorch wrote are read whole, and no other file is, nor does its code run."""

import pickle
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
    with pytest.raises(ValueError, match=r"'.*state.pth' could not be read \(UnpicklingError: it holds .*, expected a"):
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
