"""Scores of queries against a gallery: exact for a pair, approximate for a block.

The score of a pair depends on its two vectors only: the float64 dot product of their float32 forms, or minus their
float64 distance, rounded to float32. Exact search, the retrieval metrics and the mining of whole sets rank by these
scores and, where two are equal, by position. So results do not depend on memory, threads, batches or other vectors.

A float32 matrix product is much faster, but its last bits depend on the processor, the shape of the block and the place
in it. Its error has a bound for every order of summation, so it decides all clear cases; exact scores are only for
items within the bound.
"""

import copy

import numpy as np

from tfdml.search.blocks import slices

_INF = np.float32(np.inf)
_UNIT = 2.0**-24  # unit roundoff of float32
_UNIT64 = 2.0**-53
_CACHED_NUMBERS = 2**15  # float64 numbers processed at the same time, so that they stay in the cache
_TILE = 2**17  # float64 scores computed at the same time


def row_chunks(count, dim):
    """Slices that cover `count` rows of `dim` numbers, each small enough for the cache when it is float64."""
    return slices(count, max(1, _CACHED_NUMBERS // dim))


def row_products(x, y):
    """Dot product of each row of x with the same row of y: `(n,)` float64, depending on these two rows alone.

    `np.einsum` and the BLAS add in an order that depends on the position of the row.
    """
    sums = np.empty(len(x))
    for rows in row_chunks(len(x), x.shape[1]):
        products = x[rows].astype(np.float64)
        products *= y[rows]
        np.add.reduce(products, axis=1, out=sums[rows])
    return sums


def l2_normalize(vectors):
    """Vectors divided by their Euclidean length: `(n, dim)` float32. A zero vector stays zero."""
    length = np.sqrt(row_products(vectors, vectors))
    return np.divide(vectors, np.where(length > 0, length, 1)[:, None], dtype=np.float32, casting="same_kind")


def center_of(vectors):
    """A center `(dim,)` float32 to subtract without loss: the mean of a column, or 0.

    It is the mean c where (g - c) + c is g in float32 for every entry g of the column. That holds where entries lie far
    from 0 and near each other; elsewhere their products are accurate without a center.
    """
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    restored = np.ones(len(mean), bool)
    for rows in row_chunks(len(vectors), len(mean)):
        with np.errstate(over="ignore"):
            restored &= ((vectors[rows] - mean) + mean == vectors[rows]).all(axis=0)
    return np.where(restored, mean, np.float32(0))


class Gallery:
    """Vectors to compare queries with, augmented so that matrix products rank as the metric does.

    cosine: g / |g|; dot: g; euclidean: (g - c, -|g - c|^2 / 2), because with queries (q - c, 1) the product is
    |q - c|^2 / 2 - |q - g|^2 / 2 and the first term is the same for the whole gallery. The center c keeps the float32
    rounding of this product small where the vectors lie far from 0. Scores do not depend on it: `center_of` restores
    the vectors to the last bit.

    Attributes:
        augmented: `(n, dim)` float32, `(n, dim + 1)` for euclidean; `vectors` itself for dot.
        center: `(dim,)` float32, None unless the metric is euclidean.
        length: largest length of a row of `centered`.
        slack: largest length of the rounding error of a row of `centered`; 0 unless the metric is euclidean.
        largest: largest absolute entry of `augmented`.
    """

    def __init__(self, vectors, metric):
        self.metric = metric
        self.center = center_of(vectors) if metric == "euclidean" else None
        self.augmented = _augmented(vectors, metric, self.center)
        self._measure()

    @classmethod
    def from_augmented(cls, augmented, metric, center):
        """The gallery with these attributes."""
        gallery = cls.__new__(cls)
        gallery.augmented, gallery.metric, gallery.center = augmented, metric, center
        gallery._measure()
        return gallery

    @classmethod
    def joined(cls, galleries):
        """One gallery of all rows: euclidean with a new center, others with the largest bounds."""
        if galleries[0].metric == "euclidean":
            return cls(np.concatenate([gallery.vectors for gallery in galleries]), "euclidean")
        joined = copy.copy(galleries[0])
        joined.augmented = np.concatenate([gallery.augmented for gallery in galleries])
        joined.length = max(gallery.length for gallery in galleries)
        joined.largest = max(gallery.largest for gallery in galleries)
        return joined

    def take(self, rows):
        """A gallery of a copy of these rows, with the same bounds and scores."""
        gallery = copy.copy(self)
        gallery.augmented = self.augmented[rows]
        return gallery

    def _measure(self):
        self.length = np.sqrt(row_products(self.centered, self.centered).max(initial=0))
        self.slack = np.sqrt(max(map(self._squared_slack, row_chunks(*self.augmented.shape)), default=0.0))
        self.largest = _largest_entry(self.augmented)

    def _squared_slack(self, rows):
        """The largest squared length of a rounding error of `centered` in a slice of the rows."""
        if not self.is_shifted:
            return 0.0
        error = self.restored(self.augmented[rows]).astype(np.float64) - self.center - self.centered[rows]
        return (error * error).sum(axis=1).max()

    def __len__(self):
        return len(self.augmented)

    @property
    def vectors(self):
        """`(n, dim)` float32: the vectors whose products or distances are the scores. A copy if `is_shifted`."""
        return self.restored(self.augmented)

    def restored(self, augmented):
        """The vectors of rows of `augmented`."""
        if self.metric != "euclidean":
            return augmented
        return augmented[:, :-1] + self.center if self.is_shifted else augmented[:, :-1]

    @property
    def centered(self):
        """`(n, dim)` float32: `vectors` minus the center, rounded; a view of `augmented`."""
        return self.augmented[:, :-1] if self.metric == "euclidean" else self.augmented

    @property
    def is_shifted(self):
        """Whether the center is not 0."""
        return self.center is not None and bool(self.center.any())

    def shift(self, queries):
        """Queries minus the center, float32."""
        return queries - self.center if self.is_shifted else queries

    def is_valid(self):
        """Whether vectors have length 1 or 0 for cosine, and `augmented` holds their norms for euclidean."""
        squares = row_products(self.centered, self.centered)
        if self.metric == "cosine":
            return bool(((np.abs(squares - 1) < 1e-5) | (squares == 0)).all())
        return self.metric == "dot" or np.allclose(self.augmented[:, -1], -0.5 * squares, rtol=1e-6, atol=1e-37)

    def scores(self, queries=None, farthest=False):
        """`Scores` of `(q, dim)` float32 queries, by default of the gallery's own vectors."""
        if queries is None:
            queries = self.vectors
        elif self.metric == "cosine":
            queries = l2_normalize(queries)
        return Scores(queries, self, farthest)


def _augmented(vectors, metric, center):
    if metric == "cosine":
        return l2_normalize(vectors)
    return vectors if metric == "dot" else append_half_squares(vectors, center)


def append_half_squares(vectors, center=0.0):
    """The augmented vectors for euclidean: (g - c, -|g - c|^2 / 2), `(n, dim + 1)` float32."""
    augmented = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
    np.subtract(vectors, center, out=augmented[:, :-1])
    with np.errstate(over="ignore"):  # require_range raises, once there are queries
        augmented[:, -1] = -0.5 * row_products(augmented[:, :-1], augmented[:, :-1])
    return augmented


class Scores:
    """Scores of queries against a `Gallery`: a larger score is nearer, or farther with `farthest`.

    `queries` are `(q, dim)` float32, normalized for cosine. If a product could leave the range of float32: a
    ValueError.
    """

    def __init__(self, queries, gallery, farthest=False):
        self.queries, self.gallery = queries, gallery
        self._sign = -1 if farthest else 1
        centered = gallery.shift(queries)
        largest = max(_largest_entry(centered), gallery.metric == "euclidean")
        require_range(largest, gallery.largest, gallery.augmented.shape[1])
        self._squares = row_products(centered, centered)
        self._bounds = self._rounding(_UNIT) + self._shifting() + 2 * queries.shape[1] * 2.0**-125  # underflow

    def __len__(self):
        return len(self.queries)

    def approximate(self, rows, out, columns=slice(None)):
        """Float32 products of queries with a slice of the gallery, `(rows, n)`; see `around` for their accuracy.

        They rank as the scores do. For euclidean they are minus half of the squared distances, so the products of a
        gallery's own vectors are symmetric, but for rounding.
        """
        queries = self._sign * self.gallery.shift(self.queries[rows])
        if self.gallery.metric != "euclidean":
            return product(queries, self.gallery.augmented[columns], out)
        ones = np.full((len(queries), 1), self._sign, np.float32)
        products = product(np.concatenate([queries, ones], axis=1), self.gallery.augmented[columns], out)
        products -= (self._sign * self._squares[rows] / 2).astype(np.float32)[:, None]
        return products

    def exact(self, rows, columns):
        """The score of each query with a vector of the gallery, `(m,)` float32."""
        sums = np.empty(len(rows))
        for pairs in row_chunks(len(rows), self.queries.shape[1]):
            terms = self.queries[rows[pairs]].astype(np.float64)
            others = self.gallery.restored(self.gallery.augmented.take(columns[pairs], axis=0)).astype(np.float64)
            if self.gallery.metric == "euclidean":
                terms -= others
                terms *= terms
            else:
                terms *= others
            np.add.reduce(terms, axis=1, out=sums[pairs])
        return self._rounded(sums)

    def exact_block(self, rows, out):
        """The scores of queries with the whole gallery, `(rows, n)` float32.

        They equal the scores of `exact` but come from float64 products. Two orders of summation round to the same
        float32, except for the few sums near the midpoint of two float32 numbers: `exact` computes these.
        """
        width = max(1, _TILE // max(self.queries.shape[1], len(out)))
        bounds = 8 * self._rounding(_UNIT64)[rows, None]  # of the float64 sums, squared for euclidean
        queries, numbers = self._augmented_queries64(rows, bounds), np.arange(len(self))[rows]
        for tile in slices(len(self.gallery), width):
            sums = product(queries, self._augmented_gallery64(tile))
            high = self._rounded(sums)
            sums -= 2 * bounds
            row, column = np.divmod(np.flatnonzero(self._rounded(sums) != high), high.shape[1])
            high[row, column] = self.exact(numbers[row], tile.start + column)
            out[:, tile] = high
        return out

    def around(self, rows, exact):
        """Bounds `low, high` on the approximate scores of items whose score is close to `exact`; all are `(m,)`.

        An item that scores `exact` or lower never has an approximate score above `high`; an item that scores `exact` or
        higher never has one below `low`.
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
        """`(m,)` float32: an item that scores at least as high as an item with approximate score `scores` has at least
        this approximate score.
        """
        low = scores.astype(np.float64) - 2 * self._bounds[rows]
        return np.nextafter(low.astype(np.float32), -_INF)

    def _rounding(self, u):
        """Bound on the rounding errors of a query's products and of its scores, `(q,)`, for a unit roundoff u.

        |fl(q . g) - q . g| <= d u / (1 - d u) |q| |g| for every order of summation (Higham, Accuracy and Stability of
        Numerical Algorithms, 2002, section 3.1); for euclidean, also of the norms and the distance.
        """
        terms = self.gallery.augmented.shape[1] + 8
        product = np.sqrt(self._squares) * self.gallery.length
        if self.gallery.metric == "euclidean":
            product = (np.sqrt(self._squares) + self.gallery.length + self.gallery.slack) ** 2 / 2
        return 1.001 * terms * u / (1 - terms * u) * product

    def _shifting(self):
        """Bound on the error by rounding after the subtraction of the center, `(q,)`; 0 without a center.

        It moves a query by at most u |q - c| and a vector by at most the gallery's slack, so their distance d by e, the
        sum of both, and d^2 / 2 by e (d + e / 2).
        """
        if not self.gallery.is_shifted:
            return 0.0
        reach = np.sqrt(self._squares) + self.gallery.length
        error = 1.001 * _UNIT * reach + self.gallery.slack
        return error * (reach + error)

    def _augmented_queries64(self, rows, bounds):
        """Factors whose product with `_augmented_gallery64` is the dot product or squared distance, plus `bounds`."""
        queries = self.queries[rows].astype(np.float64)
        if self.gallery.metric == "euclidean":
            queries -= self.gallery.center
            squares = np.add.reduce(queries * queries, axis=1, keepdims=True)
            return np.concatenate([-2 * queries, squares + bounds, np.ones_like(bounds)], axis=1)
        return np.concatenate([queries, bounds], axis=1)

    def _augmented_gallery64(self, tile):
        vectors = self.gallery.restored(self.gallery.augmented[tile]).astype(np.float64)
        ones = np.ones((len(vectors), 1))
        if self.gallery.metric == "euclidean":
            vectors -= self.gallery.center
            return np.concatenate([vectors, ones, np.add.reduce(vectors * vectors, axis=1, keepdims=True)], axis=1)
        return np.concatenate([vectors, ones], axis=1)

    def _rounded(self, sums):
        if self.gallery.metric == "euclidean":
            sums = -np.sqrt(np.maximum(sums, 0))
        scores = sums.astype(np.float32)
        return scores if self._sign > 0 else -scores


def product(queries, gallery, out=None):
    """Dot products of all queries with all vectors, `(q, n)`, by the BLAS, whose last bits are not specified."""
    return np.matmul(queries, gallery.T, out=out)


def _largest_entry(array):
    return max(array.max(initial=0), -array.min(initial=0))


def require_range(query, vector, dim):
    """Raise a ValueError if a product of vectors with these largest entries could leave the range of float32."""
    largest = float(query) * float(vector) * dim
    if largest > 1e38:
        raise ValueError(
            f"Received vectors whose products reach {largest:.1e}, beyond the range of float32. "
            "Scale them down, or use metric='cosine'."
        )
