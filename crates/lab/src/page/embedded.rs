//! The data of a report in its page: as JSON in a script element that no browser runs.

use std::path::Path;

use ladoga_profiler::Recorded;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{LabError, Outcome};
use crate::files;
use crate::record::{FORMAT, Report};

const BEGIN: &str = "<script id=\"report\" type=\"application/json\">";
const END: &str = "</script>";

/// JSON that is safe inside of a script element: `<` could end it.
pub(super) fn script_json(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(text) => text.replace('<', "\\u003c"),
        Err(error) => unreachable!("only maps with other keys than text cannot be JSON: {error}"),
    }
}

pub(super) fn element(json: &str) -> String {
    format!("{BEGIN}{json}{END}")
}

/// What a comparison can read.
const EXPECTED: &str = "expected a page of `ladoga lab run` or `ladoga bench --html`";

/// The report in a page that `ladoga lab run` or `ladoga bench --html` has written.
pub(crate) fn read_report(path: &Path) -> Outcome<Report> {
    let page = files::read_text(path).map_err(|source| LabError::Read { path: path.to_owned(), source })?;
    report_in(&page).map_err(|reason| LabError::BadReport { path: path.to_owned(), reason })
}

/// The error is what the page is instead.
fn report_in(page: &str) -> Result<Report, String> {
    let Some(data) = between(page, BEGIN, END) else {
        return Err(if Recorded::of_page(page).is_ok() {
            format!("it is a profile, which `ladoga profile diff` compares; {EXPECTED}")
        } else {
            format!("it holds no data of a report; {EXPECTED}")
        });
    };
    let value: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
    match &value["format"] {
        format if *format == FORMAT => serde_json::from_value(value).map_err(|error| error.to_string()),
        Value::Null => Err(format!("{}; {EXPECTED}", other_page(&value))),
        format => Err(format!("its format is {format}, this program reads {FORMAT}")),
    }
}

/// What a page of this program is that has no run in it.
fn other_page(data: &Value) -> &'static str {
    if data.get("curve").is_some() {
        "it is a search for the knee (--find-knee)"
    } else if *data == comparison_data() {
        "it is the page of a comparison, which has no runs of its own"
    } else {
        "its data is not that of a run"
    }
}

/// The data of the page of a comparison: nothing that a program could compare once more.
pub(super) fn comparison_data() -> Value {
    json!({ "format": Value::Null })
}

/// The text between the first `begin` and the next `end`.
pub(crate) fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(data, _)| data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"<script id="data" type="application/json">{"kind": "cpu", "values": [1], "squares": [1],
        "tree": {"names": ["main"], "parent": [-1], "name": [0]}}</script>"#;

    /// It was said that "its format is null".
    #[test]
    fn what_is_no_report_is_said() {
        let reason = |page: &str| report_in(page).unwrap_err();
        let of_data = |data: Value| reason(&element(&script_json(&data)));
        for (reason, told) in [
            (
                of_data(comparison_data()),
                "it is the page of a comparison, which has no runs of its own; expected ",
            ),
            (
                of_data(json!({ "knee": null, "curve": [] })),
                "it is a search for the knee (--find-knee); expected ",
            ),
            (
                of_data(json!({ "seconds": 1 })),
                "its data is not that of a run; expected a page of `ladoga lab run`",
            ),
            (of_data(json!({ "format": 1 })), "its format is 1, this program reads "),
            (reason("<p>hello</p>"), "it holds no data of a report; expected "),
            (reason(PROFILE), "it is a profile, which `ladoga profile diff` compares; expected "),
        ] {
            assert!(reason.starts_with(told), "{reason}");
        }
    }
}
