"""Findings of a cleaning: a record, a table, and a page to look through."""

import base64
import collections
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.pages import Card, cards, escape, jpeg_of, listed, page
from tfdml._core.terminal import write_table
from tfdml.cleaning.calibration import Calibration
from tfdml.datasets import Preprocessing
from tfdml.search.duplicates.pairs import PairRecall
from tfdml.typing import FilePath

_TABLE, _PAGE = "findings.csv", "report.html"
_SHOWN = 200  # findings of a kind on the page
_HEADS = {
    "leak": "Leaks between sets",
    "duplicate": "Near-duplicates",
    "label": "Label suspects",
    "outlier": "Outliers",
    "unreadable": "Unreadable images",
}


class Finding(NamedTuple):
    """An image to look at: its file, or its row in a set without files, its set and its class.

    The `other` fields are of the image beside it, empty without one. `score` is the similarity or registration of a
    leak or a duplicate, the mean similarity of a label suspect to the neighbors that agree, the mean distance of an
    outlier, and None for an unreadable image.
    """

    kind: str
    name: str
    split: str = ""
    label: str = ""
    other: str = ""
    other_split: str = ""
    other_label: str = ""
    score: float | None = None
    suggestion: str = ""


class Findings(NamedTuple):
    """The result of `tfdml.cleaning.clean` (see there); it prints as a summary."""

    listed: tuple[Finding, ...]
    images: int
    similarity: float
    calibration: Calibration | None
    recall: PairRecall | None

    def __str__(self) -> str:
        counts = collections.Counter(finding.kind for finding in self.listed)
        lines = [f"{self.images:,} images"]
        lines += [f"{counts[kind]:,} {head.lower()}" for kind, head in _HEADS.items()]
        if self.calibration is not None and self.calibration.problem:
            return "\n".join([*lines, self.problem])
        is_verified = self.calibration is not None and self.calibration.registration is not None
        lines.append(f"similarity of {'candidates' if is_verified else 'near-duplicates'}: {self.similarity:.4f}")
        if self.calibration is not None:
            if is_verified:
                lines.append(f"registration of near-duplicates: {self.calibration.registration:.4f}")
            lines.append(f"precision on copies of {self.calibration.images} images: {self.calibration.precision:.3f}")
            for kind, recall in self.calibration.recall.items():
                lines.append(f"recall of {kind}: {recall.value:.3f} ({recall.low:.3f} to {recall.high:.3f})")
        if self.recall is not None:
            lines.append(f"recall of the approximate search, lower bound: {self.recall.lower:.3f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    @property
    def problem(self) -> str:
        """Why copies are only equal images; empty where the calibration has a threshold, or there is none."""
        problem = "" if self.calibration is None else self.calibration.problem
        advice = "Only equal images are listed as copies. Pass a similarity for near-duplicates"
        return problem and f"the calibration cannot tell copies from other images: {problem}. {advice}."


def write_report(findings: Findings, path: FilePath) -> Path:
    """Write a folder of a table, `findings.csv`, and a page, `report.html`, in one step.

    The page works without a network. It shows up to 200 findings of a kind; the table has all of them.

    Example:

        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), "uint8")
        >>> images[7] = images[2]
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 4), class_names=("ant", "bee"))
        >>> inputs = keras.Input((8, 8, 3))
        >>> model = keras.Model(inputs, keras.layers.Flatten()(inputs))
        >>> folder = tfdml.cleaning.write_report(tfdml.cleaning.clean(model, data, similarity=0.99), "report")
        >>> sorted(path.name for path in folder.iterdir())
        ['findings.csv', 'report.html']

    Args:
        findings: of `clean`.
        path: a new folder, or one that this function wrote; it is returned.

    Raises:
        FileExistsError: a folder with other files; the first one is named.
    """
    with atomic_write(path, listed_files) as new:
        new.mkdir()
        write_table(new / _TABLE, [Finding._fields, *findings.listed])
        sections = dict(_section(findings, kind, head) for kind, head in _HEADS.items())
        text = page("Cleaning", sections, header=f"<pre>{escape(str(findings))}</pre>\n")
        (new / _PAGE).write_text(text, encoding="utf-8")
    return Path(path).expanduser()


def listed_files(
    folder: Path, table: str = _TABLE, page: str = _PAGE, columns: tuple[str, ...] = Finding._fields
) -> set[str]:
    """The table and the page of a folder, if the table has these columns."""
    try:
        with (folder / table).open(newline="", encoding="utf-8") as file:
            is_ours = tuple(next(csv.reader(file), ())) == columns
    except (OSError, UnicodeDecodeError, csv.Error):
        is_ours = False
    return {table, page} if is_ours else set()


def _section(findings, kind, head):
    findings = [finding for finding in findings.listed if finding.kind == kind]
    more = f"<p>{len(findings) - _SHOWN:,} more are in {_TABLE}.</p>\n" if len(findings) > _SHOWN else ""
    return f"{head}: {len(findings):,}", listed(map(_item, findings[:_SHOWN]), "pairs") + more


def _item(finding):
    score = "" if finding.score is None else f"{finding.score:.3f} "
    images = [_card(finding.name, finding.split, finding.label)]
    if finding.other:
        images.append(_card(finding.other, finding.other_split, finding.other_label))
    return f"{cards(images)}<p>{score}{escape(finding.suggestion)}</p>"


def _card(name, split, label):
    """The image of a file with its name; the name alone of one that cannot be read."""
    image = picture_of(name)
    caption = "<br>".join(escape(text) for text in (split, label, name if image else "") if text)
    return Card(name, caption, image=image)


def picture_of(name: str) -> str:
    """The data URI of a small picture of an image file; empty where it cannot be read."""
    if not Path(name).is_file():
        return ""
    try:
        pixels = Preprocessing(size=112, fit="pad", fill=128)(name)
    except ValueError:  # which all reasons are, with TensorFlow and without it
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg_of(np.asarray(pixels))).decode()}"
