use ladoga_http1::answer::{Answer, Asked, Event, Reader};

/// What the bytes of a connection meant: the body of each answer, and how it ended.
type Meaning = Vec<(Vec<u8>, Option<Answer>)>;

/// Answers of a server. They mean the same however they are cut.
///
/// # Panics
/// If they do not.
pub fn answer(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let asked = [Asked::Ordinary, Asked::Head, Asked::Upgrade][usize::from(how % 3)];
    let whole = read(bytes, bytes.len().max(1), asked);
    let cut = read(bytes, usize::from(how / 3) + 1, asked);
    // A line is refused as soon as it is whole, and one in a single piece sometimes before.
    if let (Some(whole), Some(cut)) = (whole, cut) {
        assert_eq!(whole, cut);
    }
}

/// `None` if they are no answers.
fn read(bytes: &[u8], piece: usize, asked: Asked) -> Option<Meaning> {
    let (mut reader, mut meaning) = (Reader::default(), vec![(Vec::new(), None)]);
    for part in bytes.chunks(piece) {
        let mut rest = part;
        loop {
            let (taken, event) = reader.next(rest, asked).ok()?;
            rest = &rest[taken..];
            match event {
                Event::More => break,
                Event::Body(piece) => meaning.last_mut()?.0.extend_from_slice(piece),
                Event::End(answer) => {
                    meaning.last_mut()?.1 = Some(answer);
                    meaning.push((Vec::new(), None));
                }
                Event::Interim(_) | Event::Head(_) | Event::ChunkEnd => {}
            }
        }
        assert!(rest.is_empty(), "it wants more and has not taken all");
    }
    meaning.last_mut()?.1 = reader.end_of_input();
    Some(meaning)
}

/// Answers of every kind, each after a byte that says how it is cut.
pub fn answer_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 7] = [
        b"\x09HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 204 No Content\r\n\r\n",
        b"\x0cHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
        b"\x0fHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n",
        b"\x12HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        b"\x15HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"\x01HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"\x02HTTP/1.1 101 Switching Protocols\r\nUpgrade: ladoga\r\nConnection: upgrade\r\n\r\n",
    ];
    seeds.map(<[u8]>::to_vec).into()
}
