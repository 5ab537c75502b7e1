//! The service on Apache Cassandra or `ScyllaDB`: a door without a store of its own. `docs/cassandra.md` describes what it makes of
//! requests.
//!
//! - `settings`: by what Cassandra is reached; `start_error`: why it is not
//! - `driver`: the connections and their threads; `attempts`: what it does for a statement; `shared`: what all event loops share; `connect`: the session of the driver; `schema`: keyspaces
//!   and tables; `keyspace`: the statements of one of them
//! - `service`: the operations
//! - `read`: of one key; `write`: by the newest timestamp; `decide`: writes that Cassandra decides about
//! - `upload`, `pieces`: values that do not fit into a row; `sweep`: pieces that no row names any more
//! - `range`: keys in their order
//! - `row`: what is in a row; `clock`: versions; `lifetime`: when values end; `consistency`: how many copies answer
//! - `failure`: what Cassandra answers instead; `metrics`: what is counted
#![forbid(unsafe_code)]

mod attempts;
mod clock;
mod connect;
mod consistency;
mod decide;
mod driver;
mod failure;
mod keyspace;
mod lifetime;
mod metrics;
mod pieces;
mod range;
mod read;
mod row;
mod schema;
mod service;
mod settings;
mod shared;
mod start_error;
mod sweep;
mod upload;
mod write;

pub use clock::WallUs;
pub use driver::Driver;
pub use service::Cassandra;
pub use settings::{Settings, Writes};
pub use start_error::StartError;
pub use upload::{AllPieces, PiecesIn};
