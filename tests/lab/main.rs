//! `ladoga lab` and the pages of `ladoga bench`, as a person runs them.
//!
//! - `runs`: a node of its own, a node that was named, two servers in alternation, an interruption
//! - `suite`: the published load tests, tiny
//! - `output`: nobody reads what is printed
//! - `compares`: what changed between two reports
//! - `pages`: the reports in a real browser
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod compares;
mod output;
mod pages;
mod runs;
#[path = "../bench/server.rs"]
#[expect(dead_code, reason = "only one of its manners is needed here")]
mod server;
mod suite;

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The data of a report, out of its page.
fn data_of(path: &Path) -> Value {
    let page = fs::read_to_string(path).expect("a report");
    let data =
        page.split("<script id=\"report\" type=\"application/json\">").nth(1).expect("data in the page");
    serde_json::from_str(data.split("</script>").next().expect("an end of the data")).expect("JSON")
}
