//! Every figure, as the comparisons print it.

use std::fmt::Write as _;

use ladoga_lab::page::{command, date};

use super::text::{clean, printable, with_commas};
use super::verdict::{Judged, Verdict};
use crate::comparisons::Comparison;
use crate::report::{Published, PublishedRow, Series, grouped};

/// A row for each target: what it is, what was found, and whether that is enough.
pub(super) fn targets(judged: &[(&Comparison, &[Judged])]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table class=\"cards targets\">\n<thead><tr><th>target</th><th>bound</th><th>measured</th>\
         <th class=\"text\">verdict</th></tr></thead>\n<tbody>\n",
    );
    for (comparison, targets) in judged {
        for one in *targets {
            let _ = writeln!(
                out,
                "<tr><td><a href=\"#{}\">{}</a> {}</td><td data-label=\"bound\">{}</td><td data-label=\"measured\">{}</td>\
                 <td class=\"text\" data-label=\"verdict\"><span class=\"{}\">{}</span></td></tr>",
                comparison.name,
                comparison.name.to_uppercase(),
                clean(one.target.what),
                clean(&one.bound()),
                cell(&one.measured, one.target.decimals, one.target.unit),
                one.class(),
                clean(&one.words())
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// The median, and below it the lowest and the highest.
fn cell(series: &Series, decimals: usize, unit: &str) -> String {
    let (Some(median), Some(min), Some(max)) = (series.median(), series.min(), series.max()) else {
        return "–".to_owned();
    };
    let number = |value: f64| grouped(value, decimals);
    let spread = match series.count() {
        1 => "<small>one round</small>".to_owned(),
        _ if number(min) == number(max) => String::new(),
        _ => format!("<small>{} – {}</small>", number(min), number(max)),
    };
    format!("{}{}{spread}", number(median), clean(unit))
}

/// A comparison with all of its contests, folded.
pub(super) fn comparison(
    one: &Comparison,
    judged: &[Judged],
    contests: &[&Published],
    missing: &[String],
) -> String {
    let mut out = format!(
        "<details class=\"stage\" id=\"{}\">\n<summary><h2>{}</h2><span>{}</span></summary>\n<p>{}</p>\n",
        one.name,
        one.name.to_uppercase(),
        clean(&in_short(judged, contests)),
        clean(one.claim)
    );
    for text in missing {
        let _ = writeln!(out, "<p class=\"remark\">{}</p>", clean(text));
    }
    for published in contests {
        out.push_str(&contest(published));
    }
    out.push_str("</details>\n");
    out
}

fn in_short(judged: &[Judged], contests: &[&Published]) -> String {
    if contests.is_empty() {
        return "not measured".to_owned();
    }
    let count = |wanted: fn(&Verdict) -> bool| judged.iter().filter(|one| wanted(&one.verdict)).count();
    let parts = [
        (count(|verdict| *verdict == Verdict::Holds), "hold"),
        (count(|verdict| matches!(verdict, Verdict::Short(_))), "short"),
        (count(|verdict| matches!(verdict, Verdict::Void(_))), "count for nothing"),
        (count(|verdict| matches!(verdict, Verdict::Unknown(_))), "not measured"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() { "no target".to_owned() } else { format!("targets: {}", parts.join(", ")) }
}

fn contest(published: &Published) -> String {
    let version = published
        .versions
        .iter()
        .find(|(name, _)| name == "ladoga")
        .map_or("unknown", |(_, version)| version);
    let mut out = format!(
        "<h3>{}</h3>\n<p class=\"small\">{}, ladoga {}</p>\n{}",
        clean(&with_commas(&published.title)),
        date(published.time),
        clean(version),
        table(published)
    );
    for note in &published.notes {
        let _ = writeln!(out, "<p class=\"remark\">{}</p>", clean(&with_commas(note)));
    }
    out.push_str(&command(&printable(&published.command)));
    let lines: String = published
        .rows
        .iter()
        .flat_map(|row| row.commands.iter().map(move |line| format!("{}: {line}", row.subject)))
        .map(|line| printable(&line) + "\n")
        .collect();
    if !lines.is_empty() {
        let _ = writeln!(
            out,
            "<details class=\"round\"><summary>What it runs</summary>\n{}</details>",
            command(lines.trim_end())
        );
    }
    out
}

fn table(published: &Published) -> String {
    let head = |name: &str| format!("<th>{}</th>", clean(name));
    let heads: String = published.columns.iter().map(|column| head(&column.name)).collect();
    let mut out = format!(
        "<div class=\"scroll\"><table class=\"cards figures\">\n<thead><tr><th></th>{heads}</tr></thead>\n<tbody>\n"
    );
    for row in &published.rows {
        let cells = published
            .columns
            .iter()
            .zip(&row.series)
            .map(|(column, series)| labelled(&column.name, &cell(series, column.decimals, "")));
        let _ = writeln!(out, "<tr><td>{}</td>{}</tr>", clean(&row.subject), cells.collect::<String>());
    }
    let references = published.rows.iter().skip(1).filter(|_| published.with_ratios);
    for reference in references {
        out.push_str(&ratios(published, &published.rows[0], reference));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Ours over theirs, round by round.
fn ratios(published: &Published, ours: &PublishedRow, reference: &PublishedRow) -> String {
    let cells = published.columns.iter().enumerate().map(|(index, column)| {
        let text = match (column.compared, ours.series.get(index), reference.series.get(index)) {
            (true, Some(ours), Some(theirs)) => cell(&ours.ratio_to(theirs), 2, " ×"),
            _ => String::new(),
        };
        labelled(&column.name, &text)
    });
    let name = format!("{} / {}", ours.subject, reference.subject);
    format!("<tr class=\"ratio\"><td>{}</td>{}</tr>\n", clean(&name), cells.collect::<String>())
}

/// A cell that tells on a phone what it is.
fn labelled(name: &str, html: &str) -> String {
    if html.is_empty() {
        "<td></td>".to_owned()
    } else {
        format!("<td data-label=\"{}\">{html}</td>", clean(name))
    }
}
