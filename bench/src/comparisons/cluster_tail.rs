//! P15: latency through a cluster at half of what it can carry: beside one node on the same schedule, and while one of the
//! three is frozen, gets back what it missed, or gets back everything after its disk was lost.

use std::net::SocketAddr;

use super::cluster::{CONNECTIONS, RECORDS, VALUE_BYTES};
use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::openloop::{Pace, Plan, Report, run};
use crate::references::cluster::{Cluster, NODES};
use crate::report::{Contest, Figure};
use crate::stop::Outcome;

const SECONDS: u64 = 10;
const ROUNDS: usize = 3;
const MEMORY: &str = "512MiB";
/// What a capacity is measured for.
const CAPACITY_SECONDS: u64 = 3;
/// The node that has the trouble; requests go through the first.
const OTHER: usize = NODES - 1;
const HALF: &str = "half of the capacity";
const WELL: &str = "all is well";

const FIGURES: [Figure; 8] = [
    Figure::shown("good/s", 0),
    Figure::compared("p50, ms", 3),
    Figure::compared("p90, ms", 3),
    Figure::compared("p99, ms", 3),
    Figure::compared("p99.9, ms", 3),
    Figure::compared("max, ms", 3),
    Figure::shown("bad or unanswered", 0),
    Figure::shown("cells repaired meanwhile", 0),
];

/// An operation with its replicas.
#[derive(Clone, Copy)]
struct Asked {
    name: &'static str,
    put_share: f64,
    replicas: &'static str,
}

const PUT_QUORUM: Asked = Asked { name: "PUT 2/3", put_share: 1.0, replicas: "2/3" };
const GET_QUORUM: Asked = Asked { name: "GET 2/3", put_share: 0.0, replicas: "2/3" };
const PUT_ONE: Asked = Asked { name: "PUT 1/1", put_share: 1.0, replicas: "1/1" };
const GET_ONE: Asked = Asked { name: "GET 1/1", put_share: 0.0, replicas: "1/1" };

#[derive(Clone, Copy)]
enum Trouble {
    Frozen,
    Handoff,
    LostDisk,
}

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Trouble::Frozen => "one of three is frozen, after the first second",
            Trouble::Handoff => "one of three gets what it missed while it was down",
            Trouble::LostDisk => "one of three gets everything after its disk was lost",
        }
    }
}

pub(crate) fn p15(context: &Context) -> Outcome {
    let beside_one = [PUT_QUORUM, GET_QUORUM, PUT_ONE, GET_ONE];
    let mut beside_one =
        beside_one.map(|asked| (asked, contest(asked, "three nodes and one on the same schedule")));
    let troubles = [Trouble::Frozen, Trouble::Handoff, Trouble::LostDisk];
    let mut in_trouble: Vec<(Asked, Trouble, Contest)> = Vec::new();
    for trouble in troubles {
        let both = [PUT_QUORUM, GET_QUORUM];
        in_trouble.extend(both.map(|asked| (asked, trouble, contest(asked, trouble.name()))));
    }
    for _ in 0..context.scale.rounds(ROUNDS) {
        for (asked, contest) in &mut beside_one {
            compare_with_one(context, *asked, contest)?;
        }
        for (asked, trouble, contest) in &mut in_trouble {
            compare_with_trouble(context, *asked, *trouble, contest)?;
        }
    }
    let all =
        beside_one.iter().map(|(_, contest)| contest).chain(in_trouble.iter().map(|(_, _, contest)| contest));
    all.into_iter().try_for_each(|contest| context.results.publish(contest))
}

fn contest(asked: Asked, what: &str) -> Contest {
    Contest::new("p15", format!("{} at half of the capacity of three nodes: {what}", asked.name), &FIGURES)
}

fn compare_with_one(context: &Context, asked: Asked, contest: &mut Contest) -> Outcome {
    let (cluster, rate) = filled(context, asked)?;
    let plan = plan(context, asked, rate, cluster.address(0));
    add(contest, "three nodes", &cluster.line(), &run(&plan)?, &plan, f64::NAN);
    cluster.stop()?;
    let node = context.start_node(&context.scratch.fresh("node")?, "everysec", MEMORY)?;
    fill(node.address, &Dataset::new(VALUE_BYTES), plan.records)?;
    node.settle(&context.scale)?;
    let alone = Plan { address: node.address, replicas: None, ..plan };
    add(contest, "one node", &node.process.line, &run(&alone)?, &alone, f64::NAN);
    node.stop()?;
    context.scratch.remove("node");
    Ok(())
}

fn compare_with_trouble(context: &Context, asked: Asked, trouble: Trouble, contest: &mut Contest) -> Outcome {
    let (mut cluster, rate) = filled(context, asked)?;
    let plan = plan(context, asked, rate, cluster.address(0));
    let well = run(&plan)?;
    let (report, repaired) = match trouble {
        Trouble::Frozen => (while_frozen(&cluster, &plan)?, f64::NAN),
        Trouble::Handoff => during_handoff(&mut cluster, &plan)?,
        Trouble::LostDisk => during_rebuild(&mut cluster, &plan)?,
    };
    add(contest, trouble.name(), &cluster.line(), &report, &plan, repaired);
    add(contest, WELL, &cluster.line(), &well, &plan, f64::NAN);
    cluster.stop()
}

/// A cluster with data, and half of what it can carry of this, a second.
fn filled(context: &Context, asked: Asked) -> Outcome<(Cluster<'_>, f64)> {
    let cluster = Cluster::start(context)?;
    fill(cluster.address(0), &Dataset::new(VALUE_BYTES), context.scale.records(RECORDS))?;
    cluster.settle()?;
    let open = plan(context, asked, 1.0, cluster.address(0));
    let capacity = run(&Plan { pace: Pace::Closed, duration: context.scale.run(CAPACITY_SECONDS), ..open })?;
    cluster.settle()?;
    let rate = (capacity.per_second(capacity.good_in_time) / 2.0).max(100.0);
    Ok((cluster, rate))
}

fn plan(context: &Context, asked: Asked, rate: f64, address: SocketAddr) -> Plan {
    Plan {
        warmup: context.scale.warmup(),
        put_share: asked.put_share,
        replicas: Some(asked.replicas),
        records: context.scale.records(RECORDS),
        ..Plan::new(address, CONNECTIONS, Pace::PerSecond(rate), context.scale.run(SECONDS))
    }
}

/// The first second is the warm-up, which does not count.
fn while_frozen(cluster: &Cluster<'_>, plan: &Plan) -> Outcome<Report> {
    cluster.freeze(OTHER)?;
    let report = run(plan);
    cluster.thaw(OTHER)?;
    report
}

fn during_handoff(cluster: &mut Cluster<'_>, plan: &Plan) -> Outcome<(Report, f64)> {
    cluster.kill(OTHER)?;
    run(&Plan { put_share: 1.0, ..plan.clone() })?;
    cluster.restart(OTHER)?;
    let before = cluster.hints_waiting(0)?;
    let report = run(plan)?;
    let delivered = before.saturating_sub(cluster.hints_waiting(0)?);
    Ok((report, delivered as f64))
}

fn during_rebuild(cluster: &mut Cluster<'_>, plan: &Plan) -> Outcome<(Report, f64)> {
    cluster.kill(OTHER)?;
    cluster.erase(OTHER)?;
    cluster.restart(OTHER)?;
    let report = run(plan)?;
    let repaired = cluster.repaired(OTHER)?;
    Ok((report, repaired as f64))
}

fn add(contest: &mut Contest, name: &str, line: &str, report: &Report, plan: &Plan, repaired: f64) {
    let subject = contest.subject(name);
    contest.add(
        subject,
        &[
            report.per_second(report.good_in_time),
            report.all_ms(50.0),
            report.all_ms(90.0),
            report.all_ms(99.0),
            report.all_ms(99.9),
            report.all_ms(100.0),
            report.bad() as f64,
            repaired,
        ],
    );
    contest.command(subject, line);
    contest.command(subject, &format!("own generator: {}", plan.line(HALF)));
}
