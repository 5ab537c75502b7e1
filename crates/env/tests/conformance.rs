//! What every disk must do: each test runs on the real one and on the simulated one.
#![expect(clippy::unwrap_used, reason = "a test")]

use ladoga_env::real::RealDisk;
use ladoga_env::sim::{SimClock, SimDisk};
use ladoga_env::{Disk, OpenMode};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An empty directory of the real disk, removed when the test ends.
struct TempDir {
    path: PathBuf,
}

impl TempDir {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ladoga-env-{}-{count}", std::process::id()));
        RealDisk::new().create_dir_all(&path).unwrap();
        Self { path }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).unwrap();
    }
}

fn on_both(test: impl Fn(&dyn Disk, &Path)) {
    let sim = SimDisk::new(1, SimClock::new());
    let dir = Path::new("/data");
    sim.create_dir_all(dir).unwrap();
    test(&sim, dir);
    let real = TempDir::new();
    test(&RealDisk::new(), &real.path);
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    disk.open(path, OpenMode::CreateNew).unwrap().write_all_at(bytes, 0).unwrap();
}

fn read(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

#[test]
fn open_modes_mean_what_they_say() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        assert_eq!(kind(disk.open(&path, OpenMode::Read)), ErrorKind::NotFound);
        assert_eq!(kind(disk.open(&path, OpenMode::ReadWrite)), ErrorKind::NotFound);
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        assert_eq!(kind(disk.open(&path, OpenMode::CreateNew)), ErrorKind::AlreadyExists);
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(b"X", 1).unwrap();
        assert_eq!(read(disk, &path), b"aXc");
        assert_eq!(kind(disk.open(&dir.join("absent/file"), OpenMode::CreateNew)), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_opened_to_be_read_cannot_be_changed() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        write(disk, &path, b"abc");
        let file = disk.open(&path, OpenMode::Read).unwrap();
        assert!(file.write_all_at(b"X", 0).is_err());
        assert!(file.allocate(10).is_err());
        assert!(file.truncate(1).is_err());
        file.sync_data().unwrap();
        assert_eq!(read(disk, &path), b"abc");
    });
}

#[test]
fn writes_grow_the_file_and_holes_read_as_zero() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_all_at(b"end", 10_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_003);
        let mut bytes = [1; 10_003];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..10_000].iter().all(|&byte| byte == 0));
        assert_eq!(&bytes[10_000..], b"end");
        file.write_all_at(b"", 20_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_003);
    });
}

#[test]
fn a_read_past_the_end_is_unexpected_eof() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        let mut bytes = [0; 3];
        assert_eq!(kind(file.read_exact_at(&mut bytes, 1)), ErrorKind::UnexpectedEof);
        assert_eq!(kind(file.read_exact_at(&mut bytes, 1000)), ErrorKind::UnexpectedEof);
        assert!(!file.try_read_exact_at(&mut bytes, 1).unwrap());
        file.read_exact_at(&mut [], 3).unwrap();
        file.read_exact_at(&mut [], 1000).unwrap();
        assert!(file.try_read_exact_at(&mut [], 1000).unwrap());
    });
}

#[test]
fn offsets_beyond_the_kernels_are_refused() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        assert!(file.read_exact_at(&mut [0; 3], u64::MAX).is_err());
        assert!(file.try_read_exact_at(&mut [0; 3], u64::MAX).is_err());
        assert!(file.write_all_at(b"abc", u64::MAX).is_err());
        assert!(file.allocate(u64::MAX).is_err());
        assert!(file.truncate(u64::MAX).is_err());
        assert_eq!(file.len().unwrap(), 0);
    });
}

#[test]
fn a_read_that_does_not_wait_answers_the_same_bytes_or_nothing() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        file.start_writeback(0, 4096);
        file.start_writeback(0, 0);
        let mut bytes = [0; 100];
        if file.try_read_exact_at(&mut bytes, 4050).unwrap() {
            assert_eq!(bytes, [7; 100]);
        }
    });
}

#[test]
fn allocate_grows_with_zeros_and_never_shrinks() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        file.allocate(0).unwrap();
        assert_eq!(file.len().unwrap(), 0);
        file.write_all_at(b"abc", 0).unwrap();
        file.allocate(5000).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        let mut bytes = [1; 5000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes[..4], b"abc\0");
        assert!(bytes[3..].iter().all(|&byte| byte == 0));
        file.allocate(100).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
    });
}

#[test]
fn allocating_more_than_there_is_fails_and_leaves_the_file_alone() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        let too_much = disk.free_bytes(dir).unwrap() + (1 << 30);
        assert_eq!(kind(file.allocate(too_much)), ErrorKind::StorageFull);
        assert_eq!(read(disk, &dir.join("file")), b"abc");
    });
}

#[test]
fn truncate_cuts_off_for_good() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        file.truncate(2).unwrap();
        assert_eq!(file.len().unwrap(), 2);
        file.truncate(4).unwrap();
        assert_eq!(read(disk, &dir.join("file")), b"ab\0\0");
    });
}

#[test]
fn list_is_sorted_names_of_files_and_directories() {
    on_both(|disk, dir| {
        for name in ["b", "a", "c", "10", "9"] {
            write(disk, &dir.join(name), b"");
        }
        disk.create_dir_all(&dir.join("bb/inner")).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["10", "9", "a", "b", "bb", "c"]);
        assert_eq!(disk.list(&dir.join("bb")).unwrap(), ["inner"]);
        assert_eq!(kind(disk.list(&dir.join("absent"))), ErrorKind::NotFound);
    });
}

#[test]
fn create_dir_all_creates_parents_and_accepts_what_exists() {
    on_both(|disk, dir| {
        let inner = dir.join("a/b/c");
        disk.create_dir_all(&inner).unwrap();
        write(disk, &inner.join("file"), b"x");
        disk.create_dir_all(&inner).unwrap();
        assert_eq!(read(disk, &inner.join("file")), b"x");
        assert_eq!(kind(disk.create_dir_all(&inner.join("file"))), ErrorKind::AlreadyExists);
        assert_eq!(kind(disk.create_dir_all(&inner.join("file/below"))), ErrorKind::AlreadyExists);
    });
}

#[test]
fn rename_replaces_and_open_files_live_on() {
    on_both(|disk, dir| {
        let (old, new) = (dir.join("old"), dir.join("new"));
        assert_eq!(kind(disk.rename(&old, &new)), ErrorKind::NotFound);
        write(disk, &old, b"old");
        write(disk, &new, b"new");
        let replaced = disk.open(&new, OpenMode::Read).unwrap();
        disk.rename(&old, &new).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["new"]);
        assert_eq!(read(disk, &new), b"old");
        let mut bytes = [0; 3];
        replaced.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"new");
        disk.rename(&new, &new).unwrap();
        assert_eq!(read(disk, &new), b"old");
    });
}

#[test]
fn rename_between_two_names_of_a_file_does_nothing() {
    on_both(|disk, dir| {
        write(disk, &dir.join("a"), b"x");
        disk.hard_link(&dir.join("a"), &dir.join("b")).unwrap();
        disk.rename(&dir.join("a"), &dir.join("b")).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["a", "b"]);
    });
}

#[test]
fn a_hard_link_is_the_same_file() {
    on_both(|disk, dir| {
        let (a, b) = (dir.join("a"), dir.join("b"));
        assert_eq!(kind(disk.hard_link(&a, &b)), ErrorKind::NotFound);
        write(disk, &a, b"abc");
        disk.hard_link(&a, &b).unwrap();
        assert_eq!(kind(disk.hard_link(&a, &b)), ErrorKind::AlreadyExists);
        disk.open(&b, OpenMode::ReadWrite).unwrap().write_all_at(b"X", 0).unwrap();
        assert_eq!(read(disk, &a), b"Xbc");
        disk.remove(&a).unwrap();
        assert_eq!(read(disk, &b), b"Xbc");
    });
}

#[test]
fn a_removed_file_is_readable_while_open() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        assert_eq!(kind(disk.remove(&path)), ErrorKind::NotFound);
        write(disk, &path, b"abc");
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        disk.remove(&path).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(kind(disk.open(&path, OpenMode::Read)), ErrorKind::NotFound);
        file.write_all_at(b"d", 3).unwrap();
        file.sync_data().unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abcd");
        write(disk, &path, b"another");
        assert_eq!(file.len().unwrap(), 4);
    });
}

#[test]
fn a_directory_is_not_removed_as_a_file() {
    on_both(|disk, dir| {
        disk.create_dir_all(&dir.join("inner")).unwrap();
        assert!(disk.remove(&dir.join("inner")).is_err());
        assert!(disk.open(&dir.join("inner"), OpenMode::ReadWrite).is_err());
        assert_eq!(disk.list(dir).unwrap(), ["inner"]);
    });
}

#[test]
fn a_lock_is_held_once_until_it_is_dropped() {
    on_both(|disk, dir| {
        let path = dir.join("LOCK");
        let lock = disk.lock(&path).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["LOCK"]);
        assert_eq!(kind(disk.lock(&path)), ErrorKind::WouldBlock);
        let other = disk.lock(&dir.join("OTHER")).unwrap();
        drop(lock);
        drop(disk.lock(&path).unwrap());
        drop(disk.lock(&path).unwrap());
        drop(other);
    });
}

#[test]
fn a_lock_leaves_the_bytes_of_its_file_alone() {
    on_both(|disk, dir| {
        write(disk, &dir.join("LOCK"), b"note");
        let lock = disk.lock(&dir.join("LOCK")).unwrap();
        assert_eq!(read(disk, &dir.join("LOCK")), b"note");
        drop(lock);
    });
}

#[test]
fn free_bytes_and_sync_dir_need_a_directory_that_exists() {
    on_both(|disk, dir| {
        assert!(disk.free_bytes(dir).unwrap() > 0);
        disk.sync_dir(dir).unwrap();
        assert_eq!(kind(disk.free_bytes(&dir.join("absent"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.sync_dir(&dir.join("absent"))), ErrorKind::NotFound);
    });
}

#[test]
fn threads_share_a_file() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let file = &file;
                scope.spawn(move || {
                    let offset = u64::from(thread) * 1000;
                    file.write_all_at(&[thread; 1000], offset).unwrap();
                    file.sync_data().unwrap();
                    let mut bytes = [9; 1000];
                    file.read_exact_at(&mut bytes, offset).unwrap();
                    assert_eq!(bytes, [thread; 1000]);
                });
            }
        });
        assert_eq!(file.len().unwrap(), 4000);
    });
}

#[test]
fn both_environments_can_be_made() {
    let real = ladoga_env::real::env().unwrap();
    let (sim, ..) = ladoga_env::sim::env(1);
    for env in [real, sim] {
        assert!(env.rng.below(10) < 10);
        assert!(env.clock.wall_ms() > 0);
        assert!(env.disk.list(Path::new("/")).is_ok());
    }
}
