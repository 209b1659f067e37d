"""Command lines that are refused, with the exit code and what they say, before Keras is imported."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.test_documents import ROOT

# Each line of stdin is a command; a line of the answer has its exit code, its messages, and heavy modules it imported.
PROGRAM = """
import contextlib, io, json, sys
from tfdml.__main__ import main
HEAVY = ("keras", "tensorflow", "tfdml.losses")
for line in sys.stdin:
    before = [*sys.modules]
    sys.argv[1:], printed = json.loads(line), io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            code = main()
        except SystemExit as exit:
            code = exit.code
    print(json.dumps([code, printed.getvalue(), [name for name in HEAVY if name in {*sys.modules} - {*before}]]))
"""
# One line of an error; {port} is a port in use.
REFUSED = {
    # what a word names
    "check phots": "SET='phots': Received no such file or folder (did you mean 'photos'?), expected a folder with one",
    "check 1.jpg": "SET='1.jpg': Received an image file, expected a folder with one subfolder of images per class",
    "check photos.zip": "SET='photos.zip': Received an archive that must be unpacked first, expected a folder",
    "train nothing --out new": "SET='nothing': Received no such file or folder",
    "check gone.parquet": "SET='gone.parquet': Received no such file or folder",
    "check set.csv --label-column klass": "SET='set.csv': Received a table without 'klass' (--label-column), expected",
    "check set.csv --path-column file": "SET='set.csv': Received a table without 'file' (--path-column), expected some",
    "check set.csv --box-columns left upper x 2": "SET='set.csv': Received a table without 'left', 'upper', 'x', '2'",
    "embed photos out --model xyz": "MODEL='xyz': Received no such file or folder, expected a SavedModel",
    "embed photos out --model thing": "MODEL='thing': Received no such file or folder (did you mean 'things'?), ",
    "embed photos out --model unknown": "its name, folder or URL: other, things.",
    "embed photos out --model things/gallery/query": "MODEL='things/gallery/query': Received no such file or folder",
    "evaluate photos run": "MODEL='photos': Received a folder of images, expected a model: the order is MODEL SET.",
    "search own run 1.jpg": "MODEL='own': Received an index, expected a model: the order is MODEL INDEX IMAGE.",
    "search run/index run 1.jpg": "MODEL='run/index': Received an index, expected a model, such as the run of this",
    "serve run/index": "MODEL='run/index': Received an index, expected a model, such as the run of this index, run.",
    "serve imagenet": "MODEL='imagenet': Received no such file or folder",
    "export own --to onnx": "MODEL='own': Received an index, expected a SavedModel",
    "index add own photos --model photos": "MODEL='photos': Received a folder of images, expected a SavedModel",
    "migrate own --to nothing": "MODEL='nothing': Received no such file or folder",
    "search run run 1.jpg": "INDEX='run': Received a run of tfdml train, expected its index, run/index.",
    "serve run --index nothing": "INDEX='nothing': Received no such file or folder, expected what tfdml.search saved",
    "index list nothing": "INDEX='nothing': Received no such file or folder, expected what tfdml.search saved",
    "search run own 1.jpg 2.jpg 3.jpg": "IMAGE='2.jpg': Received no such file or folder (did you mean '3.jpg'?), ",
    "search run own photos": "IMAGE='photos': Received a folder of images, expected an image file.",
    "search run own 1.jpg --text --box 0 0 1 1": "--box: Received a box in a text, expected an image, without --text.",
    "clean photos nothing --out new": "FOLDER='nothing': Received no such file or folder, expected a folder of images",
    "clean 1.jpg --out new": "FOLDER='1.jpg': Received an image file, expected a folder of images.",
    "migrate own --to run --root 1.jpg": "--root='1.jpg': Received an image file, expected a folder of images.",
    "embed photos out --model run --preprocessing no.json": "--preprocessing='no.json': Received no such file or",
    "serve run --log gone/log.csv": "--log='gone/log.csv': Received no such file or folder, expected a file in",
    "drift set.csv gone.csv": "LOG='gone.csv': Received no such file or folder",
    "drift gone.csv set.csv": "REFERENCE='gone.csv': Received no such file or folder",
    # what a command writes, and where it listens
    "train photos --out photos": "--out photos: Received what is not an empty folder, expected a new or an empty",
    "train photos --out 1.jpg": "--out 1.jpg: Received what is not an empty folder, expected a new or an empty",
    "train photos --out new --config no.toml": "--config='no.toml': Received no such file or folder, expected a file.",
    "serve run --host 256.0.0.1": "--host 256.0.0.1 --port 8501: Received an address that cannot be used (",
    "serve run --port {port}": "--host 127.0.0.1 --port {port}: Received an address that cannot be used (",
    # what `tfdml compare` compares
    "compare --labels labels.csv": "FILE: Received none, expected one file or more.",
    "compare no.npy --labels labels.csv": "FILE='no.npy': Received no such file or folder (did you mean 'a.npy'?), ",
    "compare x=no.npy --labels labels.csv": "FILE='no.npy': Received no such file or folder (did you mean 'a.npy'?), ",
    "compare no.npz::a --labels labels.csv": "FILE='no.npz': Received no such file or folder",
    "compare a.npy --labels no.csv": "--labels='no.csv': Received no such file or folder",
    "compare a.npy --qrels no": "--qrels='no': Received no such file or folder",
    "compare --scores no.csv": "--scores='no.csv': Received no such file or folder",
    "compare a.npy a.npy --labels labels.csv": "FILE: Received a.npy and a.npy, both with the name 'a', expected",
    "compare a.npy --scores labels.csv": "--scores: Received FILEs beside it, expected the table alone.",
    "compare a.npy --labels labels.csv --gallery a.npy": "--gallery: Received one of the two, expected --gallery and",
    "compare a.npy --labels labels.csv --gallery no.npy --gallery-labels labels.csv": "FILE='no.npy': Received no such",
    "compare a.npy --labels labels.csv --gallery a.npy --gallery-labels no.csv": "--gallery-labels='no.csv': Received",
    "compare a.npy --labels labels.csv --gallery a.npy a.npy --gallery-labels labels.csv": "Received 2 files, expected",
    "compare a.npy --labels labels.csv --label-column klass": "Received a table without 'klass' (--label-column)",
    "compare a.npy --labels labels.csv --by site": "Received a table without 'site' (--by), expected some of label, ",
    "compare a.npy --labels labels.csv --out .": "--out .: Received path='.', a folder with '1.jpg', which is not",
    "compare --scores labels.csv": "--scores labels.csv: Received a table without 'model' (--scores), 'score'",
}
# Usage, and a line of an error.
MISUSED = {
    "": "the following arguments are required: COMMAND",
    "translate": "invalid choice: 'translate'",
    "embed": "the following arguments are required: SET, OUT, --model",
    "train photos --out new --epoch-count 3": "unrecognized arguments: --epoch-count 3",
    "search run own 1.jpg -k 0": "-k: Received '0', expected a whole number of at least 1.",
    "check photos --batch 3": "unrecognized arguments: --batch 3",
    "serve run --port 70000": "--port: Received '70000', expected a port from 0 to 65535.",
    "serve run --processes 0": "--processes: Received '0', expected a whole number of at least 1.",
    "export run --to onnx,coreml": "Received 'coreml', expected some of savedmodel, onnx, openvino, litert, web",
    "export run --to onnx --threshold near": "--threshold: Received 'near', expected a number.",
    "serve run --check-recall 2": "--check-recall: Received '2', expected a share above 0, 1 at most.",
    "export run": "the following arguments are required: --to",
    "clean photos --out new --similarity 0": "--similarity: Received '0', expected a number above 0.",
    "train photos --out new --unlabelled new": "Received 'new', expected --no-label new, the name of this option",
    "train photos --out new --background red": "Received 'red', expected a level from 0 to 255, or RED,GREEN,BLUE.",
    "train photos --out new --background 1,2": "Received '1,2', expected a level from 0 to 255, or RED,GREEN,BLUE.",
}


def answers_of(commands, folder):
    """The exit code, the messages and the heavy modules of each command, run in one process without Keras."""
    stdin = "".join(json.dumps(command.split()) + "\n" for command in commands)
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    options = {"cwd": folder, "env": {**environment, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=stdin, capture_output=True, text=True, check=True, **options
    )
    assert not done.stderr, "log lines of libraries are left out"
    return list(map(json.loads, done.stdout.splitlines()))


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The port in use, and the answer to each command of the tables."""
    here = tmp_path_factory.mktemp("here")
    files = ("photos/a/1.png", "run/index/index.json", "own/index.json", "1.jpg", "3.jpg", "photos.zip")
    for name in (*files, "savedmodels/things/model.json", "savedmodels/other/model.json"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch()
    (here / "run" / "settings.toml").write_text('format = "tfdml.training/1"')
    (here / "set.csv").write_text("path,label\n")
    (here / "labels.csv").write_text("label,camera\n1,2\n")
    np.save(here / "a.npy", np.eye(1, dtype="float32"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        commands = [command.format(port=port) for command in (*REFUSED, *MISUSED)]
        return port, dict(zip((*REFUSED, *MISUSED), answers_of(commands, here), strict=True))


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_line_is_refused_in_one_line(command, answers):
    port, found = answers
    code, printed, heavy = found[command]
    assert (code, printed.count("\n"), heavy) == (2, 1, [])
    assert printed.startswith("tfdml: error: ")
    assert REFUSED[command].format(port=port) in printed


@pytest.mark.parametrize("command", MISUSED)
def test_a_word_that_is_no_option_shows_the_usage(command, answers):
    code, printed, heavy = answers[1][command]
    assert (code, heavy) == (2, [])
    assert printed.startswith("usage: tfdml")
    assert MISUSED[command] in printed.splitlines()[-1]
