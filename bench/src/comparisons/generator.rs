//! P12, P13: the load generator itself. What a request costs it beside wrk, and how well it keeps its schedule.

use std::path::Path;
use std::process::Command;

use crate::context::{Context, bench_folder};
use crate::process::{cpu_of, find_program, output_of};
use crate::references::nginx::Nginx;
use crate::references::wrk::{CONNECTIONS, Counted, parse};
use crate::report::{Contest, Figure};
use crate::stop::{OrFail, Outcome, failed};

const SECONDS: u64 = 10;
const ROUNDS: usize = 5;
const BODY_BYTES: usize = 100;
/// Requests a second that the schedule is kept at, all on one thread.
const RATES: [u64; 3] = [1_000, 20_000, 100_000];

const COST: [Figure; 3] = [
    Figure::compared("requests/s", 0),
    Figure::compared("generator CPU, µs/request", 2),
    Figure::shown("bad answers", 0),
];
const ACCURACY: [Figure; 5] = [
    Figure::shown("sent, of the rate", 4),
    Figure::shown("late p50, µs", 1),
    Figure::shown("late p99, µs", 1),
    Figure::shown("late p99.9, µs", 1),
    Figure::shown("generator CPU, µs/request", 2),
];

pub(crate) fn p12(context: &Context) -> Outcome {
    let wrk = find_program("wrk")?;
    let nginx = Nginx::start(&context.scratch.fresh("nginx")?, 200, BODY_BYTES)?;
    for (title, script) in [("one GET again and again", None), ("requests of a Lua script", Some("get.lua"))]
    {
        let mut contest =
            Contest::new("p12", format!("the load generator, {title}, 64 connections, nginx"), &COST)
                .part(title);
        let seconds = context.scale.whole_seconds(SECONDS);
        for _ in 0..context.scale.rounds(ROUNDS) {
            closed_loop(
                &mut contest,
                "ladoga bench",
                (context.binary()?, &["bench"]),
                script,
                seconds,
                &nginx,
            )?;
            closed_loop(&mut contest, "wrk", (&wrk, &[]), script, seconds, &nginx)?;
        }
        context.results.publish(&contest)?;
    }
    context.scratch.remove("nginx");
    Ok(())
}

/// The same command line for both.
fn closed_loop(
    contest: &mut Contest,
    name: &str,
    (program, words): (&Path, &[&str]),
    script: Option<&str>,
    seconds: u64,
    nginx: &Nginx,
) -> Outcome {
    let mut command = Command::new(program);
    command.args(words).args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{seconds}s")]);
    let mut line = format!("{name} -t1 -c{CONNECTIONS} -d{seconds}s");
    if let Some(script) = script {
        command.arg("-s").arg(bench_folder().join("scripts").join(script));
        line = format!("{line} -s bench/scripts/{script}");
    }
    command.arg(nginx.url());
    // The CPU time of a process includes that of the children that it has waited for.
    let before = cpu_of(std::process::id())?;
    let text = output_of(&mut command)?;
    let cpu = cpu_of(std::process::id())?.saturating_sub(before);
    let Counted { requests, per_second, bad } =
        parse(&text).or_fail(|| format!("{name} printed something else: {text}"))?;
    if requests == 0 {
        return failed(format!("{name} got no answer"));
    }
    let subject = contest.subject(name);
    contest.add(subject, &[per_second, cpu.as_secs_f64() * 1e6 / requests as f64, bad as f64]);
    contest.command(subject, &format!("{line} http://127.0.0.1:PORT"));
    Ok(())
}

pub(crate) fn p13(context: &Context) -> Outcome {
    let folder = context.scratch.fresh("nginx")?;
    let nginx = Nginx::start(&folder, 200, BODY_BYTES)?;
    let title = "how well the load generator keeps its schedule, one thread, 64 connections, nginx";
    let mut contest = Contest::new("p13", title, &ACCURACY).without_ratios();
    let seconds = context.scale.whole_seconds(SECONDS);
    for _ in 0..context.scale.rounds(ROUNDS) {
        for rate in RATES {
            open_loop(&mut contest, context, rate, seconds, &nginx, &folder.join("run.json"))?;
        }
    }
    context.scratch.remove("nginx");
    context.results.publish(&contest)
}

fn open_loop(
    contest: &mut Contest,
    context: &Context,
    rate: u64,
    seconds: u64,
    nginx: &Nginx,
    json: &Path,
) -> Outcome {
    let mut command = Command::new(context.binary()?);
    let options = format!("bench -t1 -c{CONNECTIONS} -R {rate} -d{seconds}s");
    command.args(options.split(' ')).arg("--json").arg(json).arg(nginx.url());
    output_of(&mut command)?;
    let text = std::fs::read_to_string(json).or_fail(|| format!("cannot read {}", json.display()))?;
    let result: serde_json::Value =
        serde_json::from_str(&text).or_fail(|| format!("{} is no JSON", json.display()))?;
    let lateness = &result["generator"]["lateness_us"];
    let figures = [
        result["requests_per_second"].as_f64().map(|sent| sent / rate as f64),
        lateness["p50"].as_f64(),
        lateness["p99"].as_f64(),
        lateness["p99.9"].as_f64(),
        result["generator"]["cpu_us_per_request"].as_f64(),
    ];
    let subject = contest.subject(&format!("{rate}/s"));
    contest.add(subject, &figures.map(|figure| figure.unwrap_or(f64::NAN)));
    contest.command(subject, &format!("ladoga {options} --json FILE http://127.0.0.1:PORT"));
    Ok(())
}
