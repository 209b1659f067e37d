"""Makes tests/networks/state_dict_archive.pth and state_dict_older.pth with PyTorch, in its two formats.

pip install -r requirements/peers.lock    # torch
python -m tools.make_state_dicts
"""

from collections import OrderedDict

import torch

from tests.networks.state_dicts import ARRAYS, FILES, MATRIX


def main():
    """Write the files."""
    matrix = torch.from_numpy(MATRIX.copy())
    views = {"a.weight": matrix, "a.transposed": matrix.T, "a.column": matrix[:, 1]}  # of one storage
    state = OrderedDict(views)
    for name in sorted(ARRAYS.keys() - views.keys() - {"bfloat16"}):
        state[name] = torch.nn.Parameter(torch.from_numpy(ARRAYS[name].copy()), requires_grad=False)
    state["bfloat16"] = torch.tensor(ARRAYS["bfloat16"].astype("float32")).to(torch.bfloat16)
    state._metadata = {"": {"version": 1}}  # as a module has it
    torch.save(state, FILES["archive"])
    torch.save(state, FILES["older"], _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
