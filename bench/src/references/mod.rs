//! The programs on either side of a comparison: how each is started, driven and read.
//!
//! | module | is |
//! | --- | --- |
//! | [`node`] | our own node |
//! | [`cluster`] | three of them |
//! | [`nginx`] | one worker with a constant answer: what the kernel and a web server cost |
//! | [`redis`] | a store in memory with an append-only file |
//! | [`wrk`] | closed-loop load, for throughput |
//! | [`fio`] | what the disk can do |

pub(crate) mod cluster;
pub(crate) mod fio;
pub(crate) mod nginx;
pub(crate) mod node;
pub(crate) mod redis;
pub(crate) mod wrk;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::stop::{OrFail, Outcome};

/// An address of this machine on which nobody listens.
pub(crate) fn free_address() -> Outcome<SocketAddr> {
    free_addresses::<1>().map(|[address]| address)
}

/// As [`free_address`], all different.
fn free_addresses<const COUNT: usize>() -> Outcome<[SocketAddr; COUNT]> {
    // All listen before one of them stops: a port that was let go is given out again.
    let mut listeners = Vec::with_capacity(COUNT);
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); COUNT];
    for address in &mut addresses {
        let listener = TcpListener::bind(*address).or_fail(|| "no port is free".to_owned())?;
        *address = listener.local_addr().or_fail(|| "a listener has no address".to_owned())?;
        listeners.push(listener);
    }
    Ok(addresses)
}
