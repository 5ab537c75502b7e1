//! What a thread waited for, told from its kernel frames, else from the C library's function that it called.

use std::collections::HashMap;

use crate::profile::{Frame, FrameKind, Profile, StackId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Lock,
    Idle,
    Sleep,
    Disk,
    Network,
    Other,
}

/// The first match counts: from the most telling to the least.
const SIGNS: [(&str, Wait); 22] = [
    ("futex", Wait::Lock),
    ("epoll_wait", Wait::Idle),
    ("ep_poll", Wait::Idle),
    ("do_poll", Wait::Idle),
    ("do_sys_poll", Wait::Idle),
    ("io_cqring_wait", Wait::Idle),
    ("nanosleep", Wait::Sleep),
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
    ("pthread_cond_", Wait::Lock),
    ("pthread_mutex_", Wait::Lock),
    ("sock_", Wait::Network),
];

impl Wait {
    fn note(self) -> Frame {
        Frame::note(match self {
            Wait::Lock => "[waits: lock or condition]",
            Wait::Idle => "[waits: events]",
            Wait::Sleep => "[waits: sleep]",
            Wait::Disk => "[waits: disk]",
            Wait::Network => "[waits: network]",
            Wait::Other => "[waits]",
        })
    }
}

/// Adds to every stack what it waited for, and drops those that had nothing to do unless they are asked for.
pub(crate) fn classify(profile: &mut Profile, include_idle: bool) {
    let mut known: HashMap<StackId, (Wait, StackId)> = HashMap::new();
    let mut samples = std::mem::take(&mut profile.samples);
    samples.retain_mut(|sample| {
        let (wait, stack) = *known.entry(sample.stack).or_insert_with(|| {
            let wait = wait_of(profile.stacks.frames(sample.stack));
            (wait, profile.stacks.push(sample.stack, &wait.note()))
        });
        sample.stack = stack;
        include_idle || !matches!(wait, Wait::Idle | Wait::Sleep)
    });
    profile.samples = samples;
}

fn wait_of<'a>(frames: impl Iterator<Item = &'a Frame>) -> Wait {
    // The system call, or without kernel frames the library's function: a Rust function's name may say anything.
    let near: Vec<&Frame> =
        frames.filter(|frame| frame.kind == FrameKind::Kernel || !frame.function.contains("::")).collect();
    let found = SIGNS.iter().find(|(sign, _)| near.iter().any(|frame| frame.function.contains(sign)));
    found.map_or(Wait::Other, |(_, wait)| *wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str) -> Frame {
        Frame { kind: FrameKind::Kernel, ..Frame::note(name) }
    }

    #[test]
    fn the_system_call_tells_the_wait() {
        let stack = [kernel("schedule"), kernel("futex_wait"), Frame::note("std::fsync::lock")];
        assert_eq!(wait_of(stack.iter()), Wait::Lock);
        assert_eq!(wait_of([kernel("schedule"), kernel("ep_poll")].iter()), Wait::Idle);
        assert_eq!(wait_of([kernel("ext4_sync_file"), kernel("__x64_sys_fdatasync")].iter()), Wait::Disk);
        assert_eq!(wait_of([Frame::note("my::futex")].iter()), Wait::Other);
    }
}
