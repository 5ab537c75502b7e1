//! A drawing, in the page or as a file of its own.

use std::fmt::Write as _;

use ladoga_lab::page::{CHART_STYLE, WIDTH, figure};

use super::text::{clean, lines, printable};

/// What our charts have beside those of the lab.
pub(super) const STYLE: &str = include_str!("bench.css");

/// The height of a line of text in a file.
const LINE: f64 = 17.0;
const PADDING: f64 = 12.0;
/// Letters in a line of a file.
const LINE_LETTERS: usize = 84;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    /// The name of its file, without the end.
    pub(super) name: &'static str,
    pub(super) title: String,
    /// Colours and what they are; empty if the drawing itself says so.
    pub(super) legend: Vec<(usize, String)>,
    pub(super) height: f64,
    /// The drawing.
    pub(super) svg: String,
    /// When and on what it was measured.
    pub(super) source: String,
}

impl Chart {
    pub(super) fn in_page(&self) -> String {
        let key = |(colour, name): &(usize, String)| {
            format!("<span class=\"item\"><span class=\"key c{colour}\"></span>{}</span> ", clean(name))
        };
        let legend: String = self.legend.iter().map(key).collect();
        figure(&printable(&self.title), &legend, self.height, &self.svg, "")
    }

    /// With its title, its legend and its source in the drawing. Its colours follow the page that shows it.
    pub(super) fn as_file(&self) -> String {
        let mut head = String::new();
        let mut y = PADDING + LINE - 4.0;
        for line in lines(&self.title, LINE_LETTERS) {
            let _ = writeln!(head, "<text class=\"caption\" x=\"0\" y=\"{y}\">{}</text>", clean(&line));
            y += LINE;
        }
        for (colour, name) in &self.legend {
            let name = lines(name, LINE_LETTERS).into_iter().next().unwrap_or_default();
            let _ = writeln!(
                head,
                "<rect class=\"c{colour}\" x=\"0\" y=\"{}\" width=\"14\" height=\"4\"/>\
                 <text x=\"20\" y=\"{y}\">{}</text>",
                y - 6.0,
                clean(&name)
            );
            y += LINE;
        }
        let top = y - LINE + 8.0;
        let mut y = top + self.height + LINE;
        let mut foot = String::new();
        for line in lines(&self.source, LINE_LETTERS) {
            let _ = writeln!(foot, "<text x=\"0\" y=\"{y}\">{}</text>", clean(&line));
            y += LINE;
        }
        let (width, height) = (WIDTH + 2.0 * PADDING, y - LINE + PADDING);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{} 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n<style>\n{CHART_STYLE}{STYLE}</style>\n\
             <rect class=\"paper\" x=\"{}\" width=\"{width}\" height=\"{height}\"/>\n\
             {head}<g transform=\"translate(0 {top})\">{}</g>\n{foot}</svg>\n",
            -PADDING,
            clean(&self.title),
            -PADDING,
            self.svg
        )
    }
}
