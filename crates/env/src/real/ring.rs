use super::syscall::file_offset;
use crate::disk::{EndedRead, FilePart, ReadRing};
use io_uring::{IoUring, cqueue, opcode, types};
use slab::Slab;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads by `io_uring`.
///
/// A read lives in its slot from the push to its end: its buffer and its file stay alive until the kernel has completed it,
/// even if nothing waits for it any more.
pub(super) struct RealRing {
    ring: IoUring,
    reads: Slab<Read>,
    reads_max: usize,
    /// Reads that could not even be queued.
    refused: Vec<EndedRead>,
}

struct Read {
    token: u64,
    part: FilePart,
    /// As long as the read is.
    buffer: Vec<u8>,
    /// How many bytes have been read.
    filled: usize,
}

impl RealRing {
    /// Fails if the system has no `io_uring` (or that of a Linux before 6.0, which lacks what we use), or does not permit it.
    pub(super) fn new(reads_max: usize) -> io::Result<RealRing> {
        let entries = u32::try_from(reads_max).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // One thread uses the ring, and a completion does not interrupt that thread: it is delivered at its next system call,
        // the wait for the ring's descriptor included.
        let ring = IoUring::builder().dontfork().setup_single_issuer().setup_coop_taskrun().build(entries)?;
        // The system may permit to make one, and not to use it.
        ring.submit()?;
        Ok(RealRing { ring, reads: Slab::with_capacity(reads_max), reads_max, refused: Vec::new() })
    }

    /// Queues the rest of a read.
    fn queue(&mut self, index: usize) -> io::Result<()> {
        let read = &mut self.reads[index];
        let Some(file) = read.part.file.descriptor() else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the file is of another disk"));
        };
        let missing = &mut read.buffer[read.filled..];
        let offset = file_offset(read.part.offset.saturating_add(read.filled as u64))?;
        // What is beyond this length is queued again, as after any short read.
        let len = u32::try_from(missing.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), missing.as_mut_ptr(), len)
            .offset(offset as u64)
            .build()
            .user_data(index as u64);
        // SAFETY: descriptor and buffer belong to the slot `index`, which is emptied only after the kernel has completed this
        // read: `drop` waits for that, or leaks the slot. Moving a slot does not move the bytes that its buffer points to, and
        // nothing else accesses those meanwhile.
        #[expect(unsafe_code, reason = "the kernel writes to the buffer after this call")]
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the queue has room for every read, once");
        Ok(())
    }

    /// Submits what is queued, and waits until so many reads have ended.
    fn enter(&mut self, ended_min: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(ended_min) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(drop),
            }
        }
    }

    fn take_ended(&mut self, ended: &mut Vec<EndedRead>) {
        while let Some(entry) = self.told() {
            let index = entry.user_data() as usize;
            if let Some(result) = self.advance(index, entry.result()) {
                ended.push(self.end(index, result));
            }
        }
    }

    fn told(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// The outcome of a read that the kernel has completed; `None` if the rest of it is queued.
    fn advance(&mut self, index: usize, result: i32) -> Option<io::Result<()>> {
        let read = &mut self.reads[index];
        match result {
            0 => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
            count if count > 0 => read.filled += count as usize,
            error if -error == libc::EINTR => {}
            // Nothing of the file, but of the ring: memory or a turn that it did not get, or a thread that has ended.
            error if matches!(-error, libc::EAGAIN | libc::ENOMEM | libc::ECANCELED) => {
                return Some(Err(io::ErrorKind::WouldBlock.into()));
            }
            error => return Some(Err(io::Error::from_raw_os_error(-error))),
        }
        if read.filled >= read.buffer.len() {
            return Some(Ok(()));
        }
        self.queue(index).err().map(Err)
    }

    fn end(&mut self, index: usize, result: io::Result<()>) -> EndedRead {
        let read = self.reads.remove(index);
        EndedRead { token: read.token, bytes: result.map(|()| read.buffer) }
    }
}

impl ReadRing for RealRing {
    fn push(&mut self, token: u64, part: FilePart) {
        assert!(self.reads.len() < self.reads_max, "at most {} reads at a time", self.reads_max);
        let buffer = vec![0; part.len];
        let index = self.reads.insert(Read { token, part, buffer, filled: 0 });
        if let Err(error) = self.queue(index) {
            let read = self.end(index, Err(error));
            self.refused.push(read);
        }
    }

    fn turn(&mut self, ended: &mut Vec<EndedRead>) -> io::Result<()> {
        ended.append(&mut self.refused);
        loop {
            if !self.ring.submission().is_empty() {
                self.enter(0)?;
            }
            self.take_ended(ended);
            // The rest of reads that were cut short.
            if self.ring.submission().is_empty() {
                return Ok(());
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring's descriptor is open as long as the ring, which the answer borrows.
        #[expect(unsafe_code, reason = "the crate offers its descriptor as a number only")]
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        Some(descriptor)
    }
}

impl Drop for RealRing {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while !self.reads.is_empty() {
            if self.enter(1).is_err() {
                // It is unknown when the kernel is done with the buffers: they are leaked.
                std::mem::forget(std::mem::take(&mut self.reads));
                return;
            }
            self.take_ended(&mut ended);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "this is the seam")]

    use super::super::file::RealFile;
    use super::*;
    use crate::File;
    use std::io::Write;
    use std::sync::Arc;

    /// A file without a name, of bytes that tell their place. Opened as files of data are.
    fn file(len: usize) -> Arc<dyn File> {
        let name = format!("ladoga-env-ring-{}-{len}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&bytes(0, len)).unwrap();
        Arc::new(RealFile::new(file))
    }

    fn bytes(offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len).map(|place| (place * 7 + place / 251) as u8).collect()
    }

    fn until_ended(ring: &mut RealRing) -> Vec<EndedRead> {
        let mut ended = Vec::new();
        ring.turn(&mut ended).unwrap();
        while !ring.reads.is_empty() {
            ring.enter(1).unwrap();
            ring.turn(&mut ended).unwrap();
        }
        ended
    }

    /// `None`, and nothing is tested, if the system has no rings: then the node does not use them either.
    fn ring(reads_max: usize) -> Option<RealRing> {
        RealRing::new(reads_max).inspect_err(|error| eprintln!("no ring, so nothing is tested: {error}")).ok()
    }

    #[test]
    fn many_reads_end_each_with_its_own_bytes() {
        const READS: usize = 32;
        let Some(mut ring) = ring(READS) else { return };
        let file = file(100_000);
        for round in 0..4 {
            let place = |index: usize| (round * 20_000 + index * 617, 1 + index * 331);
            for index in 0..READS {
                let (offset, len) = place(index);
                let part = FilePart { file: Arc::clone(&file), offset: offset as u64, len };
                ring.push(index as u64, part);
            }
            let mut ended = until_ended(&mut ring);
            ended.sort_by_key(|read| read.token);
            assert_eq!(ended.len(), READS);
            for (index, read) in ended.into_iter().enumerate() {
                let (offset, len) = place(index);
                assert_eq!(read.token, index as u64);
                assert!(read.bytes.unwrap() == bytes(offset, len), "read {index} of round {round}");
            }
        }
    }

    #[test]
    fn what_the_file_does_not_have_fails_and_nothing_else_does() {
        let Some(mut ring) = ring(8) else { return };
        let file = file(1000);
        let places = [(0, 1000), (990, 20), (5000, 1), (u64::MAX - 3, 8), (1, 999)];
        for (token, (offset, len)) in places.into_iter().enumerate() {
            ring.push(token as u64, FilePart { file: Arc::clone(&file), offset, len });
        }
        let mut ended = until_ended(&mut ring);
        ended.sort_by_key(|read| read.token);
        let kinds = ended.iter().map(|read| read.bytes.as_ref().err().map(io::Error::kind));
        let eof = Some(io::ErrorKind::UnexpectedEof);
        assert!(kinds.eq([None, eof, eof, Some(io::ErrorKind::InvalidInput), None]), "{ended:?}");
    }

    #[test]
    fn a_file_of_another_disk_is_refused() {
        use crate::{Disk, OpenMode};
        let Some(mut ring) = ring(1) else { return };
        let (_, disk, _) = crate::sim::env(1);
        let file = disk.open(std::path::Path::new("/file"), OpenMode::CreateNew).unwrap();
        ring.push(1, FilePart { file, offset: 0, len: 1 });
        let ended = until_ended(&mut ring);
        assert_eq!(ended[0].bytes.as_ref().unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    /// Short reads: `advance` is called with what the kernel may answer, because files on a disk answer in full.
    #[test]
    fn what_was_cut_short_is_read_on_from_there() {
        let Some(mut ring) = ring(1) else { return };
        let file = file(3000);
        ring.push(5, FilePart { file: Arc::clone(&file), offset: 100, len: 2000 });
        let index = ring.reads.iter().next().map(|(index, _)| index).unwrap();
        let mut ended = Vec::new();
        ring.enter(1).unwrap();
        assert!(ring.told().is_some());
        // As if the kernel had stopped there, and then had been interrupted.
        ring.reads[index].buffer[700..].fill(0);
        assert!(ring.advance(index, 700).is_none());
        ring.turn(&mut ended).unwrap();
        ended.extend(until_ended(&mut ring));
        assert!(ended.remove(0).bytes.unwrap() == bytes(100, 2000));
        assert!(ended.is_empty());
        ring.push(6, FilePart { file, offset: 0, len: 10 });
        ring.enter(1).unwrap();
        assert!(ring.told().is_some());
        assert!(ring.advance(index, -libc::EINTR).is_none());
        for of_ring in [libc::EAGAIN, libc::ENOMEM, libc::ECANCELED] {
            let ended = ring.advance(index, -of_ring).unwrap().unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::WouldBlock, "{of_ring}");
        }
        assert_eq!(ring.advance(index, -libc::EIO).unwrap().unwrap_err().raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn a_ring_that_is_dropped_waits_for_its_reads() {
        let Some(mut ring) = ring(64) else { return };
        let file = file(1 << 20);
        for index in 0..64 {
            ring.push(index, FilePart { file: Arc::clone(&file), offset: index << 14, len: 1 << 14 });
        }
        ring.enter(0).unwrap();
        drop(ring);
        assert_eq!(Arc::strong_count(&file), 1, "no read has the file any more");
    }
}
