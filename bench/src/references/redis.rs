//! Redis, driven by `redis-benchmark`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::free_address;
use crate::dataset::{Dataset, key};
use crate::process::{Process, find_program, line_of, output_of};
use crate::stop::{OrFail, Outcome, failed};

/// As many as wrk has.
const CLIENTS: usize = super::wrk::CONNECTIONS;

#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

/// What `redis-benchmark` counted.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) line: String,
}

impl Redis {
    /// With an append-only file that is synced `always` or `everysec`.
    pub(crate) fn start(folder: &Path, appendfsync: &str) -> Outcome<Self> {
        find_program("redis-benchmark")?;
        let address = free_address()?;
        let mut command = Command::new(find_program("redis-server")?);
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", appendfsync]);
        command.arg("--dir").arg(folder);
        let line = line_of(&command, folder).replace(&address.port().to_string(), "PORT");
        let mut process = Process::spawn(&mut command, line, folder.join("redis.log"))?;
        process.wait_until(Duration::from_secs(10), || answers_ping(address))?;
        Ok(Self { process, address })
    }

    /// Stores every record, so that no `GET` misses.
    pub(crate) fn fill(&self, dataset: &Dataset, records: u64) -> Outcome {
        let doing = || "cannot fill redis".to_owned();
        let mut stream = TcpStream::connect(self.address).or_fail(doing)?;
        let numbers: Vec<u64> = (0..records).collect();
        for part in numbers.chunks(1000) {
            let mut commands = Vec::new();
            for &number in part {
                let value = dataset.value(number);
                commands.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                commands.extend_from_slice(&key(number));
                commands.extend_from_slice(format!("\r\n${}\r\n", value.len()).as_bytes());
                commands.extend_from_slice(value);
                commands.extend_from_slice(b"\r\n");
            }
            stream.write_all(&commands).or_fail(doing)?;
            let mut answers = vec![0; part.len() * b"+OK\r\n".len()];
            stream.read_exact(&mut answers).or_fail(doing)?;
            if answers.chunks(5).any(|answer| answer != b"+OK\r\n") {
                return failed(format!("redis refused: {}", String::from_utf8_lossy(&answers[..5])));
            }
        }
        Ok(())
    }

    /// So many `set` or `get` of random keys.
    pub(crate) fn requests(
        &self,
        test: &str,
        value_bytes: usize,
        records: u64,
        requests: u64,
    ) -> Outcome<Counted> {
        Load { test, value_bytes, records, pipeline: 1 }.run(self.address, requests)
    }
}

/// What `redis-benchmark` asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'t> {
    pub(crate) test: &'t str,
    pub(crate) value_bytes: usize,
    pub(crate) records: u64,
    /// How many requests a client sends before it waits for replies.
    pub(crate) pipeline: u32,
}

impl Load<'_> {
    /// So many of them, to whatever speaks the protocol there.
    pub(crate) fn run(&self, address: SocketAddr, requests: u64) -> Outcome<Counted> {
        let Load { test, value_bytes, records, pipeline } = self;
        let port = address.port().to_string();
        let options =
            format!("-t {test} -c {CLIENTS} -d {value_bytes} -r {records} -P {pipeline} -n {requests} --csv");
        let mut command = Command::new(find_program("redis-benchmark")?);
        command.args(["-h", "127.0.0.1", "-p", &port]).args(options.split(' '));
        let text = output_of(&mut command)?;
        let per_second =
            parse(&text).or_fail(|| format!("redis-benchmark printed something else: {text}"))?;
        Ok(Counted { requests, per_second, line: format!("redis-benchmark -p PORT {options}") })
    }
}

fn answers_ping(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok::<_, std::io::Error>(&answer == b"+PONG")
    };
    ask().unwrap_or(false)
}

/// The second field of the last line, such as `"SET","104602.52","0.332",…`.
fn parse(csv: &str) -> Option<f64> {
    csv.lines().rev().find(|line| line.starts_with('"'))?.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_benchmark_prints_is_understood() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"104602.52\",\"0.332\"\n";
        assert_eq!(parse(text), Some(104_602.52));
        assert_eq!(parse("Could not connect"), None);
    }
}
