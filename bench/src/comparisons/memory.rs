//! P8: what a node holds in memory while it is filled, read at random, and ranged over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::scan_everything;
use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::load::{Pace, Plan, run};
use crate::process::resident_of;
use crate::report::{Contest, Figure};
use crate::stop::{Outcome, failed};

const RECORDS: u64 = 10_000_000;
const VALUE_BYTES: usize = 100;
const READ_SECONDS: u64 = 30;
const MEMORY: &str = "128MiB";
/// The target for the resident set.
const BOUND_MIB: f64 = 144.0;
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

const FIGURES: [Figure; 4] = [
    Figure::shown("peak resident set, MiB", 1),
    Figure::shown("of the bound of 144 MiB", 2),
    Figure::shown("records/s", 0),
    Figure::shown("bad answers", 0),
];

pub(crate) fn p8(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    let title =
        format!("resident set with {records} records of 16 B + {VALUE_BYTES} B and --memory {MEMORY}");
    let mut contest = Contest::new("p8", title, &FIGURES).without_ratios();
    for _ in 0..context.scale.rounds(1) {
        let node = context.start_node(&context.scratch.fresh("node")?, "everysec", MEMORY)?;
        let (address, pid) = (node.address, node.process.pid());
        let line = node.process.line.clone();

        phase(&mut contest, pid, "fill", || {
            let filled = fill(address, &Dataset::new(VALUE_BYTES), records)?;
            Ok((filled.per_second(), filled.refused as f64))
        })?;
        phase(&mut contest, pid, "random GET, 64 connections", || {
            let plan = Plan {
                put_share: 0.0,
                records,
                ..Plan::new(address, 64, Pace::Closed, context.scale.run(READ_SECONDS))
            };
            let report = run(&plan)?;
            Ok((report.per_second(report.good_in_time), report.bad() as f64))
        })?;
        phase(&mut contest, pid, "range of everything", || {
            let started = Instant::now();
            let scanned = scan_everything(address)?;
            if scanned.records != records || scanned.out_of_order > 0 {
                return failed(format!("a range of everything had {scanned:?}, expected {records} records"));
            }
            Ok((scanned.records as f64 / started.elapsed().as_secs_f64(), 0.0))
        })?;
        let whole = contest.subject("whole life of the process (VmHWM)");
        let peak = mib(resident_of(pid)?.peak);
        contest.add(whole, &[peak, peak / BOUND_MIB, f64::NAN, f64::NAN]);
        contest.command(whole, &line);
        node.stop()?;
    }
    contest.note(
        "the resident set is sampled every 50 ms; bad answers of the fill were refused once and sent again",
    );
    context.scratch.remove("node");
    context.results.publish(&contest)
}

/// Runs `work`, which answers its rate and its bad answers, while the resident set is sampled.
fn phase(contest: &mut Contest, pid: u32, name: &str, work: impl FnOnce() -> Outcome<(f64, f64)>) -> Outcome {
    let (done, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                peak.fetch_max(resident_of(pid).map_or(0, |resident| resident.now), Ordering::Relaxed);
                std::thread::sleep(SAMPLE_EVERY);
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    });
    let (per_second, bad) = result?;
    let subject = contest.subject(name);
    let peak = mib(peak.into_inner());
    contest.add(subject, &[peak, peak / BOUND_MIB, per_second, bad]);
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
