//! The data of a report in its page: as JSON in a script element that no browser runs.

use std::path::Path;

use serde::Serialize;

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

/// The report in a page that `ladoga lab run` or `ladoga bench --html` has written.
pub(crate) fn read_report(path: &Path) -> Outcome<Report> {
    let bad = |reason: String| LabError::BadReport { path: path.to_owned(), reason };
    let page = files::read_text(path).map_err(|source| LabError::Read { path: path.to_owned(), source })?;
    let data = between(&page, BEGIN, END).ok_or_else(|| bad("it holds no data of a report".to_owned()))?;
    let value: serde_json::Value = serde_json::from_str(data).map_err(|error| bad(error.to_string()))?;
    if value["format"] != FORMAT {
        return Err(bad(format!("its format is {}, this program reads {FORMAT}", value["format"])));
    }
    serde_json::from_value(value).map_err(|error| bad(error.to_string()))
}

/// The text between the first `begin` and the next `end`.
pub(crate) fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(data, _)| data)
}
