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

/// A node of which a second stores so many lines, and which refuses those behind them; and one of them for another reason each time.
fn requests(source: &mut RecordLines, a_second: usize, stuck: u64, count: usize) -> Vec<Vec<u64>> {
    let url = Url::parse("http://127.0.0.1:1").expect("a URL");
    let (mut window, mut left) = (Window::WHOLE, a_second);
    let mut request = || {
        let (sent, room) = next(source, window);
        let numbers = sent.iter().map(|line| line.number).collect();
        let (mut refused, mut done) = (Refused::default(), 0);
        for line in sent {
            let status = if left == 0 { 429 } else { 503 * u16::from(line.number == stuck) };
            left = left.saturating_sub(1);
            if refused.takes(&line, format!("{{\"status\":{status:03}}}\n").as_bytes(), &url) {
                refused.lines.push_back(line);
            } else {
                done += 1;
            }
        }
        if refused.is_rate_used_up {
            left = a_second;
        }
        window = refused.window_after(window, done, room);
        refused.lines.append(&mut source.again);
        source.again = refused.lines;
        numbers
    };
    (0..count).map(|_| request()).collect()
}

/// All of it was sent with each request, and paid for each time.
#[test]
fn what_was_refused_is_sent_again_some_lines_at_a_time_and_before_what_is_new() {
    let mut source = RecordLines::default();
    add(&mut source, &b"{\"key\":\"a\",\"value\":\"\"}\n".repeat(20));
    let found = requests(&mut source, 3, 0, 8);
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

/// It filled the window for ever, and nothing behind it was sent.
#[test]
fn a_line_that_stays_refused_does_not_stop_those_behind_it() {
    let mut source = RecordLines::default();
    (1..=20).for_each(|key| add(&mut source, format!("{{\"key\":\"{key}\",\"value\":\"\"}}\n").as_bytes()));
    let found = requests(&mut source, 3, 5, 60);
    assert_eq!(found[..4], [(1..=20).collect(), vec![4, 5, 6], vec![5, 7, 8, 9, 10, 11], vec![5]]);
    let left: Vec<_> = source.again.iter().map(|line| line.number).collect();
    assert_eq!(left, [5]);
    assert!(!source.has_lines());
}

/// Nobody knows how much of a batch that is refused as a whole would have had room.
#[test]
fn a_batch_that_is_refused_as_a_whole_leaves_the_window_unless_the_rate_is_used_up() {
    for (status, expected) in [(429, Window(1)), (503, Window(2))] {
        let (unanswered, mut refused) = (Unanswered::default(), Refused::default());
        (1..=2).for_each(|number| unanswered.push(number, b"{\"key\":\"a\",\"value\":\"\"}\n"));
        let taken = refused.take_all(&unanswered, status, Trouble::of_status(status, String::new(), None));
        assert!(taken.is_ok() && refused.lines.len() == 2);
        assert_eq!(refused.window_after(Window(2), 0, 0), expected, "{status}");
    }
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
