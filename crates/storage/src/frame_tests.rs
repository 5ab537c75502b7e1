use super::*;

const LOG: LogId = LogId { number: 7, secret: Some(0x0123_4567_89ab_cdef) };
const FILE_BYTES: Option<u64> = Some(9_999);
const OLD_LOG: LogId = LogId { number: 7, secret: None };

fn log(log: LogId, payloads: &[&[u8]], durable: impl Fn(u64) -> u64) -> Vec<u8> {
    let mut bytes = Header { log, first_sequence: 1, file_bytes: FILE_BYTES }.encode(LogKind::Wal);
    let mut frame = Vec::new();
    for (index, payload) in payloads.iter().enumerate() {
        let sequence = index as u64 + 1;
        encode_frame(&mut frame, log, sequence, durable(sequence), std::iter::once(*payload));
        bytes.extend_from_slice(&frame);
    }
    bytes
}

fn in_memory(bytes: &[u8]) -> LogBytes {
    LogBytes::of(Path::new("w"), bytes.to_vec())
}

#[test]
fn frames_come_back_in_order_and_end_at_the_first_broken_one() {
    for id in [LOG, OLD_LOG] {
        let mut bytes = log(id, &[b"one", b"two", b"three"], |sequence| sequence - 1);
        let mut sound = in_memory(&bytes);
        let header = Header::read(LogKind::Wal, &mut sound).expect("known").expect("one");
        assert_eq!(header, Header { log: id, first_sequence: 1, file_bytes: id.secret.and(FILE_BYTES) });
        let mut frames = Frames::new(&mut sound, header);
        for payload in [&b"one"[..], b"two", b"three"] {
            assert_eq!(frames.next_frame().expect("memory").expect("a frame").payload, payload);
        }
        assert_eq!(frames.next_frame().expect("memory"), None);

        let second = header.bytes() + FRAME_HEADER_BYTES + 3;
        bytes[second + FRAME_HEADER_BYTES] ^= 1;
        let (mut broken, second) = (in_memory(&bytes), second as u64);
        let mut frames = Frames::new(&mut broken, header);
        assert!(frames.next_frame().expect("memory").is_some());
        assert!(frames.next_frame().expect("memory").is_none());
        assert_eq!((frames.offset(), frames.expected()), (second, 2));
        let leftovers = Leftovers::find(&mut broken, second, id, 2).expect("memory");
        assert_eq!(leftovers, Leftovers { frames: 1, first: Some(3), durable: 2 });
    }
}

#[test]
fn a_frame_of_another_log_or_store_is_none() {
    let others = [
        LogId { number: 8, ..LOG },
        OLD_LOG,
        // The magic has only the lower half of the secret, so it is the same; the checksum is not.
        LogId { secret: LOG.secret.map(|secret| secret ^ 1 << 60), ..LOG },
        LogId { secret: LOG.secret.map(|secret| secret ^ 1), ..LOG },
    ];
    let mut frame = Vec::new();
    encode_frame(&mut frame, LOG, 1, 0, std::iter::once(&b"one"[..]));
    assert!(decode_frame(LOG, &frame).is_some());
    for other in others {
        assert!(decode_frame(other, &frame).is_none(), "{other:?}");
        let leftovers = Leftovers::find(&mut in_memory(&frame), 0, other, 1).expect("memory");
        assert_eq!(leftovers, Leftovers::default(), "{other:?}");
    }
}

#[test]
fn the_last_sequence_there_is_ends_a_log() {
    let header = Header { log: LOG, first_sequence: u64::MAX, file_bytes: FILE_BYTES };
    let (mut bytes, mut frame) = (header.encode(LogKind::Wal), Vec::new());
    encode_frame(&mut frame, LOG, u64::MAX, 0, std::iter::once(&b"one"[..]));
    bytes.extend_from_slice(&frame);
    assert!(Frames::new(&mut in_memory(&bytes), header).next_frame().expect("memory").is_none());
}

/// Frames of all lengths lie across the ends of the window that is in memory.
#[test]
fn a_log_that_is_longer_than_what_is_read_at_a_time_is_the_same_on_disk_as_in_memory() {
    let (env, disk, _) = ladoga_env::sim::env(1);
    let payloads: Vec<Vec<u8>> = (0..40).map(|n| vec![n as u8; env.rng.below(400 << 10) as usize]).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let mut bytes = log(LOG, &payloads, |sequence| sequence - 1);
    let header = Header { log: LOG, first_sequence: 1, file_bytes: FILE_BYTES };
    let path = Path::new("/log");
    let file = ladoga_env::Disk::open(&disk, path, ladoga_env::OpenMode::CreateNew).expect("an empty disk");
    // The twentieth is broken.
    let twentieth: usize = payloads[..19].iter().map(|payload| FRAME_HEADER_BYTES + payload.len()).sum();
    bytes[header.bytes() + twentieth + 9] ^= 1;
    file.write_all_at(&bytes, 0).expect("room");
    let on_disk = LogBytes::open(&disk, path.into(), u64::MAX).expect("a file");
    let ends = [on_disk, in_memory(&bytes)].map(|mut log| {
        let mut frames = Frames::new(&mut log, header);
        let mut count = 0;
        while let Some(frame) = frames.next_frame().expect("a sound disk") {
            assert_eq!(frame.payload, payloads[count]);
            count += 1;
        }
        let (offset, expected) = (frames.offset(), frames.expected());
        (count, offset, Leftovers::find(&mut log, offset, LOG, expected).expect("a sound disk"))
    });
    assert_eq!(
        ends[0],
        (19, (header.bytes() + twentieth) as u64, Leftovers { frames: 20, first: Some(21), durable: 39 })
    );
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn headers_of_all_formats_are_read() {
    let formats = [(OLD_LOG, None, 1), (LOG, None, 2), (LOG, FILE_BYTES, 3)];
    for (log, file_bytes, format) in formats {
        let header = Header { log, first_sequence: 5, file_bytes };
        let bytes = header.encode(LogKind::Wal);
        assert_eq!((bytes.len(), u32_at(&bytes, 8)), (header.bytes(), format));
        assert_eq!(Header::decode(LogKind::Wal, Path::new("w"), &bytes).expect("known"), Some(header));
        let is_none =
            |bytes: &[u8]| Header::decode(LogKind::Wal, Path::new("w"), bytes).expect("none").is_none();
        assert!((0..bytes.len()).all(|cut| is_none(&bytes[..cut])));
    }
}

#[test]
fn a_newer_format_is_named() {
    let header = Header { log: LOG, first_sequence: 1, file_bytes: FILE_BYTES };
    let mut bytes = header.encode(LogKind::Wal);
    bytes[8] = 9;
    let crc_at = header.bytes() - 4;
    let crc = crc32c::crc32c(&bytes[..crc_at]);
    bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
    let error = Header::decode(LogKind::Wal, Path::new("w"), &bytes).expect_err("newer");
    assert!(matches!(error, Error::NewerFormat { found: 9, supported: 3, .. }), "{error}");
    assert_eq!(Header::decode(LogKind::Manifest, Path::new("w"), &bytes).expect("other"), None);
}
