use std::io::{self, ErrorKind};
use std::sync::Arc;

use ladoga_env::File;
use parking_lot::Mutex;

use crate::client::Client;

/// What is read of an object when it is opened; manifests of small stores are not longer.
const FIRST_BYTES: u64 = 64 << 10;
/// What is read at a time at most: as much more with each read as comes one behind the other, up to this.
const WINDOW_BYTES_MAX: u64 = 2 << 20;
const WINDOW_BYTES_MIN: u64 = 64 << 10;

/// An object that is read. It keeps what it read last, because most objects are read from their beginning to their end.
pub(crate) struct Object {
    client: Arc<Client>,
    key: String,
    length: u64,
    tag: String,
    window: Mutex<Window>,
}

struct Window {
    offset: u64,
    bytes: Vec<u8>,
    /// How much is read next, if it is what follows.
    next_bytes: u64,
}

impl Window {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Copies what it has from `offset` on, and answers how many bytes that are.
    fn copy(&self, offset: u64, out: &mut [u8]) -> usize {
        if offset < self.offset || offset >= self.end() {
            return 0;
        }
        let from = &self.bytes[(offset - self.offset) as usize..];
        let count = from.len().min(out.len());
        out[..count].copy_from_slice(&from[..count]);
        count
    }
}

impl Object {
    pub(crate) fn open(client: &Arc<Client>, key: String) -> io::Result<Object> {
        let first = client.get(&key, 0, FIRST_BYTES)?;
        let window = Window { offset: 0, bytes: first.bytes, next_bytes: 2 * FIRST_BYTES };
        let (length, tag) = (first.total, first.tag);
        Ok(Object { client: Arc::clone(client), key, length, tag, window: Mutex::new(window) })
    }

    fn fetch(&self, offset: u64, needed: u64, window: &mut Window) -> io::Result<()> {
        let is_next = offset == window.end();
        let wanted = if is_next { window.next_bytes } else { WINDOW_BYTES_MIN };
        let bytes = wanted.max(needed).min(self.length - offset);
        let piece = self.client.get(&self.key, offset, bytes)?;
        if piece.tag != self.tag || piece.bytes.len() as u64 != bytes {
            // As a file on another machine that has been replaced: who opens it again has the new one.
            let what = "it was written anew while it was read";
            return Err(io::Error::new(ErrorKind::StaleNetworkFileHandle, what));
        }
        let next_bytes = if is_next { (2 * wanted).min(WINDOW_BYTES_MAX) } else { WINDOW_BYTES_MIN };
        *window = Window { offset, bytes: piece.bytes, next_bytes };
        Ok(())
    }
}

fn written_once<T>() -> io::Result<T> {
    Err(io::Error::new(ErrorKind::Unsupported, "objects are written as a whole"))
}

impl File for Object {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.length);
        if end.is_none() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut window = self.window.lock();
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            match window.copy(at, &mut buffer[done..]) {
                0 => self.fetch(at, (buffer.len() - done) as u64, &mut window)?,
                count => done += count,
            }
        }
        Ok(())
    }

    fn try_read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        // Somebody who reads may have it for long.
        let Some(window) = self.window.try_lock() else { return Ok(false) };
        Ok(window.copy(offset, buffer) == buffer.len())
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        written_once()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        written_once()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        written_once()
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) {}

    fn len(&self) -> io::Result<u64> {
        Ok(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_what_it_has() {
        let window = Window { offset: 10, bytes: b"0123456789".to_vec(), next_bytes: 0 };
        let copy = |offset, length| {
            let mut out = vec![b'-'; length];
            let count = window.copy(offset, &mut out);
            (count, String::from_utf8(out).expect("digits"))
        };
        assert_eq!(copy(10, 3), (3, "012".to_owned()));
        assert_eq!(copy(18, 4), (2, "89--".to_owned()));
        assert_eq!([copy(9, 1).0, copy(20, 1).0, copy(0, 30).0], [0, 0, 0]);
    }
}
