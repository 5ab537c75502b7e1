//! Who may do what on this node: `ladoga_access` decides, and this enforces it on every way in.
//!
//! - `access`: all of it, as a node is started with it
//! - `need`: what a request needs
//! - `guard`: the tokens of the node, replaced while it runs; `live_token`: one of them, and what it has used
//! - `caller`: a client that has shown one
//! - `hosts`: without tokens, what keeps pages of browsers out
//! - `audit`: what was refused and what operators did, as lines of JSON; `audit_line`: one of them; `pending_line`: one
//!   whose end is awaited
//! - `figures`: what is counted

mod access;
mod audit;
mod audit_line;
mod caller;
mod figures;
mod guard;
mod hosts;
mod live_token;
mod need;
mod pending_line;

pub use access::Access;
pub use audit::{Audit, AuditLog};
pub use guard::Guard;
pub use hosts::Hosts;

pub(crate) use audit_line::AuditLine;
pub(crate) use caller::{Caller, Login};
pub(crate) use figures::tls_metrics;
pub(crate) use live_token::Throttled;
pub(crate) use need::{Need, Unauthorized};
pub(crate) use pending_line::{Asker, PendingLine, is_refusal};
