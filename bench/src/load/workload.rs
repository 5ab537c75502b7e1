use std::sync::Arc;

use super::plan::Plan;
use crate::dataset::{Dataset, KEY_BYTES, write_digits};
use crate::random::Random;

/// Makes requests: a head that was rendered once, with the digits of the key written over it.
pub(super) struct Workload {
    random: Random,
    put_share: f64,
    records: u64,
    only: Option<Arc<[u64]>>,
    put_head: Vec<u8>,
    get: Vec<u8>,
    dataset: Dataset,
}

/// Where the digits stand in `METHOD /v0/entity?id=key:000000000000`; both methods have three letters.
const DIGITS: std::ops::Range<usize> = {
    let start = "PUT /v0/entity?id=key:".len();
    start..start + KEY_BYTES - "key:".len()
};

impl Workload {
    pub(super) fn new(plan: &Plan) -> Self {
        let replicas = plan.replicas.map_or_else(String::new, |replicas| format!("&replicas={replicas}"));
        let line = |method: &str| {
            format!(
                "{method} /v0/entity?id=key:000000000000{replicas} HTTP/1.1\r\nHost: {}\r\n",
                plan.address
            )
        };
        Self {
            random: Random::new(plan.seed),
            put_share: plan.put_share,
            records: plan.records,
            only: plan.only.clone(),
            put_head: format!("{}Content-Length: {}\r\n\r\n", line("PUT"), plan.value_bytes).into_bytes(),
            get: format!("{}\r\n", line("GET")).into_bytes(),
            dataset: Dataset::new(plan.value_bytes),
        }
    }

    /// Appends one request for a random key.
    pub(super) fn append(&mut self, out: &mut Vec<u8>) {
        let number = match &self.only {
            Some(only) => only[self.random.below(only.len() as u64) as usize],
            None => self.random.below(self.records),
        };
        let start = out.len();
        if self.random.unit() < self.put_share {
            out.extend_from_slice(&self.put_head);
            write_digits(&mut out[start..][DIGITS], number);
            out.extend_from_slice(self.dataset.value(number));
        } else {
            out.extend_from_slice(&self.get);
            write_digits(&mut out[start..][DIGITS], number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use ladoga_lab::generator::Pace;

    #[test]
    fn requests_are_whole_and_of_the_asked_kind() {
        let address = "127.0.0.1:80".parse().expect("an address");
        let mut plan = Plan::new(address, 1, Pace::Closed, Duration::ZERO);
        let mut out = Vec::new();
        Workload::new(&plan).append(&mut out);
        let text = String::from_utf8(out.clone()).expect("only text");
        assert!(text.starts_with("PUT /v0/entity?id=key:000000000000 HTTP/1.1\r\n"), "{text}");
        assert_eq!(text.split_once("\r\n\r\n").map(|(_, body)| body.len()), Some(100));
        (plan.put_share, plan.records) = (0.0, 1_000_000);
        out.clear();
        Workload::new(&plan).append(&mut out);
        let text = String::from_utf8(out.clone()).expect("only text");
        assert!(text.starts_with("GET /v0/entity?id=key:000000") && text.ends_with("\r\n\r\n"), "{text}");
        (plan.only, plan.replicas) = (Some([42].into()), Some("2/3"));
        out.clear();
        Workload::new(&plan).append(&mut out);
        let text = String::from_utf8(out.clone()).expect("only text");
        assert!(text.starts_with("GET /v0/entity?id=key:000000000042&replicas=2/3 HTTP/1.1\r\n"), "{text}");
    }
}
