//! What is said of servers that were named: what the runs write, as their stores are somebody's and stay when this is over, and that nobody
//! knows who they are.

use super::options::RunOptions;
use super::stage::{Stage, name_of};
use crate::cli::Scheme;
use crate::fill::keys_in_words;

/// Says it before anything is written; none if nothing is, or only to a node of our own.
pub(super) fn announcement(options: &RunOptions, stages: &[Stage]) -> Option<String> {
    let servers: Vec<&str> =
        [&options.url, &options.peer].into_iter().flatten().map(|server| server.url.as_str()).collect();
    let filled = stages.iter().filter_map(|stage| stage.filled).max();
    let mut writing: Vec<String> = Vec::new();
    for stage in stages.iter().filter(|stage| !stage.workload.is_reading()) {
        let name = name_of(&stage.workload);
        if !writing.contains(&name) {
            writing.push(name);
        }
    }
    let parts = [
        filled.map(|keys| format!("{} are written before they are read", keys_in_words(keys))),
        (!writing.is_empty()).then(|| format!("runs of {} change keys as well", writing.join(", "))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let is_told = !servers.is_empty() && !parts.is_empty();
    is_told.then(|| {
        format!("this changes the store of {} for good: {}", servers.join(" and "), parts.join("; "))
    })
}

/// That a server may be anybody; none if there is no certificate to check.
pub(super) fn unchecked(options: &RunOptions) -> Option<String> {
    let mut servers = [&options.url, &options.peer].into_iter().flatten();
    let is_secure = servers.any(|server| server.scheme == Scheme::Https);
    is_secure.then(|| "any certificate is accepted, as by wrk, and ladoga lab run cannot check it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::parsed;
    use super::super::stage::chosen;
    use super::*;

    /// It was silent, and what is written about it named flags that it does not have.
    #[test]
    fn a_certificate_that_nobody_checks_is_told() {
        let told = |line: &str| unchecked(&parsed(line).unwrap());
        assert_eq!(told("--url http://a --peer http://b"), None);
        for line in ["--url https://a", "--peer https://b", "--url http://a --peer https://b"] {
            assert!(told(line).is_some_and(|told| told.starts_with("any certificate is accepted")), "{line}");
        }
    }

    #[test]
    fn what_stays_in_somebodys_store_is_told() {
        let told = |line: &str| {
            let options = parsed(line).unwrap();
            announcement(&options, &chosen(&options))
        };
        assert_eq!(told("--workloads put,get"), None, "a node of our own");
        assert_eq!(told("--url http://a --workloads status"), None);
        assert_eq!(
            told("--url http://a --peer http://b --rates 1k,2k --keys 50").as_deref(),
            Some(
                "this changes the store of http://a and http://b for good: 50 keys (key0 to key49) are written before they are \
                 read; runs of put change keys as well"
            )
        );
        assert_eq!(
            told("--peer http://b --workloads put-get,delete").as_deref(),
            Some(
                "this changes the store of http://b for good: 100000 keys (key0 to key99999) are written before they are read; runs \
                 of put-get, delete change keys as well"
            )
        );
    }
}
