//! Who may do what: tokens, scopes, prefixes and rates, over HTTP and the protocol of Redis.
//!
//! - `tokens`: a file of tokens, and requests that show one
//! - `routes`: every route with every scope
//! - `keys`: prefixes of keys, ranges and batches
//! - `resp`: the same by commands
//! - `reload`: tokens that come and go while requests run
//! - `rates`: what a token may use in a second
//! - `start`: what a node refuses to start with
//! - `pages`: what a page in a browser cannot do
//! - `peers`: nodes that show each other their secret
//! - `audit`: what is written down, and what never is
//! - `client`: the commands of `ladoga` with a token
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod audit;
mod client;
mod keys;
mod pages;
mod peers;
mod rates;
mod reload;
mod resp;
#[path = "../resp/client.rs"]
#[expect(dead_code, reason = "only a part of it is needed here")]
mod resp_client;
mod routes;
mod start;
mod tokens;
