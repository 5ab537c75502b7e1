//! P9: a store ten times as large as its memory, read at random, beside fio on a file of the same size. Both start with
//! an empty page cache and read the same number of times, so that the page cache fills up equally on both sides.

use crate::context::Context;
use crate::dataset::Dataset;
use crate::fill::fill;
use crate::load::{Method, Pace, Plan, run};
use crate::process::disk_bytes_of;
use crate::references::fio::{self, BLOCK_BYTES, CONCURRENT, Through};
use crate::references::node::Node;
use crate::report::{Contest, Figure};
use crate::scratch::folder_bytes;
use crate::stop::{Outcome, Stop};

use super::optional;

const RECORDS: u64 = 10_000_000;
const VALUE_BYTES: usize = 100;
const ROUNDS: usize = 3;
const MEMORY: &str = "128MiB";
/// Before what counts: dropping the page cache takes the node's own program out of memory too.
const WARMUP_READS: u64 = 8000;

const FIGURES: [Figure; 4] = [
    Figure::compared("reads/s", 0),
    Figure::shown("bad answers", 0),
    Figure::shown("server CPU, µs/read", 2),
    Figure::shown("KiB from disk/read", 1),
];

pub(crate) fn p9(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    let title = format!("random GET of {records} records with --memory {MEMORY}, {CONCURRENT} at a time");
    let mut contest = Contest::new("p9", title, &FIGURES);
    let folder = context.scratch.fresh("node")?;
    let data_bytes = load(context, &folder, records)?;
    // Half as many reads as there are blocks: long enough to count, short enough to stay cold.
    let reads = (data_bytes / BLOCK_BYTES / 2).max(CONCURRENT * 4);
    let file = context.scratch.fresh("fio")?.join("data");
    let laid_out = optional([&mut contest], fio::lay_out(&file, data_bytes))?.is_some();
    contest.note(format!("{data_bytes} bytes of data, {reads} reads a run"));

    for _ in 0..context.scale.rounds(ROUNDS) {
        let node = context.start_node(&folder, "everysec", MEMORY)?;
        node.settle(&context.scale)?;
        context.drop_page_cache(&mut contest);
        measure_node(&mut contest, &node, records, reads)?;
        node.stop()?;
        let ways = [(Through::PageCache, "fio, through the page cache"), (Through::Nothing, "fio, direct")];
        for (through, name) in ways.into_iter().filter(|_| laid_out) {
            context.drop_page_cache(&mut contest);
            measure_fio(&mut contest, name, &file, data_bytes, reads, through)?;
        }
    }
    context.scratch.remove("node");
    context.scratch.remove("fio");
    context.results.publish(&contest)
}

/// Fills a node and stops it; answers how large its data is then.
fn load(context: &Context, folder: &std::path::Path, records: u64) -> Outcome<u64> {
    let node = context.start_node(folder, "everysec", MEMORY)?;
    fill(node.address, &Dataset::new(VALUE_BYTES), records)?;
    node.settle(&context.scale)?;
    node.stop()?;
    Ok(folder_bytes(&folder.join("data")) / BLOCK_BYTES * BLOCK_BYTES)
}

fn measure_node(contest: &mut Contest, node: &Node, records: u64, reads: u64) -> Outcome {
    let plan = |reads| Plan {
        put_share: 0.0,
        records,
        requests_max: Some(reads),
        ..Plan::new(node.address, CONCURRENT as usize, Pace::Closed, std::time::Duration::from_mins(10))
    };
    run(&Plan { seed: 2, ..plan(WARMUP_READS) })?;
    let (cpu, disk) = (node.process.cpu()?, disk_bytes_of(node.process.pid())?);
    let plan = plan(reads);
    let report = run(&plan)?;
    let cpu = node.process.cpu()?.saturating_sub(cpu);
    let read = disk_bytes_of(node.process.pid())?.read - disk.read;
    let good = report.good(Method::Get).count();
    if good == 0 {
        return Err(Stop::Failed("no read was answered".to_owned()));
    }
    let subject = contest.subject("ladoga");
    contest.add(
        subject,
        &[
            report.per_second(good),
            report.bad() as f64,
            cpu.as_secs_f64() * 1e6 / good as f64,
            read as f64 / 1024.0 / good as f64,
        ],
    );
    contest.command(subject, &node.process.line);
    contest.command(subject, &format!("own generator: {}", plan.line("")));
    Ok(())
}

fn measure_fio(
    contest: &mut Contest,
    name: &str,
    file: &std::path::Path,
    bytes: u64,
    reads: u64,
    through: Through,
) -> Outcome {
    let read = fio::read_at_random(file, bytes, reads, through)?;
    let subject = contest.subject(name);
    contest.add(subject, &[read.per_second, f64::NAN, f64::NAN, f64::NAN]);
    contest.command(subject, &read.line);
    Ok(())
}
