//! Copies that are read where they are.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use ladoga_env::{Disk, File, Lock, OpenMode};
use ladoga_storage::{Durability, OfflineStore};

use crate::support::{Machine, Write, settle, tiny_options, write};

/// A disk that knows which of the files that were opened are still open.
struct Counting {
    disk: Arc<dyn Disk>,
    opened: Mutex<Vec<Weak<dyn File>>>,
}

impl Counting {
    fn open_files(&self) -> usize {
        self.opened.lock().unwrap().iter().filter(|file| file.strong_count() > 0).count()
    }

    fn opened_files(&self) -> usize {
        self.opened.lock().unwrap().len()
    }
}

fn only_read<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for Counting {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        self.opened.lock().unwrap().push(Arc::downgrade(&file));
        Ok(file)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        only_read()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        only_read()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        only_read()
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        only_read()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        only_read()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Lock>> {
        only_read()
    }
}

/// Each table that was read stayed open to the end, in a bucket with 2 MiB of its bytes: a large cluster could not be restored.
#[test]
fn tables_that_were_read_are_closed() {
    const KEYS: u64 = 600;
    let machine = Machine::new(1, tiny_options(Durability::Never));
    let engine = machine.open().unwrap();
    for number in 0..KEYS {
        write(&engine, &[Write::put(format!("key-{number:04}"), number + 1, 300)]).unwrap();
        settle(&engine).unwrap();
    }
    let copy = Path::new("/copy");
    let list = engine.checkpoint(copy).unwrap();
    let disk = Arc::new(Counting { disk: machine.env().disk, opened: Mutex::default() });
    let store = OfflineStore::open(Arc::clone(&disk) as _, copy, &list).unwrap();
    let (mut cells, mut count, mut open_max) = (store.cells().unwrap(), 0, 0);
    while let Some((key, _)) = cells.next_cell().unwrap() {
        assert_eq!(key, format!("key-{count:04}"));
        count += 1;
        open_max = open_max.max(disk.open_files());
    }
    assert_eq!(count, KEYS);
    assert!(disk.opened_files() > 20 && open_max < 12, "{open_max} of {} files", disk.opened_files());
}
