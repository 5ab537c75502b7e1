//! A node over a store that follows a script, and over the engine on a simulated disk.
//!
//! - `scripted`: the store that follows a script; `running`: a node over it
//! - `client`: raw connections
//! - `stages`: opening, serving, draining
//! - `panics`: a node that lost an event loop
//! - `refusals`: errors of a store, and what the node answers
//! - `audit`: what the audit log has of writes that fail, or whose clients are cut off
//! - `patience`: time-outs
//! - `moves`: connections that go from one event loop to another
//! - `bounds`: how many requests and connections there may be at a time
//! - `streams`: answers that are larger than memory; `slow_readers`: clients that take them slowly
//! - `simulated`: the engine on a disk that fills up or fails
//! - `cluster`: a node whose peers are played by the test; `peer`: one of those
//! - `starting`: nodes that do not know yet whether they lost anything
//! - `promises`: what a replica says to conditional writes; `forwarded`: those that another node decides
//! - `coordinator`: what becomes of answers that come late, or not at all; `replica`: what a peer may ask for
//! - `many`: reads that share a frame
//! - `missed`: writes that the node that took them could not store
//! - `large`: large values at nodes whose disk hangs; `ranges`: those of a range over all nodes; `one_replica`: those of one node
//! - `pulls`: what anti-entropy takes over from the others; `left_out`: what it cannot take over now
//! - `taking_part`: which nodes such a range counts on

mod audit;
mod ballots;
mod bounds;
mod client;
mod cluster;
mod coordinator;
mod forwarded;
mod large;
mod left_out;
mod many;
mod missed;
mod moves;
mod one_replica;
mod panics;
mod patience;
mod peer;
mod promises;
mod pulls;
mod ranges;
mod refusals;
mod replica;
mod resumed;
mod running;
mod scripted;
mod simulated;
mod slow_readers;
mod stages;
mod starting;
mod streams;
mod taking_part;
