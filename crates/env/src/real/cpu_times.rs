use std::fs::File;
use std::io::Read;

/// What a thread was given of the CPUs, and how long it was ready without being given one, since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// Ready, and waiting for a CPU, in nanoseconds.
    pub wait_ns: u64,
}

/// What all CPUs did since the machine began, in ticks of the system's clock: hundredths of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineTimes {
    /// With nothing to do, or with waiting for a disk.
    pub idle: u64,
}

/// Those of the calling thread; `None` if the system does not tell.
pub fn thread_times() -> Option<ThreadTimes> {
    parse_thread(&head("/proc/thread-self/schedstat")?)
}

/// Those of this machine; `None` if the system does not tell.
pub fn machine_times() -> Option<MachineTimes> {
    parse_machine(&head("/proc/stat")?)
}

/// What this process holds of memory; `None` if the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    let pages: u64 = head("/proc/self/statm")?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// How a file of the system begins. The lines that follow in `/proc/stat` grow with the machine.
#[expect(clippy::disallowed_methods, reason = "no part of a store")]
fn head(path: &str) -> Option<String> {
    let mut bytes = [0; 256];
    let count = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

/// `on-a-CPU waiting slices`
pub(super) fn parse_thread(text: &str) -> Option<ThreadTimes> {
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some(ThreadTimes { cpu_ns: numbers.next()?, wait_ns: numbers.next()? })
}

/// `cpu  user nice system idle iowait …`
fn parse_machine(text: &str) -> Option<MachineTimes> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let mut numbers = line.split_whitespace().skip(3).map_while(|word| word.parse::<u64>().ok());
    Some(MachineTimes { idle: numbers.next()? + numbers.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_what_the_system_says() {
        assert_eq!(
            parse_machine("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2\n"),
            Some(MachineTimes { idle: 90 })
        );
        assert_eq!(parse_thread("123 45 6\n"), Some(ThreadTimes { cpu_ns: 123, wait_ns: 45 }));
        for nothing in ["", "cpu  10 20\n", "intr 1\n"] {
            assert_eq!((parse_machine(nothing), parse_thread(nothing)), (None, None));
        }
    }

    #[test]
    fn this_thread_and_this_machine_have_times() {
        assert!(machine_times().is_some());
        let own = thread_times().expect("Linux tells").cpu_ns;
        // Ends only if the clocks advance.
        while thread_times().expect("Linux tells").cpu_ns < own + 1_000 {
            std::hint::spin_loop();
        }
    }
}
