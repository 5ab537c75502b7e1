use super::names::os_error;
use super::power::PowerCut;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What a program asks of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Opening a file that exists.
    Open,
    /// Opening a file that does not.
    Create,
    /// Reading, whether it would wait or not.
    Read,
    /// Writing.
    Write,
    /// Reserving room.
    Allocate,
    /// Cutting a file off.
    Truncate,
    /// Making a file's bytes durable.
    Sync,
    /// Giving a file another name.
    Rename,
    /// Removing a name.
    Remove,
    /// Giving a file a second name.
    Link,
    /// Listing a directory.
    List,
    /// Making a directory's names durable.
    SyncDir,
    /// Creating a directory.
    CreateDir,
    /// Taking a lock file.
    Lock,
}

impl Operation {
    /// Whether it changes anything: bytes, names, or what of them is durable.
    pub fn is_mutating(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::List | Self::Lock)
    }

    fn is_sync(self) -> bool {
        matches!(self, Self::Sync | Self::SyncDir)
    }
}

#[derive(Debug, Clone, Copy)]
enum Filter {
    All,
    Mutating,
    Syncs,
    Only(Operation),
}

impl Filter {
    fn matches(self, operation: Operation) -> bool {
        match self {
            Self::All => true,
            Self::Mutating => operation.is_mutating(),
            Self::Syncs => operation.is_sync(),
            Self::Only(only) => only == operation,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum FaultKind {
    Error(i32),
    ShortWrite(usize),
    PowerCut(PowerCut),
}

/// How operations fail, and which: of all of them, unless it is narrowed down. Once, unless it is sticky.
#[derive(Debug, Clone)]
pub struct Fault {
    kind: FaultKind,
    filter: Filter,
    path_part: Option<String>,
    sticky: bool,
}

impl Fault {
    /// EIO: the disk is broken.
    pub fn io() -> Self {
        Self::new(FaultKind::Error(libc::EIO))
    }

    /// ENOSPC: the disk is full.
    pub fn storage_full() -> Self {
        Self::new(FaultKind::Error(libc::ENOSPC))
    }

    /// EMFILE: the process has as many files open as it may have.
    pub fn too_many_files() -> Self {
        Self::new(FaultKind::Error(libc::EMFILE))
    }

    /// A write of which the first `bytes` arrive, followed by EIO. Counts writes only.
    pub fn short_write(bytes: usize) -> Self {
        Self::new(FaultKind::ShortWrite(bytes)).on(Operation::Write)
    }

    /// Only operations of one kind count, and fail.
    #[must_use]
    pub fn on(mut self, operation: Operation) -> Self {
        self.filter = Filter::Only(operation);
        self
    }

    /// Only operations that change something count, and fail.
    #[must_use]
    pub fn on_mutating(mut self) -> Self {
        self.filter = Filter::Mutating;
        self
    }

    /// Only operations on paths that contain `part` count, and fail. (A file's is the one it was opened by.)
    #[must_use]
    pub fn on_path(mut self, part: &str) -> Self {
        self.path_part = Some(part.to_owned());
        self
    }

    /// Once it has struck, it strikes every operation that it is for.
    #[must_use]
    pub fn sticky(mut self) -> Self {
        self.sticky = true;
        self
    }

    pub(super) fn power_cut_at_operation(policy: PowerCut) -> Self {
        Self::new(FaultKind::PowerCut(policy)).on_mutating()
    }

    pub(super) fn power_cut_at_sync(policy: PowerCut) -> Self {
        Self { filter: Filter::Syncs, ..Self::new(FaultKind::PowerCut(policy)) }
    }

    fn new(kind: FaultKind) -> Self {
        Self { kind, filter: Filter::All, path_part: None, sticky: false }
    }

    fn matches(&self, operation: Operation, paths: &[&Path]) -> bool {
        let has_part = |part: &String| paths.iter().any(|path| path.to_string_lossy().contains(part));
        self.filter.matches(operation) && self.path_part.as_ref().is_none_or(has_part)
    }
}

/// How an operation goes that does not fail at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Whole,
    /// A write gets that far and fails.
    Short(usize),
    /// A power cut in the middle of it.
    PowerCut(PowerCut),
}

/// The planned faults, and the counts of operations.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    planned: Vec<Planned>,
    counts: BTreeMap<Operation, u64>,
    hits: u64,
}

#[derive(Debug)]
struct Planned {
    fault: Fault,
    /// How many operations go well before.
    left: u64,
}

impl FaultPlan {
    pub(super) fn add(&mut self, n: u64, fault: Fault) {
        self.planned.push(Planned { fault, left: n });
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    pub(super) fn operations(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(super) fn operations_of(&self, operation: Operation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or(0)
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    /// Counts an operation and decides its outcome. If several faults are due, the one planned first strikes.
    pub(super) fn next(&mut self, operation: Operation, paths: &[&Path]) -> io::Result<Step> {
        *self.counts.entry(operation).or_default() += 1;
        let mut due = None;
        self.planned.retain_mut(|planned| {
            if !planned.fault.matches(operation, paths) {
                return true;
            }
            if planned.left > 0 {
                planned.left -= 1;
                return true;
            }
            due = due.or(Some(planned.fault.kind));
            planned.fault.sticky
        });
        self.hits += u64::from(due.is_some());
        match due {
            None => Ok(Step::Whole),
            Some(FaultKind::Error(code)) => Err(os_error(code)),
            Some(FaultKind::ShortWrite(bytes)) => Ok(Step::Short(bytes)),
            Some(FaultKind::PowerCut(policy)) => Ok(Step::PowerCut(policy)),
        }
    }
}
