//! What each node is asked in the end, until it has answered.

use std::collections::{BTreeMap, BTreeSet};

use crate::request::Question;
use crate::values::{Key, is_plain};

/// A key in the end.
pub(crate) struct EndedKey {
    pub(crate) key: Key,
    /// Whether all nodes that it is for have a value that stays.
    pub(crate) has_value: bool,
    /// Whether fewer nodes than answer a read may have it for good, because a node has left.
    pub(crate) may_be_on_few: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub(crate) unanswered: BTreeSet<Question>,
    /// Those that were asked, by the numbers of the requests.
    asked: BTreeMap<u64, Question>,
}

impl Questions {
    /// Each node is to answer for this key. Conditional writes are only asked of keys that have a value, so that they change nothing; and of
    /// those that others were asked of before, as only these leave promises.
    pub(crate) fn add(&mut self, ended: &EndedKey, nodes: &[usize]) {
        if ended.may_be_on_few {
            return;
        }
        for &node in nodes {
            let question = |is_conditional| Question { node, key: ended.key.clone(), is_conditional };
            self.unanswered.insert(question(false));
            if ended.has_value && !is_plain(&ended.key) {
                self.unanswered.insert(question(true));
            }
        }
    }

    /// A request with this number asks one of them.
    pub(crate) fn asks(&mut self, number: u64, question: Question) {
        self.asked.insert(number, question);
    }

    /// The request with this number was answered, whatever it was for.
    pub(crate) fn answered(&mut self, number: u64) {
        if let Some(question) = self.asked.remove(&number) {
            self.unanswered.remove(&question);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(key: &str, has_value: bool, may_be_on_few: bool) -> Vec<(usize, bool)> {
        let mut questions = Questions::default();
        let key = key.as_bytes().to_vec();
        questions.add(&EndedKey { key, has_value, may_be_on_few }, &[0, 2]);
        questions.unanswered.into_iter().map(|question| (question.node, question.is_conditional)).collect()
    }

    #[test]
    fn each_node_is_asked_for_each_key_but_for_those_that_a_node_took_with_it() {
        assert_eq!(added("mixed", true, false), [(0, false), (0, true), (2, false), (2, true)]);
        assert_eq!(added("mixed", false, false), [(0, false), (2, false)], "it would be written");
        assert_eq!(added("key1", true, false), [(0, false), (2, false)]);
        assert_eq!(added("mixed", true, true), []);
    }

    /// Any request of that node and key that succeeded counted as an answer, also a write.
    #[test]
    fn only_the_answer_to_a_question_answers_it() {
        let mut questions = Questions::default();
        let ended = EndedKey { key: b"key1".to_vec(), has_value: false, may_be_on_few: false };
        questions.add(&ended, &[0]);
        let question = questions.unanswered.first().expect("one").clone();
        questions.asks(7, question);
        questions.answered(6);
        assert_eq!(questions.unanswered.len(), 1);
        questions.answered(7);
        assert!(questions.unanswered.is_empty());
    }
}
