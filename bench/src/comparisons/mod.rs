//! One comparison per claim; the targets are those of the design's performance page.
//!
//! | module | compares |
//! | --- | --- |
//! | [`closed_loop`] | P1, P2, P3: throughput and CPU per request beside nginx and Redis |
//! | [`resp`] | clients of Redis: `SET` and `GET` beside Redis, one by one and 16 at a time |
//! | [`storage`] | P4, P5: the engine alone beside RocksDB and fjall |
//! | [`tail`] | P6, P7: latency at a fixed rate beside nginx |
//! | [`memory`] | P8: the resident set |
//! | [`disk_reads`] | P9: reads from disk beside fio |
//! | [`lookup`] | a part of P9: which block of which table a key is in |
//! | [`restart`] | P10: time to serve again |
//! | [`overload`] | P11: twice the capacity |
//! | [`generator`] | P12, P13: the load generator itself |
//! | [`cluster`] | P14: three nodes beside one |
//! | [`cluster_tail`] | P15: latency through three nodes, well and in trouble |

mod closed_loop;
mod cluster;
mod cluster_tail;
mod disk_reads;
mod generator;
mod lookup;
mod memory;
mod overload;
mod resp;
mod restart;
mod storage;
mod tail;

use crate::context::Context;
use crate::report::Contest;
use crate::stop::{Outcome, Stop};

pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) run: fn(&Context) -> Outcome,
}

pub(crate) const ALL: [Comparison; 17] = [
    Comparison {
        name: "p1",
        claim: "GET of 1,000,000 records in memory: ≥ 1.0 × nginx, at no more CPU a request",
        run: closed_loop::p1,
    },
    Comparison {
        name: "p2",
        claim: "PUT, everysec: ≥ 1.0 × nginx at ≤ 1.1 × its CPU a request; ≥ 1.2 × Redis",
        run: closed_loop::p2,
    },
    Comparison { name: "p3", claim: "PUT, always: ≥ 1.3 × Redis", run: closed_loop::p3 },
    Comparison {
        name: "resp",
        claim: "redis-benchmark SET and GET, 64 connections: -P 1 ≥ Redis, -P 16 ≥ 0.8 × Redis",
        run: resp::resp,
    },
    Comparison {
        name: "p4",
        claim: "storage get, hot: ≤ 0.6 µs, ≥ 6 × RocksDB and fjall, scales with threads",
        run: storage::p4,
    },
    Comparison {
        name: "p5",
        claim: "storage put: ≤ 1.3 µs, ≥ 2.2 × fjall; synced by 64 threads ≥ 2 × RocksDB",
        run: storage::p5,
    },
    Comparison {
        name: "p6",
        claim: "PUT on one connection at half of nginx's rate for 60 s: p99.9 ≤ 1 ms and ≤ 1.5 × nginx's",
        run: tail::p6,
    },
    Comparison {
        name: "p7",
        claim: "half PUT, half GET at half of nginx's capacity while 10,000,000 records are compacted: p99.9 ≤ 1.5 × nginx's",
        run: tail::p7,
    },
    Comparison {
        name: "p8",
        claim: "10,000,000 records in --memory 128MiB: resident set ≤ 144 MiB, range of everything included",
        run: memory::p8,
    },
    Comparison {
        name: "p9",
        claim: "GET larger than memory: within 1.5 × of the disk's own random reads",
        run: disk_reads::p9,
    },
    Comparison {
        name: "lookup",
        claim: "of p9: finding the block of a key, in accesses to main memory; no target",
        run: lookup::lookup,
    },
    Comparison {
        name: "p10",
        claim: "restart after 10,000,000 records: under 1 s; after kill -9 under 3 s",
        run: restart::p10,
    },
    Comparison {
        name: "p11",
        claim: "twice the capacity offered: goodput ≥ 0.9 × peak, 503 within 5 ms",
        run: overload::p11,
    },
    Comparison {
        name: "p12",
        claim: "the load generator costs no more CPU a request than wrk, closed loop, 64 connections",
        run: generator::p12,
    },
    Comparison {
        name: "p13",
        claim: "100,000/s on one thread: rate within 1 %, requests at most 50 µs late at p99",
        run: generator::p13,
    },
    Comparison {
        name: "p14",
        claim: "three nodes: PUT 2/3 costs ≤ 3 × one node's CPU, GET 1/1 through the wrong node ≤ 2 × the right one's",
        run: cluster::p14,
    },
    Comparison {
        name: "p15",
        claim: "three nodes at half of capacity: p99 ≤ 2 × with one frozen, during handoff and during a rebuild",
        run: cluster_tail::p15,
    },
];

/// A reference that is not installed leaves a remark, and no row, in each contest that it would have been in.
fn optional<'c, T>(
    contests: impl IntoIterator<Item = &'c mut Contest>,
    reference: Outcome<T>,
) -> Outcome<Option<T>> {
    match reference {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Skipped(reason)) => {
            for contest in contests {
                contest.note(format!("skipped: {reason}"));
            }
            Ok(None)
        }
        Err(failed) => Err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contest_says_which_reference_is_not_installed() {
        let mut contests = ["p4", "p5"].map(|id| Contest::new(id, "a thing", &[]));
        let absent = || Err::<(), _>(Stop::Skipped("other is not installed".to_owned()));
        assert!(optional(&mut contests, absent()).expect("no failure").is_none());
        for contest in &contests {
            assert_eq!(contest.notes(), ["skipped: other is not installed"]);
        }
        assert!(optional(&mut contests, Ok(())).expect("no failure").is_some());
    }
}
