"""Scores of queries against a gallery: exact for a pair, approximate for a block.

The score of a pair depends on its two vectors only: the float64 dot product of their float32 forms, or minus their
float64 distance, rounded to float32. Small whole numbers have exact scores. Exact search, the retrieval metrics and
offline mining rank by these scores and, where two are equal, by position. So results do not depend on memory, threads,
batches, other vectors or the position of a row, and duplicates have the same score.

A float32 matrix product is much faster, but its last bits depend on the processor, the shape of the block and the place
in it. Its error is bounded for every order of summation, so it decides all clear cases; only items within the bound are
scored exactly.
"""

import copy

import numpy as np

_INF = np.float32(np.inf)
_UNIT = 2.0**-24  # unit roundoff of float32
_UNIT64 = 2.0**-53
_CACHED_NUMBERS = 2**15  # float64 numbers processed at the same time, so that they stay in the cache
_TILE = 2**17  # float64 scores computed at the same time


def row_chunks(count, dim):
    """Slices that cover `count` rows of `dim` numbers, each small enough for the cache when it is float64."""
    step = max(1, _CACHED_NUMBERS // dim)
    return [slice(start, start + step) for start in range(0, count, step)]


def row_products(x, y):
    """Dot product of each row of x with the same row of y: `(n,)` float64.

    Each depends on its two rows alone. `np.einsum` and the BLAS add in an order that depends on the position of the
    row.
    """
    found = np.empty(len(x))
    for part in row_chunks(len(x), x.shape[1]):
        products = x[part].astype(np.float64)
        products *= y[part]
        np.add.reduce(products, axis=1, out=found[part])
    return found


def l2_normalize(vectors):
    """Vectors divided by their Euclidean length: `(n, dim)` float32. A zero vector stays zero."""
    length = np.sqrt(row_products(vectors, vectors))
    return np.divide(vectors, np.where(length > 0, length, 1)[:, None], dtype=np.float32, casting="same_kind")


def center_of(vectors):
    """A center `(dim,)` float32 that can be subtracted without loss: the mean of a column, or 0.

    The mean c is taken where (g - c) + c is g in float32 for every entry g of the column. That holds where entries lie
    far from 0 and near each other; elsewhere their products are accurate without a center.
    """
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    restored = np.ones(len(mean), bool)
    for part in row_chunks(len(vectors), len(mean)):
        with np.errstate(over="ignore"):
            restored &= ((vectors[part] - mean) + mean == vectors[part]).all(axis=0)
    return np.where(restored, mean, np.float32(0))


class Gallery:
    """Vectors that queries are compared with, in a form whose matrix product ranks as the metric does.

    cosine: g / |g|; dot: g; euclidean: (g - c, -|g - c|^2 / 2), because with queries (q - c, 1) the product is
    |q - c|^2 / 2 - |q - g|^2 / 2 and the first term is the same for the whole gallery. The center c keeps the float32
    rounding of this product small where the vectors lie far from 0. Scores do not depend on it: the vectors are
    restored from the form to the last bit, see `center_of`.

    Args:
        vectors: `(n, dim)` float32.
        metric: one of `METRICS`.

    Attributes:
        form: `(n, dim)` float32, `(n, dim + 1)` for euclidean; `vectors` itself for dot.
        center: `(dim,)` float32, None unless the metric is euclidean.
        length: largest length of a row of `centered`.
        slack: largest length of the rounding error of a row of `centered`; 0 unless the metric is euclidean.
        largest: largest absolute entry of `form`.
    """

    def __init__(self, vectors, metric):
        center = center_of(vectors) if metric == "euclidean" else None
        self._take(_form_of(vectors, metric, center), metric, center)

    @classmethod
    def from_form(cls, form, metric, center):
        """A gallery from its form."""
        gallery = cls.__new__(cls)
        gallery._take(form, metric, center)
        return gallery

    @classmethod
    def from_centered(cls, vectors, metric, center):
        """A gallery from the rows of `centered` of another one."""
        form = vectors if center is None else _form_of(vectors, metric, np.zeros_like(center))
        return cls.from_form(form, metric, center)

    def _take(self, form, metric, center):
        self.form, self.metric, self.center = form, metric, center
        self.length = np.sqrt(row_products(self.centered, self.centered).max(initial=0))
        self.slack = np.sqrt(max(map(self._squared_slack, row_chunks(*form.shape)), default=0.0))
        self.largest = _largest_entry(form)

    def _squared_slack(self, part):
        """The largest squared length of a rounding error of `centered` in a slice of the rows."""
        if not self.is_shifted:
            return 0.0
        error = self.vectors_of(self.form[part]).astype(np.float64) - self.center - self.centered[part]
        return (error * error).sum(axis=1).max()

    def __len__(self):
        return len(self.form)

    @classmethod
    def joined(cls, forms, galleries):
        """A gallery of rows of the forms of galleries: euclidean with a new center, others with the largest bounds."""
        if galleries[0].metric == "euclidean":
            parts = [part.vectors_of(form) for part, form in zip(galleries, forms, strict=True)]
            return cls(np.concatenate(parts), "euclidean")
        gallery = copy.copy(galleries[0])
        gallery.form = np.concatenate(forms)
        gallery.length = max(part.length for part in galleries)
        gallery.largest = max(part.largest for part in galleries)
        return gallery

    def take(self, rows):
        """A gallery of a copy of some rows, with the same bounds and scores."""
        gallery = copy.copy(self)
        gallery.form = self.form[rows]
        return gallery

    @property
    def vectors(self):
        """`(n, dim)` float32: the vectors whose products or distances are the scores. A copy if `is_shifted`."""
        return self.vectors_of(self.form)

    def vectors_of(self, form):
        """The vectors of some rows of `form`."""
        if self.metric != "euclidean":
            return form
        return form[:, :-1] + self.center if self.is_shifted else form[:, :-1]

    @property
    def centered(self):
        """`(n, dim)` float32: `vectors` minus the center, rounded; a view of `form`."""
        return self.form[:, :-1] if self.metric == "euclidean" else self.form

    @property
    def is_shifted(self):
        """Whether the center is not 0."""
        return self.center is not None and bool(self.center.any())

    def shift(self, queries):
        """Queries minus the center, float32."""
        return queries - self.center if self.is_shifted else queries

    def is_sound(self):
        """Whether the form is consistent: vectors of length 1 or 0 for cosine, correct norms for euclidean."""
        squares = row_products(self.centered, self.centered)
        if self.metric == "cosine":
            return bool(((np.abs(squares - 1) < 1e-5) | (squares == 0)).all())
        return self.metric == "dot" or np.allclose(self.form[:, -1], -0.5 * squares, rtol=1e-6, atol=1e-37)

    def scores(self, queries=None, farthest=False):
        """`Scores` of `(q, dim)` float32 queries, by default of the gallery's own vectors; see `Scores` for `farthest`.

        Raises:
            ValueError: a product could leave the range of float32.
        """
        if queries is None:
            queries = self.vectors
        elif self.metric == "cosine":
            queries = l2_normalize(queries)
        return Scores(queries, self, farthest)


def _form_of(vectors, metric, center):
    if metric == "cosine":
        return l2_normalize(vectors)
    if metric == "dot":
        return vectors
    form = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
    np.subtract(vectors, center, out=form[:, :-1])
    with np.errstate(over="ignore"):  # require_range raises, once there are queries
        form[:, -1] = -0.5 * row_products(form[:, :-1], form[:, :-1])
    return form


class Scores:
    """Scores of queries against a `Gallery`: a larger score is nearer, or farther with `farthest`.

    Args:
        queries: `(q, dim)` float32, normalized for cosine.
        gallery: a `Gallery`.
        farthest: negate all scores.

    Raises:
        ValueError: a product could leave the range of float32.
    """

    def __init__(self, queries, gallery, farthest=False):
        self.queries, self.gallery = queries, gallery
        self._sign = -1 if farthest else 1
        centered = gallery.shift(queries)
        largest = max(_largest_entry(centered), gallery.metric == "euclidean")
        require_range(largest, gallery.largest, gallery.form.shape[1])
        self._squares = row_products(centered, centered)
        self._bounds = self._rounding(_UNIT) + self._shifting() + 2 * queries.shape[1] * 2.0**-125  # underflow

    def __len__(self):
        return len(self.queries)

    def approximate(self, rows, out, columns=slice(None)):
        """Float32 products of queries with a slice of the gallery, `(rows, n)`; see `around` for their accuracy.

        They rank as the scores do. For euclidean they are minus half of the squared distances. So those of a gallery's
        own vectors are symmetric, but for rounding.
        """
        queries = self._sign * self.gallery.shift(self.queries[rows])
        if self.gallery.metric != "euclidean":
            return product(queries, self.gallery.form[columns], out)
        ones = np.full((len(queries), 1), self._sign, np.float32)
        found = product(np.concatenate([queries, ones], axis=1), self.gallery.form[columns], out)
        found -= (self._sign * self._squares[rows] / 2).astype(np.float32)[:, None]
        return found

    def exact(self, rows, columns):
        """The score of each query with a vector of the gallery, `(m,)` float32."""
        found = np.empty(len(rows))
        for part in row_chunks(len(rows), self.queries.shape[1]):
            terms = self.queries[rows[part]].astype(np.float64)
            others = self.gallery.vectors_of(self.gallery.form.take(columns[part], axis=0)).astype(np.float64)
            if self.gallery.metric == "euclidean":
                terms -= others
                terms *= terms
            else:
                terms *= others
            np.add.reduce(terms, axis=1, out=found[part])
        return self._rounded(found)

    def exact_block(self, rows, out):
        """The scores of queries with the whole gallery, `(rows, n)` float32.

        They equal those of `exact` but come from float64 products. Two orders of summation round to the same float32,
        except for the few sums near the midpoint of two float32 numbers, which `exact` computes.
        """
        width = max(1, _TILE // max(self.queries.shape[1], len(out)))
        bounds = self._rounding64()[rows, None]
        queries, numbers = self._query_form64(rows, bounds), np.arange(len(self))[rows]
        for start in range(0, len(self.gallery), width):
            tile = slice(start, start + width)
            found = product(queries, self._gallery_form64(tile))
            high = self._rounded(found)
            found -= 2 * bounds
            row, column = np.divmod(np.flatnonzero(self._rounded(found) != high), high.shape[1])
            high[row, column] = self.exact(numbers[row], start + column)
            out[:, tile] = high
        return out

    def around(self, rows, exact):
        """Bounds on the approximate scores of items whose score is close to `exact`.

        Args:
            rows: `(m,)` row numbers of queries.
            exact: `(m,)` float32 scores.

        Returns:
            low, high: `(m,)` float32. An item that scores `exact` or lower never has an approximate score above `high`;
                an item that scores `exact` or higher never has one below `low`.
        """
        middle = exact.astype(np.float64)
        if self.gallery.metric == "euclidean":
            middle = -self._sign * middle**2 / 2
        low, high = (middle - self._bounds[rows]), (middle + self._bounds[rows])
        return np.nextafter(low.astype(np.float32), -_INF), np.nextafter(high.astype(np.float32), _INF)

    def gaps(self, rows):
        """Difference above which two approximate scores of a query are in the correct order: `(rows,)` float32."""
        return (2.001 * self._bounds[rows]).astype(np.float32)

    def below(self, rows, scores):
        """`(m,)` float32: the approximate score of an item is at least this if its score is at least that of an item
        approximated by `scores`.
        """
        low = scores.astype(np.float64) - 2 * self._bounds[rows]
        return np.nextafter(low.astype(np.float32), -_INF)

    def _rounding64(self):
        """Bound on the difference of the float64 sums of `exact_block` and of `exact`, squared for euclidean."""
        return 8 * self._rounding(_UNIT64)

    def _rounding(self, u):
        """Bound on the rounding errors of a query's products and of its scores, `(q,)`, for a unit roundoff u.

        |fl(q . g) - q . g| <= d u / (1 - d u) |q| |g| for every order of summation (Higham, Accuracy and Stability of
        Numerical Algorithms, 2002, section 3.1); for euclidean the norms and the distance are rounded too.
        """
        terms = self.gallery.form.shape[1] + 8
        product = np.sqrt(self._squares) * self.gallery.length
        if self.gallery.metric == "euclidean":
            product = (np.sqrt(self._squares) + self.gallery.length + self.gallery.slack) ** 2 / 2
        return 1.001 * terms * u / (1 - terms * u) * product

    def _shifting(self):
        """Bound on the error by rounding after the center was subtracted, `(q,)`; 0 without a center.

        It moves a query by at most u |q - c| and a vector by at most the gallery's slack, so their distance d by e, the
        sum of both, and d^2 / 2 by e (d + e / 2).
        """
        if not self.gallery.is_shifted:
            return 0.0
        reach = np.sqrt(self._squares) + self.gallery.length
        error = 1.001 * _UNIT * reach + self.gallery.slack
        return error * (reach + error)

    def _query_form64(self, rows, bounds):
        """With `_gallery_form64` the float64 products are the dot products, or the squared distances, plus `bounds`."""
        queries = self.queries[rows].astype(np.float64)
        if self.gallery.metric == "euclidean":
            queries -= self.gallery.center
            squares = np.add.reduce(queries * queries, axis=1, keepdims=True)
            return np.concatenate([-2 * queries, squares + bounds, np.ones_like(bounds)], axis=1)
        return np.concatenate([queries, bounds], axis=1)

    def _gallery_form64(self, tile):
        vectors = self.gallery.vectors_of(self.gallery.form[tile]).astype(np.float64)
        ones = np.ones((len(vectors), 1))
        if self.gallery.metric == "euclidean":
            vectors -= self.gallery.center
            return np.concatenate([vectors, ones, np.add.reduce(vectors * vectors, axis=1, keepdims=True)], axis=1)
        return np.concatenate([vectors, ones], axis=1)

    def _rounded(self, found):
        """Float32 scores of float64 dot products or squared distances."""
        if self.gallery.metric == "euclidean":
            found = -np.sqrt(np.maximum(found, 0))
        scores = found.astype(np.float32)
        return scores if self._sign > 0 else -scores


def product(queries, gallery, out=None):
    """Dot products of all queries with all vectors, `(q, n)`, by the BLAS, whose last bits are not specified."""
    return np.matmul(queries, gallery.T, out=out)


def _largest_entry(array):
    """The largest absolute entry, 0 if there is none."""
    return max(array.max(initial=0), -array.min(initial=0))


def require_range(query, vector, dim):
    """Raises `ValueError` if a product of vectors with these largest entries could leave the range of float32."""
    largest = float(query) * float(vector) * dim
    if largest > 1e38:
        raise ValueError(
            f"Received vectors whose products reach {largest:.1e}, beyond the range of float32. "
            "Scale them down, or use metric='cosine'."
        )
