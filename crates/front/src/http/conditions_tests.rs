use super::*;

const A: &str = "\"0000000000000001-0000\"";
const B: &str = "\"0000000000000002-0003\"";

fn version(timestamp: u64, node: u16) -> Version {
    Version { timestamp, node }
}

fn list(lines: &[&str]) -> Result<Tags, ConditionError> {
    Tags::list(IF_MATCH, lines.iter().map(|line| line.as_bytes()))
}

fn versions(lines: &[&str]) -> Vec<Version> {
    match list(lines) {
        Ok(Tags::Versions(versions)) => versions,
        other => panic!("{lines:?}: {other:?}"),
    }
}

#[test]
fn tags_come_in_lists_and_in_several_lines() {
    let (a, b) = (version(1, 0), version(2, 3));
    assert_eq!(versions(&[A]), [a]);
    for lines in [
        &[&format!("{A},{B}")[..]][..],
        &[&format!("{A} ,\t {B}")],
        &[&format!(", ,{A},,{B},")],
        &[A, B],
        &[&format!("{A},"), "", B],
        &[&format!("\"x\", {A}, W/{B}, \"\", {B}")],
    ] {
        assert_eq!(versions(lines), [a, b], "{lines:?}");
    }
}

#[test]
fn a_weak_tag_and_one_of_others_match_nothing() {
    for line in [format!("W/{A}"), "\"abc\"".to_owned(), "\"\"".to_owned(), "\"caf\u{e9},W/\"".to_owned()] {
        assert_eq!(versions(&[&line]), [], "{line}");
    }
}

/// A cache that keeps weak tags never got a `304`.
#[test]
fn if_none_match_compares_weakly() {
    let line = format!("\"x\", W/{A}, W/\"y\"");
    assert_eq!(Tags::list(IF_NONE_MATCH, [line.as_bytes()].into_iter()), Ok(tags(version(1, 0))));
    let of_batch = Conditions::of_members(Some(&line), None);
    assert_eq!(of_batch, Ok(conditions(Some(Tags::Versions(Vec::new())), None)), "if_match does not");
}

#[test]
fn what_is_no_list_is_refused() {
    let nonsense = [
        "",
        ",",
        " ,, ",
        "abc",
        "\"",
        "\"abc",
        "abc\"",
        "w/\"a\"",
        "W/",
        "W/ \"a\"",
        "W\"a\"",
        "\"a\"\"b\"",
        "\"a\" \"b\"",
        "\"a\";\"b\"",
        "*",
        "\"a\", *",
        "*, \"a\"",
        "\"a b\"",
        "\"a\tb\"",
        "\"a\"b",
        "'a'",
        "0000000000000001-0000",
    ];
    for line in nonsense {
        assert!(matches!(list(&[line]), Err(ConditionError::NoTags { name: IF_MATCH, .. })), "{line}");
    }
    assert!(list(&[A, "*"]).is_err(), "a star stands alone");
    assert_eq!(versions(&[&vec![A; TAGS_MAX].join(",")]).len(), TAGS_MAX);
    for lines in [vec![vec![A; TAGS_MAX + 1].join(",")], vec![A.to_owned(); TAGS_MAX + 1]] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(list(&lines), Err(ConditionError::TooManyTags { name: IF_MATCH }));
    }
}

fn conditions(if_match: Option<Tags>, if_none_match: Option<Tags>) -> Conditions {
    Conditions { if_match, if_none_match }
}

fn tags(version: Version) -> Tags {
    Tags::Versions(vec![version])
}

#[test]
fn a_write_has_one_condition() {
    let a = version(1, 0);
    let of = |if_match, if_none_match| conditions(if_match, if_none_match).of_write();
    assert_eq!(of(None, None), Ok(Precondition::None));
    assert_eq!(of(Some(tags(a)), None), Ok(Precondition::IfMatch([a].into())));
    assert_eq!(of(Some(Tags::Any), None), Ok(Precondition::IfMatchAny));
    assert_eq!(of(None, Some(Tags::Any)), Ok(Precondition::IfNoneMatchAny));
    for if_match in [Some(tags(a)), Some(Tags::Any)] {
        assert_eq!(of(if_match, Some(Tags::Any)), Ok(Precondition::Never));
    }
    for if_match in [None, Some(tags(a)), Some(Tags::Any)] {
        assert_eq!(of(if_match, Some(tags(a))), Err(ConditionError::NoStar));
    }
}

#[test]
fn a_read_looks_at_if_match_first() {
    use ReadVerdict::{Failed, NotModified, Send};
    let (a, b) = (version(1, 0), version(2, 0));
    let of = |if_match, if_none_match, found| conditions(if_match, if_none_match).of_read(found);
    assert_eq!([of(None, None, None), of(None, None, Some(a))], [Send, Send]);
    assert_eq!(
        [of(None, Some(tags(a)), Some(a)), of(None, Some(tags(a)), Some(b)), of(None, Some(tags(a)), None)],
        [NotModified, Send, Send]
    );
    assert_eq!([of(None, Some(Tags::Any), Some(a)), of(None, Some(Tags::Any), None)], [NotModified, Send]);
    assert_eq!(
        [of(Some(tags(a)), None, Some(a)), of(Some(tags(a)), None, Some(b)), of(Some(tags(a)), None, None)],
        [Send, Failed, Failed]
    );
    assert_eq!(
        [of(Some(tags(b)), Some(tags(a)), Some(a)), of(Some(tags(a)), Some(tags(a)), Some(a))],
        [Failed, NotModified]
    );
}
