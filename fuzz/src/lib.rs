//! The fuzz targets as functions, and the seeds to begin from.
//!
//! `fuzz_targets/` wraps them for libFuzzer; `tests/smoke.rs` runs them for a moment on stable Rust.

mod answer;
mod batch;
mod certificates;
mod feed_token;
mod http1;
mod resp;
mod seeds;
mod tokens;

pub use answer::{answer, answer_seeds};
pub use batch::batch_seeds;
pub use certificates::{certificate_seeds, certificates};
pub use feed_token::feed_token_seeds;
pub use http1::{http1, http1_seeds};
pub use ladoga_front::fuzzing::batch;
pub use ladoga_local::fuzzing::token as feed_token;
pub use ladoga_node::peers::wire::decode_all as peer;
pub use ladoga_storage::fuzzing::{block, manifest, table_footer, wal};
pub use resp::{resp, resp_seeds};
pub use seeds::{Seeds, peer_seeds, seeds};
pub use tokens::{credential_seeds, credentials, token_seeds, tokens};
