"""Market-1501 and VehicleID from miniature copies in their original formats."""

import numpy as np
import pytest

from tests.datasets.public.miniatures import write, write_files
from tfdml.datasets import LabeledSet
from tfdml.datasets.public import market1501, vehicle_id
from tfdml.datasets.public import reidentification as benchmarks

MARKET = {
    "bounding_box_train": ["0002_c1s1_000451_03.jpg", "0002_c2s1_000301_01.jpg", "0007_c3s3_077419_03.jpg"],
    # Person 1 is seen by cameras 1 and 2, person 4 by camera 6 alone; 00 is a box drawn by hand.
    "query": ["0001_c1s1_001051_00.jpg", "0004_c6s4_000101_00.jpg", "0001_c2s3_000071_00.jpg"],
    "bounding_box_test": [
        "0001_c2s1_001976_01.jpg",
        "0004_c6s4_000126_02.jpg",
        "-1_c6s1_078001_05.jpg",
        "0000_c1s1_000151_01.jpg",
        "0001_c1s2_001051_03.jpg",
    ],
}


@pytest.fixture
def market(tmp_path, monkeypatch):
    for folder, names in MARKET.items():
        write_files(tmp_path / folder, [*names, "Thumbs.db"])
    monkeypatch.setattr(benchmarks, "MARKET_COUNTS", {"train": (3, 2), "query": (3, 2), "gallery": (4, 3)})
    return tmp_path


def names_of(part):
    return [path.rpartition("/")[2] for path in part.paths.tolist()]


def test_persons_cameras_and_sequences_of_market_are_in_the_names(market):
    train, query, gallery = market1501(market)
    assert names_of(train) == sorted(MARKET["bounding_box_train"])
    assert train.class_names == ("0002", "0007")
    assert train.labels.tolist() == [0, 0, 1]
    assert (train.cameras.tolist(), train.groups.tolist()) == ([1, 2, 3], [11, 21, 33])
    assert query.class_names == gallery.class_names == ("0000", "0001", "0004")
    assert names_of(query) == sorted(MARKET["query"])
    assert query.labels.tolist() == [1, 1, 2]
    assert (query.cameras.tolist(), query.groups.tolist()) == ([1, 2, 6], [11, 23, 64])
    assert query.labels.dtype == query.cameras.dtype == query.groups.dtype == np.int64
    assert query.load.size == (256, 128)
    assert train.protocol == "market1501/751-750-train/single-query/v1"
    assert query.protocol == gallery.protocol == "market1501/751-750/single-query/v1"


def test_junk_of_market_is_skipped_and_distractors_stay_under_a_label_of_no_query(market):
    _, query, gallery = market1501(market)
    assert names_of(gallery) == sorted(name for name in MARKET["bounding_box_test"] if not name.startswith("-1"))
    assert gallery.labels.tolist() == [0, 1, 1, 2]
    assert 0 not in query.labels
    assert gallery.skipped == ((str(market / "bounding_box_test" / "-1_c6s1_078001_05.jpg"), "junk, identity -1"),)
    assert query.skipped == ()


def test_another_tree_or_name_of_market_shows_the_expected_files(market):
    write_files(market / "query", ["person_1.jpg"])
    with pytest.raises(ValueError, match=r"the image 'person_1.jpg' in '.*query', expected names(.|\n)*bounding_box"):
        market1501(market)
    with pytest.raises(ValueError, match=r"which has no bounding_box_train. Expected these files:\nMarket-1501"):
        market1501(market / "query")


def test_another_number_of_images_of_market_is_refused(market):
    write_files(market / "bounding_box_test", ["0000_c2s1_000151_01.jpg"])
    with pytest.raises(ValueError, match="5 images of 3 classes in the gallery part of market1501, expected 4 of 3"):
        market1501(market)


TRAIN = ["0000005 12", "0000001 7", "0000002 12"]
TEST = ["0000010 300", "0000011 41", "0000012 41", "0000013 300", "0000014 300", "0000015 9"]


@pytest.fixture
def vehicles(tmp_path, monkeypatch):
    write(tmp_path / "train_test_split/train_list.txt", *TRAIN)
    write(tmp_path / "train_test_split/test_list_800.txt", *TEST)
    write(tmp_path / "train_test_split/test_list_3200.txt", *TEST[1:3])
    write(tmp_path / "attribute/model_attr.txt", "12 249", "300 3", "41 3")
    write_files(tmp_path / "image", [f"{line.split()[0]}.jpg" for line in TRAIN + TEST])
    counts = {**benchmarks.VEHICLE_COUNTS, "train": (3, 2), "800": (6, 3), "3200": (None, 1)}
    monkeypatch.setattr(benchmarks, "VEHICLE_COUNTS", counts)
    return tmp_path


def test_vehicles_come_from_the_lists_with_labels_by_number(vehicles):
    train, test = vehicle_id(vehicles)
    assert train.paths.tolist() == [str(vehicles / f"image/{name}.jpg") for name in ("0000005", "0000001", "0000002")]
    assert (train.class_names, train.labels.tolist()) == (("7", "12"), [1, 0, 1])
    assert (test.class_names, test.labels.tolist()) == (("9", "41", "300"), [2, 1, 1, 2, 2, 0])
    assert test.cameras is None
    assert train.protocol == "vehicle-id/train/single-gallery-x10/v1"
    assert test.protocol == "vehicle-id/test-800/single-gallery-x10/v1"


def test_models_and_colors_of_vehicles_are_there_where_the_files_are(vehicles):
    train, test = vehicle_id(vehicles)
    assert train.models.tolist() == [249, -1, 249]
    assert test.take([0, 5]).models.tolist() == [3, -1]
    assert train.colors is None


def test_other_test_lists_of_vehicles_have_their_own_protocol(vehicles):
    _, test = vehicle_id(vehicles, test=3200)
    assert (len(test), test.class_names) == (2, ("41",))
    assert test.protocol == "vehicle-id/test-3200/single-gallery-x10/v1"
    with pytest.raises(ValueError, match="test=900, expected one of 800, 1600, 2400, 3200, 6000, 13164"):
        vehicle_id(vehicles, test=900)


def test_other_files_of_vehicles_are_refused(vehicles):
    (vehicles / "image/0000013.jpg").unlink()
    with pytest.raises(ValueError, match=r"without image/0000013.jpg(.|\n)*train_list.txt"):
        vehicle_id(vehicles)
    write(vehicles / "train_test_split/test_list_800.txt", *TEST[:-1])
    with pytest.raises(ValueError, match="5 images of 2 classes in the list 800 of vehicle-id, expected 6 of 3"):
        vehicle_id(vehicles)
    write(vehicles / "train_test_split/test_list_800.txt", *TEST, "0000005 12")
    with pytest.raises(ValueError, match="1 vehicles in both lists, such as 12"):
        vehicle_id(vehicles)
    write(vehicles / "train_test_split/train_list.txt", "0000001")
    with pytest.raises(ValueError, match=r"a line of 1 columns \('0000001'\), expected 2"):
        vehicle_id(vehicles)
    (vehicles / "train_test_split/train_list.txt").unlink()
    with pytest.raises(ValueError, match=r"which has no train_test_split/train_list.txt(.|\n)*VehicleID_V1.0"):
        vehicle_id(vehicles)


def test_cameras_are_a_column_that_subsets_take_along():
    images = np.zeros((3, 2, 2, 1), np.uint8)
    street = LabeledSet(images=images, labels=np.arange(3), class_names=tuple("abc"), cameras=np.array([4, 5, 5]))
    assert street.take([2, 0]).cameras.tolist() == [5, 4]
    assert street.describe().cameras == 2
    assert "cameras                   2" in str(street.describe())
    with pytest.raises(ValueError, match="2 cameras and 3 labels"):
        LabeledSet(images=images, labels=np.arange(3), class_names=tuple("abc"), cameras=np.array([4, 5]))
