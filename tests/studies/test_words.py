"""The study of words: texts of objects, and their vectors."""

import numpy as np

from studies import stamps, words


def test_parts_are_scaled_by_training_and_copies_of_a_text_have_one_number():
    rng = np.random.default_rng(0)
    texts = words.vectors_of({"train": ["a", "b"], "test": ["b", "c"]}, words.random_vectors)
    images = {name: 5 + 3 * rng.normal(size=(2 * stamps.VIEWS, 4)) for name in texts}
    found = words.parts(images, texts)
    x, t, numbers = found["train"]
    np.testing.assert_allclose([x.mean(), x.std()], [0, 1], atol=1e-6)
    assert numbers.tolist() == [0] * stamps.VIEWS + [1] * stamps.VIEWS
    assert found["test"][2].tolist() == [1] * stamps.VIEWS + [2] * stamps.VIEWS
    np.testing.assert_allclose(found["test"][1][0], t[-1], rtol=1e-6)
