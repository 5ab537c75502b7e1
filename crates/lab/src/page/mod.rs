//! A report as one HTML file that needs no network: charts as SVG drawn here, flame graphs drawn by a small script.
//!
//! What a program needs for a page of its own is public: [`Page`], [`facts`], [`command`], [`contents`], [`strip`], and of charts
//! [`Scale`], [`Quantity`], [`y_axis`], [`figure`].
//!
//! - `document`: the page as a whole
//! - `frame`: what all pages have
//! - `run`: one run, with its charts
//! - `groups`: rounds that belong together
//! - `stage`: the rounds of one stage
//! - `summary`: verdicts and tables on top
//! - `plot`: axes and lines
//! - `quantity`: what the numbers of an axis are
//! - `heat`: the latency heat map
//! - `sample_heat`: the heat map of a profile's samples
//! - `embedded`: the data in the page, written and read back
//! - `compared`: the page of a comparison
//! - `curve`: the page of a search for the knee
//! - `words`: numbers as people read them

mod compared;
mod curve;
mod document;
mod embedded;
mod frame;
mod groups;
mod heat;
mod plot;
mod quantity;
mod run;
mod sample_heat;
mod stage;
mod summary;
mod words;

pub(crate) use compared::{
    CHANGE, ComparedFlame, ComparedPage, ComparedProfile, ComparedRow, ComparedRun,
    render as render_comparison,
};
pub(crate) use curve::{Curve, CurvePoint, render_curve};
pub(crate) use document::render;
pub(crate) use embedded::{between, read_report};
pub use frame::{Page, command, contents, facts};
pub use plot::{BOTTOM, CHART_STYLE, LEFT, RIGHT, Scale, TOP, WIDTH, figure, upwards, y_axis};
pub use quantity::Quantity;
pub(crate) use quantity::percent;
pub use summary::{Finding, strip};
pub(crate) use words::micros;
pub use words::{count, date, escape};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
