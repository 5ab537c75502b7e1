use super::class::Class;
use super::latencies::Latencies;
use crate::http::Method;

/// Requests by what became of them and by their method. There is something of a kind from its first request on; few kinds come up
/// in a run, so they are searched one after the other.
#[derive(Debug)]
pub(crate) struct Answers {
    kinds: Vec<AnswerKind>,
}

#[derive(Debug)]
struct AnswerKind {
    class: Class,
    method: Method,
    latencies: Latencies,
    /// Answers beside those that have a latency: with `-B` only the last one of a batch has one.
    without_latency: u64,
}

impl AnswerKind {
    fn new(class: Class, method: Method) -> Self {
        Self { class, method, latencies: Latencies::new(), without_latency: 0 }
    }

    fn count(&self) -> u64 {
        self.latencies.corrected.len() + self.without_latency
    }
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { kinds: Vec::new() }
    }

    /// The histogram for a latency of this kind.
    pub(crate) fn at(&mut self, class: Class, method: Method) -> &mut Latencies {
        &mut self.kind(class, method).latencies
    }

    /// Counts an answer whose latency is that of another one.
    pub(crate) fn count_without_latency(&mut self, class: Class, method: Method) {
        self.kind(class, method).without_latency += 1;
    }

    fn kind(&mut self, class: Class, method: Method) -> &mut AnswerKind {
        let found = self.kinds.iter().position(|kind| (kind.class, kind.method) == (class, method));
        let index = found.unwrap_or_else(|| {
            self.kinds.push(AnswerKind::new(class, method));
            self.kinds.len() - 1
        });
        &mut self.kinds[index]
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Latencies> {
        self.kinds.iter_mut().map(|kind| &mut kind.latencies)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for kind in &other.kinds {
            let own = self.kind(kind.class, kind.method);
            own.latencies.add(&kind.latencies);
            own.without_latency += kind.without_latency;
        }
    }

    pub(crate) fn sum(&self, is_wanted: impl Fn(Class, Method) -> bool) -> Latencies {
        let mut sum = Latencies::new();
        for kind in &self.kinds {
            if is_wanted(kind.class, kind.method) {
                sum.add(&kind.latencies);
            }
        }
        sum
    }

    pub(crate) fn all(&self) -> Latencies {
        self.sum(|_, _| true)
    }

    pub(crate) fn of(&self, class: Class) -> Latencies {
        self.sum(|own, _| own == class)
    }

    /// As [`RunOutcome::all`](super::RunOutcome::all) has them.
    pub(crate) fn of_method(&self, method: Method) -> Latencies {
        self.sum(|class, own| own == method && class.has_latency())
    }

    pub(crate) fn count(&self, is_wanted: impl Fn(Class) -> bool) -> u64 {
        self.counts().filter(|(class, _)| is_wanted(*class)).map(|(_, count)| count).sum()
    }

    pub(crate) fn count_of_method(&self, method: Method) -> u64 {
        self.kinds.iter().filter(|kind| kind.method == method).map(AnswerKind::count).sum()
    }

    /// How many there are of each kind.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Class, u64)> {
        self.kinds.iter().map(|kind| (kind.class, kind.count()))
    }

    /// Every class that came up, in its order.
    pub(crate) fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = self.seen().map(|(class, _)| class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// Every method that was used, in its order.
    pub(crate) fn methods(&self) -> Vec<Method> {
        let mut methods: Vec<Method> = self.seen().map(|(_, method)| method).collect();
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    fn seen(&self) -> impl Iterator<Item = (Class, Method)> {
        self.kinds.iter().filter(|kind| kind.count() > 0).map(|kind| (kind.class, kind.method))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart_and_added_up() {
        let (mut one, mut other) = (Answers::new(), Answers::new());
        one.at(Class::Success, Method::Get).corrected.record(5).unwrap();
        other.at(Class::Success, Method::Put).corrected.record(7).unwrap();
        other.at(Class::Status(507), Method::Put).corrected.record(9).unwrap();
        one.add(&other);
        assert_eq!(one.classes(), [Class::Success, Class::Status(507)]);
        assert_eq!(one.methods(), [Method::Get, Method::Put]);
        assert_eq!((one.all().corrected.len(), one.of(Class::Success).corrected.len()), (3, 2));
        assert_eq!(one.of_method(Method::Put).corrected.min(), 7);
        assert_eq!(one.count(|class| class.is_failure(false)), 1);
    }

    /// Only the last answer of a batch has a latency with `-B`, and the others were not counted, whatever they said.
    #[test]
    fn answers_count_without_a_latency_too() {
        let mut answers = Answers::new();
        (0..4).for_each(|_| answers.count_without_latency(Class::Status(500), Method::Get));
        answers.at(Class::Success, Method::Get).corrected.record(5).unwrap();
        let mut sum = Answers::new();
        sum.add(&answers);
        assert_eq!(sum.classes(), [Class::Success, Class::Status(500)]);
        assert_eq!((sum.count(|class| class.is_failure(false)), sum.count_of_method(Method::Get)), (4, 5));
        assert_eq!(sum.all().corrected.len(), 1);
    }
}
