use std::io;
use std::path::Path;

use ladoga_env::Disk;

use crate::hints;
use crate::membership::durable;

/// The node of this data directory runs on its own from now on: should it be started with others again, theirs are of no use, because
/// they may have what is deleted meanwhile. Done again, it changes nothing.
///
/// A node that lacked data then is not the one to say that. Called behind the lock of the directory, and before anything compacts: from
/// then on, deletions may be dropped that the others lack. If the state cannot be read, the node must not run: it would drop them all
/// the same.
pub fn leave_list(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let Some(state) = durable::read(disk, dir)? else { return Ok(()) };
    if state.is_alone() || !state.durable.is_whole {
        return Ok(());
    }
    tracing::warn!(
        "{} is of a node of a cluster, which runs on its own now: what the other nodes have is not used if it is started with them \
         again",
        dir.display()
    );
    // They may be older than deletions that nobody will know of.
    hints::remove_all(disk, &dir.join("hints"))?;
    durable::write(disk, dir, &state.in_no_list().durable, &[])
}

#[cfg(test)]
mod tests {
    use ladoga_env::sim::{self, Fault, Operation};

    use super::*;

    /// The node ran, and dropped deletions that it took the others to have.
    #[test]
    fn a_state_that_cannot_be_read_is_told() {
        let (env, disk, _clock) = sim::env(1);
        let dir = Path::new("/data");
        env.disk.create_dir_all(dir).expect("a directory");
        leave_list(&*env.disk, dir).expect("it was in no list");
        disk.plant(dir.join("replica-state"), b"of another kind");
        let error = leave_list(&*env.disk, dir).expect_err("it is damaged").to_string();
        assert!(error.contains("replica-state is damaged"), "{error}");
        disk.fail_operation(0, Fault::io().on(Operation::Open));
        let error = leave_list(&*env.disk, dir).expect_err("the disk fails").to_string();
        assert!(error.starts_with("open /data/replica-state failed"), "{error}");
    }
}
