use super::clock::SimClock;
use super::faults::{FaultPlan, Operation, Step};
use super::inode::Inode;
use super::names::{InodeId, Names, not_found, os_error};
use super::power::{PowerCut, power_is_off};
use super::rng::SimRng;
use crate::{OpenMode, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The size of a disk without a set capacity: too big for any test to fill, too small for nonsensical lengths to fit.
const CAPACITY_BYTES_UNSET: u64 = 1 << 40;

/// All of a simulated disk. Each operation is: `begin` it (power, latency, faults), do it, `finish` it (the power may
/// fail in the middle).
pub(super) struct DiskState {
    pub(super) names: Names,
    pub(super) faults: FaultPlan,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) cached: bool,
    pub(super) has_rings: bool,
    pub(super) latencies: BTreeMap<Operation, Duration>,
    inodes: BTreeMap<InodeId, Inode>,
    next_inode: InodeId,
    locked: BTreeSet<InodeId>,
    powered: bool,
    /// Counts what ended all handles: power cuts and killed processes.
    generation: u64,
    clock: SimClock,
    rng: SimRng,
}

impl DiskState {
    pub(super) fn new(seed: u64, clock: SimClock) -> Self {
        Self {
            names: Names::new(),
            faults: FaultPlan::default(),
            capacity_bytes: None,
            cached: true,
            has_rings: true,
            latencies: BTreeMap::new(),
            inodes: BTreeMap::new(),
            next_inode: 1,
            locked: BTreeSet::new(),
            powered: true,
            generation: 0,
            clock,
            rng: SimRng::new(seed),
        }
    }

    /// The next new file has this number; answers which it would have had.
    pub(super) fn count_inodes_from(&mut self, number: InodeId) -> InodeId {
        std::mem::replace(&mut self.next_inode, number)
    }

    // Power.

    pub(super) fn powered(&self) -> bool {
        self.powered
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Fails while the power is off, and for a handle of an earlier generation.
    pub(super) fn check_alive(&self, generation: Option<u64>) -> io::Result<()> {
        let alive = self.powered && generation.is_none_or(|generation| generation == self.generation);
        if alive { Ok(()) } else { Err(power_is_off()) }
    }

    pub(super) fn power_cut(&mut self, policy: PowerCut) {
        if !self.powered {
            return;
        }
        self.powered = false;
        self.end_handles();
        self.faults.clear();
        self.names.power_cut(policy, &self.rng);
        let linked = self.names.linked();
        self.inodes.retain(|id, _| linked.contains(id));
        for inode in self.inodes.values_mut() {
            inode.power_cut(policy, &self.rng);
        }
    }

    pub(super) fn power_on(&mut self) {
        self.powered = true;
    }

    /// Open files and locks end; the bytes and names stay as they are.
    pub(super) fn end_handles(&mut self) {
        self.generation += 1;
        self.locked.clear();
    }

    /// A random number below `count`.
    pub(super) fn pick(&self, count: usize) -> usize {
        self.rng.below(count as u64) as usize
    }

    // Files.

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<InodeId> {
        let creates = mode == OpenMode::CreateNew;
        let step = self.begin(if creates { Operation::Create } else { Operation::Open }, &[path])?;
        let found = if creates { self.create(path) } else { self.find(path) };
        let id = self.finish(step, found)?;
        self.inode_mut(id).handles += 1;
        Ok(id)
    }

    pub(super) fn close(&mut self, id: InodeId) {
        // After a power cut the file may be gone.
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.handles -= 1;
        }
    }

    pub(super) fn read(
        &mut self,
        id: InodeId,
        path: &Path,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<()> {
        let step = self.begin(Operation::Read, &[path])?;
        let image = self.inode(id).current();
        let fits = buffer.is_empty() || end(offset, buffer.len())? <= image.len();
        if fits && !buffer.is_empty() {
            image.read(buffer, offset);
        }
        let result = if fits { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        self.finish(step, result)
    }

    pub(super) fn write(&mut self, id: InodeId, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
        let step = self.begin(Operation::Write, &[path])?;
        let result = self.write_what_fits(id, bytes, offset, step);
        self.finish(step, result)
    }

    /// As on the real disk, a write without enough space writes what there is space for.
    fn write_what_fits(&mut self, id: InodeId, bytes: &[u8], offset: u64, step: Step) -> io::Result<()> {
        let limit = self.growth_limit(id);
        let fitting = end(offset, bytes.len())?.min(limit).saturating_sub(offset) as usize;
        let written = if let Step::Short(bytes) = step { fitting.min(bytes) } else { fitting };
        self.inode_mut(id).write(&bytes[..written], offset);
        match step {
            Step::Short(_) => Err(os_error(libc::EIO)),
            _ if written < bytes.len() => Err(os_error(libc::ENOSPC)),
            _ => Ok(()),
        }
    }

    pub(super) fn allocate(&mut self, id: InodeId, path: &Path, len: u64) -> io::Result<()> {
        let step = self.begin(Operation::Allocate, &[path])?;
        let fits = len <= self.growth_limit(id);
        if fits {
            self.inode_mut(id).grow(len);
        }
        self.finish(step, if fits { Ok(()) } else { Err(os_error(libc::ENOSPC)) })
    }

    pub(super) fn truncate(&mut self, id: InodeId, path: &Path, len: u64) -> io::Result<()> {
        let step = self.begin(Operation::Truncate, &[path])?;
        let result = end(len, 0).map(|len| self.inode_mut(id).truncate(len));
        self.finish(step, result)
    }

    pub(super) fn sync(&mut self, id: InodeId, path: &Path) -> io::Result<()> {
        match self.begin(Operation::Sync, &[path]) {
            Ok(Step::PowerCut(policy)) => self.cut_now(policy),
            Ok(_) => {
                self.inode_mut(id).sync();
                Ok(())
            }
            Err(error) => {
                self.inode_mut(id).fail_sync();
                Err(error)
            }
        }
    }

    // Names.

    pub(super) fn list(&mut self, dir: &Path) -> io::Result<Vec<String>> {
        let step = self.begin(Operation::List, &[dir])?;
        let names = self.names.list(dir);
        self.finish(step, names)
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        let step = self.begin(Operation::CreateDir, &[dir])?;
        let lost = match step {
            Step::PowerCut(PowerCut::LoseAll) => true,
            Step::PowerCut(PowerCut::Random) => self.rng.below(2) == 0,
            _ => false,
        };
        let result = if lost { Ok(()) } else { self.names.create_dir_all(dir) };
        self.finish(step, result)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let step = self.begin(Operation::Rename, &[from, to])?;
        let result = self.try_rename(from, to);
        self.finish(step, result)
    }

    fn try_rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.find(from)?;
        let (from, to) = (self.names.place(from)?, self.names.place(to)?);
        // POSIX: two names of one file stay as they are.
        if self.names.get(&to) != Some(id) {
            self.names.change(vec![(from, None), (to, Some(id))]);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let step = self.begin(Operation::Remove, &[path])?;
        let result = self.find(path).and_then(|_| self.names.place(path));
        let result = result.map(|place| self.names.change(vec![(place, None)]));
        self.finish(step, result)
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let step = self.begin(Operation::Link, &[from, to])?;
        let result = self.find(from).and_then(|id| self.link(to, id));
        self.finish(step, result)
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        match self.begin(Operation::SyncDir, &[dir]) {
            Ok(Step::PowerCut(policy)) => return self.cut_now(policy),
            Ok(_) if !self.names.is_dir(dir) => return Err(not_found()),
            Ok(_) => self.names.sync(dir),
            Err(error) => {
                self.names.fail_sync(dir);
                return Err(error);
            }
        }
        let reachable = self.names.reachable();
        self.inodes.retain(|id, inode| inode.handles > 0 || reachable.contains(id));
        Ok(())
    }

    // Locks.

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<InodeId> {
        let step = self.begin(Operation::Lock, &[path])?;
        let found = match self.find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path),
            found => found,
        };
        let id = self.finish(step, found)?;
        if self.locked.insert(id) { Ok(id) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    pub(super) fn unlock(&mut self, id: InodeId, generation: u64) {
        if generation == self.generation {
            self.locked.remove(&id);
        }
    }

    // Room.

    pub(super) fn free_bytes(&self) -> u64 {
        let capacity = self.capacity_bytes.unwrap_or(CAPACITY_BYTES_UNSET);
        capacity.saturating_sub(self.used_bytes())
    }

    fn used_bytes(&self) -> u64 {
        self.names.linked().iter().map(|id| self.inode(*id).current().len()).sum()
    }

    /// How long a file could become; never less than it is.
    fn growth_limit(&self, id: InodeId) -> u64 {
        match self.capacity_bytes {
            Some(_) => self.inode(id).current().len() + self.free_bytes(),
            None => CAPACITY_BYTES_UNSET,
        }
    }

    // Inside.

    pub(super) fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(&id).expect("what has a name or a living handle is kept")
    }

    pub(super) fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        self.inodes.get_mut(&id).expect("what has a name or a living handle is kept")
    }

    /// The inode of the name, now.
    pub(super) fn find(&self, path: &Path) -> io::Result<InodeId> {
        self.names.get(&self.names.place(path)?).ok_or_else(not_found)
    }

    /// The inode that the name has after a power cut that loses everything.
    pub(super) fn find_durable(&self, path: &Path) -> io::Result<InodeId> {
        self.names.get_durable(&self.names.place(path)?).ok_or_else(not_found)
    }

    fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        let id = self.next_inode;
        self.link(path, id)?;
        self.inodes.insert(id, Inode::default());
        self.next_inode += 1;
        Ok(id)
    }

    fn link(&mut self, path: &Path, id: InodeId) -> io::Result<()> {
        let place = self.names.place(path)?;
        if self.names.get(&place).is_some() {
            return Err(os_error(libc::EEXIST));
        }
        self.names.change(vec![(place, Some(id))]);
        Ok(())
    }

    fn begin(&mut self, operation: Operation, paths: &[&Path]) -> io::Result<Step> {
        self.clock.advance(self.latencies.get(&operation).copied().unwrap_or_default());
        self.faults.next(operation, paths)
    }

    /// If the power fails during an operation, its outcome is lost.
    fn finish<T>(&mut self, step: Step, result: io::Result<T>) -> io::Result<T> {
        match step {
            Step::PowerCut(policy) => self.cut_now(policy),
            Step::Whole | Step::Short(_) => result,
        }
    }

    fn cut_now<T>(&mut self, policy: PowerCut) -> io::Result<T> {
        self.power_cut(policy);
        Err(power_is_off())
    }
}

fn end(offset: u64, len: usize) -> io::Result<u64> {
    // Offsets are signed in the kernel.
    let end = offset.checked_add(len as u64).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| os_error(libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_nobody_can_reach_any_more_are_freed() {
        let mut state = DiskState::new(1, SimClock::new());
        let (path, root) = (Path::new("/file"), Path::new("/"));
        let id = state.open(path, OpenMode::CreateNew).unwrap();
        state.sync_dir(root).unwrap();
        state.remove(path).unwrap();
        state.sync_dir(root).unwrap();
        assert_eq!(state.inodes.len(), 1, "it is open");
        state.close(id);
        state.sync_dir(root).unwrap();
        assert_eq!(state.inodes.len(), 0);
    }
}
