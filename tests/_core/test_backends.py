import keras
import numpy as np
import pytest
from keras import ops

from tests.backend import BACKEND, gradient, numbers
from tfdml._core import backends
from tfdml._core.backends import custom_gradient, list_devices, loop, of_all_replicas, vector_jacobian

pytestmark = pytest.mark.backends

X = np.array([1.0, 2.0, 3.0], "float32")


def tensor(values):
    return ops.convert_to_tensor(np.asarray(values, "float32"))


@custom_gradient
def square_with_gradient_of_seven(x):
    """x^2, whose gradient is 7 times the upstream one, to tell it from the true one."""
    return ops.square(x), lambda upstream: 7.0 * upstream


def test_a_custom_gradient_replaces_the_true_one():
    x = tensor(X)
    np.testing.assert_allclose(numbers(square_with_gradient_of_seven(x)), X**2)
    np.testing.assert_allclose(gradient(lambda v: 2.0 * square_with_gradient_of_seven(v), X), [14.0] * 3)


def test_a_custom_gradient_receives_one_upstream_gradient_per_result():
    @custom_gradient
    def sum_and_difference(x, y):
        return [x + y, x - y], lambda plus, minus: (plus + minus, 10.0 * (plus - minus))

    def weighted(x, y):
        plus, minus = sum_and_difference(x, y)
        return ops.sum(2.0 * plus + 3.0 * minus)

    y = tensor(X)
    np.testing.assert_allclose(gradient(lambda x: weighted(x, y), X), [5.0] * 3)
    np.testing.assert_allclose(gradient(lambda x: weighted(y, x), X), [-10.0] * 3)


def test_an_argument_with_gradient_none_is_a_constant():
    @custom_gradient
    def scaled(factor, x):
        return factor * x, lambda upstream: (None, factor * upstream)

    np.testing.assert_allclose(gradient(lambda x: scaled(ops.stop_gradient(2.0 * x), x), X), 2 * X)


def test_a_gradient_may_be_a_function_that_returns_it():
    @custom_gradient
    def product(x, y):
        return x * y, lambda upstream: (upstream * y, lambda: upstream * x)

    np.testing.assert_allclose(gradient(lambda y: product(tensor(X), y), 3.0 * X), X)
    np.testing.assert_allclose(gradient(lambda x: product(x, tensor(3.0 * X)), X), 3.0 * X)


def test_a_vector_jacobian_product_weights_the_results():
    x, w = tensor(X), tensor([1.0, 0.0, 2.0])
    (product,) = vector_jacobian(ops.square, [x], w)
    np.testing.assert_allclose(numbers(product), 2 * X * numbers(w))


def test_a_vector_jacobian_product_sums_over_lists_of_results_and_has_zeros_for_unused_arguments():
    x, y, w = tensor(X), tensor(2 * X), tensor([1.0, 1.0, 1.0])
    by_x, by_y = vector_jacobian(lambda x, y: [ops.square(x), 3.0 * x, ops.ones_like(x)], [x, y], [w, 2.0 * w, w])
    np.testing.assert_allclose(numbers(by_x), 2 * X + 6.0)
    np.testing.assert_allclose(numbers(by_y), [0.0] * 3)


def test_a_vector_jacobian_product_of_constants_is_zero():
    (product,) = vector_jacobian(lambda x: ops.ones_like(x), [tensor(X)], tensor(X))
    np.testing.assert_allclose(numbers(product), [0.0] * 3)


def test_vector_jacobian_products_work_in_a_custom_gradient_forward_and_backward():
    def cube_sum(x):
        return ops.sum(x**3)

    @custom_gradient
    def recomputed(x):
        value = cube_sum(x)
        (gradient,) = vector_jacobian(cube_sum, [x], ops.ones_like(value))

        def grad(upstream):
            (again,) = vector_jacobian(cube_sum, [x], upstream)
            return 0.5 * (again + upstream * gradient)

        return value, grad

    np.testing.assert_allclose(gradient(lambda x: 2.0 * recomputed(x), X), 6 * X**2, rtol=1e-6)


def test_a_loop_runs_its_steps_in_order():
    total, last = loop(4, lambda step, values: (2.0 * values[0] + ops.cast(step, "float32"), step), (tensor(1.0), 0))
    assert float(total) == 27.0  # ((((1 * 2 + 0) * 2 + 1) * 2 + 2) * 2 + 3
    assert int(last) == 3


def test_devices_are_listed_with_their_type_and_number():
    assert all(device.partition(":")[2].isdigit() for device in list_devices())


def test_rows_of_one_device_are_those_of_all_replicas():
    x = tensor(X)
    rows, nothing = of_all_replicas((x, None))
    assert nothing is None
    np.testing.assert_array_equal(numbers(rows), X)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="of PyTorch alone")
class TestOnPyTorch:
    def test_what_a_custom_gradient_holds_is_freed_with_its_results(self):
        import weakref

        import torch

        references = []

        @custom_gradient
        def held(x):
            value = ops.exp(x)
            references.append(weakref.ref(value))
            return value, lambda upstream: upstream * value

        value = held(torch.ones(3, requires_grad=True))
        del value
        assert references[0]() is None

    @pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch.compile itself
    def test_torch_compile_has_the_same_gradient_without_graph_breaks(self):
        import torch

        compiled = torch.compile(square_with_gradient_of_seven, fullgraph=True, backend="aot_eager")
        x = torch.tensor(X, requires_grad=True)
        compiled(x).sum().backward()
        np.testing.assert_allclose(numbers(x.grad), [7.0] * 3)

    def test_a_second_derivative_is_refused_in_place_of_a_wrong_one(self):
        import torch

        x = torch.tensor(X, requires_grad=True)
        (first,) = torch.autograd.grad(square_with_gradient_of_seven(x).sum() ** 2, x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()


ON_TORCH = pytest.mark.skipif(BACKEND != "torch", reason="elsewhere they are the same object")
MATRIX = np.array([[-2.0, 0.0, 0.5], [np.inf, 3.0, np.nan]], "float32")
IS_LARGE = np.array([[True, False, True], [False, True, True]])
# Name of an operation, its arguments after the first, and its options.
OPERATIONS = [
    *((name, (), {}) for name in ("abs", "ceil", "exp", "floor", "isfinite", "relu", "round", "sigmoid", "softplus")),
    *(
        (name, (), {})
        for name in ("log", "ones_like", "rsqrt", "shape", "sqrt", "square", "stop_gradient", "transpose")
    ),
    *((name, (), {}) for name in ("amax", "amin", "mean", "sign", "sum", "zeros_like")),
    ("take", (np.array([1, 0, 1]),), {"axis": 0}),
    ("take_along_axis", (np.array([[2], [0]]),), {"axis": 1}),
    *((name, (), {"axis": axis}) for name in ("amax", "amin", "mean", "sum") for axis in (0, -1, (0, 1))),
    *((name, (), {"axis": 1, "keepdims": True}) for name in ("amax", "amin", "mean", "sum")),
    *((name, (other,), {}) for name in ("equal", "maximum", "minimum", "multiply") for other in (0.0, 0.5, MATRIX[0])),
    ("clip", (-1.0, 2.0), {}),
    ("zeros_like", (), {"dtype": "bool"}),
    ("cast", ("int64",), {}),
    ("cast", ("float16",), {}),
    ("broadcast_to", ((2, 2, 3),), {}),
    ("expand_dims", (1,), {}),
    ("matmul", (MATRIX.T,), {}),
    ("pad", ([[1, 0], [0, 2]],), {}),
    ("pad", ([[1, 0], [0, 2]],), {"constant_values": 3}),
]
BOOLEAN_OPERATIONS = [
    ("logical_not", ()),
    ("any", ()),
    *((name, (other,)) for name in ("logical_and", "logical_xor") for other in (True, IS_LARGE[0])),
    *(("where", others) for others in ((0.0, MATRIX), (MATRIX, -np.inf), (MATRIX, MATRIX[0]), (1.0, 0.0))),
]


def assert_same(name, x, others, options=None):
    """The operation gives what that of Keras gives, of tensors and of arrays, with the same type."""
    for convert in (ops.convert_to_tensor, np.asarray):
        x, *others = (convert(y) if isinstance(y, np.ndarray) else y for y in (x, *others))
        actual, expected = (getattr(room, name)(x, *others, **(options or {})) for room in (backends.ops, ops))
        np.testing.assert_allclose(numbers(actual), numbers(expected), rtol=1e-6)
        assert getattr(actual, "dtype", None) == getattr(expected, "dtype", None)


@ON_TORCH
@pytest.mark.parametrize(("name", "others", "options"), OPERATIONS)
def test_operations_are_those_of_keras(name, others, options):
    assert_same(name, np.nan_to_num(MATRIX, posinf=7.0) if name == "cast" else MATRIX, others, options)
    if name not in ("matmul", "softplus"):  # which Keras does not compute of integers
        assert_same(name, np.array([[1, 2, 3], [4, 5, 6]], "int32"), others, options)


@ON_TORCH
@pytest.mark.parametrize(("name", "others"), BOOLEAN_OPERATIONS)
def test_operations_on_booleans_are_those_of_keras(name, others):
    assert_same(name, IS_LARGE, others)


@ON_TORCH
def test_operations_on_lists_and_segments_are_those_of_keras():
    x = [tensor(X), tensor(2 * X)]
    for name in ("concatenate", "stack"):
        np.testing.assert_array_equal(numbers(getattr(backends.ops, name)(x)), numbers(getattr(ops, name)(x)))
    sums = backends.ops.segment_sum(tensor(X), ops.convert_to_tensor([1, 0, 1]), num_segments=3)
    np.testing.assert_allclose(numbers(sums), [2.0, 4.0, 0.0])
