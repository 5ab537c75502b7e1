use std::sync::Arc;

use ladoga_env::Replacement;

use super::{Inner, View};
use crate::error::Error;
use crate::frame::LogId;
use crate::levels::{Edit, Manifest};
use crate::memtable::Memtable;
use crate::paths;
use crate::table::Table;

impl Inner {
    /// Current to next, persist, publish: the only place where the set of tables changes.
    pub(super) fn install(
        &self,
        mut edit: Edit,
        added: &[(usize, Arc<Table>)],
        removed: &[u64],
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<(), Error> {
        let mut manifest = self.upkeep.manifest.lock();
        edit.next_file = Some(self.new_file_number());
        if let Err(error) = self.prepare_edit(&mut manifest, &edit) {
            self.discard(added, removed);
            return Err(error);
        }
        // Reads come as soon as it is published, and some of them may not wait for the disk.
        added.iter().for_each(|(_, table)| table.warm());
        manifest.append(&edit).map_err(|error| self.poison(&error))?;
        self.reads.publish(|view| View {
            active: view.active.clone(),
            sealed: view
                .sealed
                .iter()
                .filter(|sealed| flushed.is_none_or(|flushed| !Arc::ptr_eq(sealed, flushed)))
                .cloned()
                .collect(),
            levels: Arc::new(view.levels.with(added, removed)),
        });
        self.background.observe(&self.reads.view.load().levels, self.env.clock.monotonic_ns());
        if manifest.is_long(self.budget.manifest_bytes()) {
            self.replace_manifest(&mut manifest);
        }
        Ok(())
    }

    /// All that can fail without harm.
    fn prepare_edit(&self, manifest: &mut Manifest, edit: &Edit) -> Result<(), Error> {
        self.check_writable()?;
        self.end_replacing(manifest)?;
        manifest.reserve(edit)
    }

    /// Begins a new manifest in the place of one that has become long: the next open reads it as a whole.
    fn replace_manifest(&self, manifest: &mut Manifest) {
        let disk = &*self.env.disk;
        let number = self.new_file_number();
        let levels = self.current_levels();
        let tables = levels.iter().map(|(level, table)| (level, table.meta().clone())).collect();
        let everything = manifest.everything(number + 1, tables);
        let prepared =
            Manifest::prepare(disk, &self.dir, LogId { number, secret: self.writes.secret }, &everything)
                .and_then(|next| match next.prepare_current(disk, &self.dir) {
                    Ok(current) => Ok((next, current)),
                    Err(error) => {
                        _ = disk.remove(next.path());
                        Err(error)
                    }
                });
        let (next, current) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                // Nothing is lost: the old manifest stays in use, and the next edit tries again.
                tracing::warn!(%error, "could not begin a new manifest");
                return;
            }
        };
        if let Err(error) = current.rename(disk).map_err(Error::from) {
            if error.may_pass() {
                _ = disk.remove(&Replacement::temporary(&self.dir.join(paths::CURRENT)));
                _ = disk.remove(next.path());
                tracing::warn!(%error, "could not begin a new manifest");
            } else {
                // It is unknown which manifest `CURRENT` names.
                self.poison(&error);
            }
            return;
        }
        manifest.go_on_in(next);
        if let Err(error) = self.end_replacing(manifest) {
            tracing::warn!(%error, "could not sync the name of the new manifest");
        }
    }

    /// Has `CURRENT` name the manifest durably, if it may still be the one before after a crash. Until then nothing is appended:
    /// both say the same.
    fn end_replacing(&self, manifest: &mut Manifest) -> Result<(), Error> {
        let Some(old) = manifest.replaced() else { return Ok(()) };
        let synced = self.env.disk.sync_dir(&self.dir).map_err(Error::io("sync directory", &self.dir));
        // If the directory could not be opened, nothing was synced, and the next edit tries again. Otherwise it is unknown which
        // manifest `CURRENT` names.
        synced.map_err(|error| if error.is_out_of_descriptors() { error } else { self.poison(&error) })?;
        if let Err(error) = self.env.disk.remove(old) {
            // The next open does it.
            tracing::warn!(%error, "could not remove the old manifest");
        }
        manifest.forget_replaced();
        Ok(())
    }

    /// Removes tables that were written and are named by nothing; one that only moves is named still.
    fn discard(&self, tables: &[(usize, Arc<Table>)], moved: &[u64]) {
        for (_, table) in tables.iter().filter(|(_, table)| !moved.contains(&table.meta().number)) {
            _ = self.env.disk.remove(table.path());
        }
    }
}
