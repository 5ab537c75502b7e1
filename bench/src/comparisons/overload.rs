//! P11: twice the node's capacity is offered, whether it keeps up or not. Goodput is the number of successful answers within
//! the time of the run; the rest should be refused at once.
//!
//! On a small machine generator and node share the cores, and with small values a generator cannot offer twice of what the node
//! takes. That is why large values are offered too: with them the node has most of the work. The columns tell what was really
//! sent, and how much of the machine each side used.

use crate::context::Context;
use crate::load::{Measured, Method, Pace, Plan, run};
use crate::process::Process;
use crate::references::node::Node;
use crate::report::{Contest, Figure};
use crate::stop::{Outcome, Stop};

const ROUNDS: usize = 3;
const SECONDS: u64 = 10;
const MEMORY: &str = "512MiB";
const PEAK_CONNECTIONS: usize = 64;
const OVERLOAD: f64 = 2.0;

const FIGURES: [Figure; 11] = [
    Figure::shown("due/s", 0),
    Figure::shown("sent/s", 0),
    Figure::shown("good/s", 0),
    Figure::shown("goodput / peak", 2),
    Figure::shown("good, sent to answer, p99.9, ms", 2),
    Figure::shown("503/s", 0),
    Figure::shown("503, sent to answer, p99, ms", 2),
    Figure::shown("503, sent to answer, max, ms", 2),
    Figure::shown("other bad", 0),
    Figure::shown("cores, node", 2),
    Figure::shown("cores, generator", 2),
];

/// Values of one size: small ones cost the node its event loops, large ones its disk.
struct Values {
    part: &'static str,
    bytes: usize,
    records: u64,
}

const VALUES: [Values; 2] = [
    Values { part: "small", bytes: 100, records: 1_000_000 },
    Values { part: "large", bytes: 16 * 1024, records: 50_000 },
];

/// How the load arrives: connections, and requests on their way on each.
const ARRIVALS: [(usize, usize); 3] = [(512, 1), (1024, 1), (128, 8)];

pub(crate) fn p11(context: &Context) -> Outcome {
    let wanted: Vec<&Values> = VALUES.iter().filter(|values| context.wants(values.part)).collect();
    if wanted.is_empty() {
        return Err(Stop::Failed("--only: no part of p11 has that in its name".to_owned()));
    }
    for values in wanted {
        let title =
            format!("{OVERLOAD} × the capacity offered, PUT of {} B, synced every second", values.bytes);
        let mut contest = Contest::new("p11", title, &FIGURES).part(values.part).without_ratios();
        let node = context.start_node(&context.scratch.fresh("node")?, "everysec", MEMORY)?;
        for _ in 0..context.scale.rounds(ROUNDS) {
            round(context, values, &node, &mut contest)?;
        }
        contest.note(
            "the node was started with the command of the first row; `due` is what the schedule asked for",
        );
        node.stop()?;
        context.scratch.remove("node");
        context.results.publish(&contest)?;
    }
    Ok(())
}

/// The peak, then each overload.
fn round(context: &Context, values: &Values, node: &Node, contest: &mut Contest) -> Outcome {
    let plan = |connections, pipeline, pace| Plan {
        pipeline,
        warmup: context.scale.warmup(),
        records: context.scale.records(values.records),
        value_bytes: values.bytes,
        ..Plan::new(node.address, connections, pace, context.scale.run(SECONDS))
    };
    node.settle(&context.scale)?;
    let peak_plan = plan(PEAK_CONNECTIONS, 1, Pace::Closed);
    let peak = measure(
        contest,
        &format!("peak, closed loop, {PEAK_CONNECTIONS} connections"),
        node,
        &peak_plan,
        None,
    )?;
    let peak = peak.per_second(peak.good_in_time).max(1.0);
    for (connections, pipeline) in ARRIVALS {
        let name = match pipeline {
            1 => format!("overload, {connections} connections"),
            _ => format!("overload, {connections} connections × {pipeline} in a pipeline"),
        };
        let overload = plan(connections, pipeline, Pace::PerSecond(peak * OVERLOAD));
        node.settle(&context.scale)?;
        measure(contest, &name, node, &overload, Some(peak))?;
    }
    Ok(())
}

fn measure(
    contest: &mut Contest,
    name: &str,
    node: &Node,
    plan: &Plan,
    peak: Option<f64>,
) -> Outcome<Measured> {
    let Node { process, .. } = node;
    let before = process.cpu()?;
    let report = run(plan)?;
    let subject = contest.subject(name);
    contest.add(subject, &values_of(process, before, plan, &report, peak)?);
    if peak.is_none() {
        contest.command(subject, &process.line);
    }
    contest.command(subject, &format!("own generator: {}", plan.line("twice the peak")));
    Ok(report)
}

fn values_of(
    process: &Process,
    cpu_before: std::time::Duration,
    plan: &Plan,
    report: &Measured,
    peak: Option<f64>,
) -> Outcome<[f64; 11]> {
    let seconds = (plan.warmup + report.elapsed).as_secs_f64();
    let good = report.per_second(report.good_in_time);
    let due = match plan.pace {
        Pace::PerSecond(rate) => rate,
        Pace::Closed => f64::NAN,
    };
    let (puts, busy) = (report.good(Method::Put), report.status(503));
    Ok([
        due,
        report.per_second(report.sent_in_time),
        good,
        peak.map_or(f64::NAN, |peak| good / peak),
        puts.from_sent_ms(99.9),
        report.per_second(report.busy_in_time),
        busy.from_sent_ms(99.0),
        busy.from_sent_ms(100.0),
        (report.bad() - busy.count() - report.unsent()) as f64,
        process.cpu()?.saturating_sub(cpu_before).as_secs_f64() / seconds,
        report.generator_cpu.as_secs_f64() / seconds,
    ])
}
