//! Asks the system how much CPU time a thread or the process has taken.

/// CPU time of this thread in nanoseconds.
pub fn thread_nanoseconds() -> u64 {
    if cfg!(miri) {
        return 0; // it knows no such clock
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct, and fails for no thread.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// User and system seconds of this process.
pub fn process_seconds() -> f64 {
    if cfg!(miri) {
        return 0.0;
    }
    // SAFETY: all zeros is a valid rusage, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Nanoseconds that this thread was ready to run while others had the cores; 0 where the kernel
/// does not count them (second number of schedstat, see the kernel's sched-stats.rst).
pub fn waited_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}
