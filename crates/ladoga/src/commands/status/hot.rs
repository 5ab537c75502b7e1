use std::fmt::Write as _;
use std::io::Write;

use serde_json::Value;

use super::super::output;
use super::get;
use crate::client::{ClientError, Url};
use crate::commands::Failure;

/// How wide a name may be in the table.
const NAME_WIDTH: usize = 48;

/// Prints what clients ask a node for most.
pub(super) fn hot(url: &Url) -> Result<(), Failure> {
    let text = get(url, "/v0/hot")?;
    let report: Option<Value> = serde_json::from_str(&text).ok();
    let report = report.filter(|report| report["reads"].is_object()).ok_or_else(|| {
        let (found, expected) =
            ("an answer of another kind".to_owned(), "the keys that clients ask for most");
        ClientError::NotANode { url: url.clone(), found, expected }
    })?;
    Ok(output().write_all(table(&report).as_bytes())?)
}

fn table(report: &Value) -> String {
    let mut out = String::new();
    for kind in ["reads", "writes"] {
        let list = &report[kind];
        _ = writeln!(out, "{kind}: {:.0} /s", list["rate"].as_f64().unwrap_or_default());
        for (what, title) in [("prefixes", "prefix"), ("keys", "key")] {
            let names = list[what].as_array().map(Vec::as_slice).unwrap_or_default();
            if names.is_empty() {
                continue;
            }
            _ = writeln!(out, "  {title:<NAME_WIDTH$} {:>12} {:>8}", "rate", "share");
            names.iter().for_each(|name| out.push_str(&line(name)));
        }
    }
    out
}

fn line(name: &Value) -> String {
    let number = |member: &str| name[member].as_f64().unwrap_or_default();
    let shown = match name["name"].as_str() {
        // A name must not move the cursor.
        Some(name) => name.escape_debug().to_string(),
        None => format!("base64:{}", name["name_base64"].as_str().unwrap_or_default()),
    };
    let shown = if shown.chars().count() > NAME_WIDTH {
        shown.chars().take(NAME_WIDTH - 3).chain("...".chars()).collect()
    } else {
        shown
    };
    format!("  {shown:<NAME_WIDTH$} {:>10.1}/s {:>6.1} %\n", number("rate"), 100.0 * number("share"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_rates_and_shares() {
        let report = serde_json::json!({
            "reads": {
                "rate": 1000.0,
                "keys": [{ "name": "user:\u{1b}[2J", "rate": 500.0, "share": 0.5, "share_max": 0.5 }],
                "prefixes": [{ "name_base64": "/w==", "rate": 10.0, "share": 0.01, "share_max": 0.02 }],
            },
            "writes": { "rate": 0.0, "keys": [], "prefixes": [] },
        });
        let text = table(&report);
        assert!(text.starts_with("reads: 1000 /s\n  prefix "), "{text}");
        assert!(text.contains("  user:\\u{1b}[2J ") && text.contains(" 500.0/s   50.0 %\n"), "{text}");
        assert!(text.contains("base64:/w=="), "{text}");
        assert!(text.ends_with("writes: 0 /s\n"), "{text}");
    }
}
