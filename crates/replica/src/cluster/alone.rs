use std::io;
use std::path::Path;

use ladoga_env::Disk;

use crate::hints;
use crate::membership::durable;

/// The node of this data directory runs on its own from now on: should it be started with others again, theirs are of no use, because
/// they may have what is deleted meanwhile. Done again, it changes nothing.
///
/// A node that lacked data then is not the one to say that. If its state cannot be read, it cannot be started with others.
pub fn leave_list(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let Ok(Some(state)) = durable::read(disk, dir) else { return Ok(()) };
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
