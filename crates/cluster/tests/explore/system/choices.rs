use ladoga_model::Version;

use super::{Machine, System};
use crate::message::{Choice, Message};
use crate::replica::{From, Replica};
use crate::scenario::{Ask, Bug, Scenario};

impl System {
    pub(crate) fn choices(&self, scenario: &Scenario) -> Vec<Choice> {
        let mut choices = Vec::new();
        if !(0..self.busy.len()).any(|process| self.has_more(scenario, process)) {
            return choices; // Nobody is told anything any more.
        }
        let first_untouched = self.untouched.iter().position(|untouched| *untouched);
        // Of replicas that nothing has come to, one does for all.
        let may_touch = |replica: usize| !self.untouched[replica] || first_untouched == Some(replica);
        for &message in self.messages.iter().filter(|message| message.to().is_none_or(may_touch)) {
            if self.fresh.is_none_or(|fresh| message.to().is_some() && message.request() == Some(fresh)) {
                self.choices_of_message(message, &mut choices);
            }
        }
        let is_first = |request: &usize| self.fresh.is_none_or(|fresh| *request == fresh);
        for request in (0..self.requests.len()).filter(is_first) {
            self.choices_of_request(request, &mut choices);
        }
        if self.fresh.is_some() {
            return choices;
        }
        let touched = || (0..self.replicas.len()).filter(|&replica| !self.untouched[replica]);
        if self.faults.restarts > 0 {
            choices.extend(touched().map(Choice::Restart));
        }
        if self.faults.lost_disks > 0 {
            choices.extend(touched().filter(|&one| self.may_lose_disk(scenario, one)).map(Choice::LoseDisk));
        }
        if scenario.bug == Some(Bug::FenceTimesOut) {
            choices.extend(touched().filter(|&one| self.replicas[one].has_fences()).map(Choice::DropFences));
        }
        for (to, replica) in self.replicas.iter().enumerate() {
            let of = replica.pulls_from().iter().copied().filter(|&of| may_touch(of));
            choices.extend(of.map(|of| Choice::Pull { to, of }));
        }
        let is_idle = |&process: &usize| !self.busy[process] && self.has_more(scenario, process);
        // The last is tried first.
        choices.extend((0..self.busy.len()).filter(is_idle).map(Choice::Ask));
        choices
    }

    /// Beside conditional writes only one that promised something: the rest is explored without them.
    fn may_lose_disk(&self, scenario: &Scenario, replica: usize) -> bool {
        let is_conditional = |ask: &Ask| matches!(ask, Ask::CompareAndSet(..) | Ask::Increment);
        self.replicas[replica].has_fences()
            || scenario.bug == Some(Bug::PromisesWhileRebuilding)
            || !scenario.processes.iter().flatten().any(is_conditional)
    }

    fn has_more(&self, scenario: &Scenario, process: usize) -> bool {
        self.busy[process] || self.asked[process] < scenario.processes[process].len()
    }

    fn choices_of_message(&self, message: Message, choices: &mut Vec<Choice>) {
        choices.push(Choice::Arrive(message));
        let is_write = matches!(message, Message::Write { .. });
        let may_be_unanswered = is_write
            || matches!(message, Message::Commit { .. } | Message::Prepare { .. } | Message::Accept { .. });
        if self.faults.lost_answers > 0 && may_be_unanswered {
            choices.push(Choice::ArriveUnanswered(message));
        }
        if self.faults.late_commits > 0 && is_write {
            choices.push(Choice::Admit(message));
        }
    }

    fn choices_of_request(&self, request: usize, choices: &mut Vec<Choice>) {
        if self.faults.deadlines > 0 && self.is_under_way(request) {
            choices.push(Choice::Deadline(request));
        }
        if self.faults.crashes > 0 && matches!(self.requests[request].machine, Machine::Proposal { .. }) {
            choices.push(Choice::Crash(request));
        }
    }

    /// Drops what can change nothing any more: so states that differ in that only are one.
    pub(super) fn forget_what_changes_nothing(&mut self, scenario: &Scenario) {
        let messages = std::mem::take(&mut self.messages);
        self.messages =
            messages.iter().copied().filter(|message| self.may_matter(*message, &messages)).collect();
        self.messages.sort_unstable();
        self.messages.dedup();
        self.given_up.sort_unstable();
        self.returned.sort_unstable();
        self.returned.dedup();
        if self.faults.restarts == 0 {
            self.replicas.iter_mut().for_each(Replica::needs_no_clock);
        }
        let is_commit = |message: &Message| matches!(message, Message::Commit { .. });
        let has_late = self.faults.late_commits > 0 || self.messages.iter().any(is_commit);
        if !has_late && !self.has_plain_writes(scenario) {
            self.replicas.iter_mut().for_each(Replica::needs_no_past);
        }
    }

    /// Whether a plain write is under way or to come.
    fn has_plain_writes(&self, scenario: &Scenario) -> bool {
        let is_write = |ask: &Ask| matches!(ask, Ask::Write(_) | Ask::Delete);
        let mut to_come = scenario.processes.iter().zip(&self.asked);
        let is_under_way = |machine: &Machine| matches!(machine, Machine::Write { .. });
        to_come.any(|(asks, &asked)| asks[asked..].iter().any(is_write))
            || self.requests.iter().any(|request| is_under_way(&request.machine))
    }

    fn may_matter(&self, message: Message, messages: &[Message]) -> bool {
        // What is there is never older again, unless its disk is lost.
        let stays = |to: usize| self.faults.lost_disks == 0 && self.replicas[to].pulls_from().is_empty();
        let is_late = |to: usize, version| stays(to) && self.replicas[to].is_at(version);
        let machine = |request: usize| &self.requests[request].machine;
        match message {
            Message::Write { to, held, from: From::Client | From::ClientAgain, .. } => {
                !is_late(to, held.version) || self.is_being_written(held.version)
            }
            Message::Write { request, to, held, from: From::Repair | From::Hint } => {
                !is_late(to, held.version)
                    || self.is_being_written(held.version)
                    || matches!(machine(request), Machine::Read(_))
            }
            Message::Commit { .. } => true,
            Message::Prepare { to, ballot, .. } => !is_late(to, ballot) || self.is_being_proposed(ballot),
            // Nobody promises a ballot again.
            Message::Accept { to, held, .. } => {
                self.replicas[to].has_fence(held.version) || self.is_being_proposed(held.version)
            }
            Message::Release { to, ballot } => {
                let is_asked = |message: &Message| match *message {
                    Message::Prepare { to: asked, ballot: other, .. } => (asked, other) == (to, ballot),
                    _ => false,
                };
                self.replicas[to].has_fence(ballot) || messages.iter().any(is_asked)
            }
            Message::Read { request, .. } | Message::Fetch { request, .. } | Message::Hurry { request } => {
                matches!(machine(request), Machine::Read(_))
            }
            Message::AskAgain { request } => self.is_under_way(request),
            Message::TakeOver { request, .. } => self.is_under_way(request) && self.faults.take_overs > 0,
        }
    }

    /// Whether a client waits for a plain write of this version.
    fn is_being_written(&self, version: Version) -> bool {
        self.requests.iter().any(|request| match &request.machine {
            Machine::Write { held, .. } => held.version == version,
            _ => false,
        })
    }

    /// Whether somebody waits for what is said to this ballot.
    fn is_being_proposed(&self, version: Version) -> bool {
        self.requests.iter().any(|request| match &request.machine {
            Machine::Proposal { ballot, .. } => *ballot == version,
            _ => false,
        })
    }
}
