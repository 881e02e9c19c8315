//! Tells the source which Python it is built for: `shared` stands on the interpreter's lock.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
