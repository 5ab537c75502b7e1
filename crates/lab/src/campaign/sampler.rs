//! Figures of the server's process during a run: from `/proc` if the process is known, from `/metrics` if it has them.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cli::Target;
use crate::clock::Clock;
use crate::files;
use crate::record::{NodeSample, NodeSeries};

use super::client;

const EVERY: Duration = Duration::from_millis(500);
/// A scrape that takes longer is of no single moment.
const SCRAPE_DEADLINE: Duration = Duration::from_secs(2);
/// Whatever is written to the disk.
const WRITTEN: [&str; 3] =
    ["ladoga_wal_bytes_total", "ladoga_flush_bytes_total", "ladoga_compaction_written_bytes_total"];
const FLUSHES: &str = "ladoga_flushes_total";
const COMPACTIONS: &str = "ladoga_compactions_total";

/// Takes samples until it is stopped.
pub(super) struct Sampler {
    pid: Option<u32>,
    first_cpu_us: Option<f64>,
    stop: Sender<()>,
    thread: JoinHandle<NodeSeries>,
}

impl Sampler {
    /// The CPU time of the run counts from here on: the thread may be late, or wait for `/metrics` while the load runs.
    pub(super) fn start(target: &Target, pid: Option<u32>) -> Self {
        let first_cpu_us = pid.and_then(cpu_us);
        let (stop, stopped) = channel();
        let target = target.clone();
        let thread = std::thread::spawn(move || {
            let mut taker = Taker::start(&target, pid);
            while matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
                taker.take();
            }
            taker.series
        });
        Self { pid, first_cpu_us, stop, thread }
    }

    /// Its CPU time is that of the whole run, in microseconds.
    pub(super) fn finish(self) -> NodeSeries {
        // Not after the thread's last sample, for which it may wait.
        let last_cpu_us = self.pid.and_then(cpu_us);
        let _ = self.stop.send(()); // A thread that panicked shows below.
        let mut series = self.thread.join().unwrap_or_else(|_| NodeSeries {
            missing: vec!["taking samples failed unexpectedly".to_owned()],
            ..NodeSeries::default()
        });
        series.cpu_us_per_request = last_cpu_us.zip(self.first_cpu_us).map(|(end, begin)| end - begin);
        series
    }
}

struct Taker<'a> {
    target: &'a Target,
    pid: Option<u32>,
    clock: Clock,
    last: Reading,
    series: NodeSeries,
}

/// Sums since the server started.
#[derive(Debug, Clone, Default)]
struct Reading {
    at_s: f64,
    cpu_us: Option<f64>,
    resident_bytes: Option<f64>,
    /// `/metrics` takes its time.
    scraped_at_s: f64,
    written_bytes: Option<f64>,
    flushes: Option<f64>,
    compactions: Option<f64>,
}

impl<'a> Taker<'a> {
    fn start(target: &'a Target, pid: Option<u32>) -> Self {
        let mut taker = Self {
            target,
            pid,
            clock: Clock::start(),
            last: Reading::default(),
            series: NodeSeries::default(),
        };
        taker.last = taker.read();
        if pid.is_none() {
            taker.series.missing.push("CPU and memory: the server's process is not known (--pid)".to_owned());
        } else if taker.last.cpu_us.is_none() {
            taker.series.missing.push("CPU and memory: the process could not be read in /proc".to_owned());
        }
        if taker.last.flushes.is_none() {
            taker.series.missing.push("flushes and compactions: GET /metrics does not have them".to_owned());
        }
        taker
    }

    fn read(&self) -> Reading {
        let now_s = || self.clock.now_ns() as f64 / 1e9;
        let (at_s, cpu_us, resident_bytes) =
            (now_s(), self.pid.and_then(cpu_us), self.pid.and_then(resident_bytes));
        let metrics = self.metrics();
        let figure = |name: &str| metrics.get(name).copied();
        Reading {
            at_s,
            cpu_us,
            resident_bytes,
            scraped_at_s: now_s(),
            written_bytes: WRITTEN.into_iter().map(figure).sum(),
            flushes: figure(FLUSHES),
            compactions: figure(COMPACTIONS),
        }
    }

    /// Every figure without labels; none if there are no metrics.
    fn metrics(&self) -> HashMap<String, f64> {
        let never = AtomicBool::new(false);
        match client::get(self.target, "/metrics", SCRAPE_DEADLINE, &never) {
            Ok(answer) if answer.status == 200 => parse_metrics(&answer.text()),
            _ => HashMap::new(),
        }
    }

    fn take(&mut self) {
        let now = self.read();
        let (seconds, scraped_s) = (now.at_s - self.last.at_s, now.scraped_at_s - self.last.scraped_at_s);
        let since = |of: fn(&Reading) -> Option<f64>| Some((of(&now)? - of(&self.last)?).max(0.0));
        self.series.samples.push(NodeSample {
            at_s: now.at_s,
            cpu_cores: since(|reading| reading.cpu_us).map(|micros| micros / 1e6 / seconds),
            resident_bytes: now.resident_bytes,
            written_bytes_per_s: since(|reading| reading.written_bytes).map(|bytes| bytes / scraped_s),
            flushes: since(|reading| reading.flushes),
            compactions: since(|reading| reading.compactions),
        });
        self.last = now;
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
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The first reading waited for the metrics, while the load ran already.
    #[test]
    fn cpu_time_counts_while_metrics_are_slow() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse(&format!("http://{}", server.local_addr().unwrap())).unwrap();
        let own = std::process::id();
        let used_us = || cpu_us(own).unwrap();
        let sampler = Sampler::start(&target, Some(own));
        let (before_us, worked_us) = (used_us(), 50_000.0);
        while used_us() < before_us + worked_us {
            std::hint::spin_loop();
        }
        drop(server); // The first request for metrics has waited until here, if the thread runs already.
        let found_us = sampler.finish().cpu_us_per_request.unwrap();
        assert!(found_us >= worked_us, "{found_us} of {worked_us} us");
    }

    #[test]
    fn processes_are_read_whatever_their_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 70 30 5 2 20 0 4 0 5";
        assert_eq!(cpu_ticks(stat), Some((100, 7)));
        assert_eq!(cpu_ticks("12 (a) S 1 2"), None);
        let own = std::process::id();
        assert!(cpu_us(own).is_some() && resident_bytes(own).is_some_and(|bytes| bytes > 1e5));
    }

    #[test]
    fn figures_without_labels_are_taken() {
        let figures = parse_metrics("# HELP a b\na 5\nb{x=\"1\"} 7\nc 1.5e3\nnonsense\n");
        assert_eq!(figures, HashMap::from([("a".to_owned(), 5.0), ("c".to_owned(), 1500.0)]));
    }
}
