use super::image::{Image, pieces};
use super::power::{Fate, Fates, PowerCut};
use super::rng::SimRng;
use crate::Rng;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// A change to a file's bytes that is not durable yet.
#[derive(Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Grow { len: u64 },
    Truncate { len: u64 },
}

/// The bytes of one file: as readers see them, as a power cut leaves them at least, and the changes between the two.
#[derive(Debug, Default)]
pub(super) struct Inode {
    current: Image,
    durable: Image,
    pending: Vec<Change>,
    /// Open files; what they hold stays readable when the last name is gone.
    pub(super) handles: usize,
}

impl Inode {
    pub(super) fn current(&self) -> &Image {
        &self.current
    }

    pub(super) fn durable(&self) -> &Image {
        &self.durable
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if !bytes.is_empty() {
            self.change(Change::Write { offset, bytes: bytes.to_vec() });
        }
    }

    pub(super) fn grow(&mut self, len: u64) {
        self.change(Change::Grow { len });
    }

    pub(super) fn truncate(&mut self, len: u64) {
        self.change(Change::Truncate { len });
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// A sync that failed. The kernel has marked the pages clean: they are read as before, and never written again,
    /// whatever a later sync answers ("fsyncgate", 2018).
    pub(super) fn fail_sync(&mut self) {
        self.pending.clear();
    }

    pub(super) fn power_cut(&mut self, policy: PowerCut, rng: &SimRng) {
        let fates = Fates::throw(policy, self.pending.len(), rng);
        for (index, change) in self.pending.drain(..).enumerate() {
            match fates.of(index, rng) {
                Fate::Kept => apply(&mut self.durable, &change),
                Fate::Torn => tear(&mut self.durable, &change, rng),
                Fate::Lost => {}
            }
        }
        self.current = self.durable.clone();
    }

    /// Changes bytes in place, as a failing disk does: in memory, on the disk, and in the changes between the two.
    pub(super) fn corrupt(&mut self, offset: u64, bytes: &[u8]) {
        for image in [&mut self.current, &mut self.durable] {
            let count = image.len().saturating_sub(offset).min(bytes.len() as u64) as usize;
            image.write(&bytes[..count], offset);
        }
        for change in &mut self.pending {
            if let Change::Write { offset: start, bytes: written } = change {
                let (from, to) = (offset.max(*start), end(offset, bytes).min(end(*start, written)));
                if from < to {
                    let source = &bytes[(from - offset) as usize..(to - offset) as usize];
                    written[(from - *start) as usize..(to - *start) as usize].copy_from_slice(source);
                }
            }
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.current, &change);
        self.pending.push(change);
    }
}

fn apply(image: &mut Image, change: &Change) {
    match change {
        Change::Write { offset, bytes } => image.write(bytes, *offset),
        Change::Grow { len } => image.set_len(image.len().max(*len)),
        Change::Truncate { len } => image.set_len(*len),
    }
}

/// Leaves some sectors of a write, and perhaps the length that it gave the file. Lengths are not torn.
fn tear(image: &mut Image, change: &Change, rng: &SimRng) {
    let Change::Write { offset, bytes } = change else {
        if rng.below(2) == 0 {
            apply(image, change);
        }
        return;
    };
    let sectors = pieces(*offset, bytes.len(), SECTOR_BYTES);
    // Half of the time a plain prefix, as when the power fails while the disk writes in order.
    let prefix = (rng.below(2) == 0).then(|| rng.below(bytes.len() as u64));
    for sector in sectors {
        let kept = prefix.map_or_else(|| rng.below(2) == 0, |prefix| sector.end as u64 <= prefix);
        if kept {
            image.write(&bytes[sector.clone()], offset + sector.start as u64);
        }
    }
    if rng.below(2) == 0 {
        // The length is metadata, and may be on the disk before the bytes are: they read as zero.
        image.set_len(image.len().max(end(*offset, bytes)));
    }
}

fn end(offset: u64, bytes: &[u8]) -> u64 {
    offset + bytes.len() as u64
}
