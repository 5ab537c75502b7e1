use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use ladoga_env::OpenMode;
use ladoga_storage::{KeptSegment, LargeValue, LogFile, LogValue, SegmentReader};

use super::chain::{Chain, StoredLarge, StoredSegment, large_path, segment_path};
use super::check_large;
use crate::PIECE_BYTES_MAX;
use crate::error::Error;
use crate::log_position::ChainName;
use crate::repository::{Incoming, Repository, Writing, is_missing};

/// What a node keeps of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogListing {
    /// What its store is called.
    pub store: u128,
    /// Everything that was acknowledged up to then is in groups before `end_sequence`.
    pub reaches_ms: u64,
    /// The first group that may not be in a segment that is kept.
    pub end_sequence: u64,
    /// What the node is in its cluster, if it is of one.
    pub member: Option<Member>,
    /// The oldest segments that end behind the group that was asked for; there may be more.
    pub segments: Vec<KeptSegment>,
}

/// What a node of a cluster says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Which of the directories that it has had this is.
    pub incarnation: u64,
    /// Whether it has all that it acknowledged.
    pub is_whole: bool,
}

/// Where a log comes from.
pub trait LogSource {
    /// Has everything in the log that was acknowledged, and lists segments of it that end behind group `after`.
    fn list(&mut self, after: u64) -> Result<LogListing, Error>;

    /// Bytes of a file from `offset` on: at most [`PIECE_BYTES_MAX`], none at its end. [`Error::Absent`] if there is no such file,
    /// [`Error::Unreadable`] if it is there and cannot be read: then it is given up, and not asked for again.
    fn read(&mut self, file: LogFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error>;
}

/// What came of fetching a log.
#[derive(Debug, Default)]
pub struct Shipped {
    /// The chain that is gone on with.
    pub chain: Option<Chain>,
    /// Segments that were fetched.
    pub segments: u64,
    /// Bytes of those, and of the large values that they name.
    pub bytes: u64,
    /// Whether it reaches as far as it may: not if its node lacks some of what it acknowledged.
    pub is_whole: bool,
    /// Why there are times that cannot be restored, if there are new ones.
    pub gaps: Vec<String>,
}

/// After so many bytes it is written down what is there: who is interrupted does not fetch it again.
const PUBLISH_EVERY_BYTES: u64 = 64 << 20;
/// The last bytes of a segment that are compared.
const TAIL_BYTES: u64 = 64;

impl Repository {
    /// Fetches what a node keeps of its log and the repository does not have. Each segment is verified, frame by frame, before it
    /// gets its name; what is known of the chain is written last.
    ///
    /// The chain reaches no further than `reaches_ms_max`: of a cluster, up to when all nodes that were asked had said that they have
    /// everything, before the first of them was asked for its log.
    ///
    /// If it fails, what came of it until then counts all the same: the chain behind a gap may be written down, and then no later
    /// attempt finds that gap.
    pub fn ship(
        &self,
        writing: &Writing,
        of: (&str, u64),
        source: &mut dyn LogSource,
    ) -> (Shipped, Result<(), Error>) {
        let mut shipped = Shipped::default();
        let done = self.ship_into(writing, of, source, &mut shipped);
        (shipped, done)
    }

    fn ship_into(
        &self,
        writing: &Writing,
        (url, reaches_ms_max): (&str, u64),
        source: &mut dyn LogSource,
        shipped: &mut Shipped,
    ) -> Result<(), Error> {
        let dir = self.log_dir();
        self.disk().create_dir_all(&dir).map_err(Error::io("create directory", &dir))?;
        let LogListing { store, member, .. } = source.list(u64::MAX)?;
        let newest = self.chains()?.into_iter().rfind(|name| name.store == store);
        let known = match newest.map(|name| self.listed_chain(writing, name)).transpose() {
            // It has ended: the next one begins with what the node still keeps. Nothing is written over the damaged one.
            Err(error @ Error::Damaged { .. }) => {
                shipped.gaps.push(format!("the log of {url} is begun anew: {error}"));
                None
            }
            known => known?,
        };
        let mut shipping = Shipping {
            repository: self,
            writing,
            url,
            store,
            incarnation: member.map(|member| member.incarnation),
            reaches_ms_max,
            next_generation: newest.map_or(0, |name| name.generation.saturating_add(1)),
            chain: known,
            shipped,
            published_bytes: 0,
        };
        shipping.check_same(source)?;
        loop {
            let after = shipping.chain.as_ref().map_or(0, Chain::end_sequence);
            let listing = source.list(after)?;
            if (listing.store, listing.member.map(|it| it.incarnation)) != (store, shipping.incarnation) {
                return Err(Error::Source("the node is another one than a moment ago".to_owned()));
            }
            if shipping.take(&listing, source)? {
                break;
            }
        }
        shipping.shipped.chain = shipping.chain;
        Ok(())
    }
}

/// A log on its way in.
struct Shipping<'r> {
    repository: &'r Repository,
    writing: &'r Writing,
    url: &'r str,
    store: u128,
    incarnation: Option<u64>,
    reaches_ms_max: u64,
    next_generation: u32,
    chain: Option<Chain>,
    shipped: &'r mut Shipped,
    published_bytes: u64,
}

impl Shipping<'_> {
    /// Begins another chain if the last segment of this one is not the same at the node: its store was brought back to an earlier
    /// state, and has gone on differently.
    fn check_same(&mut self, source: &mut dyn LogSource) -> Result<(), Error> {
        if self.chain.as_ref().is_some_and(|chain| chain.incarnation != self.incarnation) {
            self.begin_another("the node lost some of what it had acknowledged");
            return Ok(());
        }
        let Some(last) = self.chain.as_ref().and_then(|chain| chain.segments.last()).cloned() else {
            return Ok(());
        };
        let listing = source.list(last.first_sequence)?;
        let is_same = match same_place(&listing, &last) {
            None => may_follow(&listing, &last),
            Some(kept) if (kept.number, kept.end_sequence) != (last.number, last.end_sequence) => false,
            Some(kept) => {
                let (offset, bytes) = (last.bytes.saturating_sub(TAIL_BYTES), last.bytes.min(TAIL_BYTES));
                match source.read(LogFile::Segment(kept.number), offset, bytes as usize) {
                    Err(Error::Unreadable(why)) => {
                        self.begin_behind(&last, &format!("the node cannot read the segment before: {why}"));
                        return Ok(());
                    }
                    Err(Error::Absent(why)) => {
                        // It became too old to be kept a moment ago, or somebody has removed it.
                        let listing = source.list(last.first_sequence)?;
                        if same_place(&listing, &last).is_some() {
                            self.begin_behind(&last, &format!("the node lost the segment before: {why}"));
                            return Ok(());
                        }
                        may_follow(&listing, &last)
                    }
                    there => Some(there?) == self.tail(&last, offset, bytes as usize)?,
                }
            }
        };
        if !is_same {
            self.begin_another(
                "the segment before is not the same there; the node was brought back to an earlier state, or the repository is damaged",
            );
        }
        Ok(())
    }

    /// Begins another chain behind a segment that is not compared. What the node keeps from before it is in the repository.
    fn begin_behind(&mut self, last: &StoredSegment, why: &str) {
        self.begin_another(why);
        self.chain_from(last.end_sequence);
    }

    /// Bytes of a stored segment; `None` if it is gone, or shorter than it was.
    fn tail(&self, segment: &StoredSegment, offset: u64, bytes: usize) -> Result<Option<Vec<u8>>, Error> {
        let path = segment_path(self.repository, segment.hash);
        let file = match self.repository.disk().open(&path, OpenMode::Read) {
            Err(error) if is_missing(&error) => return Ok(None),
            file => file.map_err(Error::io("open", &path))?,
        };
        let mut tail = vec![0; bytes];
        match file.read_exact_at(&mut tail, offset) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            read => read.map_err(Error::io("read", &path)).map(|()| Some(tail)),
        }
    }

    fn begin_another(&mut self, why: &str) {
        if let Some(chain) = self.chain.take() {
            let gap = format!(
                "the log of {} does not go on behind group {}: {why}",
                self.url,
                chain.end_sequence()
            );
            self.shipped.gaps.push(gap);
        }
    }

    fn chain_from(&mut self, first_sequence: u64) -> &mut Chain {
        let name = ChainName { store: self.store, generation: self.next_generation };
        let (url, incarnation, next) = (self.url.to_owned(), self.incarnation, &mut self.next_generation);
        self.chain.get_or_insert_with(|| {
            *next = next.saturating_add(1);
            Chain { name, url, incarnation, first_sequence, reaches_ms: 0, segments: Vec::new() }
        })
    }

    /// Takes over what is listed; true if that is all there is.
    fn take(&mut self, listing: &LogListing, source: &mut dyn LogSource) -> Result<bool, Error> {
        for kept in &listing.segments {
            let end = self.chain.as_ref().map_or(kept.first_sequence, Chain::end_sequence);
            if end != kept.first_sequence {
                self.begin_another("a segment is missing");
            }
            match self.fetch(kept, source) {
                Ok(segment) => self.chain_from(kept.first_sequence).segments.push(segment),
                Err(Error::Store(error)) if error.is_corruption() => {
                    self.leave_out(kept, &format!("the node sent a segment that is not sound: {error}"))?;
                }
                Err(Error::Absent(why)) => {
                    self.leave_out(kept, &format!("the node does not have all of a segment: {why}"))?;
                }
                Err(Error::Unreadable(why)) => {
                    self.leave_out(kept, &format!("the node cannot read all of a segment: {why}"))?;
                }
                // What came before it is not fetched again. If it is this disk that failed, its next sync may say that all is well.
                Err(error @ Error::Source(_)) => {
                    self.publish()?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
            if self.shipped.bytes - self.published_bytes >= PUBLISH_EVERY_BYTES {
                self.published_bytes = self.shipped.bytes;
                self.publish()?;
            }
        }
        let end = self.chain.as_ref().map(Chain::end_sequence);
        let is_behind = end.is_some_and(|end| end < listing.end_sequence);
        if is_behind && !listing.segments.is_empty() {
            self.publish()?;
            return Ok(false);
        }
        if end.is_some_and(|end| end != listing.end_sequence && listing.segments.is_empty()) {
            self.begin_another("the node does not keep what follows");
        }
        let reaches_ms = listing.reaches_ms.min(self.reaches_ms_max);
        let chain = self.chain_from(listing.end_sequence);
        // One that lacks some of what it acknowledged says nothing about what there was.
        let is_whole = listing.member.is_none_or(|member| member.is_whole);
        if is_whole {
            chain.reaches_ms = chain.reaches_ms.max(reaches_ms);
        }
        self.shipped.is_whole = is_whole;
        self.publish()?;
        Ok(true)
    }

    /// Goes on behind a segment: nothing of it gets in, and what comes behind it is worth having.
    fn leave_out(&mut self, kept: &KeptSegment, why: &str) -> Result<(), Error> {
        self.publish()?;
        self.begin_another(why);
        self.chain_from(kept.end_sequence);
        Ok(())
    }

    fn publish(&self) -> Result<(), Error> {
        self.chain.as_ref().map_or(Ok(()), |chain| self.repository.publish_chain(self.writing, chain))
    }

    fn incoming(&self, name: &str) -> Result<Incoming, Error> {
        Incoming::begin(self.repository, self.repository.log_dir().join(format!("{name}.new")))
    }

    fn fetch(&mut self, kept: &KeptSegment, source: &mut dyn LogSource) -> Result<StoredSegment, Error> {
        let (file, sequences) = (LogFile::Segment(kept.number), (kept.first_sequence, kept.end_sequence));
        let mut reader = SegmentReader::new(&PathBuf::from(file.name()), sequences);
        let mut incoming = self.incoming(&format!("{:032x}-{:06}", self.store, kept.number))?;
        let (mut offset, mut oldest, mut larges) = (0, u64::MAX, BTreeSet::new());
        while !reader.is_complete() {
            let piece = read_piece(source, file, offset)?;
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            let read = reader.push(&piece, &mut |cell| {
                oldest = oldest.min(cell.stamp.version.timestamp);
                if let LogValue::Large(large) = cell.value {
                    larges.insert(large);
                }
                Ok(())
            })?;
            incoming.write(&read)?;
        }
        reader.finish()?;
        incoming.close()?;
        let larges = larges.into_iter().map(|large| self.large(kept.number, large, source));
        let larges = larges.collect::<Result<Vec<_>, Error>>()?;
        let (hash, bytes) = (incoming.hash(), incoming.bytes());
        incoming.publish(&segment_path(self.repository, hash))?;
        self.shipped.segments += 1;
        self.shipped.bytes += bytes;
        let &KeptSegment { number, first_sequence, end_sequence, .. } = kept;
        Ok(StoredSegment { number, first_sequence, end_sequence, bytes, hash, oldest, larges })
    }

    /// A large value that a segment names: what an earlier segment names as well is not fetched again.
    fn large(
        &mut self,
        segment: u64,
        value: LargeValue,
        source: &mut dyn LogSource,
    ) -> Result<StoredLarge, Error> {
        if let Some(stored) = self.known_large(value)? {
            return Ok(stored);
        }
        let file = LogFile::Large { segment, file: value.file };
        let mut incoming = self.incoming(&format!("{:032x}-{:06}-large", self.store, value.file))?;
        loop {
            let piece = read_piece(source, file, incoming.bytes())?;
            if piece.is_empty() {
                break;
            }
            incoming.write(&piece)?;
        }
        incoming.close()?;
        check_large(self.repository.disk(), value, incoming.path().clone())?;
        let stored = StoredLarge { value, bytes: incoming.bytes(), hash: incoming.hash() };
        incoming.publish(&large_path(self.repository, stored.hash))?;
        self.shipped.bytes += stored.bytes;
        Ok(stored)
    }

    fn known_large(&self, value: LargeValue) -> Result<Option<StoredLarge>, Error> {
        let segments = self.chain.iter().flat_map(|chain| chain.segments.iter().rev());
        let Some(known) = segments.flat_map(|segment| &segment.larges).find(|large| large.value == value)
        else {
            return Ok(None);
        };
        let path = large_path(self.repository, known.hash);
        match self.repository.disk().open(&path, OpenMode::Read) {
            Err(error) if is_missing(&error) => Ok(None),
            opened => opened.map_err(Error::io("open", &path)).map(|_| Some(*known)),
        }
    }
}

/// The segment of a node that begins where this one does.
fn same_place<'l>(listing: &'l LogListing, last: &StoredSegment) -> Option<&'l KeptSegment> {
    listing.segments.iter().find(|segment| segment.first_sequence == last.first_sequence)
}

/// Whether what a node keeps may follow a segment that is too old to be kept: the next one tells. One that begins within it is of another
/// history, in which as many groups may be as in this one.
fn may_follow(listing: &LogListing, last: &StoredSegment) -> bool {
    listing.segments.first().is_none_or(|first| first.first_sequence >= last.end_sequence)
}

fn read_piece(source: &mut dyn LogSource, file: LogFile, offset: u64) -> Result<Vec<u8>, Error> {
    let piece = source.read(file, offset, PIECE_BYTES_MAX)?;
    if piece.len() > PIECE_BYTES_MAX {
        return Err(Error::Source(format!("{} bytes were sent for {PIECE_BYTES_MAX}", piece.len())));
    }
    Ok(piece)
}
