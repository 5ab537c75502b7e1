//! P1, P2, P3: 64 connections ask as fast as they are answered. The load generator takes a core of its own, so the
//! server's CPU time per request is the steadier figure.

use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::process::{Process, find_program};
use crate::references::nginx::Nginx;
use crate::references::node::Node;
use crate::references::redis::Redis;
use crate::references::wrk::{Counted, Script, Wrk};
use crate::report::{Contest, Figure};
use crate::stop::Outcome;

use super::optional;

const RECORDS: u64 = 1_000_000;
const VALUE_BYTES: usize = 100;
const SECONDS: u64 = 10;
const ROUNDS: usize = 5;
/// Room for the records several times over.
const MEMORY: &str = "1GiB";

const FIGURES: [Figure; 3] = [
    Figure::compared("requests/s", 0),
    Figure::compared("server CPU, µs/request", 2),
    Figure::shown("bad answers", 0),
];

/// What one of the three differs in.
struct Case {
    id: &'static str,
    title: String,
    script: Script,
    fsync: &'static str,
    /// What nginx answers: status, bytes of the body.
    nginx: Option<(u16, usize)>,
    redis_test: &'static str,
}

pub(crate) fn p1(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    compare(
        context,
        &Case {
            id: "p1",
            title: format!("GET of {records} records of 16 B + {VALUE_BYTES} B, in memory, 64 connections"),
            script: Script::Get,
            fsync: "everysec",
            nginx: Some((200, VALUE_BYTES)),
            redis_test: "get",
        },
    )
}

pub(crate) fn p2(context: &Context) -> Outcome {
    compare(
        context,
        &Case {
            id: "p2",
            title: format!("PUT of 16 B + {VALUE_BYTES} B, synced every second, 64 connections"),
            script: Script::Put { value_bytes: VALUE_BYTES },
            fsync: "everysec",
            nginx: Some((201, 0)),
            redis_test: "set",
        },
    )
}

pub(crate) fn p3(context: &Context) -> Outcome {
    compare(
        context,
        &Case {
            id: "p3",
            title: format!("PUT of 16 B + {VALUE_BYTES} B, synced before the answer, 64 connections"),
            script: Script::Put { value_bytes: VALUE_BYTES },
            fsync: "always",
            nginx: None, // It syncs nothing.
            redis_test: "set",
        },
    )
}

/// All servers of a case, up and filled.
struct Servers {
    node: Node,
    nginx: Option<Nginx>,
    redis: Option<Redis>,
    records: u64,
}

fn compare(context: &Context, case: &Case) -> Outcome {
    find_program("wrk")?;
    let mut contest = Contest::new(case.id, case.title.clone(), &FIGURES);
    let servers = start(context, case, &mut contest)?;
    let seconds = context.scale.whole_seconds(SECONDS);
    let wrk = |seed| Wrk { script: case.script, records: servers.records, seconds, seed };
    if !context.scale.smoke {
        wrk(0).run(&servers.node.url())?;
    }
    for round in 1..=context.scale.rounds(ROUNDS) as u64 {
        servers.node.settle(&context.scale)?;
        measure_http(&mut contest, "ladoga", &servers.node.process, &wrk(round), &servers.node.url())?;
        if let Some(nginx) = &servers.nginx {
            measure_http(&mut contest, "nginx", &nginx.process, &wrk(round), &nginx.url())?;
        }
        if let Some(redis) = &servers.redis {
            measure_redis(&mut contest, case, redis, servers.records, context)?;
        }
    }
    servers.node.stop()?;
    for name in ["node", "nginx", "redis"] {
        context.scratch.remove(name);
    }
    context.results.publish(&contest)
}

fn start(context: &Context, case: &Case, contest: &mut Contest) -> Outcome<Servers> {
    let records = context.scale.records(RECORDS);
    let dataset = Dataset::new(VALUE_BYTES);
    let node = context.start_node(&context.scratch.fresh("node")?, case.fsync, MEMORY)?;
    fill(node.address, &dataset, records)?;
    let nginx = match case.nginx {
        Some((status, body_bytes)) => {
            let folder = context.scratch.fresh("nginx")?;
            optional([&mut *contest], Nginx::start(&folder, status, body_bytes))?
        }
        None => None,
    };
    let redis = optional([&mut *contest], Redis::start(&context.scratch.fresh("redis")?, case.fsync))?;
    if let Some(redis) = &redis {
        redis.fill(&dataset, records)?;
    }
    Ok(Servers { node, nginx, redis, records })
}

fn measure_http(contest: &mut Contest, name: &str, process: &Process, wrk: &Wrk, url: &str) -> Outcome {
    let before = process.cpu()?;
    let Counted { requests, per_second, bad } = wrk.run(url)?;
    let cpu = process.cpu()?.saturating_sub(before);
    let subject = contest.subject(name);
    contest.add(subject, &[per_second, cpu.as_secs_f64() * 1e6 / requests as f64, bad as f64]);
    contest.command(subject, &process.line);
    contest.command(subject, &wrk.line());
    if bad > 0 {
        contest.note(format!("{name} gave bad answers: its figures count for nothing"));
    }
    Ok(())
}

fn measure_redis(
    contest: &mut Contest,
    case: &Case,
    redis: &Redis,
    records: u64,
    context: &Context,
) -> Outcome {
    // redis-benchmark takes a count: a short trial says how many requests last as long as the others' runs.
    let trial = redis.requests(case.redis_test, VALUE_BYTES, records, context.scale.records(20_000))?;
    let seconds = if context.scale.smoke { 0.1 } else { context.scale.whole_seconds(SECONDS) as f64 };
    let requests = (trial.per_second * seconds).max(1_000.0) as u64;
    let before = redis.process.cpu()?;
    let counted = redis.requests(case.redis_test, VALUE_BYTES, records, requests)?;
    let cpu = redis.process.cpu()?.saturating_sub(before);
    let subject = contest.subject("redis");
    contest.add(subject, &[counted.per_second, cpu.as_secs_f64() * 1e6 / counted.requests as f64, f64::NAN]);
    contest.command(subject, &redis.process.line);
    contest.command(subject, &counted.line);
    Ok(())
}
