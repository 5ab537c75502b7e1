use std::sync::OnceLock;

use ladoga_env::sim::{self, Fault, Operation, SimDisk};
use ladoga_env::{File, Lock};

use super::removal::ROOM_SHOWS_NS;
use super::*;
use crate::blob::BlobRegistry;
use crate::wal::WalWriter;

const DIR: &str = "/data";

/// A disk on which names change in `wal-kept` only while nobody else may change them.
struct Watched {
    disk: SimDisk,
    kept: OnceLock<Arc<KeptLog>>,
    changes: AtomicU64,
    /// What it says that is free, if not what is.
    free_bytes: Option<u64>,
}

impl Watched {
    fn note(&self, path: &Path) {
        if let Some(kept) = self.kept.get().filter(|kept| path.starts_with(&kept.kept)) {
            assert!(kept.changing.is_locked(), "{}", path.display());
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Disk for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, mode)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note(path);
        self.disk.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note(to);
        self.disk.hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.note(dir);
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.free_bytes.map_or_else(|| self.disk.free_bytes(dir), Ok)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

/// So many segments, each with a large value.
fn with_segments(disk: &SimDisk, count: u64) {
    let dir = Path::new(DIR);
    for dir in [paths::wal_dir(dir), paths::blobs_dir(dir)] {
        disk.create_dir_all(&dir).expect("a directory");
    }
    for number in 1..=count {
        let mut wal = WalWriter::create(disk, dir, number, 4 << 10).expect("room");
        wal.begin(number, Some(7)).expect("room");
        disk.open(&paths::blob(dir, number), OpenMode::CreateNew).expect("room");
    }
}

/// What was linked stayed, and nobody knew of it: a full disk did not get its room back.
#[test]
fn what_cannot_be_kept_leaves_nothing_behind() {
    let (env, disk, _clock) = sim::env(1);
    with_segments(&disk, 1);
    let kept = KeptLog::open(&env.disk, &env.clock, Path::new(DIR), 1_000).expect("room");
    let names = || disk.list(&kept.kept).expect("a directory");
    for (operation, after) in [(Operation::Link, 0), (Operation::Link, 1), (Operation::SyncDir, 0)] {
        disk.fail_operation(after, Fault::storage_full().on(operation));
        kept.keep(1, 2, &[1].into()).expect_err("the disk is full");
        disk.clear_faults();
        assert_eq!(names(), Vec::<String>::new(), "{operation:?} {after}");
    }
    kept.keep(1, 2, &BTreeSet::new()).expect("room");
    disk.fail_operation(0, Fault::storage_full().on(Operation::SyncDir));
    kept.keep(1, 2, &[1].into()).expect_err("the disk is full");
    disk.clear_faults();
    assert_eq!(names().len(), 1, "the segment itself");
    kept.keep(1, 2, &[1].into()).expect("room");
    assert_eq!(names().len(), 2);
}

/// On a disk that was nearly full, a segment could be removed by one thread while another kept it: what stayed was a segment without
/// its large values, or one that was said to be kept and was not there.
#[test]
fn nobody_removes_a_segment_while_it_is_kept() {
    let (env, disk, clock) = sim::env(1);
    with_segments(&disk, 3);
    let dir = Path::new(DIR);
    let watched =
        Arc::new(Watched { disk, kept: OnceLock::new(), changes: AtomicU64::new(0), free_bytes: None });
    let disk: Arc<dyn Disk> = Arc::clone(&watched) as Arc<dyn Disk>;
    let kept = Arc::new(KeptLog::open(&disk, &env.clock, dir, 1_000).expect("room"));
    assert!(watched.kept.set(Arc::clone(&kept)).is_ok());
    let changes_of = |change: &dyn Fn()| {
        change();
        watched.changes.swap(0, Ordering::Relaxed)
    };
    for number in 1..=3 {
        let keep = || kept.keep(number, number + 1, &[number].into()).expect("room");
        assert_eq!(changes_of(&keep), 3, "its large value, itself, and the sync of both");
    }
    assert_eq!(changes_of(&|| kept.keep(1, 2, &[1, 2].into()).expect("room")), 2, "another large value");
    clock.advance(std::time::Duration::from_secs(2));
    assert!(changes_of(&|| kept.remove_old()) > 0);
    for number in 1..=2 {
        kept.keep(number, number + 1, &[number].into()).expect("room");
    }
    assert_eq!(changes_of(&|| assert!(kept.remove_oldest().is_some())), 2 * 3 + 3);
    assert_eq!(changes_of(&|| assert!(kept.remove_all())), 3);
}

/// All of it went: the file system shows room only once it has written down that files are gone.
#[test]
fn a_disk_that_shows_room_late_takes_no_more_than_it_needs() {
    const RESERVE_BYTES: u64 = 1 << 20;
    let (env, disk, clock) = sim::env(1);
    with_segments(&disk, 10);
    let dir = Path::new(DIR);
    let free_bytes = Some(2 * RESERVE_BYTES - (2 << 10));
    let late = Watched { disk, kept: OnceLock::new(), changes: AtomicU64::new(0), free_bytes };
    let disk: Arc<dyn Disk> = Arc::new(late);
    let kept = Arc::new(KeptLog::open(&disk, &env.clock, dir, 1_000).expect("room"));
    (1..=10).for_each(|number| kept.keep(number, number + 1, &[number].into()).expect("room"));
    let blobs = BlobRegistry::new(disk, dir.to_path_buf(), RESERVE_BYTES, Arc::default());
    blobs.may_remove(&kept);
    let left = || {
        blobs.observe_space();
        kept.segments(0, usize::MAX).len()
    };
    assert_eq!([left(), left()], [9, 9], "half of one is missing");
    clock.advance(std::time::Duration::from_nanos(ROOM_SHOWS_NS));
    assert_eq!([left(), left()], [8, 8], "it was not enough");
    assert!(blobs.remove_kept_log(), "a write found no room");
    assert_eq!(left(), 0);
}
