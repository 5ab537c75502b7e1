//! `cargo xtask sim`: runs seeds, and prints the line that repeats one that fails.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_sim::{Bug, Failure, Load, Settings, Summary, run_with};

const HELP: &str = "\
cargo xtask sim [--seeds N] [--minutes N] [--first SEED] [--threads N] [--trace] [--conditional | --targeted | --relisted]
               [--no-histories] [--bug NAME]

Runs a whole cluster in simulation, once for each of N seeds (default 100) from SEED on (default 0).
--minutes runs as many seeds as there is time for, and tells how many: from SEED on, or, without --first, from one on that
depends on the time of day, so that each long run sees others. Seeds run on all cores; --threads says on how many instead, and
--trace, which prints what happens in each, has them run on one. A seed fails if what clients were told of a key has no order;
--no-histories leaves that out. With --conditional, clients make conditional writes and add to numbers as well. With --targeted,
a seed is a few requests on three nodes, with faults that meet them between two steps of a protocol. With --relisted, nodes come
and leave while clients ask as with --conditional.
A seed that fails is printed with the line that repeats it. --bug plants one, which has to be found: ack-without-writing,
drop-tombstones-by-time, vouch-while-rebuilding, ignore-newer-versions, forget-copies, trust-own-clock,
acknowledge-stale-large, ignore-regressions, never-sync; with --conditional: decide-again, count-any-overtaken;
with --relisted: count-new-nodes, know-by-place; and with --targeted:
restamp-after-exposure, expiry-not-in-trees, forgotten-fence, fence-times-out, leave-promises, repair-through-fence,
promise-by-lost-disk, refuse-on-unstable-state.
The exit code is 1 if a seed failed.
";

struct Arguments {
    /// How many; if there is a time, as many as it is enough for.
    seeds: Option<u64>,
    minutes: Option<u64>,
    threads: Option<usize>,
    first: Option<u64>,
    traced: bool,
    load: Load,
    skips_histories: bool,
    bug: Option<Bug>,
}

/// What `--bug` takes.
const BUGS: [(&str, Bug); 21] = [
    ("ack-without-writing", Bug::AckWithoutWriting),
    ("drop-tombstones-by-time", Bug::DropTombstonesByTime),
    ("vouch-while-rebuilding", Bug::VouchWhileRebuilding),
    ("ignore-newer-versions", Bug::IgnoreNewerVersions),
    ("forget-copies", Bug::ForgetCopies),
    ("trust-own-clock", Bug::TrustOwnClock),
    ("acknowledge-stale-large", Bug::AcknowledgeStaleLarge),
    ("ignore-regressions", Bug::IgnoreRegressions),
    ("never-sync", Bug::NeverSync),
    ("restamp-after-exposure", Bug::RestampAfterExposure),
    ("expiry-not-in-trees", Bug::ExpiryNotInTrees),
    ("forgotten-fence", Bug::ForgottenFence),
    ("fence-times-out", Bug::FenceTimesOut),
    ("leave-promises", Bug::LeavePromises),
    ("repair-through-fence", Bug::RepairThroughFence),
    ("promise-by-lost-disk", Bug::PromiseByLostDisk),
    ("count-any-overtaken", Bug::CountAnyOvertaken),
    ("refuse-on-unstable-state", Bug::RefuseOnUnstableState),
    ("decide-again", Bug::DecideAgain),
    ("count-new-nodes", Bug::CountNewNodes),
    ("know-by-place", Bug::KnowByPlace),
];

fn bug_of(name: &str) -> Result<Bug, String> {
    let found = BUGS.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, bug)| *bug)
        .ok_or_else(|| format!("--bug is '{name}', expected one of those that --help names"))
}

/// The command that runs this seed again, and shows what happens.
fn repeating(seed: u64, settings: Settings) -> String {
    let found = BUGS.iter().find(|(_, known)| Some(*known) == settings.bug);
    let bug = found.map_or_else(String::new, |(name, _)| format!(" --bug {name}"));
    let load = match settings.load {
        Load::Plain => "",
        Load::Conditional => " --conditional",
        Load::Targeted => " --targeted",
        Load::Relisted => " --relisted",
    };
    let histories = if settings.skips_histories { " --no-histories" } else { "" };
    format!("cargo xtask sim --first {seed} --seeds 1 --trace{load}{histories}{bug}")
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut parsed = Arguments {
        seeds: None,
        minutes: None,
        threads: None,
        first: None,
        traced: false,
        load: Load::Plain,
        skips_histories: false,
        bug: None,
    };
    while let Some(name) = arguments.next() {
        let mut text = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        let number =
            |text: String| text.parse().map_err(|_| format!("{name} is '{text}', expected a number"));
        match name.as_str() {
            "--seeds" => parsed.seeds = Some(number(text()?)?),
            "--minutes" => parsed.minutes = Some(number(text()?)?),
            "--threads" => parsed.threads = Some(number(text()?)?.max(1) as usize),
            "--first" => parsed.first = Some(number(text()?)?),
            "--trace" => parsed.traced = true,
            "--conditional" => parsed.load = Load::Conditional,
            "--targeted" => parsed.load = Load::Targeted,
            "--relisted" => parsed.load = Load::Relisted,
            "--no-histories" => parsed.skips_histories = true,
            "--bug" => parsed.bug = Some(bug_of(&text()?)?),
            "--help" | "-h" => return Ok(None),
            unknown => return Err(format!("unknown argument '{unknown}'")),
        }
    }
    Ok(Some(parsed))
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprint!("ladoga-sim: {reason}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let runs = Runs::new(&arguments);
    if arguments.minutes.is_some() {
        println!("seeds from {} on", runs.first);
    }
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads() {
            scope.spawn(|| runs.work(&arguments));
        }
    });
    let done = runs.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{}", done.line());
    match done.first_failed {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            println!("the first that failed: {}", repeating(seed, arguments.settings()));
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.traced { 1 } else { self.threads.unwrap_or_else(all) }
    }

    fn settings(&self) -> Settings {
        let Arguments { bug, traced, load, skips_histories, .. } = *self;
        Settings { bug, is_traced: traced, load, skips_histories }
    }

    fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.minutes.is_some() { u64::MAX } else { 100 })
    }

    /// The seed that is run first. Seeds of two long runs are to be different.
    fn first(&self, clock: RealClock) -> u64 {
        let fresh = if self.minutes.is_some() { clock.wall_ms() } else { 0 };
        self.first.unwrap_or(fresh)
    }
}

/// What all threads run, and have run.
struct Runs {
    clock: RealClock,
    began_ns: u64,
    first: u64,
    next: AtomicU64,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    seeds: u64,
    failed: u64,
    /// The least of those that failed.
    first_failed: Option<u64>,
    total: Summary,
}

impl Runs {
    fn new(arguments: &Arguments) -> Runs {
        let clock = RealClock::new();
        let (began_ns, first) = (clock.monotonic_ns(), arguments.first(clock));
        Runs { clock, began_ns, first, next: AtomicU64::new(0), done: Mutex::default() }
    }

    /// Runs seeds until there are no more, or the time is over.
    fn work(&self, arguments: &Arguments) {
        let is_time_up = || {
            let passed_s = (self.clock.monotonic_ns() - self.began_ns) / 1_000_000_000;
            arguments.minutes.is_some_and(|minutes| passed_s >= minutes.saturating_mul(60))
        };
        while !is_time_up() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= arguments.seeds() {
                return;
            }
            let seed = self.first + number;
            let ran = run_with(seed, arguments.settings());
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.add(seed, arguments.settings(), ran);
            if done.seeds.is_multiple_of(100) {
                println!("{}", done.line());
            }
        }
    }
}

impl Done {
    fn add(&mut self, seed: u64, settings: Settings, ran: Result<Summary, Failure>) {
        self.seeds += 1;
        match ran {
            Ok(summary) => self.total += summary,
            Err(failure) => {
                self.failed += 1;
                self.first_failed = Some(self.first_failed.map_or(seed, |first| first.min(seed)));
                println!("{failure}\n  {}", repeating(seed, settings));
            }
        }
    }

    fn line(&self) -> String {
        let Done { seeds, failed, total, .. } = self;
        format!(
            "{seeds} seeds, {failed} failed: {} requests succeeded, {} failed; {} faults, {} disks lost, {} backups \
             restored, {} changes of the list of nodes, {} clocks wrong, {} tombstones dropped, {} times told that a value had expired, {} packets, \
             {} keys with more requests than are checked for an order",
            total.succeeded,
            total.failed,
            total.faults,
            total.disks_lost,
            total.backups_restored,
            total.lists_changed,
            total.clocks_wrong,
            total.tombstones_dropped,
            total.told_expired,
            total.messages,
            total.histories_cut_short
        )
    }
}
