//! P15: latency through a cluster at half of its capacity: compared with one node on the same schedule, and while one of the
//! three is frozen, catches up with what it missed, or gets everything back after its disk was lost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::cluster::{CONNECTIONS, RECORDS, VALUE_BYTES};
use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::load::{Measured, Pace, Plan, run};
use crate::machine::CpuTime;
use crate::process::cpu_of;
use crate::references::cluster::{Cluster, NODES};
use crate::report::{Contest, Figure};
use crate::stop::{Outcome, Stop};

const SECONDS: u64 = 10;
const ROUNDS: usize = 5;
const MEMORY: &str = "512MiB";
/// What a capacity is measured for.
const CAPACITY_SECONDS: u64 = 3;
/// The node that has the trouble; requests go through the first.
const OTHER: usize = NODES - 1;
const HALF: &str = "half of the capacity";
const WELL: &str = "all is well";

/// A round in which other processes take more of the machine than this is repeated, at most so often in all.
const OTHERS_PERCENT_MAX: f64 = 8.0;
const REPEATED_MAX: usize = 10;

const FIGURES: [Figure; 10] = [
    Figure::shown("good/s", 0),
    Figure::compared("p50, ms", 3),
    Figure::compared("p90, ms", 3),
    Figure::compared("p99, ms", 3),
    Figure::compared("p99.9, ms", 3),
    Figure::compared("max, ms", 3),
    Figure::shown("bad or unanswered", 0),
    Figure::shown("cores busy, %", 0),
    Figure::shown("others at work, %", 1),
    Figure::shown("cells repaired meanwhile", 0),
];

/// An operation with its replicas.
#[derive(Clone, Copy)]
struct Asked {
    name: &'static str,
    part: &'static str,
    put_share: f64,
    replicas: &'static str,
}

const PUT_QUORUM: Asked = Asked { name: "PUT 2/3", part: "put", put_share: 1.0, replicas: "2/3" };
const GET_QUORUM: Asked = Asked { name: "GET 2/3", part: "get", put_share: 0.0, replicas: "2/3" };
const PUT_ONE: Asked = Asked { name: "PUT 1/1", part: "put-one", put_share: 1.0, replicas: "1/1" };
const GET_ONE: Asked = Asked { name: "GET 1/1", part: "get-one", put_share: 0.0, replicas: "1/1" };

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

    fn part(self) -> &'static str {
        match self {
            Trouble::Frozen => "frozen",
            Trouble::Handoff => "handoff",
            Trouble::LostDisk => "rebuild",
        }
    }
}

pub(crate) fn p15(context: &Context) -> Outcome {
    let mut is_any_wanted = false;
    for asked in [PUT_QUORUM, GET_QUORUM, PUT_ONE, GET_ONE] {
        if context.wants(&format!("{}-well", asked.part)) {
            is_any_wanted = true;
            compare_with_one(context, asked)?;
        }
    }
    for trouble in [Trouble::Frozen, Trouble::Handoff, Trouble::LostDisk] {
        for asked in [PUT_QUORUM, GET_QUORUM] {
            if context.wants(&format!("{}-{}", asked.part, trouble.part())) {
                is_any_wanted = true;
                compare_with_trouble(context, asked, trouble)?;
            }
        }
    }
    if is_any_wanted {
        Ok(())
    } else {
        Err(Stop::Failed("--only: no part of p15 has that in its name".to_owned()))
    }
}

fn contest(asked: Asked, part: &str, what: &str) -> Contest {
    Contest::new("p15", format!("{} at half of the capacity of three nodes: {what}", asked.name), &FIGURES)
        .part(format!("{}-{part}", asked.part))
}

fn compare_with_one(context: &Context, asked: Asked) -> Outcome {
    let mut contest = contest(asked, "well", "three nodes and one on the same schedule");
    for _ in 0..context.scale.rounds(ROUNDS) {
        let (cluster, rate) = filled(context, asked)?;
        let plan = plan(context, asked, rate, cluster.address(0));
        add(&mut contest, "three nodes", &cluster.line(), &measure(&cluster, &plan)?, &plan, f64::NAN);
        cluster.stop()?;
        let node = context.start_node(&context.scratch.fresh("node")?, "everysec", MEMORY)?;
        fill(node.address, &Dataset::new(VALUE_BYTES), plan.records)?;
        node.settle(&context.scale)?;
        let alone = Plan { address: node.address, replicas: None, ..plan };
        add(
            &mut contest,
            "one node",
            &node.process.line,
            &measure_beside(&alone, || cpu_of(node.process.pid()))?,
            &alone,
            f64::NAN,
        );
        node.stop()?;
        context.scratch.remove("node");
    }
    context.results.publish(&contest)
}

/// One cluster at one rate, well and in trouble in turns: another start may get the cores in another way, and its closed
/// loop another rate.
fn compare_with_trouble(context: &Context, asked: Asked, trouble: Trouble) -> Outcome {
    let mut contest = contest(asked, trouble.part(), trouble.name());
    let (mut cluster, rate) = filled(context, asked)?;
    contest.note(format!("the closed loop before it: {:.0}/s", rate * 2.0));
    let plan = plan(context, asked, rate, cluster.address(0));
    let (mut rounds, mut repeated) = (0, 0);
    while rounds < context.scale.rounds(ROUNDS) {
        let well = measure(&cluster, &plan)?;
        cluster.settle()?;
        let (report, repaired) = match trouble {
            Trouble::Frozen => (while_frozen(&cluster, &plan)?, f64::NAN),
            Trouble::Handoff => during_handoff(&mut cluster, &plan)?,
            Trouble::LostDisk => during_rebuild(&mut cluster, &plan)?,
        };
        cluster.settle()?;
        if repeated < REPEATED_MAX && well.others.max(report.others) * 100.0 > OTHERS_PERCENT_MAX {
            repeated += 1;
            continue;
        }
        rounds += 1;
        add(&mut contest, trouble.name(), &cluster.line(), &report, &plan, repaired);
        add(&mut contest, WELL, &cluster.line(), &well, &plan, f64::NAN);
    }
    if repeated > 0 {
        contest.note(format!("rounds repeated because other processes were at work: {repeated}"));
    }
    cluster.stop()?;
    context.results.publish(&contest)
}

/// A run, the share of the machine that was busy in it, and the share that neither the nodes nor the generator used.
struct Watched {
    report: Measured,
    busy: f64,
    others: f64,
}

fn measure(cluster: &Cluster<'_>, plan: &Plan) -> Outcome<Watched> {
    measure_beside(plan, || cluster.cpu())
}

fn measure_beside(plan: &Plan, cpu: impl Fn() -> Outcome<Duration>) -> Outcome<Watched> {
    let (before, nodes_before, started) = (CpuTime::now(), cpu()?, Instant::now());
    let report = run(plan)?;
    let elapsed =
        started.elapsed().as_secs_f64() * std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let busy = CpuTime::busy_since(before.as_ref());
    let ours = cpu()?.saturating_sub(nodes_before) + report.generator_cpu;
    let others = busy - ours.as_secs_f64() / elapsed;
    // `max` would turn an unknown share into zero.
    let others = if others < 0.0 { 0.0 } else { others };
    Ok(Watched { report, busy, others })
}

/// A cluster with data, and half of its capacity for such requests, a second.
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
fn while_frozen(cluster: &Cluster<'_>, plan: &Plan) -> Outcome<Watched> {
    cluster.freeze(OTHER)?;
    let report = measure(cluster, plan);
    cluster.thaw(OTHER)?;
    report
}

fn during_handoff(cluster: &mut Cluster<'_>, plan: &Plan) -> Outcome<(Watched, f64)> {
    cluster.kill(OTHER)?;
    run(&Plan { put_share: 1.0, ..plan.clone() })?;
    cluster.restart(OTHER)?;
    let before = cluster.hints_waiting(0)?;
    let report = measure(cluster, plan)?;
    let delivered = before.saturating_sub(cluster.hints_waiting(0)?);
    Ok((report, delivered as f64))
}

fn during_rebuild(cluster: &mut Cluster<'_>, plan: &Plan) -> Outcome<(Watched, f64)> {
    cluster.kill(OTHER)?;
    cluster.erase(OTHER)?;
    cluster.restart(OTHER)?;
    let report = measure(cluster, plan)?;
    let repaired = cluster.repaired(OTHER)?;
    Ok((report, repaired as f64))
}

fn add(contest: &mut Contest, name: &str, line: &str, watched: &Watched, plan: &Plan, repaired: f64) {
    let Watched { report, busy, others } = watched;
    let all = report.all();
    let subject = contest.subject(name);
    contest.add(
        subject,
        &[
            report.per_second(report.good_in_time),
            all.from_due_ms(50.0),
            all.from_due_ms(90.0),
            all.from_due_ms(99.0),
            all.from_due_ms(99.9),
            all.from_due_ms(100.0),
            report.bad() as f64,
            busy * 100.0,
            others * 100.0,
            repaired,
        ],
    );
    contest.command(subject, line);
    contest.command(subject, &format!("own generator: {}", plan.line(HALF)));
}
