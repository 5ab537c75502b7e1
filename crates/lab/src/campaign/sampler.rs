//! Figures of the server's process during a run: from `/proc` if the process is known, from `/metrics` if it has them.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cli::Target;
use crate::clock::Clock;
use crate::files;
use crate::record::{NodeSample, NodeSeries};

use super::client;
use super::sampled::{EVERY, Sampled, ScrapeAttempt};

/// A scrape that takes longer is of no single moment.
const SCRAPE_DEADLINE: Duration = Duration::from_secs(2);
/// Whatever is written to the disk.
const WRITTEN: [&str; 3] =
    ["ladoga_wal_bytes_total", "ladoga_flush_bytes_total", "ladoga_compaction_written_bytes_total"];
const FLUSHES: &str = "ladoga_flushes_total";
const COMPACTIONS: &str = "ladoga_compactions_total";

/// Takes samples until it is stopped. Its calls, in their order: `start begin end finish`.
pub(super) struct Sampler {
    pid: Option<u32>,
    clock: Clock,
    began_s: f64,
    first_cpu_us: Option<f64>,
    last_cpu_us: Option<f64>,
    stop: Sender<()>,
    thread: JoinHandle<Sampled>,
}

impl Sampler {
    /// Before the run: its first sums are those that `/metrics` tells while there is no load yet.
    pub(super) fn start(target: &Target, pid: Option<u32>) -> Self {
        let (stop, stopped) = channel();
        let (target, clock) = (target.clone(), Clock::start());
        let thread = std::thread::spawn(move || {
            let mut taker = Taker::new(&target, pid, clock);
            taker.start();
            while matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
                taker.take();
            }
            taker.finish()
        });
        Self { pid, clock, began_s: 0.0, first_cpu_us: None, last_cpu_us: None, stop, thread }
    }

    /// The run begins. Its CPU time is read here and not by the thread, which may be late, or wait for `/metrics` while the load runs.
    pub(super) fn begin(&mut self) {
        self.began_s = now_s(&self.clock);
        self.first_cpu_us = self.pid.and_then(cpu_us);
    }

    /// The run is over; the first call counts.
    pub(super) fn end(&mut self) {
        self.last_cpu_us = self.last_cpu_us.or_else(|| self.pid.and_then(cpu_us));
        let _ = self.stop.send(()); // A thread that panicked shows when it is joined.
    }

    /// Waits for the last sample. The CPU time is that of the whole run, from its beginning to its end, in microseconds.
    pub(super) fn finish(self) -> Sampled {
        let mut sampled = self.thread.join().unwrap_or_else(|_| {
            let missing = vec!["taking samples failed unexpectedly".to_owned()];
            Sampled::of(NodeSeries { missing, ..NodeSeries::default() })
        });
        let used_us = self.last_cpu_us.zip(self.first_cpu_us).map(|(end, begin)| end - begin);
        sampled.series.cpu_us_per_request = used_us;
        sampled.began_s = self.began_s;
        sampled
    }
}

struct Taker<'a> {
    target: &'a Target,
    pid: Option<u32>,
    clock: Clock,
    last: Reading,
    /// The last answer of `/metrics`, which may be older.
    last_scrape: Option<Scrape>,
    sampled: Sampled,
}

/// Sums since the server started.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at_s: f64,
    cpu_us: Option<f64>,
    resident_bytes: Option<f64>,
}

/// Sums as well. `/metrics` takes its time.
#[derive(Debug, Clone, Copy, Default)]
struct Scrape {
    at_s: f64,
    written_bytes: Option<f64>,
    flushes: Option<f64>,
    compactions: Option<f64>,
}

impl<'a> Taker<'a> {
    fn new(target: &'a Target, pid: Option<u32>, clock: Clock) -> Self {
        let last = read(pid, &clock);
        let mut series = NodeSeries::default();
        if pid.is_none() {
            series.missing.push("CPU and memory: the server's process is not known (--pid)".to_owned());
        } else if last.cpu_us.is_none() {
            series.missing.push("CPU and memory: the process could not be read in /proc".to_owned());
        }
        Self { target, pid, clock, last, last_scrape: None, sampled: Sampled::of(series) }
    }

    /// The first answer, which the others are compared with.
    fn start(&mut self) {
        let asked_s = now_s(&self.clock);
        let first = self.scrape();
        self.keep(asked_s, first);
    }

    fn scrape(&self) -> Result<Scrape, String> {
        let metrics = metrics(self.target)?;
        let figure = |name: &str| metrics.get(name).copied();
        Ok(Scrape {
            at_s: now_s(&self.clock),
            written_bytes: WRITTEN.into_iter().map(figure).sum(),
            flushes: figure(FLUSHES),
            compactions: figure(COMPACTIONS),
        })
    }

    fn take(&mut self) {
        let now = read(self.pid, &self.clock);
        let scrape = self.scrape();
        self.add(now, scrape);
    }

    fn add(&mut self, now: Reading, scrape: Result<Scrape, String>) {
        let seconds = now.at_s - self.last.at_s;
        let used_us = now.cpu_us.zip(self.last.cpu_us).map(|(end, begin)| (end - begin).max(0.0));
        let mut sample = NodeSample {
            at_s: now.at_s,
            cpu_cores: used_us.map(|micros| micros / 1e6 / seconds),
            resident_bytes: now.resident_bytes,
            ..NodeSample::default()
        };
        self.last = now;
        if let Some((last, now)) = self.keep(now.at_s, scrape) {
            let since = |of: fn(&Scrape) -> Option<f64>| Some((of(&now)? - of(&last)?).max(0.0));
            let scraped_s = now.at_s - last.at_s;
            sample.scraped_at_s = Some(now.at_s);
            sample.written_bytes_per_s = since(|scrape| scrape.written_bytes).map(|bytes| bytes / scraped_s);
            sample.flushes = since(|scrape| scrape.flushes);
            sample.compactions = since(|scrape| scrape.compactions);
        }
        self.sampled.series.samples.push(sample);
    }

    /// The last answer and this one. If there is none now, the next one tells all that has happened since the last one.
    fn keep(&mut self, asked_s: f64, scrape: Result<Scrape, String>) -> Option<(Scrape, Scrape)> {
        let found = match &scrape {
            Ok(now) => Ok(now.at_s),
            Err(failure) => Err(failure.clone()),
        };
        self.sampled.scrapes.push(ScrapeAttempt { asked_s, found });
        let now = scrape.ok()?;
        self.last_scrape.replace(now).map(|last| (last, now))
    }

    fn finish(mut self) -> Sampled {
        if let Some(Scrape { flushes: None, .. }) = self.last_scrape {
            self.sampled.scrapes.clear();
            let without = "flushes and compactions: GET /metrics does not have them";
            self.sampled.series.missing.push(without.to_owned());
        }
        self.sampled
    }
}

fn now_s(clock: &Clock) -> f64 {
    clock.now_ns() as f64 / 1e9
}

fn read(pid: Option<u32>, clock: &Clock) -> Reading {
    Reading { at_s: now_s(clock), cpu_us: pid.and_then(cpu_us), resident_bytes: pid.and_then(resident_bytes) }
}

/// Every figure without labels; or why there are none.
fn metrics(target: &Target) -> Result<HashMap<String, f64>, String> {
    let never = AtomicBool::new(false);
    match client::get(target, "/metrics", SCRAPE_DEADLINE, &never) {
        Ok(answer) if answer.status == 200 => Ok(parse_metrics(&answer.text())),
        Ok(answer) => Err(format!("GET /metrics was answered with {}", answer.status)),
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Err(format!("GET /metrics took longer than {} s", SCRAPE_DEADLINE.as_secs()))
        }
        Err(error) => Err(format!("GET /metrics failed: {error}")),
    }
}

fn parse_metrics(text: &str) -> HashMap<String, f64> {
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#') && !line.contains('{')).filter_map(figure).collect()
}

/// The CPU time that a process has used, in user space and in the kernel.
pub(super) fn cpu_us(pid: u32) -> Option<f64> {
    let stat = files::read_text(format!("/proc/{pid}/stat").as_ref()).ok()?;
    let (own, _) = cpu_ticks(&stat)?;
    Some(own as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64)
}

/// Of a process, and of its children that have ended. Its name may contain blanks and brackets, so fields are counted from the
/// last bracket: `utime` is the twelfth word from there; `stime`, `cutime` and `cstime` follow.
pub(super) fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let mut next = || words.next()?.parse::<u64>().ok();
    Some((next()? + next()?, next()? + next()?))
}

fn resident_bytes(pid: u32) -> Option<f64> {
    let status = files::read_text(format!("/proc/{pid}/status").as_ref()).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024.0)
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
