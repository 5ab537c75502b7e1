use std::fmt::Write as _;

use super::series::Series;

/// A column of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    /// Whether ours over theirs means anything.
    pub(crate) compared: bool,
}

impl Figure {
    pub(crate) const fn compared(name: &'static str, decimals: usize) -> Self {
        Self { name, decimals, compared: true }
    }

    /// Shown, but not divided.
    pub(crate) const fn shown(name: &'static str, decimals: usize) -> Self {
        Self { name, decimals, compared: false }
    }
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The command lines that repeat it.
    pub(crate) commands: Vec<String>,
    /// In the order of the figures.
    pub(crate) series: Vec<Series>,
}

/// Names a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject(usize);

/// One comparison: the first row is ours, the others are references.
#[derive(Debug)]
pub(crate) struct Contest {
    /// Such as `p1`.
    pub(crate) id: &'static str,
    /// Tells it from others with the same name; empty if there are none. It is the same at every scale.
    pub(crate) part: String,
    pub(crate) title: String,
    figures: &'static [Figure],
    rows: Vec<Row>,
    notes: Vec<String>,
    with_ratios: bool,
}

impl Contest {
    pub(crate) fn new(id: &'static str, title: impl Into<String>, figures: &'static [Figure]) -> Self {
        let (rows, notes) = (Vec::new(), Vec::new());
        Self { id, part: String::new(), title: title.into(), figures, rows, notes, with_ratios: true }
    }

    pub(crate) fn part(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self
    }

    /// Its rows are phases of one thing.
    pub(crate) fn without_ratios(mut self) -> Self {
        self.with_ratios = false;
        self
    }

    /// The row with this name, added if there is none.
    pub(crate) fn subject(&mut self, name: &str) -> Subject {
        if let Some(index) = self.rows.iter().position(|row| row.name == name) {
            return Subject(index);
        }
        let series = vec![Series::default(); self.figures.len()];
        self.rows.push(Row { name: name.to_owned(), commands: Vec::new(), series });
        Subject(self.rows.len() - 1)
    }

    /// Adds a round's values, one a figure.
    pub(crate) fn add(&mut self, subject: Subject, values: &[f64]) {
        assert_eq!(values.len(), self.figures.len(), "one value a figure");
        for (series, value) in self.rows[subject.0].series.iter_mut().zip(values) {
            series.push(*value);
        }
    }

    /// Keeps a command line of this row, once.
    pub(crate) fn command(&mut self, subject: Subject, line: &str) {
        let commands = &mut self.rows[subject.0].commands;
        if !commands.iter().any(|known| known == line) {
            commands.push(line.to_owned());
        }
    }

    /// A remark below the table, once.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn has_ratios(&self) -> bool {
        self.with_ratios
    }

    /// The table, the ratios, the remarks and the commands, as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("\n### {}: {}\n\n|", self.id.to_uppercase(), self.title);
        for name in [""].into_iter().chain(self.figures.iter().map(|figure| figure.name)) {
            let _ = write!(out, " {name} |");
        }
        out.push_str("\n| --- |");
        out.push_str(&" ---: |".repeat(self.figures.len()));
        out.push('\n');
        for row in &self.rows {
            self.write_row(&mut out, &row.name, |index| row.series[index].text(self.figures[index].decimals));
        }
        for reference in self.rows.iter().skip(1).filter(|_| self.with_ratios) {
            let name = format!("**{} / {}**", self.rows[0].name, reference.name);
            self.write_row(&mut out, &name, |index| self.ratio(reference, index));
        }
        self.write_remarks(&mut out);
        out
    }

    fn ratio(&self, reference: &Row, index: usize) -> String {
        if self.figures[index].compared {
            self.rows[0].series[index].ratio_to(&reference.series[index]).text(2)
        } else {
            String::new()
        }
    }

    fn write_row(&self, out: &mut String, name: &str, cell: impl Fn(usize) -> String) {
        let _ = write!(out, "| {name} |");
        for index in 0..self.figures.len() {
            let _ = write!(out, " {} |", cell(index));
        }
        out.push('\n');
    }

    fn write_remarks(&self, out: &mut String) {
        out.push('\n');
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        for row in &self.rows {
            for command in &row.commands {
                let _ = writeln!(out, "- {}: `{command}`", row.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: [Figure; 2] = [Figure::compared("requests/s", 0), Figure::shown("misses", 0)];

    #[test]
    fn the_table_has_a_ratio_for_each_reference() {
        let mut contest = Contest::new("p0", "a thing", &FIGURES);
        let (ours, theirs) = (contest.subject("ladoga"), contest.subject("other"));
        for _ in 0..2 {
            contest.add(ours, &[2000.0, 0.0]);
            contest.add(theirs, &[1000.0, f64::NAN]);
        }
        contest.command(theirs, "other --fast");
        contest.command(theirs, "other --fast");
        contest.note("a remark");
        let text = contest.markdown();
        assert!(text.contains("| ladoga | 2,000 (2,000..2,000) | 0 (0..0) |"), "{text}");
        assert!(text.contains("| **ladoga / other** | 2.00 (2.00..2.00) |  |"), "{text}");
        assert_eq!(text.matches("- other: `other --fast`").count(), 1, "{text}");
        assert_eq!(contest.subject("other"), theirs);
    }
}
