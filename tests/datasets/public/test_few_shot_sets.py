"""Omniglot and miniImageNet from miniature copies in their original formats."""

import numpy as np
import pytest
from PIL import Image

from tfdml.datasets.public import few_shot as readers
from tfdml.datasets.public import mini_imagenet, omniglot
from tfdml.samplers import EpisodeSampler

# Two alphabets in each folder; Greek is in both parts of the lists, as Gurmukhi in the original ones.
CHARACTERS = {
    "images_background/Latin/character01": 1,
    "images_background/Latin/character02": 2,
    "images_background/Greek/character01": 3,
    "images_evaluation/Angelic/character01": 4,
    "images_evaluation/Angelic/character02": 5,
}
LISTS = {
    "train": ["Latin/character01", "Angelic/character02"],
    "val": ["Latin/character02"],
    "trainval": ["Angelic/character02", "Latin/character01", "Latin/character02"],
    "test": ["Greek/character01", "Angelic/character01"],
}


def drawing(number, drawer):
    """A 1-bit page of 105 x 105: white paper, and ink in the upper left corner, as wide as the number says."""
    page = np.full((105, 105), 255, np.uint8)
    page[:30, : 15 * number] = 0
    page[60, 60 + drawer] = 0
    return Image.fromarray(page).convert("1")


def write_lists(root, lists):
    (root / "splits/vinyals").mkdir(parents=True, exist_ok=True)
    for name, characters in lists.items():
        lines = [f"{character}/rot{angle}" for character in characters for angle in ("000", "090", "180", "270")]
        (root / f"splits/vinyals/{name}.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def root(tmp_path, monkeypatch):
    for folder, number in CHARACTERS.items():
        (tmp_path / folder).mkdir(parents=True)
        for drawer in (1, 2):
            drawing(number, drawer).save(tmp_path / folder / f"{number:04}_{drawer:02}.png")
    write_lists(tmp_path, LISTS)
    monkeypatch.setattr(readers, "CHARACTERS", {"images_background": 3, "images_evaluation": 2})
    monkeypatch.setattr(readers, "DRAWERS", 2)
    monkeypatch.setattr(readers, "LISTED", {name: len(names) for name, names in LISTS.items()})
    return tmp_path


def test_the_lists_cross_both_folders_rotations_are_classes_and_ink_is_high(root):
    train, test = omniglot(root)
    assert test.class_names[:4] == tuple(f"Greek/character01/rot{angle}" for angle in ("000", "090", "180", "270"))
    assert test.class_names[4] == "Angelic/character01/rot000"
    assert len(train.class_names) == 12
    assert len(train) == 24
    assert np.bincount(test.labels).tolist() == [2] * 8
    assert sorted(test.groups[test.labels == 5].tolist()) == [1, 2]
    assert test.protocol == "omniglot/vinyals-1200-423/rot4/5way-1shot/v1"
    assert train.protocol == "omniglot/vinyals-1200-423-train/rot4/5way-1shot/v1"
    assert (test.images.shape, test.images.dtype) == ((16, 28, 28, 1), np.uint8)
    upright, turned = (test.images[test.labels == label][0, ..., 0] for label in (0, 1))
    assert upright[:7, :11].min() == 255  # the corner of 30 x 45 of 105 pixels
    assert upright[10:, :14].max() == 0
    np.testing.assert_array_equal(turned, np.rot90(upright))
    assert turned[-10:, :7].min() == 255  # the upper left corner is now below
    with pytest.raises(ValueError, match="ways=60, but only 8 of 8 classes"):
        EpisodeSampler(ways=60, shots=1, queries=1).batches(test)


@pytest.mark.slow
def test_validation_characters_come_out_of_the_training_list(root):
    train, validation, test = omniglot(root, validation=True, rotations=False, ways=20, shots=5)
    assert train.class_names == ("Latin/character01/rot000", "Angelic/character02/rot000")
    assert validation.class_names == ("Latin/character02/rot000",)
    assert validation.protocol == "omniglot/vinyals-1200-423-validation/rot1/20way-5shot/v1"
    assert len(test) == 4


def test_the_split_by_folder_needs_no_lists(root):
    for file in (root / "splits/vinyals").iterdir():
        file.unlink()
    train, test = omniglot(root, split="background", rotations=False)
    assert len(train.class_names) == 3
    assert test.class_names == ("Angelic/character01/rot000", "Angelic/character02/rot000")
    assert test.protocol == "omniglot/background-964-659/rot1/5way-1shot/v1"
    with pytest.raises(ValueError, match=r"no splits/vinyals/trainval.txt. Expected these files:\nomniglot/"):
        omniglot(root)
    with pytest.raises(ValueError, match="validation=True and split='background'"):
        omniglot(root, split="background", validation=True)
    with pytest.raises(ValueError, match="split='lake'"):
        omniglot(root, split="lake")


def test_a_missing_folder_or_image_is_an_error(root):
    (root / "images_background/Latin/character01/0001_02.png").unlink()
    with pytest.raises(ValueError, match="5 images of 3 classes in images_background, expected 6 of 3"):
        omniglot(root)


def test_a_copy_that_numbers_the_evaluation_characters_from_the_beginning_is_an_error(root):
    for number in (4, 5):
        for file in sorted(root.glob(f"images_evaluation/*/*/{number:04}_*.png")):
            file.rename(file.with_name(f"{number - 3:04}{file.name[4:]}"))
    with pytest.raises(ValueError, match="characters 1 to 2 in images_evaluation, expected 4 to 5"):
        omniglot(root)


def test_drawers_and_names_are_checked(root):
    file = root / "images_background/Latin/character01/0001_02.png"
    moved = file.rename(file.with_name("0001_03.png"))
    with pytest.raises(ValueError, match=r"drawers \[1, 3\] of character 0001 in 1 folders"):
        omniglot(root)
    moved.rename(file.with_name("a.png"))
    with pytest.raises(ValueError, match=r"image a\.png, expected a name of character and drawer"):
        omniglot(root)


def test_lists_that_do_not_fit_are_errors(root):
    write_lists(root, {"test": ["Greek/character01", "Latin/character01"]})
    with pytest.raises(ValueError, match="'Latin/character01' in two of the lists trainval, test"):
        omniglot(root)
    write_lists(root, {"test": ["Greek/character01", "Klingon/character01"]})
    with pytest.raises(ValueError, match=r"'Klingon/character01' in splits/vinyals/test.txt, expected a character"):
        omniglot(root)
    write_lists(root, {"test": ["Greek/character01"]})
    with pytest.raises(ValueError, match=r"4 images of 1 classes in splits/vinyals/test.txt, expected 8 of 2"):
        omniglot(root)


MINI = {"train": ["n01532829", "n01558993"], "val": ["n01855672"], "test": ["n01930112"]}


def table(root, part, rows, header="filename,label"):
    (root / f"{part}.csv").write_text("\n".join([header, *rows]) + "\n")


@pytest.fixture
def mini(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    for part, classes in MINI.items():
        files = [(f"{name}{number:08}.jpg", name) for name in reversed(classes) for number in (5, 1300)]
        table(tmp_path, part, [f"{file},{name}" for file, name in files])
        for file, _ in files:
            Image.new("RGB", (84, 84), (200, 10, 10)).save(tmp_path / "images" / file)
    monkeypatch.setattr(readers, "MINI_IMAGENET", {part: (2 * len(names), len(names)) for part, names in MINI.items()})
    return tmp_path


def test_mini_imagenet_is_split_by_its_lists(mini):
    train, validation, test = mini_imagenet(mini)
    assert train.class_names == ("n01532829", "n01558993")
    assert train.labels.tolist() == [1, 1, 0, 0]
    assert train.paths[0] == str(mini / "images/n0155899300000005.jpg")
    assert validation.class_names == ("n01855672",)
    assert test.protocol == "mini-imagenet/ravi-64-16-20/5way-5shot/v1"
    assert validation.protocol == "mini-imagenet/ravi-64-16-20-validation/5way-5shot/v1"
    assert test.take([0]).examples().shape == (1, 84, 84, 3)


def test_files_that_mini_imagenet_lacks_are_errors(mini):
    (mini / "images/n0193011200000005.jpg").unlink()
    with pytest.raises(ValueError, match=r"without images/n0193011200000005.jpg \(1 of 2 images are missing\)"):
        mini_imagenet(mini)
    (mini / "val.csv").unlink()
    with pytest.raises(ValueError, match=r"no val.csv. Expected these files:\nmini-imagenet/"):
        mini_imagenet(mini)


def test_pickles_are_refused_with_what_to_do(mini):
    (mini / "mini-imagenet-cache-train.pkl").write_bytes(b"")
    mini_imagenet(mini)  # the lists are there
    (mini / "train.csv").unlink()
    with pytest.raises(ValueError, match=r"cache-train.pkl, a pickle, which can run any program(.|\n)*Get the csv"):
        mini_imagenet(mini)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (["n0193011200000005.jpg,n01930112"] * 2, "file,label", "test.csv with the header 'file,label'"),
        (["n0193011200000005.jpg,n01930113"] * 2, "filename,label", "the line 'n0193011200000005.jpg,n01930113'"),
        (["n0153282900000005.jpg,n01532829"] * 2, "filename,label", "'n01532829' in two of the lists"),
        (["n" * 200_000 + ",n01930112"], "filename,label", "test.csv, which is not a table"),
        (["n0193011200000005.jpg,n01930112"], "filename,label", "1 images of 1 classes in test.csv of miniImageNet"),
    ],
)
def test_damaged_lists_are_errors(mini, rows, header, message):
    table(mini, "test", rows, header)
    with pytest.raises(ValueError, match=message):
        mini_imagenet(mini)


@pytest.mark.parametrize("reader", [omniglot, mini_imagenet])
def test_a_task_of_one_class_is_an_error(reader, root, mini):
    with pytest.raises(ValueError, match="ways=1"):
        reader(root, ways=1)
    with pytest.raises(ValueError, match="shots=0"):
        reader(root, shots=0)
