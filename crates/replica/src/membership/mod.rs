//! Who the nodes are.
//!
//! - `limits`: who there is, what they may cost
//! - `kept`: the list of nodes in the data directory; `durable`: what a node remembers of the others there
//! - `view`: what is known of each peer; `name`: where it is

pub(crate) mod durable;
mod kept;
mod limits;
mod name;
mod view;

pub use kept::{Kept, KeptError, Provenance, check_files};
pub use limits::{Membership, PeerLimits};

pub(crate) use name::PeerName;
pub(crate) use view::PeerView;
