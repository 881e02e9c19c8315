//! Measure like the Java peers: in windows of thread CPU time, of which the first ones are not counted.

use std::time::Duration;

use cpu_time::ThreadTime;

const WINDOW: Duration = Duration::from_millis(30);
const WARM: usize = 2;
const WINDOWS: usize = 9;

/// Returns the nanoseconds per unit of work in each window. `call` does some units of work, and returns their number.
pub(crate) fn windows(mut call: impl FnMut() -> usize) -> Vec<f64> {
    let mut figures = Vec::new();
    for _ in 0..WARM + WINDOWS {
        let (start, mut work) = (ThreadTime::now(), 0);
        let spent = loop {
            work += call();
            let spent = start.elapsed();
            if spent >= WINDOW {
                break spent;
            }
        };
        figures.push(spent.as_nanos() as f64 / work as f64);
    }
    figures.split_off(WARM)
}

/// Returns the nanoseconds of each call of `work` on a value that `prepare` creates. The creation is not counted.
pub(crate) fn once_each<T>(
    mut prepare: impl FnMut() -> T,
    mut work: impl FnMut(&mut T),
) -> Vec<f64> {
    let mut figures = Vec::new();
    for _ in 0..WARM + 3 * WINDOWS {
        let mut value = prepare();
        let start = ThreadTime::now();
        work(&mut value);
        figures.push(start.elapsed().as_nanos() as f64);
    }
    figures.split_off(WARM)
}

/// Prints the figures of an operation in the form of the peers.
pub(crate) fn print(workload: &str, operation: &str, figures: &[f64]) {
    let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.3}")).collect();
    println!(r#"{{"dataset":"{workload}","op":"{operation}","cpuNs":[{}]}}"#, figures.join(","));
}
