use std::sync::Barrier;

use super::*;

/// A log that ends with a line.
fn whole<W>(file: W) -> AuditLog<W> {
    AuditLog { file, is_torn: false }
}

/// A disk that does nothing until it is told twice: that its turn has come, and that it may go on.
struct Slow(Arc<Barrier>, u64);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.1 == 0 {
            self.0.wait();
            self.0.wait();
        }
        self.1 += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_records_does_not_wait_for_the_disk() {
    let barrier = Arc::new(Barrier::new(2));
    let audit = Audit::start(whole(Slow(Arc::clone(&barrier), 0)), false).expect("a thread");
    let line = AuditLine { wall_ms: 0, who: Some("app"), from: None, what: b"GET /", status: "403" };
    audit.record(&line);
    barrier.wait();
    for _ in 0..QUEUE_LINES_MAX + 10 {
        audit.record(&line);
    }
    assert_eq!(audit.counts(), (0, 10), "one is being written, and the queue is full");
    barrier.wait();
    while audit.counts().0 < QUEUE_LINES_MAX as u64 + 1 {
        thread::yield_now();
    }
    assert_eq!(audit.counts(), (QUEUE_LINES_MAX as u64 + 1, 10));
}

/// A file that can be looked at.
struct Shared(Arc<Mutex<Vec<u8>>>);
impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_closes_it_waits_for_the_last_line() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let audit = Audit::start(whole(Shared(Arc::clone(&written))), false).expect("a thread");
    let line = AuditLine { wall_ms: 0, who: Some("app"), from: None, what: b"GET /", status: "403" };
    (0..1_000).for_each(|_| audit.record(&line));
    audit.close();
    assert_eq!(written.lock().split(|byte| *byte == b'\n').count(), 1_001);
    audit.close();
    audit.record(&line);
    assert_eq!(audit.counts(), (1_000, 1), "nobody writes it");
}

/// A disk that is full at first, but for a part of a line.
struct Full(Shared, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = std::mem::replace(&mut self.1, usize::MAX).min(bytes.len());
        if count == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        if count < bytes.len() {
            // The rest of the same write.
            self.1 = 0;
        }
        self.0.write(&bytes[..count])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The next line was appended to it: nobody could read that, and it was counted as written.
#[test]
fn a_line_behind_one_that_was_cut_is_whole() {
    for (room, expected) in
        [(0, "next\n"), (3, "cut\nnext\n"), (9, "cut line\nnext\n"), (10, "cut line\na\nnext\n")]
    {
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut log = AuditLog { file: Full(Shared(Arc::clone(&written)), room), is_torn: false };
        log.append(b"cut line\nanother\n").1.expect_err("a full disk");
        log.append(b"next\n").1.expect("room");
        assert_eq!(String::from_utf8_lossy(&written.lock()), expected, "{room}");
    }
}

#[test]
fn the_first_line_behind_one_that_was_cut_before_a_restart_is_whole() {
    let written = Arc::new(Mutex::new(b"cut".to_vec()));
    let mut log = AuditLog { file: Shared(Arc::clone(&written)), is_torn: true };
    for line in ["next\n", "last\n"] {
        log.append(line.as_bytes()).1.expect("room");
    }
    assert_eq!(String::from_utf8_lossy(&written.lock()), "cut\nnext\nlast\n");
}

/// All lines of a write that failed were counted as lost, up to 256.
#[test]
fn a_line_that_is_whole_in_the_file_is_counted_as_written() {
    let line = b"a line\n";
    for (room, expected) in [(0, (0, 3)), (6, (0, 3)), (7, (1, 2)), (8, (1, 2)), (20, (2, 1))] {
        let (lines, queue) = sync_channel(4);
        (0..3).for_each(|_| lines.send(Message::Line(line.to_vec())).expect("room"));
        lines.send(Message::End).expect("room");
        let (written, counts) = (Arc::new(Mutex::new(Vec::new())), Counts::default());
        write_lines(&queue, whole(Full(Shared(Arc::clone(&written)), room)), &counts);
        let counted = (counts.written.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed));
        assert_eq!(counted, expected, "{room}");
        assert_eq!(written.lock().len(), room);
    }
}

#[test]
fn strangers_have_so_many_lines_a_second_and_the_rest_is_one() {
    const MAX: usize = STRANGERS_PER_SECOND_MAX as usize;
    let written = Arc::new(Mutex::new(Vec::new()));
    let audit = Audit::start(whole(Shared(Arc::clone(&written))), false).expect("a thread");
    let known = AuditLine { wall_ms: 0, who: Some("app"), from: None, what: b"GET /", status: "403" };
    let stranger = |wall_ms, status| AuditLine { wall_ms, who: None, from: None, what: b"GET /", status };
    (0..MAX + 7).for_each(|_| audit.record(&stranger(5_000, "401")));
    // Who is known, and what is not refused, have theirs.
    (0..MAX + 7).for_each(|_| audit.record(&known));
    (0..MAX + 7).for_each(|_| audit.record(&stranger(5_000, "201")));
    audit.time_passes(5_999);
    audit.time_passes(6_000);
    audit.time_passes(6_000);
    (0..MAX + 2).for_each(|_| audit.record(&stranger(6_001, "refused")));
    audit.close();
    let text = String::from_utf8(written.lock().clone()).expect("text");
    let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((count("\"401\""), count("\"403\""), count("\"201\"")), (MAX, MAX + 7, MAX + 7));
    assert_eq!(count("\"refused\""), MAX);
    let left_out: Vec<&str> = text.lines().filter(|line| line.contains("left out")).collect();
    let of = |time, count| {
        let when = format!("{{\"time\":\"1970-01-01T00:00:0{time}Z\",\"who\":null,\"from\":null");
        format!("{when},\"what\":\"{count} requests\",\"status\":\"left out\"}}")
    };
    assert_eq!(left_out, [of(5, 7), of(6, 2)]);
}
