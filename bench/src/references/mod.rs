//! The programs that stand on either side of a comparison: how each is started, driven and read.
//!
//! | module | is |
//! | --- | --- |
//! | [`node`] | our own node |
//! | [`nginx`] | one worker with a constant answer: what the kernel and a web server cost |
//! | [`redis`] | a store in memory with an append-only file |
//! | [`wrk`] | closed-loop load, for throughput |
//! | [`fio`] | what the disk can do |

pub(crate) mod fio;
pub(crate) mod nginx;
pub(crate) mod node;
pub(crate) mod redis;
pub(crate) mod wrk;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::stop::{OrFail, Outcome};

/// An address of this machine on which nobody listens.
fn free_address() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_fail(|| "no port is free".to_owned())?;
    listener.local_addr().or_fail(|| "a listener has no address".to_owned())
}
