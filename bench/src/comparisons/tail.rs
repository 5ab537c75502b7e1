//! P6, P7: latency at a fixed rate, counted from when each request was due. The same generator asks nginx for the same
//! at the same rate: what the machine itself adds to the tail.

use std::net::SocketAddr;
use std::time::Duration;

use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::load::{Measured, Method, Pace, Plan, run};
use crate::process::{Process, disk_bytes_of};
use crate::references::nginx::Nginx;
use crate::report::{Contest, Figure};
use crate::stop::Outcome;

use super::optional;

const VALUE_BYTES: usize = 100;
const RECORD_BYTES: u64 = 16 + VALUE_BYTES as u64;

const P6_ROUNDS: usize = 3;
const P6_SECONDS: u64 = 60;
const P6_RECORDS: u64 = 1_000_000;
const P6_PACE: &str = "half of what nginx carries on one connection";
/// Small enough that memtables fill, and are flushed and compacted, many times in a minute.
const P6_MEMORY: &str = "128MiB";

const P7_RECORDS: u64 = 10_000_000;
const P7_CONNECTIONS: usize = 64;
const P7_MEMORY: &str = "512MiB";
/// Rounds differ by more than a factor of two: many short ones say more than few long ones.
const P7_ROUNDS: usize = 10;
const P7_SECONDS: u64 = 20;
const P7_PACE: &str = "half of what nginx carries on 64 connections";

const FIGURES: [Figure; 9] = [
    Figure::shown("good/s", 0),
    Figure::compared("p50, ms", 3),
    Figure::compared("p99, ms", 3),
    Figure::compared("p99.9, ms", 3),
    Figure::compared("max, ms", 3),
    Figure::shown("bad or unanswered", 0),
    Figure::compared("server CPU, µs/request", 2),
    Figure::shown("bytes to disk / bytes put", 1),
    Figure::shown("generator late, p99.9, ms", 3),
];

pub(crate) fn p6(context: &Context) -> Outcome {
    let title = "PUT on one connection at half of what nginx carries there, synced every second, open loop";
    let mut contest = Contest::new("p6", title, &FIGURES);
    let plan = |address: SocketAddr, pace: Pace, seconds: u64| Plan {
        records: context.scale.records(P6_RECORDS),
        ..Plan::new(address, 1, pace, context.scale.run(seconds))
    };
    let nginx = optional([&mut contest], Nginx::start(&context.scratch.fresh("nginx")?, 201, 0))?;
    let node = context.start_node(&context.scratch.fresh("node")?, "everysec", P6_MEMORY)?;
    // Without nginx there is still a rate to be measured at: half of the node's own.
    let paces = nginx.as_ref().map_or(node.address, |nginx| nginx.address);
    let capacity = run(&plan(paces, Pace::Closed, 5))?;
    let rate = (capacity.per_second(capacity.good_in_time) / 2.0).max(100.0);
    contest.note(format!("{rate:.0} requests/s: half of what was carried in a closed loop"));
    let plan = |address: SocketAddr| Plan {
        warmup: context.scale.warmup(),
        ..plan(address, Pace::PerSecond(rate), P6_SECONDS)
    };
    for _ in 0..context.scale.rounds(P6_ROUNDS) {
        node.settle(&context.scale)?;
        measure(&mut contest, "ladoga", &node.process, &plan(node.address), P6_PACE)?;
        if let Some(nginx) = &nginx {
            measure(&mut contest, "nginx", &nginx.process, &plan(nginx.address), P6_PACE)?;
        }
    }
    node.stop()?;
    context.scratch.remove("node");
    context.results.publish(&contest)
}

pub(crate) fn p7(context: &Context) -> Outcome {
    let records = context.scale.records(P7_RECORDS);
    let title =
        format!("half PUT, half GET at half of what nginx carries, while {records} records are compacted");
    let mut contest = Contest::new("p7", title, &FIGURES);
    let nginx = optional([&mut contest], Nginx::start(&context.scratch.fresh("nginx")?, 200, VALUE_BYTES))?;
    let mixed = |address: SocketAddr, pace: Pace, duration: Duration| Plan {
        put_share: 0.5,
        records,
        ..Plan::new(address, P7_CONNECTIONS, pace, duration)
    };
    let half_of = |address: SocketAddr| {
        run(&mixed(address, Pace::Closed, context.scale.run(5)))
            .map(|capacity| (capacity.per_second(capacity.good_in_time) / 2.0).max(100.0))
    };
    let mut rate = nginx.as_ref().map(|nginx| half_of(nginx.address)).transpose()?;
    for _ in 0..context.scale.rounds(P7_ROUNDS) {
        let node = context.start_node(&context.scratch.fresh("node")?, "everysec", P7_MEMORY)?;
        let filled = fill(node.address, &Dataset::new(VALUE_BYTES), records)?;
        // Without nginx there is still a rate to be measured at: half of the node's own.
        let per_second = rate.map_or_else(|| half_of(node.address), Ok)?;
        rate = Some(per_second);
        contest.note(format!("a round: filled at {:.0}/s, then {per_second:.0}/s", filled.per_second()));
        let plan = |address: SocketAddr| Plan {
            warmup: context.scale.warmup(),
            ..mixed(address, Pace::PerSecond(per_second), context.scale.run(P7_SECONDS))
        };
        // No pause here: the compaction that the fill has left behind is what is measured.
        let report = measure(&mut contest, "ladoga", &node.process, &plan(node.address), P7_PACE)?;
        for (method, name) in [(Method::Put, "PUT"), (Method::Get, "GET")] {
            let good = report.good(method);
            let [middle, high, most] = [50.0, 99.9, 100.0].map(|point| good.from_due_ms(point));
            contest.note(format!(
                "{name} alone in a round: p50 {middle:.3} ms, p99.9 {high:.3} ms, max {most:.3} ms"
            ));
        }
        node.stop()?;
        if let Some(nginx) = &nginx {
            measure(&mut contest, "nginx", &nginx.process, &plan(nginx.address), P7_PACE)?;
        }
    }
    context.scratch.remove("node");
    context.results.publish(&contest)
}

/// `rate` is for people: the same in every round.
fn measure(
    contest: &mut Contest,
    name: &str,
    process: &Process,
    plan: &Plan,
    rate: &str,
) -> Outcome<Measured> {
    let (cpu, disk) = (process.cpu()?, disk_bytes_of(process.pid())?);
    let report = run(plan)?;
    let cpu = process.cpu()?.saturating_sub(cpu);
    let written = disk_bytes_of(process.pid())?.written - disk.written;
    // The warm-up is in the CPU time and in the bytes, but not in the counts.
    let share = plan.duration.as_secs_f64() / (plan.warmup + plan.duration).as_secs_f64();
    let put_bytes = (report.good(Method::Put).count() * RECORD_BYTES) as f64;
    let (subject, all) = (contest.subject(name), report.all());
    contest.add(
        subject,
        &[
            report.per_second(report.good_in_time),
            all.from_due_ms(50.0),
            all.from_due_ms(99.0),
            all.from_due_ms(99.9),
            all.from_due_ms(100.0),
            report.bad() as f64,
            cpu.as_secs_f64() * 1e6 * share / report.sent_in_time.max(1) as f64,
            if written > 0 { written as f64 * share / put_bytes } else { f64::NAN },
            report.lateness_ms(99.9),
        ],
    );
    contest.command(subject, &process.line);
    contest.command(subject, &format!("own generator: {}", plan.line(rate)));
    Ok(report)
}
