use std::cell::OnceCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{ExpiryTime, Failure, NodeId, Origin, WriteAnswer};
use ladoga_model::{Cell, Durability, HybridClock, Replicas, Stamp, TraceContext, Ttl, Version};
use ladoga_service::{Context, Error};
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::Cluster;
use crate::link::{Expires, PeerLink, Place};
use crate::own::{OwnReplica, hear, replica};
use crate::planted::{Bug, has, note_time};
use crate::wire::Forward;
use ladoga_local::store::Store;

/// Which nodes have to answer a request.
pub(super) struct Plan<S: Store> {
    pub(super) replica: Rc<OwnReplica<S>>,
    pub(super) key: Bytes,
    pub(super) replicas: Replicas,
    /// How much of its time the request has spent in waiting for this node to be ready.
    waited_ms: u64,
    /// How long the value that is written is to live.
    ttl: Option<Ttl>,
    /// How durable each replica has to make what is written before it answers, if that is more than it does by itself.
    pub(super) durability: Option<Durability>,
    /// When it expires, once that is decided: however often its write gets another version.
    expires_at_ms: OnceCell<u64>,
    /// Whether another node was asked for it, which forwarded it.
    is_forwarded: bool,
    /// The span that what is done is a part of, if its trace is recorded.
    pub(super) trace: Option<TraceContext>,
}

/// Once a timestamp may be given out: no restart, on whichever clock, gives it out again, nor did one before.
pub(super) async fn may_be_given(cluster: &Cluster, stamp: Stamp) -> Result<(), Error> {
    if cluster.versions.is_far_behind(stamp.version.timestamp) {
        let reason = "the clock of this machine is more than a minute behind the newest version that it has, and too few nodes were \
                      heard to know what time it is: set the clock";
        return Err(Error::NotVouched { reason: reason.to_owned() });
    }
    if cluster.stability().reserve(stamp.version.timestamp).await {
        Ok(())
    } else {
        Err(Error::TimeNotReserved)
    }
}

/// How many nodes a cell is for.
pub(super) fn nodes_of<S: Store>(replica: &OwnReplica<S>, copies: u8) -> u32 {
    let nodes = replica.cluster.nodes.len() as u32;
    if copies == 0 { nodes } else { u32::from(copies).min(nodes) }
}

impl<S: Store> Clone for Plan<S> {
    fn clone(&self) -> Plan<S> {
        Plan {
            replica: Rc::clone(&self.replica),
            key: self.key.clone(),
            replicas: self.replicas,
            waited_ms: self.waited_ms,
            ttl: self.ttl,
            durability: self.durability,
            expires_at_ms: self.expires_at_ms.clone(),
            is_forwarded: self.is_forwarded,
            trace: self.trace,
        }
    }
}

impl<S: Store> Plan<S> {
    /// Whether a version was given so long ago that no request lives that it was given for.
    pub(super) fn is_of_the_past(&self, version: Version) -> bool {
        self.age_ms(version) > self.cluster().limits.quorum_timeout_ms
    }

    /// How long ago a version was given.
    pub(super) fn age_ms(&self, version: Version) -> u64 {
        let given_ms = HybridClock::wall_ms(version.timestamp);
        self.cluster().versions.time_ms().saturating_sub(given_ms)
    }

    /// The plan for a request; `None` if this node alone has to answer.
    pub(super) fn of(replica: &Rc<OwnReplica<S>>, context: &Context, key: &[u8]) -> Option<Plan<S>> {
        Plan::is_needed(replica, context, key).then(|| Plan::of_conditional(replica, context, key))
    }

    /// The plan for a request that its replicas decide about, also if this node is the only one.
    pub(super) fn of_conditional(replica: &Rc<OwnReplica<S>>, context: &Context, key: &[u8]) -> Plan<S> {
        Plan::new(replica, Bytes::copy_from_slice(key), context.replicas).with(context)
    }

    /// The same with all that a context asks for. A large value is uploaded before all of that may be known.
    ///
    /// # Panics
    /// If it asks for other replicas: the value is on its way to these.
    pub(super) fn with(self, context: &Context) -> Plan<S> {
        // By name, so that nothing that a context gets later is forgotten. A precondition is looked at apart.
        let &Context { replicas, waited_ms, precondition: _, ttl, durability, trace } = context;
        assert_eq!(replicas, self.replicas, "an upload and its write ask for the same replicas");
        Plan { waited_ms, ttl, durability, expires_at_ms: OnceCell::new(), trace, ..self }
    }

    fn new(replica: &Rc<OwnReplica<S>>, key: Bytes, replicas: Replicas) -> Plan<S> {
        let (replica, expires_at_ms) = (Rc::clone(replica), OnceCell::new());
        Plan {
            replica,
            key,
            replicas,
            waited_ms: 0,
            ttl: None,
            durability: None,
            expires_at_ms,
            is_forwarded: false,
            trace: None,
        }
    }

    /// The plan for a request that another node forwarded; none if it asks for what cannot be decided.
    pub(super) fn of_forwarded(
        replica: &Rc<OwnReplica<S>>,
        forward: &Forward,
        trace: Option<TraceContext>,
    ) -> Option<Plan<S>> {
        let &Forward { ref key, replicas, durability, left_ms, expires_at_ms, .. } = forward;
        let waited_ms = replica.cluster.limits.quorum_timeout_ms.saturating_sub(u64::from(left_ms));
        let plan = Plan {
            waited_ms,
            durability,
            expires_at_ms: OnceCell::from(expires_at_ms),
            is_forwarded: true,
            trace,
            ..Plan::new(replica, key.clone(), replicas)
        };
        (replicas.from <= replica.cluster.node_count() && replicas.is_quorum()).then_some(plan)
    }

    /// The node at which the requests for a key queue that is asked for through several: its first one that can be asked; none if
    /// that is this one, or it was forwarded to this one.
    pub(super) fn queue_node(&self) -> Option<NodeId> {
        let cluster = self.cluster();
        let stability = cluster.stability();
        let may_be_asked = |&node: &NodeId| {
            if node == cluster.own {
                return stability.has_all();
            }
            cluster.peers[node.index()].is_reachable() && stability.heard_whole(node) == Some(true)
        };
        let first = self.nodes().iter().copied().find(may_be_asked)?;
        (first != cluster.own && !self.is_forwarded).then_some(first)
    }

    /// Whether its key is asked for through several nodes.
    pub(super) fn is_shared(&self) -> bool {
        let cluster = self.cluster();
        cluster.shared_keys.is_shared(xxh3_64(&self.key), cluster.versions.monotonic_ms())
    }

    /// A request for the key came through a node, this one or another, and is decided here.
    pub(super) fn note_request(&self, through: NodeId) {
        let cluster = self.cluster();
        cluster.shared_keys.decide(xxh3_64(&self.key), through, cluster.versions.monotonic_ms());
    }

    /// The same of a client of this node.
    pub(super) fn note_request_of_client(&self) {
        if !self.is_forwarded {
            self.note_request(self.cluster().own);
        }
    }

    /// A ballot was outbid by a version: the next one is after that.
    pub(super) fn observe_outbid(&self, newest: Version) -> Result<(), Error> {
        if newest.node != self.cluster().own.0 {
            self.share();
        }
        self.observe(newest)
    }

    /// Another node was in the way, or says that others are.
    pub(super) fn share(&self) {
        let cluster = self.cluster();
        cluster.shared_keys.share(xxh3_64(&self.key), cluster.versions.monotonic_ms());
    }

    /// Whether others have to answer a request, or this node cannot by itself.
    pub(super) fn is_needed(replica: &OwnReplica<S>, context: &Context, key: &[u8]) -> bool {
        let cluster = &replica.cluster;
        let is_alone = context.replicas.from == 1 && cluster.placement.replicas(key, 1)[0] == cluster.own;
        // What is here is no answer by itself if some of what was acknowledged may be missing.
        !is_alone || !context.precondition.is_none() || !cluster.stability().has_all()
    }

    /// The plan for a read of all nodes that may have a cell with this stamp.
    pub(super) fn of_all(replica: &Rc<OwnReplica<S>>, key: Bytes, stamp: Stamp) -> Plan<S> {
        let from = nodes_of(replica, stamp.copies);
        Plan::new(replica, key, Replicas { ack: from, from })
    }

    /// The plan for what a majority of the nodes of a key has to take, if its cell is for so many; 0 is for all of them.
    pub(super) fn of_majority(replica: &Rc<OwnReplica<S>>, key: Bytes, copies: u8) -> Plan<S> {
        let from = nodes_of(replica, copies);
        Plan::new(replica, key, Replicas::majority_of(from))
    }

    /// The same for a deletion, which does not expire.
    pub(super) fn of_deletion(self) -> Plan<S> {
        Plan { ttl: None, ..self }
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.replica.cluster
    }

    /// The time that is left for the request.
    pub(super) fn left_ms(&self) -> u64 {
        self.cluster().limits.quorum_timeout_ms.saturating_sub(self.waited_ms)
    }

    /// When its time is over, if it begins now.
    pub(super) fn until_ms(&self) -> u64 {
        self.replica.core.now_ms() + self.left_ms()
    }

    /// The same for what is left of it until then; none once it is over.
    pub(super) fn rest(&self, until_ms: u64) -> Option<Plan<S>> {
        let left_ms = until_ms.checked_sub(self.replica.core.now_ms()).filter(|left_ms| *left_ms > 0)?;
        let waited_ms = self.cluster().limits.quorum_timeout_ms.saturating_sub(left_ms);
        Some(Plan { waited_ms, ..self.clone() })
    }

    /// Has a part of the request end in time, unless it is over before.
    pub(super) fn expire_later(&self, part: Weak<dyn Expires>) -> Place {
        let place = self.replica.peers.expire_later(part.clone());
        if self.waited_ms == 0 {
            return place;
        }
        place.sooner(Duration::from_millis(self.left_ms()), part)
    }

    /// The node at a place of the key's preference list.
    pub(super) fn node(&self, replica: usize) -> NodeId {
        self.nodes()[replica]
    }

    /// The nodes that have to answer, in the order of the key's preference list.
    pub(super) fn nodes(&self) -> &[NodeId] {
        self.cluster().placement.replicas(&self.key, self.replicas.from as usize)
    }

    /// The place of this node among them.
    pub(super) fn own_place(&self) -> Option<usize> {
        self.nodes().iter().position(|&node| node == self.cluster().own)
    }

    /// Whether the node at a place cannot be spoken with now, as far as this one knows: it could not be reached, and nothing has changed.
    pub(super) fn is_away(&self, replica: usize) -> bool {
        let peer = &self.cluster().peers[self.node(replica).index()];
        // (It may have been recorded because of somebody else who claims to be the peer.)
        !peer.is_reachable() && !self.link(replica).is_up()
    }

    pub(super) fn link(&self, replica: usize) -> &Rc<PeerLink> {
        self.replica.peers.link(self.node(replica))
    }

    /// Writes a cell to this node, without a network. `then` is called with the outcome, now or later.
    pub(super) fn apply(
        &self,
        (stamp, value): (Stamp, Option<&[u8]>),
        origin: Origin,
        then: impl FnOnce(Result<WriteAnswer, Failure>) + 'static,
    ) {
        match replica::apply(&self.replica, (&self.key, stamp, value), (origin, self.durability)) {
            Ok(applied) => match self.replica.core.begin_part(self.trace) {
                None => drop(tokio::task::spawn_local(async move {
                    then(applied.await.map_err(Failure::Refused));
                })),
                part => {
                    let core = Rc::clone(&self.replica.core);
                    tokio::task::spawn_local(async move {
                        let applied = applied.await;
                        core.end_part(part, "commit");
                        then(applied.map_err(Failure::Refused));
                    });
                }
            },
            Err(refusal) => then(Err(Failure::Refused(refusal))),
        }
    }

    /// After a start: asks all peers for their clocks, until `known` can tell what is to be known; none if it cannot in the end, and
    /// the request does not depend on that. If a majority has to answer it, it does: a version that is given out before a majority was
    /// heard may be as old as the newest one here, and an earlier write, which too few replicas had, could win over it; and a value
    /// that has expired could come back, or one that lives be taken for gone. A peer that cannot be reached would not answer the
    /// request either.
    async fn hear_clocks<T>(&self, known: impl Fn() -> Option<T>) -> Result<Option<T>, Error> {
        let OwnReplica { cluster, peers, .. } = &*self.replica;
        let others = || cluster.peers.iter().filter(|peer| peer.id != cluster.own);
        let mut asked = JoinSet::new();
        for peer in others() {
            asked.spawn_local(hear(&self.replica, peers.link(peer.id), cluster.stability(), peer.id));
        }
        loop {
            let found = known();
            if found.is_some() || self.replicas.ack as usize <= cluster.nodes.len() / 2 && asked.is_empty() {
                return Ok(found);
            }
            if asked.join_next().await.is_none() {
                break;
            }
        }
        let missing = others().filter_map(|peer| Some(peer.sentence(&peer.unreachable_reason()?))).collect();
        Err(match cluster.versions.expiry_time() {
            Some(time) => Error::ClocksApart { apart_ms: time.latest_ms - time.earliest_ms, missing },
            None => Error::TimeUnknown { replicas: self.replicas, missing },
        })
    }

    /// The version of a write that happens now. Fails if a majority of the nodes would refuse it as too far ahead: the others
    /// could keep it until its time comes, and it would win over what was acknowledged in between.
    pub(super) async fn stamp(&self) -> Result<Stamp, Error> {
        let cluster = self.cluster();
        if self.replicas.ack > 1 && cluster.versions.is_unverified() {
            self.hear_clocks(|| (!cluster.versions.is_unverified()).then_some(())).await?;
        }
        let expires_at_ms = self.fixed_expiry_ms().await?;
        let timestamp = cluster.versions.next_for_all().map_err(|error| {
            self.replica.core.metrics.clock_ahead();
            Error::ClockAhead(error)
        })?;
        let stamp = Stamp::new(Version { timestamp, node: cluster.own.0 });
        may_be_given(cluster, stamp).await?;
        // The number also if it is that of all nodes: those that join later are not among them. A list has 64 at most.
        let copies =
            if has(Bug::ForgetCopies) { cluster.nodes.len() as u8 } else { self.replicas.from as u8 };
        Ok(Stamp { copies, expires_at_ms, ..stamp })
    }

    /// When the value that is written expires, once the time of the cluster is known; 0 if it never does. It stays the same for the
    /// request, whichever version it gets.
    pub(super) async fn fixed_expiry_ms(&self) -> Result<u64, Error> {
        if let Some(expires_at_ms) = self.expires_at_ms.get() {
            return Ok(*expires_at_ms);
        }
        let Some(ttl) = self.ttl else { return Ok(0) };
        let known = self.expiry_time(|time| time.exact_ms().is_some()).await?;
        let now_ms = known.map_or_else(|| self.cluster().versions.expiry_time_ms(), |time| time.earliest_ms);
        Ok(*self.expires_at_ms.get_or_init(|| ttl.ends_ms(now_ms)))
    }

    /// What time it is for values that expire, known so well that `is_enough`; none if it is not, and the request does not depend on
    /// that.
    async fn expiry_time(
        &self,
        is_enough: impl Fn(&ExpiryTime) -> bool,
    ) -> Result<Option<ExpiryTime>, Error> {
        let versions = &self.cluster().versions;
        let known = || versions.expiry_time().filter(&is_enough);
        match known() {
            None if self.replicas.ack > 1 => self.hear_clocks(known).await,
            known => Ok(known),
        }
    }

    /// A cell that was read, without its value if that has expired. This node decides that, by the time of the cluster, and no
    /// replica by its own.
    pub(super) async fn as_of_now<B, L>(&self, cell: Cell<B, L>) -> Result<Cell<B, L>, Error> {
        note_time(None);
        let expires_at_ms = cell.stamp.expires_at_ms;
        if expires_at_ms == 0 {
            return Ok(cell);
        }
        let known = self.expiry_time(|time| time.has_expired(expires_at_ms).is_some()).await?;
        note_time(known.map(|time| time.earliest_ms..=time.latest_ms));
        let now_ms =
            || known.map_or_else(|| self.cluster().versions.expiry_time_ms(), |time| time.earliest_ms);
        Ok(cell.as_of_ms(now_ms))
    }
}
