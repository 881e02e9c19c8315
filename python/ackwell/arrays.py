"""Conversion of the arguments of batch calls to one-dimensional int64 arrays, without loss.

Both engines (`ackwell._native` and the reference in the tests) call `as_int64`, so they accept the same
arguments. NumPy is imported at the first batch call, not with ackwell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ackwell.integers import INT64_MAX

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Int64s: TypeAlias = NDArray[np.int64]

_OUTSIDE: Final = "integer outside int64"
"""The error message of both engines for an integer outside int64."""


def as_int64(values: ArrayLike) -> NDArray[np.int64]:
    """Return `values` as a one-dimensional int64 array. If they already are one, return them unchanged.

    Raises `TypeError` for values that are not integers. Raises `ValueError` for more or fewer than one
    dimension, and for a value outside int64.

    >>> as_int64([3, 1, 2])
    array([3, 1, 2])
    """
    import numpy as np

    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    try:
        array = np.asarray(values)
    except OverflowError:
        raise ValueError(_OUTSIDE) from None
    if array.ndim != 1:
        raise ValueError(f"expected a one-dimensional array, got shape {array.shape}")
    if array.size == 0 and array.dtype == np.float64:
        # NumPy makes a float64 array of an empty list.
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind == "O" and all(isinstance(value, int) for value in array):
        raise ValueError(_OUTSIDE)
    if array.dtype.kind not in "iu":
        raise TypeError(f"expected integers, got an array of {array.dtype}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > INT64_MAX:
        raise ValueError(_OUTSIDE)
    return array.astype(np.int64, copy=False)


def same_length(*arrays: NDArray[np.int64]) -> None:
    """Check that all arrays have the same length; raise `ValueError` otherwise."""
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise ValueError(f"arrays of different lengths: {lengths}")
