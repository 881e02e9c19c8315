//! Sets `Py_GIL_DISABLED` in a build for a free-threaded Python. In such a build, the module `shared` uses another
//! lock.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
