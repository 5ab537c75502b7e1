//! Clients of Redis: the same `redis-benchmark` drives a node and Redis, with the same durability.

use std::net::SocketAddr;

use crate::context::Context;
use crate::process::{Process, find_program};
use crate::references::free_address;
use crate::references::node::{Node, Settings};
use crate::references::redis::{Load, Redis};
use crate::report::{Contest, Figure};
use crate::stop::Outcome;

use super::optional;

const RECORDS: u64 = 1_000_000;
const VALUE_BYTES: usize = 100;
const SECONDS: u64 = 10;
const ROUNDS: usize = 3;
/// Room for the records several times over.
const MEMORY: &str = "1GiB";

const FIGURES: [Figure; 2] =
    [Figure::compared("requests/s", 0), Figure::compared("server CPU, µs/request", 2)];

/// What is asked for: a test of `redis-benchmark`, and how many requests at a time.
const LOADS: [(&str, &str, u32); 4] =
    [("resp-set", "set", 1), ("resp-get", "get", 1), ("resp-set-16", "set", 16), ("resp-get-16", "get", 16)];

pub(crate) fn resp(context: &Context) -> Outcome {
    find_program("redis-benchmark")?;
    for fsync in ["everysec", "always"] {
        if context.wants(fsync) {
            compare(context, fsync)?;
        }
    }
    Ok(())
}

fn compare(context: &Context, fsync: &'static str) -> Outcome {
    let (folder, address) = (context.scratch.fresh("node")?, free_address()?);
    let node = Node::start(&Settings { resp: Some(address), ..context.settings(&folder, fsync, MEMORY)? })?;
    let redis_folder = context.scratch.fresh("redis")?;
    let mut contests: Vec<Contest> = LOADS
        .iter()
        .map(|(id, test, pipeline)| {
            let title =
                format!("{test}, {pipeline} at a time, 64 connections, {VALUE_BYTES} B, fsync {fsync}");
            Contest::new(id, title, &FIGURES).part(fsync)
        })
        .collect();
    let redis = optional(&mut contests, Redis::start(&redis_folder, fsync))?;
    for round in 0..context.scale.rounds(ROUNDS) {
        node.settle(&context.scale)?;
        // Which of the two is first, takes turns.
        for turn in 0..2 {
            for ((_, test, pipeline), contest) in LOADS.iter().zip(&mut contests) {
                let records = context.scale.records(RECORDS);
                let load = Load { test, value_bytes: VALUE_BYTES, records, pipeline: *pipeline };
                match (&redis, (round + turn) % 2) {
                    (_, 0) => measure(context, contest, ("ladoga", &node.process), load, address)?,
                    (Some(redis), _) => {
                        measure(context, contest, ("redis", &redis.process), load, redis.address)?;
                    }
                    (None, _) => {}
                }
            }
        }
    }
    node.stop()?;
    drop(redis);
    for name in ["node", "redis"] {
        context.scratch.remove(name);
    }
    contests.iter().try_for_each(|contest| context.results.publish(contest))
}

fn measure(
    context: &Context,
    contest: &mut Contest,
    (name, process): (&str, &Process),
    load: Load<'_>,
    address: SocketAddr,
) -> Outcome {
    // redis-benchmark takes a count: a short trial says how many requests last as long as is wanted.
    let trial = load.run(address, context.scale.records(20_000))?;
    let seconds = if context.scale.smoke { 0.1 } else { context.scale.whole_seconds(SECONDS) as f64 };
    let before = process.cpu()?;
    let counted = load.run(address, (trial.per_second * seconds).max(1_000.0) as u64)?;
    let cpu = process.cpu()?.saturating_sub(before);
    let subject = contest.subject(name);
    contest.add(subject, &[counted.per_second, cpu.as_secs_f64() * 1e6 / counted.requests as f64]);
    contest.command(subject, &process.line);
    contest.command(subject, &counted.line);
    Ok(())
}
