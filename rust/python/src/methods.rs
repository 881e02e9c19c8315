//! Macros for the methods that several classes share.
//!
//! PyO3 allows one `#[pymethods]` block for each class. So a macro defines the whole block: the shared methods and the
//! methods of the class.

/// Defines the methods of `$class`. Its field `$field` is the `SharedCell` structure. `$run` is `attached` or
/// `detached`: the method of `SharedCell` that runs `copy` and `validate`. `$copy` is the docstring of the method
/// `copy`.
macro_rules! structure_methods {
    ($class:ident, $field:tt, $run:ident, $copy:literal, { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            #[doc = $copy]
            fn copy(&self, py: Python<'_>) -> Self {
                Self::of(self.$field.$run(py, |structure| structure.clone()))
            }

            fn __copy__(&self, py: Python<'_>) -> Self {
                self.copy(py)
            }

            fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Self {
                self.copy(py)
            }

            /// The bytes allocated on the heap.
            #[getter]
            fn nbytes(&self, py: Python<'_>) -> usize {
                self.$field.locked(py).heap_bytes()
            }

            fn __sizeof__(&self, py: Python<'_>) -> usize {
                size_of::<Self>() + self.nbytes(py)
            }

            /// Check the invariants; raise `AssertionError` if one does not hold.
            fn validate(&self, py: Python<'_>) -> PyResult<()> {
                $crate::convert::valid(self.$field.$run(py, |structure| structure.validate()))
            }
        }
    };
}

/// Defines the methods of a mapping; see [`structure_methods`].
macro_rules! mapping_methods {
    ($class:ident, $field:tt, $copy:literal, { $($own:tt)* }) => {
        $crate::methods::structure_methods!($class, $field, attached, $copy, {
            $($own)*

            /// Return a view of the keys.
            fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                $crate::convert::view(slf, "KeysView")
            }

            /// Return a view of the values.
            fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                $crate::convert::view(slf, "ValuesView")
            }

            /// Return a view of the entries as pairs of key and value.
            fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                $crate::convert::view(slf, "ItemsView")
            }

            /// Return whether another object is a mapping with the same entries.
            fn __eq__<'py>(
                slf: &Bound<'py, Self>,
                other: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let py = slf.py();
                let Ok(other) = other.cast::<Self>() else {
                    return $crate::convert::equals_mapping(slf, other);
                };
                // A copy, so that no call holds two locks.
                let other = other.get().$field.locked(py).clone();
                let equal = *slf.get().$field.locked(py) == other;
                Ok(pyo3::types::PyBool::new(py, equal).to_owned().into_any())
            }
        });
    };
}

pub(crate) use {mapping_methods, structure_methods};
