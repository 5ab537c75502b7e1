//! P10: how long a node takes to serve again, stopped in order or killed. Every time, a sample of the records is read
//! back: a fast start that forgot something is none.

use std::path::Path;
use std::time::Duration;

use crate::client::check_records;
use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::load::{Pace, Plan, run};
use crate::references::node::Node;
use crate::report::{Contest, Figure};
use crate::stop::Outcome;

const RECORDS: u64 = 10_000_000;
const VALUE_BYTES: usize = 100;
const ROUNDS: usize = 3;
const MEMORY: &str = "1GiB";
/// What is written before a kill, so that there is a log to replay.
const WRITE_SECONDS: u64 = 5;
const SAMPLE: u64 = 10_000;

const FIGURES: [Figure; 3] = [
    Figure::shown("start to status 200, s", 3),
    Figure::shown("SIGTERM to exit, s", 3),
    Figure::shown("records read back", 0),
];

pub(crate) fn p10(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    let title = format!("restart with {records} records of 16 B + {VALUE_BYTES} B");
    let mut contest = Contest::new("p10", title, &FIGURES).without_ratios();
    let folder = context.scratch.fresh("node")?;
    let dataset = Dataset::new(VALUE_BYTES);
    let mut node = context.start_node(&folder, "everysec", MEMORY)?;
    fill(node.address, &dataset, records)?;
    for _ in 0..context.scale.rounds(ROUNDS) {
        for cold in [false, true] {
            let stopped_in = node.stop()?;
            node = start(context, &folder, cold, &mut contest)?;
            add(context, &mut contest, &node, &dataset, cold, Some(stopped_in))?;

            write_some(context, &node, records)?;
            node.kill()?;
            node = start(context, &folder, cold, &mut contest)?;
            add(context, &mut contest, &node, &dataset, cold, None)?;
        }
    }
    node.stop()?;
    context.scratch.remove("node");
    context.results.publish(&contest)
}

fn start(context: &Context, folder: &Path, cold: bool, contest: &mut Contest) -> Outcome<Node> {
    if cold {
        context.drop_page_cache(contest);
    }
    context.start_node(folder, "everysec", MEMORY)
}

/// Overwrites records with the values they have, as fast as the node takes them.
fn write_some(context: &Context, node: &Node, records: u64) -> Outcome {
    let plan = Plan {
        records,
        pipeline: 16,
        ..Plan::new(node.address, 64, Pace::Closed, context.scale.run(WRITE_SECONDS))
    };
    run(&plan).map(drop)
}

fn add(
    context: &Context,
    contest: &mut Contest,
    node: &Node,
    dataset: &Dataset,
    cold: bool,
    stopped_in: Option<Duration>,
) -> Outcome {
    let records = context.scale.records(RECORDS);
    let sample = SAMPLE.min(records);
    check_records(node.address, dataset, records, sample)?;
    let how = if stopped_in.is_some() { "stopped by SIGTERM" } else { "killed after load" };
    let cache = if cold { "page cache cold" } else { "page cache warm" };
    let subject = contest.subject(&format!("{how}, {cache}"));
    let stopped_in = stopped_in.map_or(f64::NAN, |time| time.as_secs_f64());
    contest.add(subject, &[node.started_in.as_secs_f64(), stopped_in, sample as f64]);
    contest.command(subject, &node.process.line);
    Ok(())
}
