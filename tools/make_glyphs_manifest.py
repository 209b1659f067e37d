"""Makes tfdml/datasets/glyphs/manifest.npz, the selection of the glyphs, and prints what each rule did.

    python tools/make_glyphs_manifest.py [file.npz]

The rules compare pixels, and rasterizers differ by a few gray levels. So the selection is made once, and ships with the
package. Run it again only for a new version of the set: another rasterizer may choose borderline drawings otherwise.
"""

import collections
import pathlib
import sys
import unicodedata

import numpy as np

from tfdml._core.terminal import show_progress
from tfdml.datasets.glyphs import distortion, glyph_set, typefaces

MANIFEST = pathlib.Path(glyph_set.__file__).with_name("manifest.npz")
TOLERANCE = 0.3  # maximum difference of a pixel between two pictures of the same drawing, share of full scale
SHARE = 0.4  # minimum share of the faces with both characters in which characters of one class look the same
FACES = 3  # minimum number of such faces, unless they are all faces of the rarer character
INK = 10.0  # full pixels; a character with less ink than this in every face is left out
IMAGES = 8  # minimum size of a class


def main(path=MANIFEST):
    """Selects from the faces of matplotlib's wheel and writes the manifest."""
    chosen, counts = select(*drawn(typefaces.wheel_faces()))
    save_manifest(path, chosen)
    for rule, count in counts.items():
        print(f"{count:>7,} {rule}")
    print(f"{pathlib.Path(path).stat().st_size:>7,} bytes in {path}")


def drawn(faces):
    """Every letter and number of the faces: pictures `(n, pixels)` float32 in [0, 1], code points and faces `(n,)`."""
    pictures, code_points, face_ids = [], [], []
    for face_id, face in enumerate(faces):
        show_progress("Looking at the fonts", face_id, len(faces))
        font = typefaces.open_font(face)
        drawings = {c: typefaces.draw(font, c) for c in code_points_of(face)}
        drawings = {c: drawing for c, drawing in drawings.items() if drawing is not None}
        pictures.append(typefaces.reduce(np.stack(list(drawings.values())), distortion.SIDE))
        code_points += drawings
        face_ids += [face_id] * len(drawings)
    show_progress("Looking at the fonts", len(faces), len(faces))
    return np.concatenate(pictures).reshape(len(face_ids), -1), code_points, face_ids


def code_points_of(face):
    """Letters and numbers (Unicode categories L and N) that a face maps, in ascending order."""
    from fontTools.ttLib import TTFont

    with TTFont(face.path, lazy=True) as font:
        mapped = font.getBestCmap() or {}
    allowed = mapped if face.characters is None else set(map(ord, face.characters)) & set(mapped)
    return sorted(c for c in allowed if unicodedata.category(chr(c))[0] in "LN")


def select(pictures, code_points, faces):
    """Selects classes and images: a `Selection`, and the numbers of drawings and classes after each rule.

    1. Characters with less than `INK` pixels of ink in every face are left out.
    2. Characters that Unicode folds (`<font>` variants, singletons) form one class. So do characters that look the
       same in at least `SHARE` of the faces that have both and in at least `FACES` faces, or in every face of the
       rarer character.
    3. Of pictures in a class that look the same, only the one with the smallest code point and first face stays.
    4. Pictures that look the same as a picture of another class are dropped, in both classes.
    5. Classes with fewer than `IMAGES` pictures are dropped.

    Args:
        pictures: `(n, pixels)` float32 in [0, 1].
        code_points, faces: `(n,)` integers; a code point occurs at most once per face.
    """
    codes, face_ids = np.asarray(code_points, np.int64), np.asarray(faces, np.int64)
    order = np.lexsort((face_ids, codes))
    order = order[_has_ink(pictures, codes)[order]]
    pictures, codes, face_ids = pictures[order], codes[order], face_ids[order]
    same = same_pairs(pictures)
    names = _class_names(codes, face_ids, same)
    classes = np.array([names[c] for c in codes.tolist()], np.int64)
    is_selected = _without_repeats(classes, same)
    repeats = len(is_selected) - is_selected.sum()
    ambiguous = _in_two_classes(classes, is_selected, same)
    is_selected &= ~ambiguous
    _, inverse, sizes = np.unique(classes[is_selected], return_inverse=True, return_counts=True)
    chosen = np.flatnonzero(is_selected)[sizes[inverse] >= IMAGES]
    counts = {
        "drawings": len(classes),
        "code points": len(names),
        "code points merged away": sum(name != c for c, name in names.items()),
        "repeated drawings dropped": int(repeats),
        "images alike across classes dropped": int(ambiguous.sum()),
        "small classes dropped": int((sizes < IMAGES).sum()),
        "classes": int((sizes >= IMAGES).sum()),
        "images": len(chosen),
    }
    chosen = chosen[np.lexsort((face_ids[chosen], codes[chosen], classes[chosen]))]
    return glyph_set.Selection(classes[chosen], codes[chosen], face_ids[chosen]), counts


def fold(code_point):
    """The code point that Unicode folds this one to, through `<font>` variants and singletons; or itself."""
    while True:
        words = unicodedata.decomposition(chr(code_point)).split()
        if words[:1] == ["<font>"]:
            words = words[1:]
        if len(words) != 1:
            return code_point
        code_point = int(words[0], 16)


def same_pairs(pictures):
    """All pairs of pictures `(n, pixels)` in which no pixel differs by more than `TOLERANCE`.

    Returns:
        `(pairs, 2)` int64, the smaller index first.
    """
    # The pixels with the largest variance separate most pairs, so they are compared first; the others only if these
    # agree.
    by_variance = np.argsort(-pictures.var(axis=0), kind="stable")
    first = np.ascontiguousarray(pictures[:, by_variance[:200:25]].T)
    then = np.ascontiguousarray(pictures[:, by_variance[:400:8]])
    pairs = [np.zeros((0, 2), np.int64)]
    for i in range(len(pictures) - 1):
        near = np.all([np.abs(pixel[i + 1 :] - pixel[i]) <= TOLERANCE for pixel in first], axis=0)
        j = np.flatnonzero(near) + i + 1
        for pixels in (then, pictures):
            j = j[(np.abs(pixels[j] - pixels[i]) <= TOLERANCE).all(axis=1)]
        pairs.append(np.stack([np.full(len(j), i), j], axis=1))
    return np.concatenate(pairs)


def _has_ink(pictures, code_points):
    """`(n,)` bool: the character has `INK` pixels in at least one face."""
    _, inverse = np.unique(code_points, return_inverse=True)
    most = np.zeros(inverse.max(initial=-1) + 1)
    np.maximum.at(most, inverse, pictures.sum(axis=1))
    return most[inverse] >= INK


def _class_names(code_points, faces, same):
    """Union-find over code points: dict of code point -> smallest code point of its class."""
    parents = {c: c for c in code_points.tolist()}
    for a, b in _folded(parents) + _alike(code_points, faces, same):
        a, b = _root(parents, a), _root(parents, b)
        parents[max(a, b)] = min(a, b)
    return {c: _root(parents, c) for c in parents}


def _root(parents, c):
    while parents[c] != c:
        c = parents[c]
    return c


def _folded(code_points):
    """Pairs of code points that Unicode folds to the same letter, whether or not a face has that letter."""
    first = {}
    return [(first.setdefault(fold(c), c), c) for c in sorted(code_points)]


def _alike(code_points, faces, same):
    """Pairs of code points that look the same in enough of the faces that have both."""
    owned = collections.defaultdict(set)
    for c, face in zip(code_points.tolist(), faces.tolist(), strict=True):
        owned[c].add(face)
    pairs = code_points[same[faces[same[:, 0]] == faces[same[:, 1]]]]
    counts = collections.Counter(map(tuple, pairs.tolist()))
    return [(a, b) for (a, b), alike in counts.items() if _enough(alike, owned[a], owned[b])]


def _enough(alike, faces_a, faces_b):
    # One shared face is not enough: one font draws Greek Iota with vrachy as a plain Iota.
    rarer = min(len(faces_a), len(faces_b))
    return alike == rarer or (alike >= FACES and alike >= SHARE * len(faces_a & faces_b))


def _without_repeats(classes, same):
    """`(n,)` bool: differs from all earlier pictures of its class that are first."""
    is_first = np.ones(len(classes), bool)
    pairs = same[classes[same[:, 0]] == classes[same[:, 1]]]
    for earlier, later in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        if is_first[earlier]:
            is_first[later] = False
    return is_first


def _in_two_classes(classes, is_selected, same):
    """`(n,)` bool: selected, and the same as a selected picture of another class."""
    pairs = same[(classes[same[:, 0]] != classes[same[:, 1]]) & is_selected[same].all(axis=1)]
    ambiguous = np.zeros(len(classes), bool)
    ambiguous[pairs.reshape(-1)] = True
    return ambiguous


def save_manifest(path, selection):
    """Write a selection of at most 32 faces as labels, code points and bit masks of faces, without pickle."""
    keys, inverse = np.unique(np.stack([selection.classes, selection.code_points], axis=1), axis=0, return_inverse=True)
    masks = np.zeros(len(keys), np.uint32)
    np.bitwise_or.at(masks, inverse, np.uint32(1) << selection.faces.astype(np.uint32))
    labels, code_points = keys.astype(np.uint32).T
    np.savez_compressed(path, labels=labels, code_points=code_points, faces=masks)


if __name__ == "__main__":
    main(*sys.argv[1:])
