"""A board of whole networks on natural images: photo patches, all layers of a network of ImageNet are trained.

The network is the first eight blocks of EfficientNet-Lite0 with the weights of ImageNet and a dense layer of all
positions, as in studies/photo_starts. Batches, trials, choice and seeds are those of the other boards.

    KERAS_BACKEND=jax python -m studies.leaderboard whole --output ROWS.csv   # minutes on a GPU

Networks are trained side by side on JAX. A machine without TensorFlow and without the weights of ImageNet takes both
from files of `runs/leaderboard`, which `python -m studies.leaderboard whole-files` writes.
"""

import functools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime

import keras
import numpy as np

import tfdml
from studies import characters, compiled, pages, runner
from studies.leaderboard import outputs, setting, starts
from studies.leaderboard.family import best
from studies.leaderboard.methods import IN_BATCH

STEPS = 350
SEEDS = (0, 1, 2, 3, 4, 5)  # the first of the trials
DIM = 64
PLACES, VIEWS = 1744, 8  # of the training photographs
FILE = pages.RESULTS / "leaderboard" / "whole.csv"
WEIGHTS = starts.FOLDER / "imagenet-blocks-7.npz"
ROWS = starts.FOLDER.parent / "rows"
PARTS = starts.PARTS
LOSSES = (
    "multi-similarity",
    "RAW",
    "KL",
    "TopK",
    "margin",
    "TopK-PN",
    "grouped KL",
    "binomial deviance",
    "RAW, distance weighted",
    "contrastive",
    "triplet",
    "balanced contrastive",
    "weighted contrastive",
    "n-pairs",
    "margin, random",
    "margin, semi-hard",
    "contrastive, distance weighted",
    "triplet, distance weighted",
    "batch hard",
    "TopK of binomial",
    "normalized softmax",
    "CosFace",
    "semi-hard triplet",
    "triplet, random",
    "proxy anchor",
    "lifted structure",
    "balanced contrastive, no weights",
    "contrastive, random",
)
SCORES = {"recall@1": "Recall@1", "map@r": "MAP@R"}


def base(options):
    """The run of which all others of this board are variations."""
    return replace(options.base, data="photo patches", start="whole", steps=2 if options.quick else STEPS)


def rows(options):
    """One row per trial, of the validation photographs, and one per seed of the best trials, of the test."""
    return trained(options, base(options), width(options))


def width(options):
    """The number of networks that are trained side by side: those of four methods on a GPU, those of one elsewhere."""
    if options.quick or keras.backend.backend() != "jax":
        return 5
    import jax

    return 20 if jax.default_backend() == "gpu" else 5


def trained(options, run, side_by_side, *, written=lambda rows: None):
    """Train what has no file, and return the rows of all methods.

    Args:
        options: `runner.Options`.
        run: `base`.
        side_by_side: number of networks that are trained at the same time, 5 or more.
        written: function of the rows, which is called after each wave of runs.
    """
    losses, bench = runner.some(LOSSES, options), None
    for wave in waves(losses, run, options, side_by_side):
        missing = [one for one in wave if not runner.is_kept(one, options)]
        if missing:
            bench = bench or Bench(run, losses, side_by_side)
            for some in alike(missing):
                runner.keep(some, bench.results(some), options)
            written(rows_of(losses, run, options))
    return rows_of(losses, run, options)


def alike(runs):
    """The runs in lists of those that measure the same part."""
    return [some for name in PARTS if (some := [run for run in runs if run.part == name])]


def trials(run, loss):
    """The four trials of a method."""
    return setting.trials(replace(run, loss=loss))


def waves(losses, run, options, width):
    """Lists of runs that are trained side by side: trials of some methods, then the seeds of their best trials."""
    pending, at_once = [], max(width // 4, 1)
    for losses_at_once in (losses[at : at + at_once] for at in range(0, len(losses), at_once)):
        yield [trial for loss in losses_at_once for trial in trials(run, loss)]
        pending += [tested for loss in losses_at_once for tested in seeds(run, loss, options)]
        while len(pending) >= width:
            yield pending[:width]
            pending = pending[width:]
    yield from (pending[at : at + width] for at in range(0, len(pending), width))


def seeds(run, loss, options):
    """The runs of the trial of a method that has the highest MAP@R of the validation photographs."""
    return [replace(best(trials(run, loss), options), part="test", seed=seed) for seed in options.seeds]


def rows_of(losses, run, options):
    """The rows of the methods all of whose runs are kept."""
    groups = []
    for loss in losses:
        if all(runner.is_kept(trial, options) for trial in trials(run, loss)):
            runs = trials(run, loss) + seeds(run, loss, options)
            groups += [runs] * all(runner.is_kept(one, options) for one in runs)
    return setting.rows_of([result for runs in groups for result in runner.finished(runs, options)])


@functools.cache
def part(name, classes):
    """The photo patches of a part, or of its first classes."""
    (whole,) = tfdml.datasets.photo_patches(splits=(name,))
    return characters.first_classes(whole, classes)


def labels_of(classes):
    """The class ids of the training patches, whose images need not be there yet."""
    return np.repeat(np.arange(min(PLACES, classes)), VIEWS).astype(np.int32)


def draw_patches():
    """Draw the parts that are not in the cache, each in a process of its own."""
    code = "import sys, tfdml; tfdml.datasets.photo_patches(splits=(sys.argv[1],))"
    quiet = {**os.environ, "JAX_PLATFORMS": "cpu"}
    drawing = [subprocess.Popen([sys.executable, "-c", code, name], env=quiet) for name in PARTS]
    if any(process.wait() for process in drawing):
        raise RuntimeError("Received an error from a process that draws photo patches. Read what it printed above.")


def network(dim=DIM):
    """The network with the weights of ImageNet and a random dense layer, which returns embeddings of any norm."""
    from recipes import zoo

    run = replace(zoo.RUNS["photo-patches-imagenet"], dim=dim)
    model = zoo.pretrained(run, weights=None if WEIGHTS.exists() else "imagenet")
    blocks = model.get_layer("backbone").get_layer("efficientnet_lite0")
    if not WEIGHTS.exists():
        keep_weights(blocks.get_weights())
    with np.load(WEIGHTS) as kept:
        blocks.set_weights([kept[f"{number:03d}"] for number in range(len(kept.files))])
    return keras.Model(model.inputs[0], model.get_layer("float32").output)


def keep_weights(weights):
    """Write the weights of the blocks to their file."""
    WEIGHTS.parent.mkdir(parents=True, exist_ok=True)
    partial = WEIGHTS.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(partial, **{f"{number:03d}": value for number, value in enumerate(weights)})
    partial.replace(WEIGHTS)


def weights_of(model, seed):
    """The weights of a network before training, whose dense layer depends on the seed."""
    values, head = model.get_weights(), model.get_layer("embedding").kernel
    place = next(number for number, variable in enumerate(model.weights) if variable is head)
    values[place] = np.asarray(keras.initializers.GlorotUniform(seed=seed)(head.shape))
    return values


def batches(run):
    """The row numbers of the batches of a run, `(steps, 128)`; all runs with its seed share one file."""
    method = setting.method_of(run)
    path = ROWS / f"photo-patches-whole-{method.per_class}-{run.classes}-{run.seed}-{run.steps}.npy"
    rows = compiled.drawn_rows(path, lambda: method.sampler(run), labels_of(run.classes), run.steps)
    return np.resize(rows, (run.steps, IN_BATCH))


def keep_files(options):
    """Write what a machine without TensorFlow and without the weights of ImageNet needs."""
    network()
    for loss in ("multi-similarity", "n-pairs"):  # four examples of each class, and two
        for seed in SEEDS:
            batches(replace(base(options), loss=loss, seed=seed))


def rate_of(run):
    """The learning rate of each step of a run, as in `setting.compile_model`."""
    warmup, step = max(1, run.steps // 10), np.arange(run.steps)
    cosine = 0.5 * (1 + np.cos(np.pi * np.clip((step - warmup) / (run.steps - warmup), 0, 1)))
    return (run.learning_rate * np.where(step < warmup, step / warmup, cosine)).astype(np.float32)


class Bench:
    """Compiled programs for networks side by side, and their data.

    Args:
        run: `base`.
        losses: the methods that will be trained; their programs are compiled in the background.
        width: number of networks.
    """

    def __init__(self, run, losses, width):
        if keras.backend.backend() != "jax":
            raise ValueError(
                f"Received the backend {keras.backend.backend()}, expected jax, on which networks are trained side by "
                "side. Set KERAS_BACKEND=jax."
            )
        import jax

        from studies import side_by_side

        self.run, self.width, self.side_by_side, self.jax = run, width, side_by_side, jax
        self.pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1))
        drawing = self.pool.submit(draw_patches)
        self.model = side_by_side.by_taps(network())
        self.labels = labels_of(run.classes)
        self.values = {seed: weights_of(self.model, seed) for seed in SEEDS}
        self.programs = self._programs()
        self.losses = {}
        for trial in (trial for loss in losses for trial in trials(run, loss)):
            self._loss_program(trial)
        drawing.result()
        self.data = [jax.device_put(value) for value in (part("train", run.classes).images, self.labels)]
        self.measured = {}
        self.programs = {name: program.result() for name, program in self.programs.items()}
        for program in self.losses.values():
            program.result()
        say(f"{len(self.programs)} programs of networks and {len(self.losses)} of losses compiled")

    def _shape(self, *shape, dtype="float32"):
        return self.jax.ShapeDtypeStruct(shape, dtype)

    def _programs(self):
        """The programs of the networks, which are compiled in the background."""
        kinds, many = self.side_by_side, self._start([self.run] * self.width)
        images = self._shape(len(self.labels), 64, 64, 3, dtype="uint8")
        rows, step = self._shape(self.run.steps, self.width, IN_BATCH, dtype="int32"), self._shape(dtype="int32")
        gradients = [self._shape(IN_BATCH, DIM)] * self.width
        some = self._shape(IN_BATCH, 64, 64, 3, dtype="uint8")
        rates = self._shape(self.width, self.run.steps)
        wanted = {
            "update": (kinds.update(self.model), (many, images, rows, gradients, rates, step), 0),
            "forward": (kinds.forward(self.model), (many, images, rows, step), ()),
            "embed": (kinds.embed(self.model), (many, some), ()),
        }
        return {name: self.pool.submit(self._compiled, *what) for name, what in wanted.items()}

    def _compiled(self, function, arguments, donated):
        return self.jax.jit(function, donate_argnums=donated).lower(*arguments).compile()

    def _start(self, runs):
        """The networks of runs before training, repeated up to the width."""
        runs = (list(runs) * self.width)[: self.width]
        return self.side_by_side.start([self.values[run.seed] for run in runs], self.model)

    def _loss(self, run):
        """The loss of a run, built, with the initial values of its seed."""
        keras.utils.set_random_seed(run.seed)
        loss = setting.loss_of(run, self.labels)
        self.side_by_side.build(loss, DIM)
        return loss

    def _loss_program(self, run):
        """The program of a step of a loss, which is compiled in the background once."""
        key = run.loss, run.settings
        if key not in self.losses:
            loss, method = self._loss(run), setting.method_of(run)
            normalize = method.outputs is outputs.unit_vectors
            function = self.side_by_side.loss_step(loss, normalize=normalize, multiplier=run.multiplier)
            arguments = (
                self.side_by_side.loss_start(loss),
                self._shape(self.width, IN_BATCH, DIM),
                self._shape(len(self.labels), dtype="int32"),
                self._shape(self.run.steps, self.width, IN_BATCH, dtype="int32"),
                self._shape(dtype="int32"),
                self._shape(self.width, self.run.steps),
                self._shape(dtype="int32"),
            )
            self.losses[key] = self.pool.submit(self._compiled, function, arguments, ())
        return self.losses[key]

    def results(self, runs):
        """Train runs side by side, and return the results of each on the part that it measures."""
        begin, cpu = time.monotonic(), time.process_time()
        networks = self._trained(runs)
        measured = part(runs[0].part, runs[0].classes)
        embeddings = self._embeddings(networks, runs[0].part)
        found = list(self.pool.map(lambda one: scores(one, measured.labels), embeddings[: len(runs)]))
        seconds = round((time.process_time() - cpu) / len(runs), 1)
        about = {**facts(), "protocol": measured.protocol, "core_seconds": seconds, "backend": "jax"}
        say(f"{len(runs)} runs of {', '.join(dict.fromkeys(run.loss for run in runs))}: {runs[0].part}, "
            f"{time.monotonic() - begin:.1f} s, MAP@R {max(one['map@r'] for one in found):.3f}")  # fmt: skip
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return [
            {"run": asdict(run), "scores": one, "finished": now, **about} for run, one in zip(runs, found, strict=True)
        ]

    def _trained(self, runs):
        """The networks of runs after training."""
        put = self.jax.device_put
        filled = (list(runs) * self.width)[: self.width]
        rows = np.stack([batches(run) for run in filled], axis=1)
        rates = np.stack([rate_of(run) for run in filled])
        rows, rates, networks = put(rows.astype(np.int32)), put(rates), self._start(filled)
        programs = [self._loss_program(run).result() for run in filled]
        states = [self.side_by_side.loss_start(self._loss(run)) for run in filled]
        numbers, (images, labels) = [put(np.int32(number)) for number in range(self.width)], self.data
        for step in map(put, np.arange(self.run.steps, dtype=np.int32)):
            embeddings = self.programs["forward"](networks, images, rows, step)
            gradients = []
            for at, program in enumerate(programs):
                states[at], gradient = program(states[at], embeddings, labels, rows, numbers[at], rates, step)
                gradients.append(gradient)
            networks = self.programs["update"](networks, images, rows, gradients, rates, step)
        return self.jax.block_until_ready(networks)

    def _embeddings(self, networks, name):
        """The embeddings of a part by each network, `(networks, images, 64)`."""
        images = part(name, self.run.classes).images
        padded = np.resize(images, (-(-len(images) // IN_BATCH) * IN_BATCH, *images.shape[1:]))
        found = [self.programs["embed"](networks, padded[at : at + IN_BATCH]) for at in range(0, len(padded), IN_BATCH)]
        return np.concatenate([np.asarray(some) for some in found], axis=1)[:, : len(images)]


def scores(embeddings, labels):
    """Recall@1 and MAP@R."""
    return characters.scores(embeddings, labels, k=(1,), metric="cosine")


def facts():
    """Hardware, with the accelerator of JAX, and versions."""
    import jax

    found = tfdml.environment("jax", "pillow", "scikit-image")
    kind = jax.devices()[0].device_kind
    return found if kind == "cpu" else {**found, "hardware": f"{kind}; {found['hardware']}"}


def say(text):
    """Print a line with the time."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def tables(rows):
    """The first methods of the board."""
    return {"whole": board(rows)}


def board(rows, title="photo patches, whole network"):
    """The best trial of the 12 methods with the highest MAP@R: settings, and numbers with 95% intervals."""
    tested = runner.where(rows, part="test")
    groups = {loss: runner.where(tested, loss=loss) for loss in dict.fromkeys(row["loss"] for row in tested)}
    ordered = sorted(groups.items(), key=lambda item: -runner.mean_of(item[1], "map@r"))
    body = [
        [loss, f"{runs[0]['learning_rate']:g}", runs[0]["settings"]]
        + [pages.plus_minus([run[key] for run in runs]) for key in SCORES]
        for loss, runs in ordered[:12]
    ]
    head = [title, "learning rate", "settings", *SCORES.values()]
    return runner.markdown(head, body, texts=(0, 2))
