//! P14: what three nodes cost beside one. All of them and the load generator share this machine, so the CPU time of all
//! nodes per request is the figure, and throughput is what is left of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::client::numbers_at;
use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::{fill, fill_replicas};
use crate::load::{Pace, Plan, run};
use crate::process::cpu_of;
use crate::references::cluster::Cluster;
use crate::report::{Contest, Figure};
use crate::stop::Outcome;

pub(super) const RECORDS: u64 = 100_000;
pub(super) const VALUE_BYTES: usize = 100;
pub(super) const CONNECTIONS: usize = 64;
const SECONDS: u64 = 5;
const ROUNDS: usize = 3;
const MEMORY: &str = "512MiB";

const FIGURES: [Figure; 5] = [
    Figure::compared("requests/s", 0),
    Figure::compared("CPU of all nodes, µs/request", 2),
    Figure::shown("p50, ms", 3),
    Figure::shown("p99, ms", 3),
    Figure::shown("bad or unanswered", 0),
];

pub(crate) fn p14(context: &Context) -> Outcome {
    let contest = |what| {
        Contest::new("p14", format!("{what}, closed loop, {CONNECTIONS} connections"), &FIGURES).part(what)
    };
    let mut puts = contest("PUT through one of three nodes, and to one node alone");
    let mut gets = contest("GET through one of three nodes, and of one node alone");
    let mut singles =
        contest("GET 1/1 through a node that does not have the key, and through the one that does");
    for _ in 0..context.scale.rounds(ROUNDS) {
        let cluster = Cluster::start(context)?;
        measure_cluster(context, &cluster, [&mut puts, &mut gets, &mut singles])?;
        cluster.stop()?;
        measure_one(context, &mut puts, &mut gets)?;
    }
    [puts, gets, singles].iter().try_for_each(|contest| context.results.publish(contest))
}

fn measure_cluster(context: &Context, cluster: &Cluster<'_>, contests: [&mut Contest; 3]) -> Outcome {
    let [puts, gets, singles] = contests;
    let records = context.scale.records(RECORDS);
    let here = cluster.address(0);
    let closed = |contest: &mut Contest, name: &str, plan: &Plan| {
        measure(contest, name, &cluster.line(), plan, || cluster.cpu())
    };
    // Each record is on one node only: which node has it tells which node is the right one.
    fill_replicas(here, &Dataset::new(VALUE_BYTES), records, "?replicas=1/1")?;
    cluster.settle()?;
    for (name, holder) in [("through the wrong node", 1), ("through the right node", 0)] {
        let only: Arc<[u64]> = numbers_at(cluster.address(holder))?.into();
        closed(singles, name, &Plan { only: Some(only), replicas: Some("1/1"), ..get(context, here) })?;
    }
    fill(here, &Dataset::new(VALUE_BYTES), records)?;
    cluster.settle()?;
    closed(gets, "three nodes, 2/3", &Plan { replicas: Some("2/3"), ..get(context, here) })?;
    closed(puts, "three nodes, 2/3", &Plan { replicas: Some("2/3"), ..put(context, here) })?;
    closed(puts, "three nodes, 1/1", &Plan { replicas: Some("1/1"), ..put(context, here) })
}

fn measure_one(context: &Context, puts: &mut Contest, gets: &mut Contest) -> Outcome {
    let node = context.start_node(&context.scratch.fresh("node")?, "everysec", MEMORY)?;
    fill(node.address, &Dataset::new(VALUE_BYTES), context.scale.records(RECORDS))?;
    node.settle(&context.scale)?;
    let (line, pid) = (node.process.line.clone(), node.process.pid());
    measure(gets, "one node", &line, &get(context, node.address), || cpu_of(pid))?;
    measure(puts, "one node", &line, &put(context, node.address), || cpu_of(pid))?;
    node.stop()?;
    context.scratch.remove("node");
    Ok(())
}

fn put(context: &Context, address: SocketAddr) -> Plan {
    let (pace, duration) = (Pace::Closed, context.scale.run(SECONDS));
    let records = context.scale.records(RECORDS);
    Plan { warmup: context.scale.warmup(), records, ..Plan::new(address, CONNECTIONS, pace, duration) }
}

fn get(context: &Context, address: SocketAddr) -> Plan {
    Plan { put_share: 0.0, ..put(context, address) }
}

fn measure(
    contest: &mut Contest,
    name: &str,
    line: &str,
    plan: &Plan,
    cpu: impl Fn() -> Outcome<Duration>,
) -> Outcome {
    let before = cpu()?;
    let report = run(plan)?;
    let used = cpu()?.saturating_sub(before);
    // The warm-up is in the CPU time, but not in the counts.
    let share = plan.duration.as_secs_f64() / (plan.warmup + plan.duration).as_secs_f64();
    let (subject, all) = (contest.subject(name), report.all());
    contest.add(
        subject,
        &[
            report.per_second(report.good_in_time),
            used.as_secs_f64() * 1e6 * share / report.good_in_time.max(1) as f64,
            all.from_due_ms(50.0),
            all.from_due_ms(99.0),
            report.bad() as f64,
        ],
    );
    contest.command(subject, line);
    contest.command(subject, &format!("own generator: {}", plan.line("")));
    Ok(())
}
