use ladoga_cluster::{Failure, ReadCore, ReadStep, WriteAnswer, WriteCore, WriteStep};
use ladoga_history::Output;
use ladoga_model::Version;

use super::{Machine, Purpose, System};
use crate::message::Message;
use crate::replica::{From, Held};
use crate::scenario::{Bug, Scenario};

impl System {
    pub(super) fn read(&mut self, scenario: &Scenario, request: usize) {
        self.requests[request].machine = Machine::Read(ReadCore::new(scenario.replicas));
        self.messages.extend((0..self.replicas.len()).map(|to| Message::Read { request, to }));
    }

    pub(super) fn write(&mut self, request: usize, core: WriteCore, value: Option<u64>) {
        self.has_waited(request);
        let version = self.next_version(request);
        let held = Held { version, value };
        self.requests[request].machine = Machine::Write { core, held };
        let write = |to| Message::Write { request, to, held, from: From::Client };
        self.messages.extend((0..self.replicas.len()).map(write));
    }

    pub(super) fn next_version(&mut self, request: usize) -> Version {
        let process = self.requests[request].process;
        self.clocks[process] += 1;
        Version { timestamp: self.clocks[process], node: process as u16 }
    }

    /// The clock of a coordinator has met this version.
    pub(super) fn observe(&mut self, request: usize, version: Version) {
        let clock = &mut self.clocks[self.requests[request].process];
        *clock = version.timestamp.max(*clock);
    }

    /// What a replica said to a write of somebody's.
    pub(super) fn answer(
        &mut self,
        scenario: &Scenario,
        (request, to, held, from): (usize, usize, Held, From),
        said: Result<WriteAnswer, Failure>,
        is_answered: bool,
    ) {
        let said = match (is_answered, from) {
            (true, _) => said,
            (false, From::Client) => {
                return self.messages.push(Message::Write { request, to, held, from: From::ClientAgain });
            }
            (false, From::ClientAgain | From::Repair | From::Hint) => Err(Failure::Broken),
        };
        if let Ok(WriteAnswer::Fenced { fence }) = said
            && self.is_under_way(request)
        {
            self.observe(request, fence);
        }
        match from {
            From::Repair => {
                self.step_read(scenario, request, |core, step| core.repaired(to, held.version, said, step));
            }
            From::Client | From::ClientAgain => {
                self.step_write(scenario, (request, held.version), |core, step| {
                    core.answered(to, said, step);
                });
            }
            From::Hint => {}
        }
    }

    pub(super) fn step_read(
        &mut self,
        scenario: &Scenario,
        request: usize,
        act: impl FnOnce(&mut ReadCore<u64, ()>, &mut dyn FnMut(ReadStep<u64, ()>)),
    ) {
        let Machine::Read(core) = &mut self.requests[request].machine else { return };
        let mut steps = Vec::new();
        act(core, &mut |step| steps.push(step));
        for step in steps {
            match step {
                ReadStep::Decided(Ok(_)) if self.is_void(request) => self.over(request, None),
                ReadStep::Decided(Ok(cell)) => {
                    let held = cell.as_ref().map(Held::of);
                    self.returned.extend(held.map(|held| held.version));
                    self.has_read(scenario, request, held.and_then(|held| held.value));
                }
                ReadStep::Decided(Err(error)) => {
                    let is_fenced = error.failures.iter().any(|&(_, failure)| failure == Failure::Fenced);
                    self.has_not_read(scenario, request, is_fenced);
                }
                ReadStep::Repair(to, cell) => {
                    let held = Held::of(&cell);
                    self.messages.push(Message::Write { request, to, held, from: From::Repair });
                }
                ReadStep::Wait => self.messages.push(Message::Hurry { request }),
                ReadStep::Fetch(to) => self.messages.push(Message::Fetch { request, to }),
            }
        }
    }

    /// A quorum holds this, for a read or for a condition that does not hold.
    fn has_read(&mut self, scenario: &Scenario, request: usize, value: Option<u64>) {
        match self.requests[request].purpose {
            Purpose::Conditional { .. } => self.decide_by_read(scenario, request, value),
            _ => self.over(request, Some(Output::Value(value))),
        }
    }

    fn has_not_read(&mut self, scenario: &Scenario, request: usize, is_fenced: bool) {
        match self.requests[request].purpose {
            Purpose::Conditional { .. } if is_fenced => self.decide_past_fence(scenario, request),
            // It has written nothing.
            Purpose::Conditional { .. } => self.has_not_happened(request),
            _ if is_fenced => {
                self.requests[request].machine = Machine::FencedRead;
                self.has_met_fence(request, None);
            }
            _ => self.over(request, None),
        }
    }

    pub(super) fn step_write(
        &mut self,
        scenario: &Scenario,
        (request, version): (usize, Version),
        act: impl FnOnce(&mut WriteCore, &mut dyn FnMut(WriteStep)),
    ) {
        let Machine::Write { core, held } = &mut self.requests[request].machine else { return };
        let held = *held;
        if held.version != version {
            return; // Of an attempt before.
        }
        let mut steps = Vec::new();
        act(core, &mut |step| steps.push(step));
        for step in steps {
            match step {
                WriteStep::Decided(_) | WriteStep::Stale(_) if self.is_void(request) => {
                    self.over(request, None);
                }
                WriteStep::Decided(outcome) => self.over(request, outcome.ok().map(|()| Output::Done)),
                WriteStep::Stale(newer) => {
                    if scenario.bug != Some(Bug::RestampsStale) {
                        self.given_up.push(version);
                    }
                    self.observe(request, newer);
                    self.write(request, WriteCore::after_newest(scenario.replicas), held.value);
                }
                WriteStep::Fenced(fence) => self.has_met_fence(request, Some(fence)),
                // Otherwise: what it would bring, a repair does as well.
                WriteStep::Hint(to) if scenario.hints => {
                    self.messages.push(Message::Write { request, to, held, from: From::Hint });
                }
                WriteStep::Hint(_) => {}
            }
        }
    }

    /// It asks again, or takes over, whenever that is.
    fn has_met_fence(&mut self, request: usize, fence: Option<Version>) {
        self.messages.push(Message::AskAgain { request });
        if self.faults.take_overs > 0 {
            self.messages.push(Message::TakeOver { request, fence });
        }
    }

    /// Who met a promise asks again.
    pub(super) fn ask_again(&mut self, scenario: &Scenario, request: usize) {
        self.has_waited(request);
        match &mut self.requests[request].machine {
            Machine::Write { core, held } => {
                let held = *held;
                let fenced = core.ask_fenced_again();
                let write = |to| Message::Write { request, to, held, from: From::Client };
                self.messages.extend(fenced.map(write));
            }
            Machine::FencedRead => self.read(scenario, request),
            _ => {}
        }
    }

    /// Who met a promise need not wait any longer.
    pub(super) fn has_waited(&mut self, request: usize) {
        self.messages.retain(|message| match *message {
            Message::AskAgain { request: of } | Message::TakeOver { request: of, .. } => of != request,
            _ => true,
        });
    }
}
