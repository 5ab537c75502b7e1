//! The service on Apache Cassandra or `ScyllaDB`: a door without a store of its own. `docs/cassandra.md` describes what it makes of
//! requests.
//!
//! - `settings`: by what Cassandra is reached; `start_error`: why it is not
//! - `driver`: the connections and their threads; `connect`: how they are made; `place`: where keys live; `shared`: what all event
//!   loops share; `at`: what a request goes by
//! - `loop_session`: the connections of one event loop; `sessions`: those of all, for figures
//! - `schema`: keyspaces and tables; `tables`: their columns; `making`: who waits for them; `keyspace`: the statements of one of them
//! - `service`: the operations
//! - `read`: of one key; `write`: by the newest timestamp; `decide`: writes that Cassandra decides about
//! - `upload`, `pieces`: values that do not fit into a row; `sweep`: pieces that no row names any more; `unnamed`: which
//! - `range`: keys in their order
//! - `row`: what is in a row; `clock`: versions; `lifetime`: when values end; `consistency`: how many copies answer
//! - `synced`: whether what is acknowledged is on disk; `one_node`: what one node alone is asked
//! - `readiness`: what would keep requests from being served; `watch` finds it
//! - `failure`: what Cassandra answers instead; `retries`: what it answered before; `metrics`: what is counted; `warnings`: what is logged; `attempts`: what the driver does for
//!   a statement; `latency`: how long nodes take
#![forbid(unsafe_code)]

mod at;
mod attempts;
mod clock;
mod connect;
mod consistency;
mod decide;
mod driver;
mod failure;
mod keyspace;
mod latency;
mod lifetime;
mod loop_session;
mod making;
mod metrics;
mod one_node;
mod pieces;
mod place;
mod range;
mod read;
mod readiness;
mod retries;
mod row;
mod schema;
mod service;
mod sessions;
mod settings;
mod shared;
mod start_error;
mod sweep;
mod synced;
mod tables;
mod unnamed;
mod upload;
mod warnings;
mod watch;
mod write;

pub use clock::WallUs;
pub use driver::Driver;
pub use service::Cassandra;
pub use settings::{Settings, Writes};
pub use start_error::StartError;
pub use upload::{AllPieces, PiecesIn};
