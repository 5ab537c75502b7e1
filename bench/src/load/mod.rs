//! Load on a server: the lab's generator with requests of our own.
//!
//! | module | is |
//! | --- | --- |
//! | [`plan`] | what to send, how fast, for how long |
//! | [`workload`] | the requests themselves |

mod plan;
mod workload;

pub(crate) use ladoga_lab::generator::{Measured, Method, Pace};
pub(crate) use plan::Plan;

use crate::stop::{OrFail, Outcome};
use ladoga_lab::generator;
use workload::Workload;

/// Runs a plan to its end, on a thread of the generator's.
pub(crate) fn run(plan: &Plan) -> Outcome<Measured> {
    let mut workload = Workload::new(plan);
    let mut left = plan.requests_max.unwrap_or(u64::MAX);
    let next = move |out: &mut Vec<u8>| {
        let is_any_left = left > 0;
        if is_any_left {
            left -= 1;
            workload.append(out);
        }
        is_any_left
    };
    generator::run(&plan.drive(), Box::new(next)).or_fail(|| "the load generator failed".to_owned())
}
