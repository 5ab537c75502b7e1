use super::clock::SimClock;
use super::faults::{Fault, Operation};
use super::file::{SimFile, SimLock};
use super::names::os_error;
use super::power::PowerCut;
use super::ring::SimRing;
use super::state::DiskState;
use crate::{Disk, File, Lock, OpenMode, ReadRing};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A file system in memory that can lose its power, fail, fill up and decay. Clones are the same disk.
///
/// - Bytes are durable after a [`File::sync_data`] that succeeded, names after a [`Disk::sync_dir`] that did;
///   directories are durable when [`Disk::create_dir_all`] returns. The rest is up to the [`PowerCut`].
/// - What a failed sync covered is never going to be durable, whatever a later one answers; until the power fails it
///   is there. Linux is like that.
/// - A rename is durable or not as a whole, also between two directories; syncing one of them is enough.
/// - Relative paths start at the root, which is the only directory of a new disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<DiskState>>,
    /// If set, the handle dies with the event that ends this generation.
    generation: Option<u64>,
}

impl SimDisk {
    /// An empty disk; its dice are seeded, its latencies go to `clock`.
    pub fn new(seed: u64, clock: SimClock) -> Self {
        Self { state: Arc::new(Mutex::new(DiskState::new(seed, clock))), generation: None }
    }

    /// A handle that dies with the next power cut or [`SimDisk::kill_process`], as open files do. For a program whose
    /// threads may outlive the cut: they must not touch what their successor writes.
    #[must_use]
    pub fn attached(&self) -> Self {
        let generation = Some(self.state.lock().generation());
        Self { state: Arc::clone(&self.state), generation }
    }

    // Power.

    /// Cuts the power: what was not synced may be lost, according to `policy`; open files and locks are dead, planned faults
    /// are forgotten, and everything fails (see [`super::is_power_off`]) until [`SimDisk::power_on`].
    pub fn power_cut(&self, policy: PowerCut) {
        self.state.lock().power_cut(policy);
    }

    /// Gives the power back. Files opened before stay dead.
    pub fn power_on(&self) {
        self.state.lock().power_on();
    }

    /// Whether there is power.
    pub fn is_powered(&self) -> bool {
        self.state.lock().powered()
    }

    /// As `kill -9` does: open files and locks are dead; what was written is there, and no more durable than before.
    pub fn kill_process(&self) {
        self.state.lock().end_handles();
    }

    // Faults. `n` counts from 0: the next operation that matches.

    /// Makes an operation fail: the `n`-th from now of those that the fault is for.
    pub fn fail_operation(&self, n: u64, fault: Fault) {
        self.state.lock().faults.add(n, fault);
    }

    /// Cuts the power in the middle of the `n`-th mutating operation from now; the policy decides how much of it is done. A
    /// sync then has no effect of its own.
    pub fn cut_power_at_operation(&self, n: u64, policy: PowerCut) {
        self.fail_operation(n, Fault::power_cut_at_operation(policy));
    }

    /// Cuts the power before the `n`-th sync from now, of a file or a directory, takes effect.
    pub fn cut_power_at_sync(&self, n: u64, policy: PowerCut) {
        self.fail_operation(n, Fault::power_cut_at_sync(policy));
    }

    /// Forgets the faults and power cuts that are still to come, and the sticky ones.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// How many operations were hit by faults and planned power cuts so far.
    pub fn faults_hit(&self) -> u64 {
        self.state.lock().faults.hits()
    }

    /// How many operations there were so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().faults.operations()
    }

    /// How many operations of a kind there were so far.
    pub fn operations_of(&self, operation: Operation) -> u64 {
        self.state.lock().faults.operations_of(operation)
    }

    // The world around the files.

    /// Bounds the sum of the lengths of all files that have a name. `None` is no bound.
    pub fn set_capacity(&self, bytes: impl Into<Option<u64>>) {
        self.state.lock().capacity_bytes = bytes.into();
    }

    /// Whether reads that refuse to wait succeed (they do at first).
    pub fn set_cached(&self, cached: bool) {
        self.state.lock().cached = cached;
    }

    /// Whether there are read rings (there are at first).
    pub fn set_rings(&self, has_rings: bool) {
        self.state.lock().has_rings = has_rings;
    }

    /// What an operation of this kind costs on the clock (nothing at first).
    pub fn set_latency(&self, operation: Operation, latency: Duration) {
        self.state.lock().latencies.insert(operation, latency);
    }

    // Behind the program's back; without power too.

    /// Every name of every file, sorted, from the root.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state.lock().names.paths()
    }

    /// The bytes of a file as a program would read them.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        Ok(state.inode(state.find(path.as_ref())?).current().to_vec())
    }

    /// The bytes of a file as [`PowerCut::LoseAll`] would leave them; `NotFound` if it would leave no file.
    pub fn read_durable(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        Ok(state.inode(state.find_durable(path.as_ref())?).durable().to_vec())
    }

    /// The length of a file.
    pub fn file_len(&self, path: impl AsRef<Path>) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.inode(state.find(path.as_ref())?).current().len())
    }

    /// Changes one bit of a file, in memory and on the disk.
    pub fn flip_bit(&self, path: impl AsRef<Path>, offset: u64, bit: u8) -> io::Result<()> {
        assert!(bit < 8, "a byte has 8 bits");
        self.change_bytes(path.as_ref(), offset, 1, |bytes| bytes[0] ^= 1 << bit)
    }

    /// Replaces bytes of a file, in memory and on the disk.
    pub fn corrupt(&self, path: impl AsRef<Path>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change_bytes(path.as_ref(), offset, bytes.len(), |old| old.copy_from_slice(bytes))
    }

    /// Durably creates a file with these bytes, like an administrator who restores a backup.
    ///
    /// # Panics
    /// If there is one already, or no power.
    pub fn plant(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = path.as_ref();
        let dir = path.parent().unwrap_or_else(|| Path::new("/"));
        let planted = self.create_dir_all(dir).and_then(|()| {
            let file = self.open(path, OpenMode::CreateNew)?;
            file.write_all_at(bytes, 0)?;
            file.sync_data()?;
            self.sync_dir(dir)
        });
        planted.expect("a new file on a disk that is well");
    }

    /// The number of a file, as [`FileIdentity`](crate::FileIdentity) has it.
    pub fn file_number(&self, path: impl AsRef<Path>) -> io::Result<u64> {
        self.state.lock().find(path.as_ref())
    }

    /// As [`SimDisk::plant`]; the file has this number, which no other has.
    pub fn plant_as(&self, path: impl AsRef<Path>, bytes: &[u8], number: u64) {
        let next = self.state.lock().count_inodes_from(number);
        self.plant(path, bytes);
        self.state.lock().count_inodes_from(next.max(number + 1));
    }

    fn change_bytes(
        &self,
        path: &Path,
        offset: u64,
        count: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let id = state.find(path)?;
        let image = state.inode(id).current();
        if offset.checked_add(count as u64).is_none_or(|end| end > image.len()) {
            return Err(os_error(libc::EINVAL));
        }
        let mut bytes = vec![0; count];
        image.read(&mut bytes, offset);
        change(&mut bytes);
        state.inode_mut(id).corrupt(offset, &bytes);
        Ok(())
    }

    fn living(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let state = self.state.lock();
        state.check_alive(self.generation)?;
        Ok(state)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut state = self.living()?;
        let inode = state.open(path, mode)?;
        Ok(Arc::new(SimFile {
            state: Arc::clone(&self.state),
            inode,
            generation: state.generation(),
            path: path.to_owned(),
            writable: mode != OpenMode::Read,
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.living()?.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.living()?.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.living()?.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.living()?.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.living()?.hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.living()?.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let state = self.living()?;
        if state.names.is_dir(dir) { Ok(state.free_bytes()) } else { Err(os_error(libc::ENOENT)) }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let mut state = self.living()?;
        let inode = state.lock(path)?;
        Ok(Box::new(SimLock { state: Arc::clone(&self.state), inode, generation: state.generation() }))
    }

    fn read_ring(&self, reads_max: usize) -> io::Result<Box<dyn ReadRing>> {
        if !self.living()?.has_rings {
            return Err(os_error(libc::EPERM));
        }
        Ok(Box::new(SimRing::new(Arc::clone(&self.state), reads_max)))
    }
}
