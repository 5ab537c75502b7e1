use super::*;

#[test]
fn what_is_still_being_written_does_not_count() {
    let found = |content: &str| Ok(Vec::from(content));
    let mut looks = Looks::after(b"before".to_vec());
    for unfinished in ["before", "", "li", "line\n", "before", "before"] {
        assert_eq!(looks.look(found(unfinished), false), None, "{unfinished:?}");
    }
    assert_eq!(looks.look(found("line\nline\n"), false), None);
    assert_eq!(looks.look(found("line\nline\n"), false), Some(&found("line\nline\n")));
    assert_eq!(looks.look(found("line\nline\n"), false), None, "that is no news");
    // The same of a file that is gone.
    let gone = || Err("no such file".to_owned());
    assert_eq!(looks.look(gone(), false), None);
    assert_eq!(looks.look(gone(), false), Some(&gone()));
}

#[test]
fn who_asks_is_not_kept_waiting() {
    let found = || Ok(b"line\n".to_vec());
    let mut looks = Looks::after(Vec::new());
    assert_eq!(looks.look(found(), true), Some(&found()));
    assert_eq!(looks.look(found(), false), None);
    assert_eq!(looks.look(found(), true), Some(&found()), "also if it is as it was");
}
