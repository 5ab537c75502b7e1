//! The tools by which black-box tests drive the binary: processes, raw connections, files, conditions with a deadline.
//!
//! - `wait`: conditions with a deadline; nothing here sleeps for a fixed time
//! - `files`: directories that are removed, bits that flip
//! - `network`: nodes with a network each, which can be cut
//! - `port`: ports that no other test on this machine gets
//! - `wall_clock`: wall clocks of nodes, which a test sets
//! - `node`: a `ladoga serve` that is started, stopped, killed and started again
//! - `engine`: on which engine the nodes of a test crate run; real nodes of Cassandra
//! - `command`: any other run of the binary
//! - `connection`: HTTP/1.1 over a raw socket, down to single bytes
//! - `response`: answers, parsed strictly, chunk by chunk
//! - `pipeline`: many requests behind one another, cut anywhere, and the answer to each
//! - `target`: request targets
//! - `metrics`: the Prometheus text format
//! - `browser`: a real browser without a screen, for pages that people look at
//! - `random`: values that compress badly and can be made again
//! - `skip`: tests that cannot run on this machine; `go`: programs in Go that tests need

mod browser;
mod command;
mod connection;
mod engine;
mod files;
mod go;
mod metrics;
mod network;
mod node;
mod pipeline;
mod port;
mod random;
mod response;
mod skip;
mod target;
mod wait;
mod wall_clock;

pub(crate) use browser::{Browser, Page};
pub(crate) use command::{Ladoga, Outcome, Running, closed_pipe, full_disk, ladoga_in};
pub(crate) use connection::Connection;
pub(crate) use engine::{cassandra, differs_on_cassandra, on_cassandra};
pub(crate) use files::{Directory, files_below, find_bytes, flip_bit};
pub(crate) use go::go_program;
pub(crate) use metrics::Metrics;
pub(crate) use network::{Network, in_a_network_of_its_own, retransmissions};
pub(crate) use node::{Launch, Node};
pub(crate) use pipeline::{
    Exchange, Expected, SMUGGLED, bytes_of, cuts_at_boundaries, cuts_from, exchange_cut, expect_answers,
    value_of_requests,
};
pub(crate) use port::Port;
pub(crate) use random::{Random, value};
pub(crate) use response::{Response, assert_refusal};
pub(crate) use skip::{skip, skip_without};
pub(crate) use target::{entity, percent_encoded, range};
pub(crate) use wait::{DEADLINE, wait_for, wait_until};
pub(crate) use wall_clock::WallClocks;
