use ladoga_storage::{LATENCY_BOUNDS_US, Latencies, LevelStatistics, Statistics, WriteState};

use crate::store::{Sample, SampleKind, SampleValue};

/// What the engine counts.
pub(super) fn of_engine(statistics: &Statistics, state: WriteState) -> Vec<Sample> {
    let mut samples = counters(statistics);
    samples.extend(gauges(statistics));
    samples.extend(levels(&statistics.levels));
    samples.push(durations("ladoga_wal_sync_seconds", "Syncs of the log.", &statistics.syncs));
    samples.push(durations(
        "ladoga_write_stall_seconds",
        "Waits of writers for a flush.",
        &statistics.stalls,
    ));
    samples.push(write_state(state));
    samples
}

fn counters(s: &Statistics) -> Vec<Sample> {
    let counter = |(name, help, value): (_, _, u64)| Sample {
        name,
        help,
        kind: SampleKind::Counter,
        value: SampleValue::Number(value as f64),
    };
    let mut samples: Vec<Sample> = [
        ("ladoga_wal_groups_total", "Groups of writes in the log.", s.write_groups),
        ("ladoga_wal_records_total", "Records in the log.", s.write_records),
        ("ladoga_wal_bytes_total", "Bytes written to the log.", s.wal_bytes),
        ("ladoga_flushes_total", "Memtables written to tables.", s.flushes),
        ("ladoga_flush_bytes_total", "Bytes written by flushes.", s.flush_bytes),
        ("ladoga_compactions_total", "Compactions.", s.compactions),
        ("ladoga_compaction_read_bytes_total", "Bytes read by compactions.", s.compaction_read_bytes),
        (
            "ladoga_compaction_written_bytes_total",
            "Bytes written by compactions.",
            s.compaction_written_bytes,
        ),
        ("ladoga_background_failures_total", "Flushes and compactions that failed.", s.background_failures),
        (
            "ladoga_record_cache_hits_total",
            "Reads beyond the memtables that the record cache answered.",
            s.record_cache_hits,
        ),
        (
            "ladoga_record_cache_misses_total",
            "Reads beyond the memtables that had to ask tables.",
            s.record_cache_misses,
        ),
        ("ladoga_cache_hits_total", "Blocks found in the cache.", s.cache_hits),
        ("ladoga_cache_misses_total", "Blocks not found in the cache.", s.cache_misses),
        ("ladoga_block_reads_total", "Blocks read from tables.", s.block_reads),
        ("ladoga_block_read_bytes_total", "Bytes of those blocks.", s.block_read_bytes),
        ("ladoga_filter_negatives_total", "Reads of tables that a filter saved.", s.filter_negatives),
        ("ladoga_corrupt_reads_total", "Reads that met corrupt bytes.", s.corrupt_reads),
        ("ladoga_writes_refused_full_total", "Writes refused by a full disk.", s.refused_full),
    ]
    .map(counter)
    .into();
    samples.push(Sample {
        name: "ladoga_write_slowed_seconds_total",
        help: "Time by which writers were slowed down.",
        kind: SampleKind::Counter,
        value: SampleValue::Number(s.slowed_ns as f64 / 1e9),
    });
    samples
}

fn gauges(s: &Statistics) -> impl Iterator<Item = Sample> {
    [
        ("ladoga_memtable_bytes", "Bytes in the memtable.", s.memtable_bytes),
        ("ladoga_sealed_memtables", "Memtables waiting for their flush.", s.sealed_memtables),
        ("ladoga_sealed_memtable_bytes", "Bytes in them.", s.sealed_bytes),
        ("ladoga_blob_files", "Large values.", s.blob_files),
        ("ladoga_blob_bytes", "Bytes of the large values that tables name.", s.blob_bytes),
        ("ladoga_record_cache_bytes", "Bytes in the record cache.", s.record_cache_bytes),
        ("ladoga_cache_bytes", "Bytes in the block cache.", s.cache_bytes),
        ("ladoga_cache_capacity_bytes", "Bytes that the block cache may have.", s.cache_capacity_bytes),
        ("ladoga_pinned_bytes", "Bytes of indexes and filters kept in memory.", s.pinned_bytes),
        ("ladoga_disk_free_bytes", "Bytes free on the disk.", s.free_bytes),
    ]
    .into_iter()
    .map(|(name, help, value)| Sample {
        name,
        help,
        kind: SampleKind::Gauge,
        value: SampleValue::Number(value as f64),
    })
}

fn levels(levels: &[LevelStatistics]) -> [Sample; 3] {
    let by_level = |name, help, figure: fn(&LevelStatistics) -> u64| {
        let values =
            levels.iter().enumerate().map(|(index, level)| (index.to_string(), figure(level) as f64));
        let value = SampleValue::Labelled { label: "level", values: values.collect() };
        Sample { name, help, kind: SampleKind::Gauge, value }
    };
    [
        by_level("ladoga_level_tables", "Tables in a level.", |level| level.tables),
        by_level("ladoga_level_bytes", "Bytes in a level.", |level| level.bytes),
        by_level("ladoga_level_records", "Records in a level, tombstones included.", |level| level.records),
    ]
}

fn durations(name: &'static str, help: &'static str, latencies: &Latencies) -> Sample {
    let bounds = LATENCY_BOUNDS_US.iter().map(|&bound| bound as f64 / 1e6);
    let value = SampleValue::Histogram {
        buckets: bounds.zip(latencies.buckets).collect(),
        count: latencies.count(),
        sum: latencies.sum_ns as f64 / 1e9,
    };
    Sample { name, help, kind: SampleKind::Counter, value }
}

fn write_state(state: WriteState) -> Sample {
    let states =
        [("open", WriteState::Open), ("disk_full", WriteState::DiskFull), ("failed", WriteState::Poisoned)];
    let values = states.map(|(name, of)| (name.to_owned(), f64::from(u8::from(state == of)))).into();
    Sample {
        name: "ladoga_write_state",
        help: "Whether writes are taken: 1 for the state that is.",
        kind: SampleKind::Gauge,
        value: SampleValue::Labelled { label: "state", values },
    }
}
