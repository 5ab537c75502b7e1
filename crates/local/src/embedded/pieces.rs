use std::sync::Arc;

use bytes::Bytes;
use ladoga_storage::{Engine, Error, Range};

use super::pool::DiskHandle;
use super::read_error;
use crate::store::{KeySpan, Later, Piece, Pieces, StoreError};

/// What makes bytes of a range, on a thread that may wait.
pub(super) trait RangeReader: Send + 'static {
    /// What is read of the range at once, as a rule.
    const PIECE_BYTES: usize;

    /// Appends the next bytes, about as many as a piece has, or none if it has looked at so much that others are to have their
    /// turn. Answers whether there are more.
    fn read(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error>;
}

/// What a reader reads, many records to a piece.
pub(super) struct RangePieces<R> {
    reader: R,
    at: At,
    disk: DiskHandle,
}

/// How far it is.
enum At {
    /// The snapshot is taken by who reads first.
    Start { engine: Arc<Engine>, span: KeySpan, live_at_ms: u64 },
    /// Between pieces.
    Within(Range),
    /// After the last one.
    End,
}

impl<R: RangeReader> RangePieces<R> {
    pub(super) fn new(
        reader: R,
        engine: &Arc<Engine>,
        span: KeySpan,
        live_at_ms: u64,
        disk: &DiskHandle,
    ) -> RangePieces<R> {
        let at = At::Start { engine: Arc::clone(engine), span, live_at_ms };
        RangePieces { reader, at, disk: disk.clone() }
    }
}

/// A piece, and how far the reader is then.
fn read<R: RangeReader>(reader: &mut R, at: At) -> Result<(Vec<u8>, At), Error> {
    let mut range = match at {
        At::Start { engine, span: KeySpan { start, end, .. }, live_at_ms } => {
            engine.snapshot().range(&start, end.as_deref()).live_at_ms(live_at_ms)
        }
        At::Within(range) => range,
        At::End => return Ok((Vec::new(), At::End)),
    };
    let mut out = Vec::with_capacity(R::PIECE_BYTES);
    let has_more = reader.read(&mut range, &mut out)?;
    // The client may take its time for the next piece.
    range.rest()?;
    Ok((out, if has_more { At::Within(range) } else { At::End }))
}

impl<R: RangeReader> Pieces for RangePieces<R> {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let RangePieces { mut reader, at, disk } = *self;
        if matches!(at, At::End) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let piece = disk.submit(move || {
            let (bytes, at) = read(&mut reader, at).map_err(|error| read_error(&error))?;
            Ok((bytes, reader, at))
        });
        Box::pin(async move {
            let (bytes, reader, at) = piece.await?;
            if bytes.is_empty() && matches!(at, At::End) {
                return Ok(None);
            }
            let rest = RangePieces { reader, at, disk };
            Ok(Some((Bytes::from(bytes), Box::new(rest) as Box<dyn Pieces>)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::task::{Context, Poll, Waker};

    use ladoga_env::sim::{self, SimDisk};
    use ladoga_model::{Stamp, Version};
    use ladoga_storage::{Background, Durability, Options, Side, WriteBatch};

    use super::super::cells::CellReader;
    use super::super::pool::Pool;
    use super::*;
    use crate::store::CellFormat;

    fn wait<T>(mut later: Later<T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = later.as_mut().poll(&mut context) {
                return answer;
            }
            std::thread::yield_now();
        }
    }

    /// Writes all keys anew, of which a memtable has room for some.
    fn write(engine: &Engine, timestamp: u64) {
        for key in 0..200_u64 {
            let mut batch = WriteBatch::new();
            batch.put(&key.to_be_bytes(), Stamp::new(Version { timestamp, node: 0 }), &[7; 1_000]);
            engine.write_group(&[batch]).expect("room");
            while engine.step().expect("a sound disk") {}
        }
    }

    /// The tables in a store, and those of them that it uses.
    fn tables(engine: &Engine, disk: &SimDisk) -> (usize, usize) {
        let is_table = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "sst");
        let used: u64 = engine.statistics().levels.iter().map(|level| level.tables).sum();
        (disk.paths().into_iter().filter(is_table).count(), used as usize)
    }

    /// A client that took a piece now and then kept the memtables and tables of its snapshot, which was given up long ago.
    #[test]
    fn what_is_given_up_is_let_go_of_before_its_client_asks_for_more() {
        let (env, disk, _clock) = sim::env(1);
        let options = Options {
            background: Background::Manual,
            memtable_bytes: Some(16 << 10),
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Never)
        };
        let engine = Arc::new(Engine::open(env, Path::new("/data"), options).expect("a new store"));
        write(&engine, 1);
        let pool = Arc::new(Pool::start(&ladoga_env::real::Threads, 16 << 20).expect("threads"));
        let disk_handle = DiskHandle { pool, inbox: Arc::default() };
        // A kilobyte of each.
        let format: CellFormat = |out, key, _| out.extend(key.iter().cycle().take(1 << 10));
        let reader = CellReader { format, side: Side::Front };
        let span = KeySpan { start: Bytes::new(), end: None, is_reverse: false };
        let pieces = Box::new(RangePieces::new(reader, &engine, span, 0, &disk_handle));
        let (_, pieces) = wait(pieces.next()).expect("a sound disk").expect("more than a piece");
        let mut kept = vec![engine.snapshot()];
        let mut timestamp = 1;
        while kept[0].get_cell(b"key").is_ok() {
            timestamp += 1;
            write(&engine, timestamp);
            kept.push(engine.snapshot());
        }
        drop(kept);
        // The memtables first, and then the tables that they kept.
        for _ in 0..2 {
            while engine.step().expect("a sound disk") {}
        }
        let (there, used) = tables(&engine, &disk);
        assert_eq!(there, used, "the rest is what the client's range has");
        assert!(wait(pieces.next()).is_err(), "its snapshot was given up");
        engine.close().expect("a store that closes");
    }
}
