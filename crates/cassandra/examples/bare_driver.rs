//! What the driver does by itself, without a door: the same statements in a loop, for `bench/cassandra.py`.
//!
//! ```text
//! bare_driver NODES KEYSPACE fill|get|put|if-match one|quorum|all CONNECTIONS SECONDS KEYS [RATE]
//! ```
//!
//! Without a rate, each connection asks again as soon as it is answered; with one, request `i` is due at `i / RATE` and its latency counts
//! from then. Prints one object of JSON: `good`, `bad`, `duration_s`, `cpu_us` and `latency_us`.
#![expect(clippy::disallowed_methods, reason = "a measurement of the real driver in real time")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ladoga_model::HybridClock;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::runtime::Builder;
use tokio::time::{Instant as Due, sleep_until};
use xxhash_rust::xxh3::xxh3_64;

type Failed = Box<dyn Error + Send + Sync>;

const BUCKETS: u64 = 256;
const VALUE_BYTES: usize = 100;
/// Rows of one partition that are written at once while the tables are filled.
const FILLED_AT_ONCE: usize = 64;
const EXPECTED: &str =
    "expected NODES KEYSPACE fill|get|put|if-match one|quorum|all CONNECTIONS SECONDS KEYS [RATE]";

struct Settings {
    nodes: Vec<String>,
    keyspace: String,
    operation: String,
    consistency: Consistency,
    connections: usize,
    duration: Duration,
    keys: u64,
    rate: Option<f64>,
}

fn settings() -> Option<Settings> {
    let mut arguments = std::env::args().skip(1);
    let nodes = arguments.next()?.split(',').map(str::to_owned).collect();
    let (keyspace, operation) = (arguments.next()?, arguments.next()?);
    let consistency = match &*arguments.next()? {
        "one" => Consistency::One,
        "quorum" => Consistency::Quorum,
        "all" => Consistency::All,
        _ => return None,
    };
    let connections = arguments.next()?.parse().ok()?;
    let duration = Duration::from_secs_f64(arguments.next()?.parse().ok().filter(|seconds| *seconds > 0.0)?);
    let keys = arguments.next()?.parse().ok().filter(|keys| *keys > 0)?;
    let rate = arguments.next().map(|text| text.parse().ok().filter(|rate| *rate > 0.0));
    let rate = if let Some(rate) = rate { Some(rate?) } else { None };
    Some(Settings { nodes, keyspace, operation, consistency, connections, duration, keys, rate })
}

fn main() -> Result<(), Failed> {
    let settings = settings().ok_or(EXPECTED)?;
    // As a door with one event loop: that, and one thread of the driver.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(settings))
}

struct Loop {
    settings: Settings,
    session: Session,
    get: PreparedStatement,
    put: PreparedStatement,
    mark: PreparedStatement,
    put_if: PreparedStatement,
    next: AtomicU64,
}

async fn run(settings: Settings) -> Result<(), Failed> {
    let speculation =
        SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: Duration::from_millis(500) };
    let profile = ExecutionProfile::builder()
        .request_timeout(Some(Duration::from_secs(5)))
        .speculative_execution_policy(Some(Arc::new(speculation)))
        .build();
    let session = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    let table = format!("{}.entities", settings.keyspace);
    let at = "WHERE bucket = ? AND key = ?";
    let prepare = async |cql: String, consistency| -> Result<PreparedStatement, Failed> {
        let mut prepared = session.prepare(cql).await?;
        prepared.set_consistency(consistency);
        prepared.set_is_idempotent(true);
        Ok(prepared)
    };
    let of = settings.consistency;
    let insert = format!(
        "INSERT INTO {table} (etag, value, bucket, key) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
    );
    let update = format!("UPDATE {table} USING TTL ? SET etag = ?, value = ? {at} IF etag = ?");
    let mut put_if = prepare(update, of).await?;
    put_if.set_is_idempotent(false);
    put_if.set_serial_consistency(Some(SerialConsistency::Serial));
    let get = prepare(format!("SELECT etag, value FROM {table} {at}"), of).await?;
    let put = prepare(insert, of).await?;
    let mark = prepare(format!("SELECT etag FROM {table} {at}"), Consistency::Serial).await?;
    let all = Arc::new(Loop { settings, session, get, put, mark, put_if, next: AtomicU64::new(0) });
    if all.settings.operation == "fill" { fill(all).await } else { measure(all).await }
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:09}").into_bytes()
}

fn bucket(key: &[u8]) -> i32 {
    (xxh3_64(key) % BUCKETS) as i32
}

/// A row as a door writes it: the columns `etag` and `value`, and its timestamp.
fn row() -> (Vec<u8>, Vec<u8>, i64) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    let after = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::AcqRel, Ordering::Acquire, after).unwrap_or_default();
    let us = now.max(last + 1);
    let version = HybridClock::at_wall_ms(us / 1_000) + us % 1_000;
    let mut etag = vec![0, 0];
    etag.extend_from_slice(&version.to_be_bytes());
    etag.extend_from_slice(&0_u64.to_be_bytes());
    etag.extend_from_slice(&(VALUE_BYTES as u64).to_be_bytes());
    let mut value = vec![0, 0];
    value.resize(2 + VALUE_BYTES, b'v');
    (etag, value, us.cast_signed())
}

/// Writes all keys, the rows of a partition together.
async fn fill(all: Arc<Loop>) -> Result<(), Failed> {
    let mut keys: Vec<Vec<Vec<u8>>> = vec![Vec::new(); BUCKETS as usize];
    for number in 0..all.settings.keys {
        let key = key(number);
        keys[bucket(&key) as usize].push(key);
    }
    let keys = Arc::new(keys);
    let workers: Vec<_> = (0..all.settings.connections)
        .map(|_| {
            let (all, keys) = (Arc::clone(&all), Arc::clone(&keys));
            tokio::spawn(async move {
                loop {
                    let number = all.next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(of_bucket) = keys.get(number) else { return Ok::<_, Failed>(()) };
                    for some in of_bucket.chunks(FILLED_AT_ONCE) {
                        let mut batch = Batch::new(BatchType::Unlogged);
                        batch.set_consistency(all.settings.consistency);
                        let mut values = Vec::with_capacity(some.len());
                        for key in some {
                            batch.append_statement(all.put.clone());
                            let (etag, value, timestamp) = row();
                            values.push((etag, value, number as i32, key, 0_i32, timestamp));
                        }
                        all.session.batch(&batch, values).await?;
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

async fn measure(all: Arc<Loop>) -> Result<(), Failed> {
    let (began, cpu_before) = (Instant::now(), cpu_us()?);
    let workers: Vec<_> = (0..all.settings.connections)
        .map(|worker| tokio::spawn(work(Arc::clone(&all), began, worker as u64)))
        .collect();
    let (mut latencies, mut bad) = (Vec::new(), 0);
    for worker in workers {
        let (own, failed) = worker.await?;
        latencies.extend(own);
        bad += failed;
    }
    let (duration, cpu) = (began.elapsed().as_secs_f64(), cpu_us()? - cpu_before);
    latencies.sort_unstable();
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or(0);
    println!(
        "{{\"good\":{},\"bad\":{bad},\"duration_s\":{duration},\"cpu_us\":{cpu},\"latency_us\":{{\"p50\":{},\"p99\":{}}}}}",
        latencies.len(),
        at(0.5),
        at(0.99)
    );
    Ok(())
}

/// Latencies in microseconds, and how many requests failed.
async fn work(all: Arc<Loop>, began: Instant, worker: u64) -> (Vec<u64>, u64) {
    let Settings { duration, keys, rate, .. } = &all.settings;
    let (mut latencies, mut bad) = (Vec::new(), 0);
    // xorshift64 (Marsaglia, 2003): any keys will do.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(worker + 1) | 1;
    loop {
        let mut due = Instant::now();
        if let Some(rate) = rate {
            let number = all.next.fetch_add(1, Ordering::Relaxed);
            due = began + Duration::from_secs_f64(number as f64 / rate);
            if due - began >= *duration {
                return (latencies, bad);
            }
            sleep_until(Due::from_std(due)).await;
        } else if due - began >= *duration {
            return (latencies, bad);
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match all.request(key(random % keys)).await {
            Ok(()) => latencies.push(due.elapsed().as_micros() as u64),
            Err(_) => bad += 1,
        }
    }
}

impl Loop {
    async fn request(&self, key: Vec<u8>) -> Result<(), Failed> {
        let bucket = bucket(&key);
        match &*self.settings.operation {
            "get" => {
                let found =
                    self.session.execute_unpaged(&self.get, (bucket, key)).await?.into_rows_result()?;
                found.maybe_first_row::<(Bytes, Bytes)>()?.ok_or("the key is missing")?;
            }
            "put" => {
                let (etag, value, timestamp) = row();
                let values = (etag, value, bucket, key, 0_i32, timestamp);
                self.session.execute_unpaged(&self.put, values).await?;
            }
            "if-match" => {
                let found =
                    self.session.execute_unpaged(&self.mark, (bucket, &key)).await?.into_rows_result()?;
                let (before,) = found.maybe_first_row::<(Bytes,)>()?.ok_or("the key is missing")?;
                let (etag, value, _) = row();
                self.session.execute_unpaged(&self.put_if, (0_i32, etag, value, bucket, key, before)).await?;
            }
            _ => return Err(EXPECTED.into()),
        }
        Ok(())
    }
}

/// CPU time of this process so far: `utime` and `stime` of `/proc/self/stat`, in hundredths of a second.
fn cpu_us() -> Result<u64, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(") ").next().ok_or("no fields")?.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).ok_or("no times")?;
    Ok((user + system) * 10_000)
}
