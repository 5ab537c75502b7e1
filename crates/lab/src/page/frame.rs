//! What all pages have: their head, their contents, their styles and scripts.

use ladoga_profiler::{FLAME_SCRIPT, FLAME_STYLE};

use super::embedded;
use super::plot::CHART_STYLE;
use super::words::escape;

const STYLE: &str = include_str!("assets/page.css");
/// What every page has: words at the pointer of each chart, and links that open what they lead to.
const CHARTS: &str = concat!(include_str!("assets/heat_scales.js"), include_str!("assets/charts.js"));
/// More stages than that are folded: a page of 28 would be 37,000 pixels high.
pub(super) const OPEN_STAGES_MAX: usize = 2;

/// Names and values.
pub fn facts(rows: &[(&str, String)]) -> String {
    let row = |(name, text): &(&str, String)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
    format!("<dl class=\"head\">{}</dl>\n", rows.iter().map(row).collect::<String>())
}

/// A command line, as people type it.
pub fn command(line: &str) -> String {
    format!("<pre class=\"command\">{}</pre>\n", escape(line))
}

/// Links to the parts of a page: where each leads to, and its text.
pub fn contents(links: &[(String, String)]) -> String {
    let item = |(target, text): &(String, String)| {
        format!("<li><a href=\"{}\">{}</a></li>", escape(target), escape(text))
    };
    let items: String = links.iter().map(item).collect();
    format!("<nav aria-label=\"Contents\"><ol>{items}</ol></nav>\n")
}

/// The page of a program outside of the lab.
#[derive(Debug)]
pub struct Page<'a> {
    /// Text.
    pub title: &'a str,
    /// Styles beside those that all pages have.
    pub style: &'a str,
    /// HTML.
    pub body: &'a str,
    /// What the page shows, for programs.
    pub data: &'a serde_json::Value,
}

impl Page<'_> {
    /// The whole file.
    pub fn render(&self) -> String {
        write(self.title, self.style, self.body, &embedded::script_json(self.data), "")
    }
}

pub(super) fn page(title: &str, body: &str, data: &str, script: &str) -> String {
    write(title, "", body, data, script)
}

/// A file of its own: nothing in it asks the network for anything.
fn write(title: &str, style: &str, body: &str, data: &str, script: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{FLAME_STYLE}{CHART_STYLE}{STYLE}{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
         {}\n<script>\n{FLAME_SCRIPT}{CHARTS}{script}</script>\n</body>\n</html>\n",
        embedded::element(data)
    )
}
