//! What becomes of each request of a peer.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_cluster::Refusal;
use ladoga_local::store::{CellFormat, LocalStore, Store};
use ladoga_service::{KeySpan, NoPieces, Pieces};

use super::asked::Asked;
use super::input::Next;
use super::listing;
use super::requests::{self, Served, Writes};
use super::session::{Session, Taken, cost};
use crate::coordinate;
use crate::own::{promises, refusal, replica};
use crate::wire::{Answer, Hello, Origin, Request, put_mark, put_record};

impl<S: Store> Session<S> {
    /// Serves a request. An error ends the connection in the way that it describes.
    pub(super) fn understand(
        self: &Rc<Self>,
        next: Next,
        writes: &mut Writes<S>,
    ) -> Result<(), io::Result<Taken>> {
        let bytes = cost(&next);
        let Next { number, request, .. } = next;
        if let Request::Hello(theirs) = &request {
            return match self
                .check_certificate(theirs)
                .and_then(|()| self.cluster.greeted(&self.replica.core, theirs))
            {
                Ok(_) if !self.account.greeted() => {
                    let line = "the limit of connections from peers is reached".to_owned();
                    self.answer(number, &Answer::Stranger(line));
                    Err(Ok(Taken::Over))
                }
                Ok(peer) => {
                    *self.peer.borrow_mut() = Some(peer);
                    self.answer(number, &Answer::Hello(Box::new(self.cluster.hello())));
                    Ok(())
                }
                Err(difference) => {
                    let cluster = &self.cluster;
                    let [own, theirs] =
                        [cluster.nodes.name(cluster.own), theirs.name()].map(|name| cluster.url_of(name));
                    let line = format!("{own} refuses {theirs}: {difference}");
                    self.answer(number, &Answer::Stranger(line));
                    Err(Ok(Taken::Over))
                }
            };
        }
        if self.peer.borrow().is_none() {
            let line = "a peer that does not greet".to_owned();
            return Err(Err(io::Error::new(io::ErrorKind::InvalidData, line)));
        }
        let asked = Asked::new(self, number, bytes);
        let asked = match self.traces.take(number) {
            None => asked,
            of => asked.part_of(of, request.name()),
        };
        self.serve(asked, request, writes);
        Ok(())
    }

    /// A node is who its certificate says, and no other one.
    fn check_certificate(&self, theirs: &Hello) -> Result<(), String> {
        let Some(tls) = self.cluster.tls() else { return Ok(()) };
        let view = self.cluster.peers.get(usize::from(theirs.node));
        // Who is of another cluster is told so.
        let Some(host) = view.map(|view| view.name.host()) else { return Ok(()) };
        if self.socket.is_certified_for(host) {
            return Ok(());
        }
        tls.figures.peer_refused();
        let line = format!("its certificate is not for {host}, the host of its URL");
        if self.replica.core.admit_refusal_line() {
            let url = self.cluster.url_of(theirs.name());
            tracing::warn!(address = %self.socket.address(), "refused a peer that claims to be {url}: {line}");
        }
        Err(line)
    }

    fn serve(self: &Rc<Self>, asked: Asked<S>, request: Request, writes: &mut Writes<S>) {
        if let Request::Close { stream } = request {
            return self.opened.close(stream);
        }
        if let Request::Traces(said) = request {
            return self.traces.expect(said);
        }
        match request {
            Request::Read { key, digest, origin } => {
                let served = (origin == Origin::Client).then(|| self.served());
                requests::read(self, (asked, served), &key, (digest, origin));
            }
            Request::Write { key, stamp, value, origin, is_again, durability } => {
                let served = (origin == Origin::Client).then(|| self.served());
                writes.add(self, (asked, served), (key, stamp, value), (origin, is_again), durability);
            }
            Request::Statement(_) | Request::Groups(_) | Request::Leaves { .. } => {
                self.compare(asked, request);
            }
            Request::List { slice, partitions, after } => {
                listing::list(self, asked, (slice, partitions, after));
            }
            Request::OpenValue { key, version } => requests::open_value(self, asked, &key, version),
            Request::OpenCells { start, end, is_reverse, has_values } => {
                if let Err(refusal) = self.cluster.stability().vouches() {
                    return self.answer(asked.number, &Answer::Refused(refusal));
                }
                let span = KeySpan { start, end: (!end.is_empty()).then_some(end), is_reverse };
                let format: CellFormat = if has_values { put_record } else { put_mark };
                let is_hidden = self.cluster.stability().hides_cells();
                let nothing = || -> Box<dyn Pieces> { Box::new(NoPieces) };
                let cells = || self.replica.store.cells_of(span, format);
                let pieces = if is_hidden { nothing() } else { cells() };
                let session = Rc::clone(self);
                self.answer_later(asked, async move { session.open(pieces).await });
            }
            Request::Next { stream, skip } => self.next_piece(asked, stream, skip),
            Request::Upload => requests::begin_upload(self, asked),
            Request::Push { stream, bytes } => requests::push(self, asked, stream, bytes),
            Request::Finish { stream, stamp, key, origin, durability } => {
                requests::finish_upload(self, (asked, stream), (stamp, key), (origin, durability));
            }
            Request::Prepare { key, ballot, durability } => {
                requests::prepare(self, asked, &key, (ballot, durability));
            }
            Request::Accept { key, stamp, base, value, durability } => {
                let served = self.served();
                requests::accept(self, (asked, served), (&key, stamp, value), base, durability);
            }
            Request::AcceptUpload { stream, stamp, base, key, durability } => {
                requests::accept_upload(self, (asked, stream), (key, stamp), base, durability);
            }
            Request::Release { key, ballot } => promises::release(&self.replica, &key, ballot),
            Request::Forward(forward) => {
                let through = self.peer_id().expect("it has greeted");
                let replica = Rc::clone(&self.replica);
                let of = (through, asked.trace());
                self.answer_later(asked, coordinate::decide_forwarded(replica, of, *forward));
            }
            Request::KeepDeletions => {
                // Not before it has all of them.
                if self.cluster.stability().vouches() != Ok(true) {
                    return self.answer(asked.number, &Answer::Refused(Refusal::Rebuilding));
                }
                let kept = self.replica.store.keep_deletions();
                self.answer_later(asked, async move {
                    kept.await.map_or_else(|error| Answer::Refused(refusal(&error)), |()| Answer::Done)
                });
            }
            Request::Hello(_) | Request::Close { .. } | Request::Traces(_) => unreachable!("served before"),
        }
    }

    /// A request of one of the peer's clients begins to be served.
    fn served(&self) -> Served {
        Served::since(self.looked_at_ns.get(), &self.replica.core)
    }

    /// States the stability of this node, or what there is, as hashes.
    fn compare(self: &Rc<Self>, asked: Asked<S>, request: Request) {
        let number = asked.number;
        let (Some(peer), Some(stability)) = (self.peer_id(), self.cluster.stability.get()) else {
            return self.answer(number, &Answer::Refused(Refusal::Rebuilding));
        };
        if let Request::Statement(theirs) = request {
            replica::heard(&self.replica, stability, (peer, theirs), None);
            let versions = &self.cluster.versions;
            let statement = stability.statement(versions.next(), versions.wall_ms());
            return self.answer(number, &Answer::Statement(Box::new(statement)));
        }
        if stability.holds_up_pulls_of(peer) {
            return self.answer(number, &Answer::Refused(Refusal::Rebuilding));
        }
        if !self.account.repair_begins() {
            return self.answer(number, &Answer::Refused(Refusal::OverCapacity));
        }
        let (session, stability) = (Rc::clone(self), Arc::clone(stability));
        self.answer_later(asked, async move {
            let found = match request {
                Request::Groups(slice) => stability
                    .tree
                    .groups(peer, slice)
                    .await
                    .map(|(dropped_before, hashes)| Answer::Groups { dropped_before, hashes }),
                Request::Leaves { slice, groups } => {
                    stability.tree.leaves(peer, slice, &groups).await.map(Answer::Leaves)
                }
                _ => unreachable!("the caller sees to it"),
            };
            session.account.repair_is_answered();
            listing::hashes(found)
        });
    }
}
