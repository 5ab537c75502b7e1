//! What a thread waited for, recognized by its kernel frames, else by the C library's function that it called.

use std::collections::HashMap;

use crate::options::Options;
use crate::profile::{Frame, FrameKind, Profile, StackId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Lock,
    Condition,
    /// There is nothing to do.
    Idle,
    Disk,
    Network,
    Other,
}

/// The first match counts: from the most telling to the least. What waits by a futex waits for a lock or a condition.
const SIGNS: [(&str, Wait); 23] = [
    ("do_signal_stop", Wait::Idle),
    ("futex", Wait::Condition),
    ("epoll_wait", Wait::Idle),
    ("ep_poll", Wait::Idle),
    ("do_poll", Wait::Idle),
    ("do_sys_poll", Wait::Idle),
    ("io_cqring_wait", Wait::Idle),
    ("nanosleep", Wait::Idle),
    ("fsync", Wait::Disk),
    ("fdatasync", Wait::Disk),
    ("sync_file_range", Wait::Disk),
    ("io_schedule", Wait::Disk),
    ("blk_", Wait::Disk),
    ("filemap_", Wait::Disk),
    ("vfs_read", Wait::Disk),
    ("vfs_write", Wait::Disk),
    ("page_fault", Wait::Disk),
    ("inet_csk_accept", Wait::Idle),
    ("tcp_recvmsg", Wait::Network),
    ("tcp_sendmsg", Wait::Network),
    ("pthread_cond_", Wait::Condition),
    ("pthread_mutex_", Wait::Lock),
    ("sock_", Wait::Network),
];

/// Functions in which libraries wait for a lock and not for a condition: `parking_lot`, the slow paths of std, the C library.
const LOCKS: [&str; 6] =
    ["::raw_mutex::", "::raw_rwlock::", "lock_contended", "lll_lock", "pthread_mutex_", "pthread_rwlock_"];
const LIBRARIES: [&str; 5] = ["parking_lot", "lock_api::", "std::", "core::", "<std::"];

impl Wait {
    fn note(self) -> Frame {
        Frame::note(match self {
            Wait::Lock => "[waits: lock]",
            Wait::Condition => "[waits: condition]",
            Wait::Idle => "[waits: nothing to do]",
            Wait::Disk => "[waits: disk]",
            Wait::Network => "[waits: network]",
            Wait::Other => "[waits]",
        })
    }
}

/// Adds to every stack what it waited for, and drops those that had nothing to do unless they are asked for.
pub(crate) fn classify(profile: &mut Profile, options: &Options) {
    let mut known: HashMap<StackId, (Wait, StackId)> = HashMap::new();
    let mut samples = std::mem::take(&mut profile.samples);
    samples.retain_mut(|sample| {
        let (wait, stack) = *known.entry(sample.stack).or_insert_with(|| {
            let frames: Vec<&Frame> = profile.stacks.frames(sample.stack).collect();
            let wait = wait_of(&frames, options.idle_functions);
            (wait, profile.stacks.push(sample.stack, &wait.note()))
        });
        sample.stack = stack;
        options.include_idle || wait != Wait::Idle
    });
    profile.samples = samples;
}

/// Frames leaf first.
fn wait_of(frames: &[&Frame], idle_functions: &[&str]) -> Wait {
    // The system call, or without kernel frames the library's function: a Rust function's name may say anything.
    let is_near = |frame: &&&Frame| frame.kind == FrameKind::Kernel || !frame.function.contains("::");
    let near: Vec<&&Frame> = frames.iter().filter(is_near).collect();
    let found = SIGNS.iter().find(|(sign, _)| near.iter().any(|frame| frame.function.contains(sign)));
    match found.map_or(Wait::Other, |(_, wait)| *wait) {
        Wait::Condition => lock_or_condition(frames, idle_functions),
        wait => wait,
    }
}

fn lock_or_condition(frames: &[&Frame], idle_functions: &[&str]) -> Wait {
    let is_library = |frame: &&&Frame| {
        let name = &frame.function;
        !name.contains("::") || LIBRARIES.iter().any(|library| name.starts_with(library))
    };
    let library: Vec<&&Frame> = frames.iter().take_while(is_library).collect();
    if library.iter().any(|frame| LOCKS.iter().any(|sign| frame.function.contains(sign))) {
        return Wait::Lock;
    }
    let waits = frames.get(library.len()).is_some_and(|frame| idle_functions.contains(&&*frame.function));
    if waits { Wait::Idle } else { Wait::Condition }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kernel: &[&str], user: &[&str]) -> Wait {
        let kernel = kernel.iter().map(|name| Frame { kind: FrameKind::Kernel, ..Frame::note(name) });
        let user = user.iter().map(|name| Frame { kind: FrameKind::User, ..Frame::note(name) });
        let frames: Vec<Frame> = kernel.chain(user).collect();
        wait_of(&frames.iter().collect::<Vec<_>>(), &["a::Pool::work"])
    }

    #[test]
    fn the_system_call_tells_the_wait() {
        assert_eq!(of(&["schedule", "ep_poll"], &["epoll_wait"]), Wait::Idle);
        assert_eq!(of(&["ext4_sync_file", "__x64_sys_fdatasync"], &["fdatasync"]), Wait::Disk);
        assert_eq!(of(&["schedule", "do_signal_stop", "futex_wait"], &["syscall"]), Wait::Idle);
        assert_eq!(of(&[], &["my::futex"]), Wait::Other);
    }

    #[test]
    fn a_futex_is_a_lock_a_condition_or_idleness() {
        let futex = ["schedule", "futex_wait"];
        let lock = "parking_lot::raw_mutex::RawMutex::lock_slow";
        assert_eq!(of(&futex, &["syscall", lock, "a::Pool::work"]), Wait::Lock);
        assert_eq!(of(&futex, &["syscall", "std::sys::sync::mutex::Mutex::lock_contended", "b"]), Wait::Lock);
        let condition = "parking_lot::condvar::Condvar::wait_until_internal";
        assert_eq!(of(&futex, &["syscall", condition, "a::Pool::submit"]), Wait::Condition);
        assert_eq!(of(&futex, &["syscall", condition, "a::Pool::work"]), Wait::Idle);
        // A job that the pool runs waits for something.
        assert_eq!(of(&futex, &["syscall", condition, "a::job", "a::Pool::work"]), Wait::Condition);
    }
}
