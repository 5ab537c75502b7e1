//! What would keep requests from being served, as it was found last.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Nodes pass a change of the schema on to each other. In this time it should have reached all of them; it keeps no request from being
/// served until then, and all doors would leave their load balancer at once.
const AGREEMENT: Duration = Duration::from_secs(10);

/// What was found last.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Vec<String>>);

impl Readiness {
    pub(crate) fn set(&self, obstacles: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = obstacles;
    }

    pub(crate) fn get(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// By the address of a node, which version of the schema it has.
pub(crate) type Versions = BTreeMap<String, String>;

/// Since when nodes have had different versions of the schema, if they do.
#[derive(Default)]
pub(crate) struct Agreement(Option<Instant>);

impl Agreement {
    /// Why requests may not be served, if the nodes have not agreed for long.
    pub(crate) fn obstacle(&mut self, versions: &Versions, now: Instant) -> Option<String> {
        let first = versions.values().next();
        if versions.values().all(|version| Some(version) == first) {
            self.0 = None;
            return None;
        }
        let since = now - *self.0.get_or_insert(now);
        let each: Vec<String> =
            versions.iter().map(|(node, version)| format!("{node} has {version}")).collect();
        (since >= AGREEMENT).then(|| {
            format!(
                "the nodes of Cassandra have not agreed on their schema for {} s: {}",
                since.as_secs(),
                each.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(of: &[(&str, &str)]) -> Versions {
        of.iter().map(|(node, version)| ((*node).to_owned(), (*version).to_owned())).collect()
    }

    #[test]
    fn nodes_that_do_not_agree_for_long_are_an_obstacle() {
        let (one, two) = (versions(&[("a", "1"), ("b", "1")]), versions(&[("a", "1"), ("b", "2")]));
        let (mut agreement, began) = (Agreement::default(), Instant::now());
        let mut after =
            |ms: u64, versions: &Versions| agreement.obstacle(versions, began + Duration::from_millis(ms));
        assert_eq!(after(0, &one), None);
        assert_eq!(after(0, &Versions::new()), None, "nobody answered: that is another obstacle");
        assert_eq!(after(1_000, &two), None, "a change is on its way");
        assert_eq!(after(10_999, &two), None);
        assert_eq!(
            after(11_000, &two).as_deref(),
            Some("the nodes of Cassandra have not agreed on their schema for 10 s: a has 1, b has 2")
        );
        assert_eq!(after(12_000, &one), None);
        assert_eq!(after(13_000, &two), None, "it begins anew");
    }
}
