use super::*;

fn add(source: &mut RecordLines, line: &[u8]) {
    source.add(Chunk { bytes: line.to_vec(), is_within_a_line: false });
}

#[test]
fn what_has_expired_while_it_waited_is_left_out() {
    let (mut source, unanswered) = (RecordLines::default(), Unanswered::default());
    let line = b"{\"key\":\"a\",\"value\":\"\",\"expires_ms\":2000}\n";
    add(&mut source, line);
    let operations = source.render(1_500, &unanswered);
    assert!(String::from_utf8_lossy(&operations).contains("\"ttl\":\"500ms\""));
    add(&mut source, line);
    assert_eq!(source.render(2_000, &unanswered), b"");
    assert_eq!((source.expired, source.number, source.has_lines()), (1, 2, false));
    // The same of what was sent and refused.
    source.again.extend(unanswered.pop());
    let again = source.render(1_900, &unanswered);
    assert!(String::from_utf8_lossy(&again).contains("\"ttl\":\"100ms\""));
    source.again.extend(unanswered.pop());
    assert_eq!((source.render(2_000, &unanswered), source.expired), (Vec::new(), 2));
    assert_eq!(unanswered.pop(), None);
}

#[test]
fn what_is_sent_again_comes_before_what_follows() {
    let (mut source, unanswered) = (RecordLines::default(), Unanswered::default());
    add(&mut source, b"{\"key\":\"a\",\"value\":\"1\"}\n");
    let first = source.render(0, &unanswered);
    source.again.extend(unanswered.pop());
    add(&mut source, b"\n{\"key\":\"b\",\"value\":\"2\"}\n");
    let both = source.render(0, &unanswered);
    assert!(both.starts_with(&first) && both.len() > first.len());
    let numbers = [unanswered.pop(), unanswered.pop()].map(|line| line.expect("it is sent").number);
    assert_eq!(numbers, [1, 3]);
}
