"""State dicts of PyTorch files, read without PyTorch."""

import io
import math
import os
import zipfile
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.stored import BoundedReader, require_unpacked_size
from tfdml.networks.pytorch_pickles import Storage, Tensor, unpickled
from tfdml.typing import FilePath

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_PROTOCOL_VERSION = 1001
_MOST_SHARED = 4  # times the length of the file that its arrays may take, since tensors share storages


def read_state_dict(path: FilePath) -> dict[str, np.ndarray]:
    """Read the arrays of a state dict that `torch.save` wrote, in the format of PyTorch 1.6 and in the older one.

    As in `torch.load(path, weights_only=True)`, a file may hold dicts, tensors and plain values and nothing else, so
    that no code of a foreign file runs. Another file is a ValueError.
    """
    with open(path, "rb") as file:
        try:
            size = os.fstat(file.fileno()).st_size
            is_archive = zipfile.is_zipfile(file)
            file.seek(0)
            content, read_storage = _read_archive(file, size) if is_archive else _read_older(BoundedReader(file))
            return _arrays(_tensors(content), read_storage, size)
        except Exception as error:  # Each damage fails in its own way.
            raise ValueError(
                f"{str(path)!r} could not be read ({type(error).__name__}: {error}), expected a state dict of "
                "torch.save: names and tensors, whole. Save it by torch.save(network.state_dict(), path), or download "
                "it again."
            ) from error


def _read_archive(file, size):
    """The pickled content, and a function from a storage to its bytes."""
    archive = zipfile.ZipFile(file)
    require_unpacked_size(archive, size)
    names = archive.namelist()
    root = next(name for name in names if name.endswith("/data.pkl")).removesuffix("data.pkl")
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
        raise ValueError("numbers in big-endian order")
    content, _ = unpickled(io.BytesIO(archive.read(f"{root}data.pkl")))
    return content, lambda storage: archive.read(f"{root}data/{storage.key}")


def _read_older(file: Any) -> tuple[Any, Callable[[Storage], bytes]]:
    """Pickles of the format, of the content and of the keys of its storages; then each storage and its length."""
    if unpickled(file)[0] != _MAGIC_NUMBER or unpickled(file)[0] != _PROTOCOL_VERSION:
        raise ValueError("not a file of torch.save")
    if not unpickled(file)[0]["little_endian"]:
        raise ValueError("numbers in big-endian order")
    content, storages = unpickled(file)
    blocks = {key: _read_block(file, storages[key]) for key in unpickled(file)[0]}
    return content, lambda storage: blocks[storage.key]


def _read_block(file, storage):
    length = int.from_bytes(file.read(8), "little")
    if length != storage.length:
        raise ValueError(f"a storage of {length} entries, not {storage.length}")
    return file.read(length * storage.dtype.itemsize)


def _tensors(content):
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        keys = ", ".join(list(content)[:20]) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"it holds {keys[:200]}")
    return content


def _arrays(tensors, read_storage, size):
    total = sum(math.prod(tensor.shape) * tensor.storage.dtype.itemsize for tensor in tensors.values())
    require(total <= _MOST_SHARED * size, f"tensors of {total:,} bytes", f"at most {_MOST_SHARED * size:,}")
    arrays: dict[str, Any] = dict.fromkeys(tensors)

    def key_of(name):
        return tensors[name].storage.key

    for _, group in groupby(sorted(tensors, key=key_of), key_of):
        names = list(group)
        content = read_storage(tensors[names[0]].storage)
        arrays |= {name: _array(tensors[name], content) for name in names}
    return arrays


def _array(tensor, storage_bytes):
    block = np.frombuffer(storage_bytes, tensor.storage.dtype)
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    if math.prod(tensor.shape) > len(block) or (0 not in tensor.shape and last >= len(block)):
        raise ValueError(f"a tensor of shape {tensor.shape} in a storage of {len(block)} entries")
    strides = [stride * block.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(block[tensor.offset :], tensor.shape, strides).copy()
