//! P4, P5: the engine alone, without HTTP.

use std::path::Path;

use crate::context::Context;
use crate::process::{find_program, wait_until_quiet};
use crate::report::{Contest, Figure};
use crate::stop::Outcome;
use crate::storage::measure::{Rate, fill, get, put_for, warm};
use crate::storage::{ENGINES, Engine, Sync, VALUE_BYTES, rocksdb};

use super::optional;

const RECORDS: u64 = 1_000_000;
const ROUNDS: usize = 5;
const ROCKSDB: &str = "RocksDB";
const SYNCED_SECONDS: u64 = 3;

const FIGURES: [Figure; 2] = [Figure::compared("operations/s", 0), Figure::compared("µs/operation", 2)];

/// A state in which reads are measured, and by how many threads.
const GETS: [&str; 3] = ["as the fill left it, 1 thread", "reopened, 1 thread", "reopened, 2 threads"];
const PUTS: [&str; 3] = ["not synced, 1 thread", "synced, 1 thread", "synced, 64 threads"];
const SYNCED_THREADS: [u64; 2] = [1, 64];

pub(crate) fn p4(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    let title = |what| format!("storage alone: get, {records} × (16 B + {VALUE_BYTES} B), hot, {what}");
    let mut contests = GETS.map(|what| Contest::new("p4", title(what), &FIGURES).part(what));
    for _ in 0..context.scale.rounds(ROUNDS) {
        for engine in ENGINES.iter().filter(|engine| context.wants(engine.name)) {
            gets(context, engine, records, &mut contests)?;
        }
        if context.wants(ROCKSDB) {
            rocksdb_gets(context, records, &mut contests)?;
        }
    }
    context.scratch.remove("store");
    contests.iter().try_for_each(|contest| context.results.publish(contest))
}

pub(crate) fn p5(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    let title = |what| format!("storage alone: put, {records} × (16 B + {VALUE_BYTES} B), {what}");
    let mut contests = PUTS.map(|what| Contest::new("p5", title(what), &FIGURES).part(what));
    for _ in 0..context.scale.rounds(ROUNDS) {
        for engine in ENGINES.iter().filter(|engine| context.wants(engine.name)) {
            puts(context, engine, records, &mut contests)?;
        }
        if context.wants(ROCKSDB) {
            rocksdb_puts(context, records, &mut contests)?;
        }
    }
    context.scratch.remove("store");
    contests.iter().try_for_each(|contest| context.results.publish(contest))
}

fn gets(context: &Context, engine: &Engine, records: u64, contests: &mut [Contest; 3]) -> Outcome {
    let folder = context.scratch.fresh("store")?;
    let store = (engine.open)(&folder, Sync::Never)?;
    fill(&*store, records)?;
    settle(context)?;
    warm(&*store, records)?;
    add(&mut contests[0], engine, get(&*store, records, 1, records)?);
    store.close()?;
    let store = (engine.open)(&folder, Sync::Never)?;
    settle(context)?;
    warm(&*store, records)?;
    add(&mut contests[1], engine, get(&*store, records, 1, records)?);
    add(&mut contests[2], engine, get(&*store, records, 2, records)?);
    store.close()
}

fn puts(context: &Context, engine: &Engine, records: u64, contests: &mut [Contest; 3]) -> Outcome {
    let store = (engine.open)(&context.scratch.fresh("store")?, Sync::Never)?;
    add(&mut contests[0], engine, fill(&*store, records)?);
    store.close()?;
    for (contest, threads) in contests[1..].iter_mut().zip(SYNCED_THREADS) {
        settle(context)?;
        let store = (engine.open)(&context.scratch.fresh("store")?, Sync::Always)?;
        add(contest, engine, put_for(&*store, records, threads, context.scale.run(SYNCED_SECONDS))?);
        store.close()?;
    }
    settle(context)
}

/// The background work of an engine must not fall into the next measurement.
fn settle(context: &Context) -> Outcome {
    wait_until_quiet(std::process::id(), context.scale.settle())
}

fn add(contest: &mut Contest, engine: &Engine, rate: Rate) {
    let subject = contest.subject(engine.name);
    contest.add(subject, &figures(rate.per_second()));
    contest.command(subject, engine.settings);
}

fn figures(per_second: f64) -> [f64; 2] {
    [per_second, 1e6 / per_second]
}

fn rocksdb_gets(context: &Context, records: u64, contests: &mut [Contest; 3]) -> Outcome {
    if optional(&mut *contests, find_program("db_bench"))?.is_none() {
        return Ok(());
    }
    let folder = context.scratch.fresh("store")?.join("rocksdb");
    // The first pass of reads fills the cache, the second is measured.
    let fill_and_read = "filluniquerandom,waitforcompaction,readrandom,readrandom";
    let reopened = |threads: u64| ["--use_existing_db=1".to_owned(), format!("--threads={threads}")];
    rocksdb_run(&mut contests[0], &folder, fill_and_read, records, &[], Pick::Last)?;
    for (contest, threads) in contests[1..].iter_mut().zip([1, 2]) {
        rocksdb_run(contest, &folder, "readrandom,readrandom", records, &reopened(threads), Pick::Last)?;
    }
    Ok(())
}

fn rocksdb_puts(context: &Context, records: u64, contests: &mut [Contest; 3]) -> Outcome {
    if optional(&mut *contests, find_program("db_bench"))?.is_none() {
        return Ok(());
    }
    let folder = context.scratch.fresh("store")?.join("rocksdb");
    rocksdb_run(&mut contests[0], &folder, "filluniquerandom", records, &[], Pick::First)?;
    let seconds = context.scale.whole_seconds(SYNCED_SECONDS);
    for (contest, threads) in contests[1..].iter_mut().zip(SYNCED_THREADS) {
        let folder = context.scratch.fresh("store")?.join("rocksdb");
        let more = ["--sync=1".to_owned(), format!("--threads={threads}"), format!("--duration={seconds}")];
        rocksdb_run(contest, &folder, "fillrandom", records, &more, Pick::First)?;
    }
    Ok(())
}

/// Which of the figures that a run prints is the one.
#[derive(Clone, Copy)]
enum Pick {
    First,
    Last,
}

fn rocksdb_run(
    contest: &mut Contest,
    folder: &Path,
    benchmarks: &str,
    records: u64,
    more: &[String],
    pick: Pick,
) -> Outcome {
    let run = rocksdb::run(folder, benchmarks, records, more)?;
    let per_second = match pick {
        Pick::First => run.first()?,
        Pick::Last => run.last()?,
    };
    let subject = contest.subject(ROCKSDB);
    contest.add(subject, &figures(per_second));
    contest.command(subject, &run.command);
    if let Some(warning) = run.warning {
        contest.note(format!("db_bench warns: {warning}"));
    }
    Ok(())
}
