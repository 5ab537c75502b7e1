use super::*;

const MANY: usize = 99;

fn add(source: &mut RecordLines, line: &[u8]) {
    source.add(Chunk { bytes: line.to_vec(), is_within_a_line: false });
}

#[test]
fn what_has_expired_while_it_waited_is_left_out() {
    let (mut source, unanswered) = (RecordLines::default(), Unanswered::default());
    let line = b"{\"key\":\"a\",\"value\":\"\",\"expires_ms\":2000}\n";
    add(&mut source, line);
    let operations = source.render(1_500, &unanswered, &mut { MANY });
    assert!(String::from_utf8_lossy(&operations).contains("\"ttl\":\"500ms\""));
    add(&mut source, line);
    assert_eq!(source.render(2_000, &unanswered, &mut { MANY }), b"");
    assert_eq!((source.expired, source.number, source.has_lines()), (1, 2, false));
    // The same of what was sent and refused.
    source.again.extend(unanswered.pop());
    let again = source.render(1_900, &unanswered, &mut { MANY });
    assert!(String::from_utf8_lossy(&again).contains("\"ttl\":\"100ms\""));
    source.again.extend(unanswered.pop());
    assert_eq!((source.render(2_000, &unanswered, &mut { MANY }), source.expired), (Vec::new(), 2));
    assert_eq!(unanswered.pop(), None);
}

#[test]
fn what_is_sent_again_comes_before_what_follows() {
    let (mut source, unanswered) = (RecordLines::default(), Unanswered::default());
    add(&mut source, b"{\"key\":\"a\",\"value\":\"1\"}\n");
    let first = source.render(0, &unanswered, &mut { MANY });
    source.again.extend(unanswered.pop());
    add(&mut source, b"\n{\"key\":\"b\",\"value\":\"2\"}\n");
    let both = source.render(0, &unanswered, &mut { MANY });
    assert!(both.starts_with(&first) && both.len() > first.len());
    let numbers = [unanswered.pop(), unanswered.pop()].map(|line| line.expect("it is sent").number);
    assert_eq!(numbers, [1, 3]);
}

/// The lines of the next request.
fn next(source: &mut RecordLines, window: Window) -> (Vec<SentLine>, usize) {
    let (unanswered, mut room) = (Unanswered::default(), window.lines_max());
    source.render(0, &unanswered, &mut room);
    (std::iter::from_fn(|| unanswered.pop()).collect(), room)
}

/// A node of which a second stores so many lines, and which refuses those behind them.
fn requests(source: &mut RecordLines, a_second: usize, count: usize) -> Vec<Vec<u64>> {
    let (mut window, mut left) = (Window::WHOLE, a_second);
    let mut request = || {
        let (mut sent, room) = next(source, window);
        let numbers = sent.iter().map(|line| line.number).collect();
        let refused = sent.split_off(sent.len().min(left));
        left = if refused.is_empty() { left - sent.len() } else { a_second };
        window = window.after(sent.len(), (room, !refused.is_empty()));
        refused.into_iter().rev().for_each(|line| source.again.push_front(line));
        numbers
    };
    (0..count).map(|_| request()).collect()
}

/// All of it was sent with each request, and paid for each time.
#[test]
fn what_was_refused_is_sent_again_some_lines_at_a_time_and_before_what_is_new() {
    let mut source = RecordLines::default();
    add(&mut source, &b"{\"key\":\"a\",\"value\":\"\"}\n".repeat(20));
    let found = requests(&mut source, 3, 8);
    let expected: [Vec<u64>; 8] = [
        (1..=20).collect(),
        vec![4, 5, 6],
        (7..=12).collect(),
        vec![7],
        vec![8, 9],
        vec![10, 11, 12, 13],
        vec![10],
        vec![11, 12],
    ];
    assert_eq!(found, expected);
    assert_eq!(source.again.len(), 8);
}

#[test]
fn a_window_grows_with_what_is_done_and_is_never_empty() {
    let mut window = Window::WHOLE;
    assert_eq!(window.after(9, (usize::MAX - 9, false)), Window::WHOLE);
    window = window.after(0, (usize::MAX - 9, true));
    let mut sizes = vec![];
    for (room, has_refused) in [(0, false), (0, false), (2, false), (0, false), (0, true)] {
        sizes.push(window.lines_max());
        window = window.after(window.lines_max() - room, (room, has_refused));
    }
    assert_eq!((sizes, window.lines_max()), (vec![1, 2, 4, 4, 8], 8));
    assert_eq!(window.after(3, (0, true)), Window(3));
    assert_eq!(Window::WHOLE.after(1, (0, false)), Window::WHOLE);
}
