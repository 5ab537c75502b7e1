use std::sync::OnceLock;
use std::time::Duration;

use ladoga_env::sim::{self, Fault, Operation, SimClock, SimDisk};
use ladoga_env::{File, Lock};

use super::room::SHOWS_WITHIN_NS;
use super::*;
use crate::WriteState;
use crate::blob::BlobRegistry;
use crate::wal::WalWriter;

pub(super) const DIR: &str = "/data";
const SEGMENT_BYTES: u64 = 4 << 10;

/// A disk on which names change in `wal-kept` only while nobody else may change them.
pub(super) struct Watched {
    pub(super) disk: SimDisk,
    kept: OnceLock<Arc<KeptLog>>,
    changes: AtomicU64,
    /// What it says that is free.
    free_bytes: AtomicU64,
    /// By how much that grows with each name that is removed.
    shown_bytes: AtomicU64,
    /// Which clock goes on while a name is removed.
    slow: OnceLock<SimClock>,
}

impl Watched {
    fn new(disk: SimDisk, free_bytes: u64) -> Arc<Watched> {
        let (free_bytes, shown_bytes) = (AtomicU64::new(free_bytes), AtomicU64::new(0));
        let (kept, changes, slow) = (OnceLock::new(), AtomicU64::new(0), OnceLock::new());
        Arc::new(Watched { disk, kept, changes, free_bytes, shown_bytes, slow })
    }

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
        if let Some(clock) = self.slow.get() {
            clock.advance(TICK / 2);
        }
        self.free_bytes.fetch_add(self.shown_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
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

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.free_bytes.load(Ordering::Relaxed))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

/// So many segments, each with a large value of so many bytes.
pub(super) fn with_segments(disk: &SimDisk, count: u64, large_bytes: u64) {
    let dir = Path::new(DIR);
    for dir in [paths::wal_dir(dir), paths::blobs_dir(dir)] {
        disk.create_dir_all(&dir).expect("a directory");
    }
    for number in 1..=count {
        let mut wal = WalWriter::create(disk, dir, number, SEGMENT_BYTES).expect("room");
        wal.begin(number, Some(7)).expect("room");
        let large = disk.open(&paths::blob(dir, number), OpenMode::CreateNew).expect("room");
        large.allocate(large_bytes).expect("room");
    }
}

/// What was linked stayed, and nobody knew of it: a full disk did not get its room back.
#[test]
fn what_cannot_be_kept_leaves_nothing_behind() {
    let (env, disk, _clock) = sim::env(1);
    with_segments(&disk, 1, 0);
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

#[test]
fn what_is_left_of_an_attempt_to_keep_takes_nothing_from_the_next_one() {
    let (env, disk, _clock) = sim::env(1);
    with_segments(&disk, 1, 10);
    let kept = KeptLog::open(&env.disk, &env.clock, Path::new(DIR), 1_000).expect("room");
    disk.fail_operation(0, Fault::too_many_files().on(Operation::SyncDir).sticky());
    kept.keep(1, 2, &[1].into()).expect_err("no descriptor");
    kept.keep(1, 2, &[1].into()).expect_err("no descriptor");
    disk.clear_faults();
    kept.keep(1, 2, &[1].into()).expect("room");
    kept.remove_old();
    assert_eq!(disk.list(&kept.kept).expect("a directory").len(), 2);
    assert_eq!(kept.statistics().bytes, SEGMENT_BYTES + 10);
}

/// It stayed as long as it was made until it was removed.
#[test]
fn what_cannot_be_shortened_for_lack_of_descriptors_is_shortened_later() {
    let (env, disk, _clock) = sim::env(1);
    with_segments(&disk, 1, 0);
    let kept = KeptLog::open(&env.disk, &env.clock, Path::new(DIR), 1_000).expect("room");
    kept.ends_at(1, 100);
    kept.keep(1, 2, &BTreeSet::new()).expect("room");
    disk.fail_operation(0, Fault::too_many_files().on(Operation::Open).sticky());
    kept.shorten(1);
    kept.remove_old();
    assert_eq!(kept.statistics().bytes, SEGMENT_BYTES);
    disk.clear_faults();
    kept.remove_old();
    let path = kept.path(LogFile::Segment(1)).expect("it is kept");
    assert_eq!((kept.statistics().bytes, disk.file_len(path).expect("a file")), (100, 100));
}

/// On a disk that was nearly full, a segment could be removed by one thread while another kept it: what stayed was a segment without
/// its large values, or one that was said to be kept and was not there.
#[test]
fn nobody_removes_a_segment_while_it_is_kept() {
    let (env, disk, clock) = sim::env(1);
    with_segments(&disk, 3, 0);
    let dir = Path::new(DIR);
    let watched = Watched::new(disk, 0);
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
    clock.advance(Duration::from_secs(2));
    assert!(changes_of(&|| kept.remove_old()) > 0);
    for number in 1..=2 {
        kept.keep(number, number + 1, &[number].into()).expect("room");
    }
    let limits = RoomLimits { reserve_bytes: 0, wanted_bytes: 1 };
    assert_eq!(changes_of(&|| assert_eq!(kept.make_room(0, limits, &|| None), 0)), 2 * 3 + 3);
    assert_eq!(changes_of(&|| assert!(kept.remove_all())), 3);
}

pub(super) const RESERVE_BYTES: u64 = 3 << 10;
/// With so much, half a segment is missing.
const LITTLE_BYTES: u64 = 2 * RESERVE_BYTES - SEGMENT_BYTES / 2;
const TICK: Duration = Duration::from_millis(250);

/// A disk that is nearly full, and ten segments that may go.
pub(super) struct NearlyFull {
    pub(super) disk: Arc<Watched>,
    pub(super) kept: Arc<KeptLog>,
    pub(super) blobs: Arc<BlobRegistry>,
    pub(super) clock: SimClock,
}

impl NearlyFull {
    /// Each names a large value of so many bytes that the store does not use.
    pub(super) fn new(large_bytes: u64) -> NearlyFull {
        let (env, disk, clock) = sim::env(1);
        with_segments(&disk, 10, large_bytes);
        let dir = Path::new(DIR);
        let watched = Watched::new(disk, LITTLE_BYTES);
        let disk: Arc<dyn Disk> = Arc::clone(&watched) as Arc<dyn Disk>;
        let kept = Arc::new(KeptLog::open(&disk, &env.clock, dir, 1_000).expect("room"));
        (1..=10).for_each(|number| kept.keep(number, number + 1, &[number].into()).expect("room"));
        let blobs = BlobRegistry::new(disk, dir.to_path_buf(), RESERVE_BYTES, Arc::default());
        blobs.may_remove(&kept);
        NearlyFull { disk: watched, kept, blobs, clock }
    }

    pub(super) fn set_free(&self, free_bytes: u64) {
        self.disk.free_bytes.store(free_bytes, Ordering::Relaxed);
    }

    /// So many segments are left by who looks.
    pub(super) fn left(&self) -> usize {
        self.blobs.observe_space();
        self.count()
    }

    fn count(&self) -> usize {
        self.kept.segments(0, usize::MAX).len()
    }
}

/// All of it went, or as much as was missing each tick: the file system shows room only once it has written down that files are gone.
#[test]
fn a_disk_that_shows_room_late_takes_no_more_than_it_needs() {
    let store = NearlyFull::new(0);
    for _ in 0..8 {
        assert_eq!([store.left(), store.left()], [9, 9]);
        store.clock.advance(TICK);
    }
    store.clock.advance(Duration::from_nanos(SHOWS_WITHIN_NS));
    assert_eq!([store.left(), store.left()], [8, 8], "it was not enough");
    assert!(store.blobs.remove_kept_log(), "a write found no room");
    assert_eq!(store.left(), 0);
}

#[test]
fn room_that_shows_is_awaited_no_more() {
    let store = NearlyFull::new(0);
    assert_eq!(store.left(), 9);
    store.set_free(LITTLE_BYTES + SEGMENT_BYTES);
    assert_eq!(store.left(), 9);
    store.set_free(LITTLE_BYTES);
    assert_eq!([store.left(), store.left()], [8, 8], "somebody has used it");
}

/// Puts were refused although there was log that could go.
#[test]
fn who_uses_the_reserve_up_waits_for_no_room_that_shows_late() {
    let store = NearlyFull::new(0);
    assert_eq!(store.left(), 9);
    store.set_free(RESERVE_BYTES - 1);
    store.disk.shown_bytes.store(RESERVE_BYTES, Ordering::Relaxed);
    assert_eq!(store.left(), 8);
    assert_eq!(store.blobs.health().state(), WriteState::Open);
}

/// It is looked at with each put that is refused.
#[test]
fn a_full_disk_that_shows_room_late_takes_what_it_lacks_once_a_tick() {
    let store = NearlyFull::new(0);
    let limits = RoomLimits { reserve_bytes: 100, wanted_bytes: 101 };
    let left = || {
        assert_eq!(store.kept.make_room(99, limits, &|| Some(99)), 99);
        store.count()
    };
    assert_eq!([left(), left()], [9, 9]);
    store.clock.advance(TICK);
    assert_eq!([left(), left()], [8, 8]);
}

/// All of it went: what had gone first counted no more once that took longer than a tick.
#[test]
fn a_full_disk_that_takes_its_time_takes_no_more_than_it_lacks() {
    let store = NearlyFull::new(0);
    assert!(store.disk.slow.set(store.clock.clone()).is_ok());
    let limits = RoomLimits { reserve_bytes: 100, wanted_bytes: 99 + 4 * SEGMENT_BYTES };
    store.kept.make_room(99, limits, &|| Some(99));
    assert_eq!(store.count(), 6);
}

/// Each of them removed a segment.
#[test]
fn who_finds_what_another_one_makes_room_for_removes_nothing() {
    let store = NearlyFull::new(0);
    let limits = RoomLimits { reserve_bytes: 0, wanted_bytes: 100 };
    assert_eq!(store.kept.make_room(99, limits, &|| Some(100)), 100);
    assert_eq!(store.count(), 10);
}

/// A large value was admitted for its room, which no removal gives.
#[test]
fn what_nobody_removes_any_more_is_no_room() {
    let store = NearlyFull::new(1 << 20);
    let room = || store.kept.sizes.lock().room_bytes();
    let (before, bytes) = (room(), store.kept.statistics().bytes);
    store.disk.disk.fail_operation(0, Fault::io().on(Operation::SyncDir));
    store.kept.make_room(0, RoomLimits { reserve_bytes: 0, wanted_bytes: 1 }, &|| None);
    store.disk.disk.clear_faults();
    assert_eq!(before - room(), SEGMENT_BYTES + (1 << 20), "of a segment and of its large value");
    assert_eq!(bytes - store.kept.statistics().bytes, SEGMENT_BYTES, "the large value is still there");
}

/// It was, once the store did not use it any more.
#[test]
fn what_nobody_removes_any_more_is_no_room_once_it_is_not_used_either() {
    let mut sizes = KeptSizes::default();
    sizes.add_large(1, 1 << 20);
    sizes.set_stuck(1);
    sizes.set_unused(1);
    assert_eq!((sizes.bytes(), sizes.room_bytes()), (1 << 20, 0));
    sizes.remove_large(1);
    assert_eq!((sizes.bytes(), sizes.room_bytes()), (0, 0));
}

/// Each look removed the next segment, whose large values stayed as those of the ones before it did.
#[test]
fn no_more_goes_while_what_has_gone_gives_nothing_for_lack_of_descriptors() {
    let store = NearlyFull::new(1 << 20);
    store.disk.disk.fail_operation(0, Fault::too_many_files().on(Operation::SyncDir).sticky());
    for _ in 0..5 {
        assert_eq!(store.left(), 9);
        store.clock.advance(Duration::from_nanos(SHOWS_WITHIN_NS));
    }
    store.disk.disk.clear_faults();
    let larges = || store.kept.statistics().bytes >> 20;
    assert_eq!((larges(), store.left(), larges()), (10, 9, 9), "what was left goes first");
}

/// Counts what is told.
#[derive(Default)]
pub(super) struct Told(pub(super) Arc<AtomicU64>);

impl tracing::Subscriber for Told {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// On a disk that cannot be written any more, it was told at each look, four times a second.
#[test]
fn what_cannot_be_removed_is_told_once() {
    let fault = || Fault::io().on(Operation::Remove).sticky();
    // Whoever comes to what tells first decides for all threads whether anybody listens there.
    let first = NearlyFull::new(0);
    first.disk.disk.fail_operation(0, fault());
    first.kept.remove_all();
    let store = NearlyFull::new(0);
    let told = Arc::new(AtomicU64::new(0));
    let _telling = tracing::subscriber::set_default(Told(Arc::clone(&told)));
    let look = || {
        store.clock.advance(Duration::from_secs(2));
        (0..10).for_each(|_| store.kept.remove_old());
        told.load(Ordering::Relaxed)
    };
    store.disk.disk.fail_operation(0, fault());
    assert_eq!((look(), store.count()), (1, 0));
    store.disk.disk.clear_faults();
    assert_eq!((look(), store.kept.statistics().bytes), (1, 0));
}

/// All of them went for a lack of half a large value, as only their own few bytes counted.
#[test]
fn a_segment_gives_the_room_of_large_values_that_nothing_else_has() {
    const LARGE_BYTES: u64 = 1 << 20;
    let store = NearlyFull::new(LARGE_BYTES);
    let make_room = |wanted_bytes| {
        let limits = RoomLimits { reserve_bytes: 0, wanted_bytes };
        store.kept.make_room(0, limits, &|| Some(0));
        store.count()
    };
    assert_eq!(make_room(LARGE_BYTES / 2), 9);
    // Another segment names the next one, too.
    store.kept.keep(3, 4, &[2, 3].into()).expect("room");
    assert_eq!(make_room(LARGE_BYTES + 2 * SEGMENT_BYTES), 8);
    assert_eq!(make_room(3 * LARGE_BYTES), 7, "both go with the other one");
}
