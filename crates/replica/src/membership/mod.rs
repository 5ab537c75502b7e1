//! The nodes of the cluster.
//!
//! - `limits`: what peers may cost
//! - `membership_file`: the list of nodes in the data directory; `durable`: what a node remembers of the others there
//! - `view`: what is known of each peer; `name`: its address

pub(crate) mod durable;
mod limits;
mod membership_file;
mod name;
mod view;

pub use limits::{Membership, PeerLimits};
pub use membership_file::{MembershipError, MembershipFile, Provenance};

pub(crate) use membership_file::check_files;
pub(crate) use name::PeerName;
pub(crate) use view::PeerView;
