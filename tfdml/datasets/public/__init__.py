"""Published datasets, read from their original files after a check of the counts.

A missing or damaged file, and another number of images or classes, are a `ValueError`.
"""

from tfdml.datasets.public.faces import lfw
from tfdml.datasets.public.few_shot import mini_imagenet, omniglot
from tfdml.datasets.public.reidentification import market1501, vehicle_id
from tfdml.datasets.public.retrieval import cars196, cub200, in_shop, stanford_online_products
from tfdml.datasets.readers.pair_lists import lfw_pairs

__all__ = [
    "cars196",
    "cub200",
    "in_shop",
    "lfw",
    "lfw_pairs",
    "market1501",
    "mini_imagenet",
    "omniglot",
    "stanford_online_products",
    "vehicle_id",
]


def __dir__():
    return __all__
