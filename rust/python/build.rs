//! Sets `Py_GIL_DISABLED` in a build for a free-threaded Python, in which `shared` uses another lock.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
