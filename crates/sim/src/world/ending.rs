//! In the end, when nothing goes wrong any more, each node answers for each key. A promise that nobody ends, or a request that waits for
//! ever, would be in the way of that.

use ladoga_cluster::Partition;
use ladoga_env::Rng;
use ladoga_model::{CellMark, Replicas};

use super::following::LATE_MS;
use super::{Event, World};
use crate::clients::Wish;
use crate::questions::EndedKey;
use crate::request::Question;

/// How often a node is asked, and how long it is waited between: as long as others take to end promises that nobody else does.
const TRIES: u64 = 30;
const PAUSE_MS: u64 = 1_000;

impl World {
    /// Asks each node for each key until it has answered.
    pub(super) fn expect_answers(&mut self) {
        let cells: Vec<_> = self.machines.iter().map(|machine| machine.cells().unwrap_or_default()).collect();
        let clients = self.shared.clients.borrow();
        let mut questions = self.shared.questions.borrow_mut();
        for plan in &clients.keys {
            let nodes = &self.common.placement.preference_list(Partition::of(&plan.key))[..plan.copies()];
            let held = nodes.iter().map(|node| cells[self.common.members[node.index()]].get(&plan.key));
            let newest = held.clone().flatten().map(|cell| cell.stamp.version).max();
            let has_value = |cell: Option<&CellMark>| cell.is_some_and(|cell| cell.deleted_at().is_none());
            let ended = EndedKey {
                key: plan.key.clone(),
                has_value: plan.copies() > 1 && held.clone().all(has_value),
                may_be_on_few: newest.is_some_and(|newest| self.may_be_on_few(plan, newest)),
            };
            questions.add(&ended, &self.common.members);
        }
        drop((clients, questions));
        let is_conditional_first = self.rng.below(2) == 0;
        self.ask_again(TRIES, is_conditional_first);
    }

    /// Asks what is not answered yet: first the conditional writes, or first the reads. If there is nothing left, the run ends.
    pub(super) fn ask_again(&mut self, left: u64, is_conditional_first: bool) {
        let mut questions = self.shared.questions.borrow().unanswered.clone();
        // Not at the same time: either may end what would be in the way of the other.
        if questions.iter().any(|question| question.is_conditional == is_conditional_first) {
            questions.retain(|question| question.is_conditional == is_conditional_first);
        }
        let Some(first) = questions.first() else {
            let is_followed = self.shared.follower.borrow().connection > 0;
            return self.plan(if is_followed { LATE_MS } else { 0 }, Event::End);
        };
        if left == 0 {
            let Question { node, key, is_conditional } = first;
            let what = if *is_conditional { "a conditional write" } else { "a read" };
            let (key, all) = (key.escape_ascii(), questions.len());
            let broken =
                format!("{node} does not answer {what} of {key} in the end, the first of {all} requests");
            return self.shared.checker.lock().breaks(broken);
        }
        for question in questions {
            let Question { node, key, is_conditional } = &question;
            let (node, is_conditional) = (*node, *is_conditional);
            let mut clients = self.shared.clients.borrow_mut();
            let Some(index) = clients.keys.iter().position(|plan| plan.key == *key) else { continue };
            let (number, copies) = (clients.next_number(), clients.keys[index].copies());
            drop(clients);
            self.shared.questions.borrow_mut().asks(number, question);
            let value = number.to_le_bytes().to_vec();
            let wish = if is_conditional { Wish::PutIf { value, expected: None } } else { Wish::Get };
            self.ask_of(node, index, (number, wish), Replicas::majority_of(copies as u32));
        }
        self.plan(PAUSE_MS, Event::AskAgain { left: left - 1, is_conditional_first });
    }
}
