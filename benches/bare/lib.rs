//! Methods that only parse integers and return a bool. Their time is the lower bound for any scalar method.

/// The module `bare_call`.
#[pyo3::pymodule]
mod bare_call {
    use pyo3::prelude::*;

    /// A frozen class, like the classes of ackwell.
    #[pyclass(frozen)]
    struct Bare(i64);

    #[pymethods]
    impl Bare {
        #[new]
        fn new() -> Self {
            Self(0)
        }

        #[pyo3(signature = (first, second, /))]
        fn two(&self, first: i64, second: i64) -> bool {
            first ^ second == self.0
        }

        #[pyo3(signature = (first, second, third, /))]
        fn three(&self, first: i64, second: i64, third: i64) -> bool {
            first ^ second ^ third == self.0
        }

        #[pyo3(signature = (first, second, third, fourth))]
        fn four(&self, first: i64, second: i64, third: i64, fourth: i64) -> bool {
            first ^ second ^ third ^ fourth == self.0
        }
    }
}
