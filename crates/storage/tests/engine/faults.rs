//! Every operation fails once, with every kind of error: nothing that was acknowledged is lost, nothing panics, and the failure
//! is reported.

use ladoga_env::sim::{Fault, Operation, PowerCut};
use ladoga_storage::{Durability, Engine, Error, WriteState};

use crate::support::{Machine, Write, settle, tiny_options, write};
use crate::workload::{Known, Step, assert_recovers, workload};

/// Whether it failed because the disk did.
fn is_of_the_disk(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::Poisoned { .. } | Error::DiskFull { .. })
}

/// Tried again once, as an operator or a timer does: faults strike once.
fn open(machine: &Machine) -> Engine {
    machine
        .open()
        .or_else(|error| {
            assert!(is_of_the_disk(&error), "{error}");
            machine.open()
        })
        .unwrap()
}

/// The store of a workload in which something fails.
struct Run<'a> {
    machine: &'a Machine,
    engine: Option<Engine>,
    known: Known,
}

impl Run<'_> {
    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Runs all of it, or until the store is poisoned.
    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            if !self.act(step) && self.engine().write_state() == WriteState::Poisoned {
                return;
            }
        }
    }

    fn act(&mut self, step: &Step) -> bool {
        let result = match step {
            Step::Write(writes) => return self.write(writes),
            Step::Work => self.engine().step().map(drop),
            Step::Seal => self.engine().seal(),
            Step::Sync => self.engine().sync(),
            Step::Drop => return self.reopen(),
            Step::Reopen => {
                let closed = self.engine().close();
                return self.reopen() && closed.is_ok();
            }
        };
        if let Err(error) = &result {
            assert!(is_of_the_disk(error), "{error}");
        }
        result.is_ok()
    }

    fn reopen(&mut self) -> bool {
        self.engine = None;
        self.engine = Some(open(self.machine));
        true
    }

    fn write(&mut self, writes: &[Write]) -> bool {
        self.known.in_flight = writes.to_vec();
        let result = write(self.engine(), writes);
        if let Err(error) = &result {
            assert!(is_of_the_disk(error), "{error}");
            if self.engine().write_state() == WriteState::Poisoned {
                return false;
            }
            // Refused: it has not happened, and happens when it is tried again.
            self.known.in_flight.clear();
            self.known.acknowledged().assert_held_by(self.engine(), self.machine.now_ms(), "refused");
            write(self.engine(), writes).unwrap();
        }
        self.known.acknowledge(writes);
        result.is_ok()
    }

    fn end(&mut self, end: End) {
        let machine = self.machine;
        if let End::ReopenedThenPower(_) = end {
            self.reopen();
            let model = self.known.state_of(self.engine());
            self.known = Known::of(model);
            self.write(&[Write::put("after", 8100, 10), Write::delete("key-003", 8101)]);
        }
        if let End::Power(policy) | End::ReopenedThenPower(policy) = end {
            machine.disk.power_cut(policy);
            machine.disk.power_on();
        }
        self.engine = None;
        if let End::PowerWhileReopened(n, policy) = end {
            machine.disk.cut_power_at_operation(n, policy);
            drop(machine.open());
            machine.disk.clear_faults();
            machine.disk.power_on();
        }
    }

    /// Writes are refused, reads go on.
    fn assert_poisoned(&self, context: &str) {
        let engine = self.engine();
        assert!(engine.poison_reason().is_some(), "{context}");
        for more in [Write::put("more", 8000, 10), Write::delete("key-000", 8001)] {
            let refused = write(engine, &[more]);
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{context}: {refused:?}");
        }
        self.known.acknowledged().assert_held_by(engine, self.machine.now_ms(), context);
    }
}

/// What happens after the fault: the process ends, or the power does.
#[derive(Debug, Clone, Copy)]
enum End {
    Dropped,
    Power(PowerCut),
    /// The store is opened again, writes, and then the power ends.
    ReopenedThenPower(PowerCut),
    /// The power ends in an operation of opening it again.
    PowerWhileReopened(u64, PowerCut),
}

/// Runs the workload with one fault; `false` if it ended before the fault.
fn run_with(n: u64, fault: Fault, durability: Durability, end: End, context: &str) -> bool {
    let machine = Machine::new(n, tiny_options(durability));
    machine.disk.fail_operation(n, fault);
    let engine = Some(open(&machine));
    let mut run = Run { machine: &machine, engine, known: Known::new() };
    run.run(&workload());
    let hit = machine.disk.faults_hit() > 0;
    let settled = settle(run.engine()).or_else(|_| settle(run.engine()));
    if run.engine().write_state() == WriteState::Poisoned {
        run.assert_poisoned(context);
    } else {
        settled.unwrap();
        run.known.acknowledged().assert_held_by(run.engine(), machine.now_ms(), context);
    }
    machine.disk.clear_faults();
    run.end(end);
    assert_recovers(&machine, &run.known, context);
    hit
}

fn fail_everywhere(fault: impl Fn() -> Fault, ends: &[End]) {
    for end in ends {
        let mut n = 0;
        while run_with(
            n,
            fault(),
            Durability::Always,
            *end,
            &format!("{:?}, operation {n}, then {end:?}", fault()),
        ) {
            n += 1;
        }
        assert!(n > 0, "{:?} never struck", fault());
    }
}

const ENDS: [End; 5] = [
    End::Dropped,
    End::Power(PowerCut::LoseAll),
    End::Power(PowerCut::Random),
    End::ReopenedThenPower(PowerCut::LoseAll),
    End::ReopenedThenPower(PowerCut::Random),
];

#[test]
fn any_operation_may_fail_once_and_nothing_acknowledged_is_lost() {
    fail_everywhere(Fault::io, &ENDS);
}

#[test]
fn any_write_may_be_cut_short() {
    for bytes in [0, 1, 40, 600] {
        fail_everywhere(|| Fault::short_write(bytes), &ENDS);
    }
}

#[test]
fn any_operation_may_find_the_disk_full() {
    for operation in
        [Operation::Write, Operation::Allocate, Operation::Create, Operation::SyncDir, Operation::Sync]
    {
        fail_everywhere(|| Fault::storage_full().on(operation), &ENDS);
    }
}

/// What a failed sync covered is read until the power ends, and then gone. Recovery must not build on it.
#[test]
fn after_a_failed_sync_the_power_may_end_at_every_operation_of_opening_again() {
    for operation in [Operation::Sync, Operation::SyncDir] {
        for policy in [PowerCut::LoseAll, PowerCut::KeepAll] {
            for cut in (policy as u64 % 2..36).step_by(2) {
                fail_everywhere(|| Fault::io().on(operation), &[End::PowerWhileReopened(cut, policy)]);
            }
        }
    }
}
