"""State dicts of PyTorch files, read without PyTorch."""

import collections
import math
import pickle
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from tfdml.typing import FilePath

_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_PROTOCOL_VERSION = 1001


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype
    length: int


class _Tensor(NamedTuple):
    """A view of a storage; `offset` and `strides` count entries."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_state_dict(path: FilePath) -> dict[str, np.ndarray]:
    """Read the arrays of a state dict that `torch.save` wrote, in the format of PyTorch 1.6 and in the older one.

    As in `torch.load(path, weights_only=True)`, a file may hold dicts, tensors and plain values and nothing else, so
    that no code of a foreign file runs.

    Returns:
        Names, such as "conv1.weight", and arrays.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file that is no state dict, is damaged, or holds other objects.
    """
    with open(path, "rb") as file:
        try:
            is_archive = zipfile.is_zipfile(file)
            file.seek(0)
            content, read_storage = _read_archive(file) if is_archive else _read_older(file)
            return {name: _array(tensor, read_storage(tensor.storage)) for name, tensor in _tensors(content).items()}
        except Exception as error:  # Each damage fails in its own way.
            raise ValueError(
                f"{str(path)!r} could not be read ({type(error).__name__}: {error}), expected a state dict of "
                "torch.save: names and tensors, whole. Save it by torch.save(network.state_dict(), path), or download "
                "it again."
            ) from error


def _read_archive(file):
    """The pickled content, and a function from a storage to its bytes."""
    archive = zipfile.ZipFile(file)
    names = archive.namelist()
    root = next(name for name in names if name.endswith("/data.pkl")).removesuffix("data.pkl")
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
        raise ValueError("numbers in big-endian order")
    with archive.open(f"{root}data.pkl") as pickled:
        content = _Unpickler(pickled).load()
    return content, lambda storage: archive.read(f"{root}data/{storage.key}")


def _read_older(file: BinaryIO) -> tuple[Any, Callable[[_Storage], bytes]]:
    """Pickles of the format, of the content and of the keys of its storages; then each storage and its length."""
    if _Unpickler(file).load() != _MAGIC_NUMBER or _Unpickler(file).load() != _PROTOCOL_VERSION:
        raise ValueError("not a file of torch.save")
    if not _Unpickler(file).load()["little_endian"]:
        raise ValueError("numbers in big-endian order")
    unpickler = _Unpickler(file)
    content = unpickler.load()
    storages = {storage.key: storage for storage in unpickler.storages}
    blocks = {key: _read_block(file, storages[key]) for key in _Unpickler(file).load()}
    return content, lambda storage: blocks[storage.key]


def _read_block(file, storage):
    length = int.from_bytes(file.read(8), "little")
    if length != storage.length:
        raise ValueError(f"a storage of {length} entries, not {storage.length}")
    return file.read(length * storage.dtype.itemsize)


class _Unpickler(pickle.Unpickler):
    """Reads the pickle of a state dict; tensors become `_Tensor`, and `storages` lists what they are views of."""

    def __init__(self, file):
        super().__init__(file)
        self.storages = []

    def find_class(self, module, name):
        """Each allowed object is made for this file alone: a pickle can set attributes of what it is given."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, tuple(shape), tuple(strides))
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in _DTYPES:
            return np.dtype(_DTYPES[name])
        raise pickle.UnpicklingError(f"it holds {module}.{name}")

    def persistent_load(self, pid):
        _, dtype, key, _, length, *_ = pid
        storage = _Storage(key, dtype, length)
        self.storages.append(storage)
        return storage


def _tensors(content):
    if not isinstance(content, dict) or not all(isinstance(value, _Tensor) for value in content.values()):
        keys = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"it holds {keys[:200]}")
    return content


def _array(tensor, storage_bytes):
    block = np.frombuffer(storage_bytes, tensor.storage.dtype)
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    numbers = (tensor.offset, *tensor.shape, *tensor.strides)
    if min(numbers) < 0 or math.prod(tensor.shape) > len(block) or (0 not in tensor.shape and last >= len(block)):
        raise ValueError(f"a tensor of shape {tensor.shape} in a storage of {len(block)} entries")
    strides = [stride * block.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(block[tensor.offset :], tensor.shape, strides).copy()
