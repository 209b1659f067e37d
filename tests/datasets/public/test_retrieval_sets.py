"""The retrieval benchmarks from miniature copies in their original formats."""

import numpy as np
import pytest
from scipy.io import savemat

from tests.datasets.public.miniatures import write, write_files
from tfdml.datasets.public import cars196, cub200, in_shop, stanford_online_products
from tfdml.datasets.public import retrieval as benchmarks


def counts(monkeypatch, name, **parts):
    monkeypatch.setitem(benchmarks.COUNTS, name, parts)


CUB = {
    "100.Brown_Pelican/Brown_Pelican_0001_1.jpg": (100, "60.0 27.0 325.0 304.0"),
    "100.Brown_Pelican/Brown_Pelican_0002_2.jpg": (100, "1.0 2.0 3.0 4.0"),
    "007.Parakeet_Auklet/Parakeet_Auklet_0001_3.jpg": (7, "0.0 0.0 10.0 20.0"),
    "101.White_Pelican/White_Pelican_0001_4.jpg": (101, "5.0 5.0 5.0 5.0"),
}


@pytest.fixture
def cub(tmp_path, monkeypatch):
    write(tmp_path / "images.txt", *(f"{i} {file}" for i, file in enumerate(CUB, 1)))
    write(tmp_path / "image_class_labels.txt", *(f"{i} {label}" for i, (label, _) in enumerate(CUB.values(), 1)))
    write(tmp_path / "bounding_boxes.txt", *(f"{i} {box}" for i, (_, box) in enumerate(CUB.values(), 1)))
    write(tmp_path / "classes.txt", *sorted({f"{label} {file.split('/')[0]}" for file, (label, _) in CUB.items()}))
    write_files(tmp_path / "images", CUB)
    counts(monkeypatch, "cub200-2011", train=(3, 2), test=(1, 1))
    return tmp_path


def test_cub_is_split_after_class_100_and_its_boxes_become_borders(cub):
    train, test = cub200(cub)
    assert train.paths.tolist() == [str(cub / "images" / file) for file in list(CUB)[:3]]
    assert train.labels.tolist() == [1, 1, 0]
    assert train.class_names == ("007.Parakeet_Auklet", "100.Brown_Pelican")
    assert train.boxes[0].tolist() == [60, 27, 385, 331]
    assert train.protocol == "cub200-2011/100-100-train/full-image/v1"
    assert test.class_names == ("101.White_Pelican",)
    assert test.labels.dtype == np.int64
    assert test.protocol == "cub200-2011/100-100/full-image/v1"


def test_a_missing_list_or_image_shows_the_expected_files(cub):
    (cub / "images" / next(iter(CUB))).unlink()
    with pytest.raises(
        ValueError, match=r"without images/100.Brown_Pelican/.* \(1 of 4 images are missing\)(.|\n)*classes.txt"
    ):
        cub200(cub)
    (cub / "bounding_boxes.txt").unlink()
    with pytest.raises(ValueError, match=r"which has no bounding_boxes.txt. Expected these files:\nCUB_200_2011/"):
        cub200(cub)


def test_lists_that_do_not_fit_are_refused(cub):
    write(cub / "image_class_labels.txt", "1 100", "2 100", "3 7")
    with pytest.raises(ValueError, match="lists of different images"):
        cub200(cub)
    write(cub / "image_class_labels.txt", "1 100 1", "2 100", "3 7", "4 101")
    with pytest.raises(ValueError, match=r"a line of 3 columns \('1 100 1'\), expected 2"):
        cub200(cub)


def test_a_set_of_another_size_is_refused(cub, monkeypatch):
    counts(monkeypatch, "cub200-2011", train=(5864, 100), test=(5924, 100))
    with pytest.raises(
        ValueError, match=r"3 images of 2 classes in the train part of cub200-2011, expected 5,864 of 100"
    ):
        cub200(cub)


CAR_FIELDS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")
CAR_NAMES = np.array([f"Car {i}" for i in range(1, 197)], dtype=object)


def annotations(fields, rows):
    """A struct array as MATLAB writes it: one cell per entry."""
    return np.array(
        [tuple(np.array([[value]]) if not isinstance(value, str) else value for value in row) for row in rows],
        dtype=[(field, object) for field in fields],
    )[None]


def test_cars_of_both_folders_of_the_competition_are_joined_and_split_after_class_98(tmp_path, monkeypatch):
    write_files(tmp_path, ["cars_train/00001.jpg", "cars_train/00002.jpg", "cars_test/00001.jpg"])
    (tmp_path / "devkit").mkdir()
    first = [(39, 116, 569, 375, 98, "00001.jpg"), (1, 2, 3, 4, 99, "00002.jpg")]
    savemat(tmp_path / "devkit/cars_train_annos.mat", {"annotations": annotations(CAR_FIELDS, first)})
    second = annotations(CAR_FIELDS, [(5, 6, 7, 8, 1, "00001.jpg")])
    savemat(tmp_path / "cars_test_annos_withlabels.mat", {"annotations": second})
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": CAR_NAMES[None]})
    counts(monkeypatch, "cars196", train=(2, 2), test=(1, 1))
    train, test = cars196(tmp_path)
    assert train.paths.tolist() == [str(tmp_path / "cars_train/00001.jpg"), str(tmp_path / "cars_test/00001.jpg")]
    assert train.labels.tolist() == [1, 0]
    assert train.class_names == ("Car 1", "Car 98")
    assert train.boxes.tolist() == [[39, 116, 569, 375], [5, 6, 7, 8]]
    assert test.paths.tolist() == [str(tmp_path / "cars_train/00002.jpg")]
    assert test.protocol == "cars196/98-98/full-image/v1"
    (tmp_path / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(ValueError, match=r"which has no cars_test_annos_withlabels.mat"):
        cars196(tmp_path)


def test_cars_of_the_combined_form_give_the_same(tmp_path, monkeypatch):
    write_files(tmp_path, ["car_ims/000001.jpg", "car_ims/000002.jpg"])
    fields = ("relative_im_path", *CAR_FIELDS[:5], "test")
    rows = [("car_ims/000001.jpg", 112, 7, 853, 717, 1, 0), ("car_ims/000002.jpg", 1, 2, 3, 4, 196, 1)]
    savemat(tmp_path / "cars_annos.mat", {"annotations": annotations(fields, rows), "class_names": CAR_NAMES[None]})
    counts(monkeypatch, "cars196", train=(1, 1), test=(1, 1))
    train, test = cars196(tmp_path)
    assert train.paths.tolist() == [str(tmp_path / "car_ims/000001.jpg")]
    assert train.boxes.tolist() == [[112, 7, 853, 717]]
    assert (train.class_names, test.class_names) == (("Car 1",), ("Car 196",))


def test_products_are_split_by_their_lists(tmp_path, monkeypatch):
    header = "image_id class_id super_class_id path"
    write(tmp_path / "Ebay_train.txt", header, "1 11500 1 bicycle_final/1_0.JPG", "2 5 1 chair_final/2_0.JPG")
    write(tmp_path / "Ebay_test.txt", header, "3 7 2 chair_final/3_0.JPG", "4 7 2 chair_final/3_1.JPG")
    write_files(tmp_path, ["bicycle_final/1_0.JPG", *(f"chair_final/{name}.JPG" for name in ("2_0", "3_0", "3_1"))])
    counts(monkeypatch, "sop", train=(2, 2), test=(2, 1))
    train, test = stanford_online_products(tmp_path)
    assert train.labels.tolist() == [1, 0]
    assert train.class_names == ("5", "11500")
    assert test.labels.tolist() == [0, 0]
    assert test.paths.tolist() == [str(tmp_path / f"chair_final/{name}.JPG") for name in ("3_0", "3_1")]
    assert test.boxes is None
    assert test.protocol == "sop/11318-11316/full-image/v1"


def test_in_shop_query_and_gallery_share_their_labels(tmp_path, monkeypatch):
    rows = {
        "a": "id_00000001 train",
        "b": "id_00000003 query",
        "c": "id_00000002 gallery",
        "d": "id_00000003 gallery",
        "e": "id_00000002 query",
        "f": "id_00000004 gallery",
    }
    files = {name: f"img/WOMEN/Dresses/{row.split()[0]}/{name}.jpg" for name, row in rows.items()}
    write(
        tmp_path / "Eval/list_eval_partition.txt",
        "6",
        "image_name item_id evaluation_status",
        *(f"{files[name]}      {row}      " for name, row in rows.items()),
    )
    write(
        tmp_path / "Anno/list_bbox_inshop.txt",
        "6",
        "image_name clothes_type pose_type x_1 y_1 x_2 y_2",
        *(f"{file} 3 1 065 045 233 252" for file in files.values()),
    )
    write_files(tmp_path / "Img", files.values())
    counts(monkeypatch, "in-shop", train=(1, 1), query=(2, 2), gallery=(3, 3))
    train, query, gallery = in_shop(tmp_path)
    assert train.class_names == ("id_00000001",)
    assert train.protocol == "in-shop/3997-3985-train/query-gallery/v1"
    assert query.class_names == gallery.class_names == ("id_00000002", "id_00000003", "id_00000004")
    assert query.labels.tolist() == [1, 0]
    assert gallery.labels.tolist() == [0, 1, 2]
    assert query.protocol == gallery.protocol == "in-shop/3997-3985/query-gallery/v1"
    assert query.boxes.tolist() == [[65, 45, 233, 252]] * 2
    write(tmp_path / "Anno/list_bbox_inshop.txt", "1", "header", f"{files['a']} 3 1 065 045 233 252")
    with pytest.raises(ValueError, match=r"no box of img/WOMEN/Dresses/id_00000003/b.jpg"):
        in_shop(tmp_path)
    write(tmp_path / "Eval/list_eval_partition.txt", "1", "header", f"{files['a']} id_00000001 val")
    with pytest.raises(ValueError, match="Received status 'val' of an image, expected train, query or gallery"):
        in_shop(tmp_path)


def test_lists_that_lead_out_of_the_folder_or_are_not_utf8_are_refused(cub):
    write(cub / "images.txt", *(f"{i} {file}" for i, file in enumerate(["../../x.jpg", *CUB], 1)))
    for name in ("image_class_labels.txt", "bounding_boxes.txt"):
        write(cub / name, *(f"{i} {'1' if 'class' in name else '1 1 1 1'}" for i in range(1, 6)))
    with pytest.raises(ValueError, match=r"a list with 'images/../../x.jpg', expected paths below root"):
        cub200(cub)
    (cub / "images.txt").write_bytes(b"1 a.jpg\n2 caf\xe9.jpg\n")
    with pytest.raises(ValueError, match=r"line 2 of .*images.txt' with the byte 0xe9"):
        cub200(cub)
