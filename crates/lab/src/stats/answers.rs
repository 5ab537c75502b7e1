use super::class::Class;
use super::latencies::Latencies;
use crate::http::Method;

/// Latencies by what became of a request and by its method. There is something of a kind from its first request on; few
/// kinds come up in a run, so they are searched one after the other.
#[derive(Debug)]
pub(crate) struct Answers {
    kinds: Vec<(Class, Method, Latencies)>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { kinds: Vec::new() }
    }

    /// The histogram for a latency of this kind.
    pub(crate) fn at(&mut self, class: Class, method: Method) -> &mut Latencies {
        let found = self.kinds.iter().position(|kind| (kind.0, kind.1) == (class, method));
        let index = found.unwrap_or_else(|| {
            self.kinds.push((class, method, Latencies::new()));
            self.kinds.len() - 1
        });
        &mut self.kinds[index].2
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Latencies> {
        self.kinds.iter_mut().map(|(_, _, latencies)| latencies)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (class, method, latencies) in &other.kinds {
            self.at(*class, *method).add(latencies);
        }
    }

    pub(crate) fn sum(&self, is_wanted: impl Fn(Class, Method) -> bool) -> Latencies {
        let mut sum = Latencies::new();
        for (class, method, latencies) in &self.kinds {
            if is_wanted(*class, *method) {
                sum.add(latencies);
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

    pub(crate) fn of_method(&self, method: Method) -> Latencies {
        self.sum(|_, own| own == method)
    }

    pub(crate) fn count(&self, is_wanted: impl Fn(Class) -> bool) -> u64 {
        let wanted = self.kinds.iter().filter(|(class, _, _)| is_wanted(*class));
        wanted.map(|(_, _, latencies)| latencies.corrected.len()).sum()
    }

    /// How many there are of each kind.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Class, u64)> {
        self.kinds.iter().map(|(class, _, latencies)| (*class, latencies.corrected.len()))
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
        let seen = self.kinds.iter().filter(|(_, _, latencies)| !latencies.corrected.is_empty());
        seen.map(|(class, method, _)| (*class, *method))
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
}
