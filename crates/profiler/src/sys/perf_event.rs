//! Events of the kernel, each with the ring that it fills: one per thread, or one per core.

use std::io;

use perf_event_open::config::{CallChain, Clock, Cpu, Opts, Proc, SampleOn};
use perf_event_open::count::Counter;
use perf_event_open::event::sw::Software;
use perf_event_open::sample::Sampler;

/// Sizes of rings, as powers of two of pages, without the header page. A thread's ring has 64 KiB, which hold 60 of the deepest
/// samples and 400 usual ones. A core's ring gets the samples of all processes: it has 512 KiB, as much as the system lets an
/// unprivileged process lock (`perf_event_mlock_kb` for each core).
const THREAD_RING_PAGES_LOG: u8 = 4;
const CORE_RING_PAGES_LOG: u8 = 7;
/// The header of a record.
const HEADER_BYTES: usize = 8;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A sample every so many nanoseconds of a core's time, while it is not idle. Begins at once.
    CpuClock {
        /// The time between two samples.
        period_ns: u64,
    },
    /// A sample when a thread leaves the CPU, and a record when it comes back. Begins when it is enabled.
    Switches,
}

/// What an event watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A thread, wherever it runs.
    Thread(u32),
    /// Whatever runs on a core.
    Core(u32),
}

/// One event, with its ring.
pub(crate) struct PerfEvent {
    counter: Counter,
    sampler: Sampler,
}

impl PerfEvent {
    pub(crate) fn open(event: EventKind, target: Target) -> io::Result<Self> {
        let (software, opts) = (event.software(), event.options());
        let (counter, ring) = match target {
            Target::Thread(id) => {
                (Counter::new(software, (Proc(id), Cpu::ALL), opts)?, THREAD_RING_PAGES_LOG)
            }
            Target::Core(index) => {
                (Counter::new(software, (Proc::ALL, Cpu(index)), opts)?, CORE_RING_PAGES_LOG)
            }
        };
        let sampler = counter.sampler(ring)?;
        Ok(PerfEvent { counter, sampler })
    }

    /// Enables the event for so many samples, after which the kernel disables it.
    pub(crate) fn enable_for(&self, samples: u32) -> io::Result<()> {
        self.sampler.enable_counter_with(samples)
    }

    pub(crate) fn disable(&self) -> io::Result<()> {
        self.counter.disable()
    }

    /// Appends the records that the kernel has written since the last call.
    pub(crate) fn read_into(&self, bytes: &mut Vec<u8>) {
        let Some(records) = self.sampler.iter() else { return };
        let mut records = records.into_cow();
        while let Some(record) = records.lending_next() {
            let record = record.into_raw();
            if record.len() < HEADER_BYTES {
                // Cannot be, and must not make us read it for ever.
                return;
            }
            bytes.extend_from_slice(&record);
        }
    }
}

impl EventKind {
    fn software(self) -> Software {
        match self {
            EventKind::CpuClock { .. } => Software::CpuClock,
            EventKind::Switches => Software::CtxSwitch,
        }
    }

    /// Samples have an instruction, a thread, the time of `CLOCK_MONOTONIC` and a call chain; other records end with the
    /// thread and the time.
    fn options(self) -> Opts {
        let mut opts = Opts::default();
        opts.sample_format.code_addr = true;
        opts.sample_format.call_chain = Some(CallChain {
            exclude_user: false,
            exclude_kernel: false,
            defer_user: false,
            max_stack_frames: super::FRAMES_MAX as u16,
        });
        opts.record_id_format.task = true;
        opts.record_id_format.time = true;
        opts.record_id_all = true;
        opts.timer = Some(Clock::Monotonic);
        match self {
            EventKind::CpuClock { period_ns } => {
                opts.sample_on = SampleOn::Count(period_ns);
                opts.exclude.idle = true;
                opts.enable = true;
            }
            EventKind::Switches => {
                opts.sample_on = SampleOn::Count(1);
                opts.extra_record.ctx_switch = true;
            }
        }
        opts
    }
}
