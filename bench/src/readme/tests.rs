use super::section::CLAIMS;
use super::*;
use crate::report::fixture::{Line, complete, file};

fn readme(section: &str) -> String {
    format!("# Ladoga\n\n{BEGIN}{section}{END}\n\nMore.\n")
}

fn reason(outcome: Outcome) -> String {
    outcome.expect_err("it fails").to_string()
}

#[test]
fn the_readme_has_the_figures_of_the_kept_results() {
    let readme = read(&root_folder().join("README.md")).expect("the README");
    let kept = files::read(&bench_folder().join("results-readme.jsonl")).expect("it can be read");
    assert_eq!(check(&readme, kept.as_deref()), Ok(()));
}

#[test]
fn the_section_has_a_row_a_claim_and_says_where_it_is_from() {
    let section = section(&complete()).expect("all results");
    for part in [
        "| GET of 1,000,000 records | 138,494/s (124,645..152,343) at 7.00 µs of CPU | nginx, which stores nothing: 135,000/s (121,500..148,500) at \
         7.00 µs of CPU; Redis: 101,000/s",
        "| storage alone: not synced, 1 thread | 0.50 µs (0.50..0.55) | fjall: 3.25 µs (3.25..3.58); RocksDB: 4.00 µs",
        "- P1, P2, P3, P4, P5: `cargo run --release --manifest-path bench/Cargo.toml -- NAME --threads 1` on 2026-11-25, 3 rounds. \
         ladoga abc1234, nginx 1.22.1, fjall 3.1.13. 2 cores (AMD EPYC), 24 GiB of memory, Linux 6.18, data on ext4.\n",
        "[bench/results-readme.jsonl](bench/results-readme.jsonl)",
    ] {
        assert!(section.contains(part), "{part} in {section}");
    }
    assert_eq!(section.matches("\n| ").count(), CLAIMS.len() + 2, "{section}");
}

#[test]
fn a_figure_that_was_changed_is_found() {
    let kept = complete();
    let section = section(&kept).expect("all results");
    assert_eq!(check(&readme(&section), Some(&kept)), Ok(()));
    let changed = readme(&section.replace("138,494/s", "238,494/s"));
    let reason = reason(check(&changed, Some(&kept)));
    assert!(
        reason.contains("238,494/s") && reason.contains("expected: | GET of 1,000,000 records | 138,494/s"),
        "{reason}"
    );
}

#[test]
fn without_results_the_section_says_that_it_is_made_by_hand() {
    assert_eq!(check(&readme("\n\nThis table was made by hand.\n\n"), None), Ok(()));
    assert!(reason(check(&readme("\n| a | 1/s |\n"), None)).contains("no bench/results-readme.jsonl"));
    let reason = reason(check(&readme("\n\nThis table was made by hand.\n\n"), Some(&complete())));
    assert!(reason.contains("does not have the figures"), "{reason}");
}

#[test]
fn the_two_lines_stand_there_once_and_in_order() {
    for (text, part) in [
        ("nothing".to_owned(), "no line"),
        (readme("") + BEGIN, "twice"),
        (format!("{END}\n{BEGIN}"), "before"),
        (format!("{BEGIN}\n"), "no line"),
    ] {
        assert!(reason(check(&text, None)).contains(part), "{text}");
    }
}

#[test]
fn results_that_are_not_enough_are_refused() {
    let all = complete();
    let without = text_of(all.lines().filter(|line| !line.contains("\"comparison\":\"p3\"")));
    assert!(section(&without).expect_err("p3 is missing").to_string().contains("no results of p3"));
    let smoke = all.replace("\"smoke\":false", "\"smoke\":true");
    assert!(section(&smoke).expect_err("of the smoke").to_string().contains("mean nothing"));
    let bad = all.replacen("\"rounds\":[0.0,0.0,0.0]", "\"rounds\":[0.0,3.0,0.0]", 1);
    assert!(
        section(&bad).expect_err("bad answers").to_string().contains("p1 count for nothing: ladoga gave bad")
    );
    let torn = &all[..all.len() - 10];
    assert!(section(torn).expect_err("half of a line").to_string().contains("cannot be read"));
}

#[test]
fn a_reference_that_is_missing_is_named_and_a_busy_machine_is_too() {
    let without = text_of(complete().lines().filter(|line| !line.contains("\"RocksDB\"")));
    let section = section(&without.replace("\"busy\":0.01", "\"busy\":0.4")).expect("ours are there");
    assert!(section.contains("RocksDB: not measured"), "{section}");
    assert!(
        section.contains("**40 % of the cores were busy before the run: do not quote these figures.**"),
        "{section}"
    );
}

#[test]
fn hostile_text_stays_text() {
    let title = format!("a|b `c` <b>\n{END} [x](javascript:y)");
    let hostile = Line {
        title: &title,
        commit: "`|\n## x",
        figures: &[("requests/s", 0, true, &[1.0])],
        time: crate::report::fixture::NOON + 1,
        ..Line::default()
    };
    let section = section(&(complete() + &file(&[hostile]))).expect("all results");
    assert!(!section.contains(END) && !section.contains("\n## x") && !section.contains("<b>"), "{section}");
    assert!(
        section
            .contains("| a/b 'c' ‹b> ‹!-- measured: end --> (x)(javascript:y) | 1/s | nginx, which stores nothing: not measured;"),
        "{section}"
    );
}

#[test]
fn new_results_replace_those_that_were_kept() {
    let folder = std::env::temp_dir().join(format!("ladoga-bench-readme-{}", std::process::id()));
    let [readme_file, kept, results] =
        ["README.md", "kept.jsonl", "results.jsonl"].map(|name| folder.join(name));
    let run = |is_named| write(&readme_file, &kept, &results, is_named);
    files::replace(&readme_file, &readme("\nmade by hand\n")).expect("a file");
    assert!(reason(run(false)).contains("does not exist"));
    files::replace(&results, &complete()).expect("a file");
    assert_eq!(run(false), Ok(()));
    let newer = Line {
        figures: &[("requests/s", 0, true, &[150_000.0])],
        time: crate::report::fixture::NOON + 60,
        ..Line::default()
    };
    files::replace(&results, &file(&[newer])).expect("a file");
    assert_eq!(run(true), Ok(()), "the others are kept");
    let text = read(&readme_file).expect("a file");
    let kept_text = files::read(&kept).expect("a file").expect("it is there");
    std::fs::remove_dir_all(&folder).expect("a folder");
    assert!(text.contains("| 150,000/s |") && text.contains("124,393/s"), "{text}");
    assert!(text.starts_with("# Ladoga") && text.ends_with("More.\n"), "{text}");
    assert_eq!(check(&text, Some(&kept_text)), Ok(()));
    assert_eq!(kept_text.lines().filter(|line| line.contains("\"comparison\":\"p1\"")).count(), 1);
}
