use ladoga_storage::{LATENCY_BOUNDS_US, Latencies, LevelStatistics, Statistics, WriteState};

use crate::store::{Distribution, Metric, MetricKind};

/// What the engine counts.
pub(super) fn engine_metrics(statistics: &Statistics, state: WriteState) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = counters(statistics).collect();
    metrics.extend(gauges(statistics));
    metrics.extend(levels(&statistics.levels));
    metrics.push(Metric::number(
        MetricKind::Counter,
        "ladoga_write_slowdown_seconds_total",
        "Time by which writes were slowed down because flushes or compactions lagged behind.",
        statistics.slowed_ns as f64 / 1e9,
    ));
    metrics.push(Metric::histogram(
        "ladoga_wal_sync_duration_seconds",
        "Duration of syncs of the write-ahead log.",
        distribution(&statistics.syncs),
    ));
    metrics.push(Metric::histogram(
        "ladoga_write_stall_duration_seconds",
        "Time that writers waited for a flush because the memtables were full.",
        distribution(&statistics.stalls),
    ));
    metrics.push(write_state(state));
    metrics
}

fn counters(s: &Statistics) -> impl Iterator<Item = Metric> {
    [
        ("ladoga_wal_groups_total", "Groups of writes appended to the write-ahead log.", s.write_groups),
        ("ladoga_wal_records_total", "Records appended to the write-ahead log.", s.write_records),
        ("ladoga_wal_bytes_total", "Bytes appended to the write-ahead log.", s.wal_bytes),
        ("ladoga_flushes_total", "Memtables flushed to tables.", s.flushes),
        ("ladoga_flush_bytes_total", "Bytes written by flushes.", s.flush_bytes),
        ("ladoga_compactions_total", "Compactions completed.", s.compactions),
        (
            "ladoga_expired_values_total",
            "Values that compactions removed because they had expired.",
            s.expired_values,
        ),
        ("ladoga_compaction_read_bytes_total", "Bytes read by compactions.", s.compaction_read_bytes),
        (
            "ladoga_compaction_written_bytes_total",
            "Bytes written by compactions.",
            s.compaction_written_bytes,
        ),
        (
            "ladoga_background_job_failures_total",
            "Flushes and compactions that failed.",
            s.background_failures,
        ),
        (
            "ladoga_record_cache_hits_total",
            "Reads that no memtable answered and that the record cache did.",
            s.record_cache_hits,
        ),
        (
            "ladoga_record_cache_misses_total",
            "Reads that neither a memtable nor the record cache answered.",
            s.record_cache_misses,
        ),
        ("ladoga_block_cache_hits_total", "Blocks found in the block cache.", s.cache_hits),
        ("ladoga_block_cache_misses_total", "Blocks not found in the block cache.", s.cache_misses),
        ("ladoga_block_reads_total", "Blocks read from tables.", s.block_reads),
        ("ladoga_block_read_bytes_total", "Bytes of blocks read from tables.", s.block_read_bytes),
        ("ladoga_filter_negatives_total", "Table reads that a filter made unnecessary.", s.filter_negatives),
        (
            "ladoga_corrupt_reads_total",
            "Reads that failed because data on the disk is corrupt, missing, or cannot be read.",
            s.corrupt_reads,
        ),
        (
            "ladoga_kept_log_gaps_total",
            "Segments of the log that could not be kept for backups, or had to go before their time for lack of space.",
            s.kept_log.gaps,
        ),
        ("ladoga_writes_refused_disk_full_total", "Writes refused because the disk is full.", s.refused_full),
    ]
    .into_iter()
    .map(|(name, help, value)| Metric::counter(name, help, value))
}

fn gauges(s: &Statistics) -> impl Iterator<Item = Metric> {
    [
        ("ladoga_memtable_bytes", "Size of the memtable.", s.memtable_bytes),
        ("ladoga_sealed_memtables", "Memtables that wait for their flush.", s.sealed_memtables),
        ("ladoga_sealed_memtable_bytes", "Size of the memtables that wait for their flush.", s.sealed_bytes),
        ("ladoga_blob_files", "Large values, each of which is a file of its own.", s.blob_files),
        (
            "ladoga_blob_bytes",
            "Size of the large values, with those that were replaced and are not removed yet.",
            s.blob_bytes,
        ),
        ("ladoga_record_cache_bytes", "Size of the record cache.", s.record_cache_bytes),
        ("ladoga_block_cache_bytes", "Size of the block cache.", s.cache_bytes),
        ("ladoga_block_cache_capacity_bytes", "Size that the block cache may reach.", s.cache_capacity_bytes),
        (
            "ladoga_table_index_and_filter_bytes",
            "Size of the indexes and filters of tables, which are always in memory.",
            s.pinned_bytes,
        ),
        ("ladoga_kept_log_segments", "Segments of the log that are kept for backups.", s.kept_log.segments),
        (
            "ladoga_kept_log_bytes",
            "Size of the log that is kept for backups, with the large values that it names.",
            s.kept_log.bytes,
        ),
        (
            "ladoga_kept_log_oldest_timestamp_seconds",
            "When the oldest segment that is kept was full, in seconds since 1970; 0 if none is.",
            s.kept_log.oldest_ms / 1_000,
        ),
        ("ladoga_disk_free_bytes", "Free space on the disk of the data directory.", s.free_bytes),
    ]
    .into_iter()
    .map(|(name, help, value)| Metric::gauge(name, help, value))
}

fn levels(levels: &[LevelStatistics]) -> [Metric; 3] {
    let by_level = |name, help, figure: fn(&LevelStatistics) -> u64| {
        let numbers = levels.iter().enumerate();
        let numbers = numbers.map(|(index, level)| (index.to_string(), figure(level) as f64));
        Metric::by_label(MetricKind::Gauge, name, help, "level", numbers)
    };
    [
        by_level("ladoga_level_tables", "Tables in a level.", |level| level.tables),
        by_level("ladoga_level_bytes", "Size of the tables in a level.", |level| level.bytes),
        by_level("ladoga_level_records", "Records in a level, tombstones included.", |level| level.records),
    ]
}

fn distribution(latencies: &Latencies) -> Distribution {
    let bounds = LATENCY_BOUNDS_US.iter().map(|&bound| bound as f64 / 1e6);
    Distribution {
        buckets: bounds.zip(latencies.buckets).collect(),
        count: latencies.count(),
        sum: latencies.sum_ns as f64 / 1e9,
    }
}

fn write_state(state: WriteState) -> Metric {
    let states =
        [("open", WriteState::Open), ("disk_full", WriteState::DiskFull), ("failed", WriteState::Poisoned)];
    Metric::by_label(
        MetricKind::Gauge,
        "ladoga_write_state",
        "1 for the state that writes are in, 0 for the others.",
        "state",
        states.map(|(name, of)| (name.to_owned(), f64::from(u8::from(state == of)))),
    )
}
