"""The pickles of `torch.save`, read one operation after the other: tensors and plain values, and no other object."""

from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from tfdml._core.checks import require

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
_MOST_OPERATIONS = 2**21  # 60,000 tensors; an operation of one byte makes an object of up to 100
_MOST_AXES = 32
_NEW: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_OF_ARGUMENT = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "BINSTRING", "SHORT_BINSTRING")


class Storage(NamedTuple):
    """A block of numbers of a file, by its key."""

    key: str
    dtype: np.dtype
    length: int


class Tensor(NamedTuple):
    """A view of a storage; `offset` and `strides` count entries."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Global(NamedTuple):
    """A function that a file names; nothing calls it."""

    name: str


def unpickled(file: BinaryIO) -> tuple[Any, dict[str, Storage]]:
    """The value of the next pickle of a file, and the storages in it by key.

    The reader calls nothing that a file names, and memory grows with the number of operations, whatever their arguments
    say: `file.read` returns no more than the file has. A damaged pickle is an IndexError, a KeyError or a TypeError.
    """
    import pickletools  # 50 kB that nothing else needs

    stack = _Stack()
    for number, (operation, argument, _) in enumerate(pickletools.genops(file)):
        require(number < _MOST_OPERATIONS, "a longer pickle", f"at most {_MOST_OPERATIONS:,} operations")
        stack.do(operation.name, argument)
    return stack.values.pop(), stack.storages


class _Stack:
    """The values that operations put on a stack and take from it."""

    def __init__(self):
        self.values, self.storages = [], {}
        self._below, self._memo = [], {}

    def do(self, name, argument):
        """One operation."""
        if name in _NEW:
            self.push(_NEW[name]())
        elif name in _OF_ARGUMENT:
            self.push(argument)
        else:
            require(name in _STEPS, f"the operation {name}", "those of torch.save with pickle_protocol=2")
            _STEPS[name](self, argument)

    def push(self, value):
        self.values.append(value)

    def mark(self, _):
        self._below.append(self.values)
        self.values = []

    def since_mark(self):
        values, self.values = self.values, self._below.pop()
        return values

    def last(self, number):
        values = self.values[-number:]
        del self.values[-number:]
        require(len(values) == number, f"a stack of {len(values)} values", f"at least {number}")
        return values

    def remember(self, index):
        self._memo[index] = self.values[-1]

    def recall(self, index):
        self.push(self._memo[index])

    def extend(self, values):
        require(isinstance(self.values[-1], list), "values of another object", "of a list")
        self.values[-1].extend(values)

    def update(self, values):
        names = values[::2]
        is_dict = isinstance(self.values[-1], dict) and len(values) % 2 == 0
        require(is_dict and _are(str, names), "a dict with other keys than texts", "names")
        self.values[-1].update(zip(names, values[1::2], strict=True))

    def call(self, _):
        function, arguments = self.last(2)
        require(isinstance(function, _Global) and isinstance(arguments, tuple), "another call", "a tensor")
        self.push(_CALLS[function.name](*arguments))

    def find_storage(self, _):
        _, dtype, key, _, length, *_ = self.values.pop()
        is_storage = isinstance(dtype, np.dtype) and isinstance(key, str) and _are_counts((length,))
        require(is_storage, "a persistent object of another kind", "a storage")
        self.storages[key] = Storage(key, dtype, length)
        self.push(self.storages[key])


_STEPS: dict[str, Callable[[_Stack, Any], Any]] = {
    "PROTO": lambda stack, _: None,
    "STOP": lambda stack, _: None,
    "MARK": _Stack.mark,
    "BINPUT": _Stack.remember,
    "LONG_BINPUT": _Stack.remember,
    "BINGET": _Stack.recall,
    "LONG_BINGET": _Stack.recall,
    "APPEND": lambda stack, _: stack.extend(stack.last(1)),
    "APPENDS": lambda stack, _: stack.extend(stack.since_mark()),
    "SETITEM": lambda stack, _: stack.update(stack.last(2)),
    "SETITEMS": lambda stack, _: stack.update(stack.since_mark()),
    "TUPLE": lambda stack, _: stack.push(tuple(stack.since_mark())),
    "TUPLE1": lambda stack, _: stack.push(tuple(stack.last(1))),
    "TUPLE2": lambda stack, _: stack.push(tuple(stack.last(2))),
    "TUPLE3": lambda stack, _: stack.push(tuple(stack.last(3))),
    "GLOBAL": lambda stack, name: stack.push(_global(name)),
    "BINPERSID": _Stack.find_storage,
    "REDUCE": _Stack.call,
    "BUILD": lambda stack, _: stack.last(1),  # attributes of a dict, which are not read
}


def _global(name):
    module, _, member = name.partition(" ")
    if module == "torch" and member in _DTYPES:
        return np.dtype(_DTYPES[member])
    if name not in _CALLS:
        raise ValueError(f"it holds {module[:200]}.{member[:200]}")
    return _Global(name)


def _tensor(storage, offset, shape, strides, *_):
    is_tensor = isinstance(storage, Storage) and isinstance(shape, tuple) and isinstance(strides, tuple)
    is_tensor = is_tensor and len(shape) == len(strides) <= _MOST_AXES and _are_counts((offset, *shape, *strides))
    require(is_tensor, "a tensor of another form", "a storage, an offset, a shape and strides")
    return Tensor(storage, offset, shape, strides)


def _ordered_dict(pairs=()):
    """Python 2 gives the pairs to the constructor; Python 3 adds them later."""
    require(all(isinstance(pair, list) and _are(str, pair[:1]) for pair in pairs), "other keys than texts", "names")
    return dict(pairs)


_CALLS: dict[str, Callable[..., Any]] = {
    "collections OrderedDict": _ordered_dict,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": lambda tensor, *_: tensor,
}


def _are(kind, values):
    return all(type(value) is kind for value in values)


def _are_counts(values):
    """Whether values are whole numbers from 0 to 2**62."""
    return _are(int, values) and all(0 <= value <= 2**62 for value in values)
