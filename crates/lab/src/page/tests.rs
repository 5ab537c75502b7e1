use super::fixture;
use super::{read_report, render};
use crate::files;
use crate::scratch::Scratch;

#[test]
fn the_page_holds_its_report_and_needs_no_network() {
    let report = fixture::report();
    let page = render(&report, None);
    let scratch = Scratch::new(&std::env::temp_dir(), 77).unwrap();
    let path = scratch.path().join("report.html");
    files::replace(&path, &page).unwrap();
    assert!(read_report(&path).unwrap() == report, "what was written is what is read");
    let links = page.match_indices("http://").map(|(at, _)| &page[at..(at + 16).min(page.len())]);
    assert!(links.into_iter().all(|link| link == "http://127.0.0.1"), "only commands name an address");
    assert!(!page.contains("https://") && !page.contains("NaN"));
    assert!(page.contains("A &lt;/script&gt; report"), "a title cannot end an element");
    for part in
        ["Interrupted: 2 of 3 runs", "10 × 503", "3 requests were due", "6.40 ms", "class=\"mark flush\""]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let scratch = Scratch::new(&std::env::temp_dir(), 78).unwrap();
    let refused = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        files::replace(&path, text).unwrap();
        read_report(&path).unwrap_err().to_string()
    };
    assert!(
        refused("a.html", "hello")
            .ends_with("a.html is not a report of ladoga: it holds no data of a report")
    );
    let page = render(&fixture::report(), None).replacen("{\"format\":2,", "{\"format\":3,", 1);
    assert!(refused("b.html", &page).contains("its format is 3, this program reads 2"));
    let missing = read_report(&scratch.path().join("c.html")).unwrap_err();
    assert_eq!(missing.exit_code(), 2);
}
